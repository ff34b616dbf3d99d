// A plan's kernels, one after the other, on memory of the emulated machine.
#include <cstring>

#include "target/cuda/build.h"
#include "target/cuda/cases.h"
#include "target/cuda/emulated.h"

namespace tilewright::emulated {

namespace {

// A tensor in the machine's memory, as the plan lays it out.
struct Placed {
  void* at = nullptr;
  std::size_t bytes = 0;
};

// What a kernel computes, as a program of its own.
Program alone(const Plan& plan, const PlannedKernel& k, std::vector<TensorId>& reads, std::vector<TensorId>& makes) {
  Program p = *plan.program;
  p.nodes.clear(), p.inputs.clear(), p.outputs.clear();
  std::set<TensorId> read, made;
  const auto take = [&](StatementId id) { p.nodes.push_back(plan.program->nodes[static_cast<std::size_t>(id)]); };
  if (k.region) {
    for (StatementId id : k.region->statements) take(id);
    const Boundary b = boundary(*plan.program, *k.region);
    read.insert(b.inputs.begin(), b.inputs.end()), made.insert(b.outputs.begin(), b.outputs.end());
  } else {
    take(k.opaque);
    const Opaque& o = std::get<Opaque>(p.nodes[0]);
    read.insert(o.in.begin(), o.in.end()), made.insert(o.out.begin(), o.out.end());
  }
  for (TensorId t : read) p.tensor(t).kind = Kind::input, p.tensor(t).data = {}, p.inputs.push_back(t);
  p.outputs.assign(made.begin(), made.end());
  std::set<TensorId> inner;
  if (k.region)
    for (StatementId id : k.region->statements) inner.insert(plan.program->statement(id)->out);
  for (std::size_t t = 0; t < p.tensors.size(); ++t)
    if (const auto id = static_cast<TensorId>(t); !read.count(id) && !made.count(id) && !inner.count(id)) p.tensors[t].dims.clear(), p.tensors[t].kind = Kind::intermediate, p.tensors[t].data = {};
  reads.assign(read.begin(), read.end()), makes.assign(made.begin(), made.end());
  return p;
}

Array weight_of(const Program& p, TensorId t) {
  Array a = testing::array_of(p, t);
  std::memcpy(a.data, p.tensor(t).data.data(), a.bytes());
  return a;
}

struct Run {
  const Plan& plan;
  std::map<TensorId, Placed> placed{};

  ~Run() {
    for (auto& [t, p] : placed) release(p.at);
  }
  const DimOrder& layout(TensorId t) const { return plan.layouts[static_cast<std::size_t>(t)]; }
  Placed& place(TensorId t) {
    Placed& p = placed[t];
    if (!p.at) p.bytes = testing::array_of(*plan.program, t).bytes(), p.at = allocate(p.bytes);
    return p;
  }
  void put(TensorId t, const Array& a) {
    Placed& p = place(t);
    const Array laid = testing::relaid(a, row_major(a.dims.size()), layout(t));
    std::memcpy(p.at, laid.data, laid.bytes());
    host_writes(p.at, p.bytes);
  }
  Array get(TensorId t) {
    Array a = testing::array_of(*plan.program, t);
    std::memcpy(a.data, place(t).at, a.bytes());
    return testing::relaid(a, layout(t), row_major(a.dims.size()));
  }

  // What blocks have written of a tensor, set beside what it should be.
  double apart(TensorId t, const Array& want) {
    const Array laid = testing::relaid(want, row_major(want.dims.size()), layout(t));
    Array got = Array::make(laid.dtype, laid.dims);
    std::memcpy(got.data, laid.data, laid.bytes());
    const auto width = static_cast<std::int64_t>(bytes_of(want.dtype));
    for (std::int64_t i = 0; i < got.count(); ++i)
      if (const auto* from = static_cast<const unsigned char*>(place(t).at) + i * width; was_written(from)) std::memcpy(got.data + i * width, from, static_cast<std::size_t>(width));
    return testing::difference(laid, got);
  }

  void evaluate_here(const PlannedKernel& k) {
    std::vector<TensorId> reads, makes;
    const Program p = alone(plan, k, reads, makes);
    Values given;
    for (TensorId t : reads) given[t] = get(t);
    const Values made = evaluate(p, given, {}, Evaluation::typed);
    for (TensorId t : makes) put(t, made.at(t));
  }

  // The parts of a kernel's tables stand behind all tensors; the kernels that make them run first.
  std::string make_tables(const cuda::Tables& tables, const std::vector<void (*)(void**)>& entries) {
    using Argument = cuda::Ahead::Argument;
    const auto part = [&](int i) -> Placed& { return placed[static_cast<TensorId>(plan.program->tensors.size()) + i]; };
    for (int i = 0; i < cuda::Tables::all; ++i) {
      Placed& p = part(i);
      release(p.at);
      p = {};
      p.bytes = static_cast<std::size_t>(tables.bytes[static_cast<std::size_t>(i)]);
      if (p.bytes > 0) p.at = allocate(p.bytes);
    }
    void* word = allocate(sizeof(unsigned));
    std::memset(word, 0, sizeof(unsigned));
    host_writes(word, sizeof(unsigned));
    std::string problem;
    for (std::size_t k = 0; k < entries.size() && problem.empty(); ++k) {
      const cuda::Ahead& a = tables.kernels[k];
      std::vector<void*> addresses, arguments;
      for (Argument x : a.arguments)
        addresses.push_back(x == Argument::source ? place(tables.source).at : x == Argument::fault ? word : part(x == Argument::slot ? cuda::Tables::slot : x == Argument::count ? cuda::Tables::count : x == Argument::tile ? cuda::Tables::tile : x == Argument::marks ? cuda::Tables::marks : cuda::Tables::parts).at);
      for (void*& address : addresses) arguments.push_back(&address);
      problem = run(entries[k], arguments.data(), {a.blocks, a.threads, a.scratch, 1}, 0);
      if (!problem.empty()) problem = a.name + ": " + problem;
    }
    if (problem.empty() && *static_cast<unsigned*>(word)) problem = "a key is out of range";
    release(word);
    return problem;
  }

