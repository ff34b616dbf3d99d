// A kernel of the bench: planned, printed, compiled; on the card with inputs of its own; compared with the CPU target; timed.
#pragma once
#include <atomic>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <string>
#include <thread>

#include <fmt/format.h>

#include "machine/isa.h"
#include "target/cpu/execute.h"
#include "target/cuda/cases.h"
#include "target/cuda/driver.h"

namespace tilewright::bench {

using tilewright::testing::GpuCase;

// A case with its source and machine code, or why it has none.
struct Made {
  GpuCase c;
  std::optional<cuda::Source> source;
  cuda::Compiled code;
  std::string why;
};

inline Made make(GpuCase c, const std::string& arch) {
  Made made{std::move(c), {}, {}, {}};
  try {
    const Program& p = *made.c.program;
    auto source = cuda::source_of(p, made.c.region, made.c.schedule, specialise(p, made.c.nest), made.c.layouts);
    if (!source) made.why = source.reason();
    else made.code = cuda::compile(std::string(cuda::primitives()) + source->text, made.c.name, arch), made.source = std::move(*source);
  } catch (const std::exception& e) {
    made.why = e.what();
  }
  return made;
}

// On all cores; kernels compile side by side.
inline std::vector<Made> make_all(const std::vector<GpuCase>& cases, const std::string& arch) {
  std::vector<Made> list(cases.size());
  std::atomic<std::size_t> next{0};
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < std::max(1u, std::thread::hardware_concurrency()); ++t)
    threads.emplace_back([&] {
      for (std::size_t i = next++; i < cases.size(); i = next++) list[i] = make(cases[i], arch);
    });
  for (std::thread& t : threads) t.join();
  return list;
}

inline std::string facts(const Region& region, const Schedule& schedule) {
  std::string leaves;
  for (const LeafAt& l : schedule.leaves) {
    if (l.tensor) leaves += fmt::format(" {}x{}x{} warps of {}x{}{}", l.warps_m, l.warps_n, l.warps_k, l.rows, l.columns, l.group ? " group" : "");
    else {
      leaves += " box";
      for (std::int64_t t : l.tile) leaves += fmt::format(" {}", t);
    }
  }
  std::string stages;                    // of each value in scratch
  for (const ValueAt& v : schedule.values) stages += fmt::format("{}{}", stages.empty() ? "" : "/", v.stages);
  const bool bulk = std::any_of(schedule.values.begin(), schedule.values.end(), [](const ValueAt& v) { return v.bulk; });
  return fmt::format("{};{}; {} stages{}; {} threads, {} a core{}{}", text(region, schedule), leaves, stages, bulk ? " in bulk" : "", schedule.threads, schedule.resident,
                     schedule.cluster > 1 ? fmt::format(", clusters of {}", schedule.cluster) : "", schedule.blocks > 0 ? fmt::format(", {} blocks in turn", schedule.blocks) : "");
}
inline std::string facts(const Made& k) {
  return fmt::format("{}; {} blocks, {} KiB, {} registers, stack {}, spills {}", facts(k.c.region, k.c.schedule), k.source->blocks, k.source->scratch / 1024, k.code.registers,
                     k.code.stack, k.code.spills);
}

// Device memory and arguments of a kernel: sets of buffers, so that nothing stays in a cache by chance. Inputs lie in the plan's layouts.
struct Placed {
  cuda::Device::Function function = nullptr;
  std::vector<std::vector<cuda::Address>> sets;
  Values given;
};

inline Placed place(cuda::Device& device, const Made& k, int copies) {
  const Program& p = *k.c.program;
  Placed out;
  out.function = device.load(k.code, k.source->name, k.source->scratch);
  for (auto& [t, a] : testing::sample(k.c)) out.given[t] = testing::relaid(a, row_major(a.dims.size()), k.c.layouts[static_cast<std::size_t>(t)]);
  for (int n = 0; n < copies; ++n) {
    std::vector<cuda::Address> arguments;
    for (TensorId t : k.source->arguments) {
      const auto given = out.given.find(t);
      const std::size_t bytes = given == out.given.end() ? testing::array_of(p, t).bytes() : given->second.bytes();
      const cuda::Address at = device.allocate(std::max<std::size_t>(bytes, 16));
      if (given == out.given.end()) device.fill(at, 0xff, bytes);
      else device.upload(at, given->second.data, bytes);
      arguments.push_back(at);
    }
    if (k.source->faults) {              // a word that says whether an index was out of range
      arguments.push_back(device.allocate(16));
      device.fill(arguments.back(), 0, 16);
    }
    out.sets.push_back(std::move(arguments));
  }
  return out;
}

inline cuda::Launch launch_of(const Made& k, const Placed& at) { return {at.function, k.source->blocks, k.source->threads, k.source->scratch, false, k.source->maps}; }

// The largest difference of an output to the CPU target, as norm over norm.
inline double error_of(cuda::Device& device, const Made& k, const Placed& at) {
  const Program& p = *k.c.program;
  device.launch(launch_of(k, at), at.sets[0]);
  device.synchronise();
  PlannedKernel planned;
  planned.name = k.c.name, planned.region = k.c.region, planned.schedule = k.c.schedule;
  const bool wide = std::string(name_of(detect_isa())) == "avx512";
  Plan plan;
  Program laid = p;                      // weights are what was given, as the plan lays them
  for (const auto& given : at.given) laid.tensor(given.first).data = {}, laid.tensor(given.first).owner.reset();
  plan.program = std::make_shared<const Program>(std::move(laid)), plan.machine = machine_named("generic-avx2"), plan.kernels = {planned}, plan.layouts = k.c.layouts;
  plan.options.threads = 16, plan.options.isa = wide ? "avx512" : "avx2", plan.options.leaf_rows = 6, plan.options.leaf_columns = 16, plan.options.lanes = 8;
  const Values want = testing::execute(plan, at.given);
  double worst = 0;
  for (TensorId out : p.outputs) {
    Array got = testing::array_of(p, out);
    const auto place = std::find(k.source->arguments.begin(), k.source->arguments.end(), out) - k.source->arguments.begin();
    device.download(got.data, at.sets[0][static_cast<std::size_t>(place)], got.bytes());
    worst = std::max(worst, testing::difference(want.at(out), testing::relaid(got, k.c.layouts[static_cast<std::size_t>(out)], row_major(got.dims.size()))));
  }
  return worst;
}

inline double seconds_of(cuda::Device& device, const Made& k, const Placed& at) {
  return device.seconds(40, 15, [&](int i) {
    device.launch(launch_of(k, at), at.sets[static_cast<std::size_t>(i) % at.sets.size()]);
  });
}

}  // namespace tilewright::bench