  std::string launch(const cuda::Source& s, void (*entry)(void**), std::int64_t blocks = 0) {
    std::vector<void*> addresses(s.arguments.size()), arguments;
    std::vector<std::vector<unsigned char>> maps;
    maps.reserve(s.maps.size());
    for (std::size_t i = 0; i < s.arguments.size(); ++i) addresses[i] = static_cast<std::size_t>(s.arguments[i]) < plan.program->tensors.size() ? place(s.arguments[i]).at : placed.at(s.arguments[i]).at, arguments.push_back(&addresses[i]);
    for (const cuda::TensorMap& m : s.maps) {
      Map map{addresses[static_cast<std::size_t>(m.argument)], static_cast<int>(m.dims.size()), static_cast<int>(bytes_of(m.dtype)), {}, {}, {}};
      std::copy(m.dims.begin(), m.dims.end(), map.dims);
      std::copy(m.strides.begin(), m.strides.end(), map.strides);
      std::copy(m.box.begin(), m.box.end(), map.box);
      maps.emplace_back(128);
      std::memcpy(maps.back().data(), &map, sizeof map);
      arguments[static_cast<std::size_t>(m.argument)] = maps.back().data();
    }
    void* word = nullptr;
    if (s.faults) {
      word = allocate(sizeof(unsigned));
      std::memset(word, 0, sizeof(unsigned));
      host_writes(word, sizeof(unsigned));
      arguments.push_back(&word);
    }
    int cluster = 1;
    if (const auto at = s.text.find("__cluster_dims__("); at != std::string::npos) cluster = std::atoi(s.text.c_str() + at + 17);
    std::string problem = run(entry, arguments.data(), {s.blocks, s.threads, s.scratch, cluster}, blocks);
    if (word && problem.empty() && *static_cast<unsigned*>(word)) problem = "an index is out of range";
    release(word);
    return problem;
  }
};

}  // namespace

Planned::Planned(const Plan& plan, Kernels& kernels) : plan_(plan), kernels_(kernels) {
  for (const PlannedKernel& k : plan.kernels) {
    cuda::BuiltKernel printed;
    const bool can = k.region && cuda::print_kernel(plan, k, printed);
    sources.push_back(can ? printed.source : cuda::Source{});
    index_.push_back(can ? kernels.add(printed.source) : 0);
    why.push_back(printed.why), schedules.push_back(printed.schedule);
    tables.push_back(can ? printed.tables : nullptr);
    ahead_.emplace_back();
    if (tables.back())
      for (const cuda::Ahead& a : tables.back()->kernels) {
        cuda::Source s;
        s.name = a.name, s.text = a.text;
        ahead_.back().push_back(kernels.add(s));
      }
    elsewhere += !can;
  }
}

double Planned::apart(std::size_t k, const Values& values, std::int64_t blocks) {
  const Program& p = *plan_.program;
  const PlannedKernel& kernel = plan_.kernels[k];
  problem.clear();
  if (sources[k].text.empty()) return 0;
  Run r{plan_};
  const Boundary b = boundary(p, *kernel.region);
  for (TensorId t : b.inputs) {
    if (values.count(t)) r.put(t, values.at(t));
    else r.put(t, weight_of(p, t));
  }
  problem = r.launch(sources[k], kernels_.entry(index_[k]), blocks);
  double most = 0;
  for (TensorId t : b.outputs) most = std::max(most, r.apart(t, values.at(t)));
  return most;
}

Values Planned::run(const Values& given) {
  const Program& p = *plan_.program;
  Run r{plan_};
  problem.clear();
  for (std::size_t t = 0; t < p.tensors.size(); ++t)
    if (!p.tensors[t].data.empty()) r.put(static_cast<TensorId>(t), weight_of(p, static_cast<TensorId>(t)));
  for (const auto& [t, a] : given) r.put(t, a);
  Values out;
  for (std::size_t k = 0; k < plan_.kernels.size(); ++k) {
    const PlannedKernel& kernel = plan_.kernels[k];
    if (tables[k]) {
      std::vector<void (*)(void**)> entries;
      for (std::size_t i : ahead_[k]) entries.push_back(kernels_.entry(i));
      if (const std::string what = r.make_tables(*tables[k], entries); !what.empty()) {
        problem = kernel.name + ", ahead of it: " + what;
        return out;
      }
    }
    if (sources[k].text.empty()) {
      r.evaluate_here(kernel);
    } else if (const std::string what = r.launch(sources[k], kernels_.entry(index_[k])); !what.empty()) {
      problem = kernel.name + ": " + what;
      return out;
    }
    std::vector<TensorId> made;
    if (kernel.region) made = boundary(p, *kernel.region).outputs;
    else made = std::get<Opaque>(p.nodes[static_cast<std::size_t>(kernel.opaque)]).out;
    for (TensorId t : made) out[t] = r.get(t);
  }
  return out;
}

}  // namespace tilewright::emulated
