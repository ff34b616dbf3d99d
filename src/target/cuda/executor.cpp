#include "target/cuda/executor.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <list>
#include <map>
#include <set>
#include <variant>

#include <fmt/format.h>

#include "schedule/schedule.h"
#include "support/memory.h"
#include "target/cpu/executor.h"

namespace tilewright::cuda {

namespace {

std::int64_t bytes_of_tensor(const Tensor& t) {
  auto n = static_cast<std::int64_t>(bytes_of(t.dtype));
  for (const Size& d : t.dims) n = checked_mul(n, d.constant());
  return n;
}

// A weight's elements in the order that kernels read them in.
std::shared_ptr<std::byte[]> in_order(const Tensor& w, const DimOrder& order) {
  std::vector<std::int64_t> dims, at(order.size(), 0);
  for (const Size& d : w.dims) dims.push_back(d.constant());
  const auto stride = dense_strides(dims, row_major(dims.size()));
  const auto width = static_cast<std::int64_t>(bytes_of(w.dtype));
  auto out = zeroed_bytes(w.data.size());
  std::int64_t from = 0, last = dims[static_cast<std::size_t>(order.back())],
               step = stride[static_cast<std::size_t>(order.back())];
  for (std::byte* to = out.get(); to < out.get() + w.data.size();) {
    for (std::int64_t i = 0; i < last; ++i, to += width)
      std::memcpy(to, w.data.data() + (from + i * step) * width, static_cast<std::size_t>(width));
    for (std::size_t d = order.size() - 1; d-- > 0;) {
      const auto x = static_cast<std::size_t>(order[d]);
      from += stride[x];
      if (++at[x] < dims[x]) break;
      from -= at[x] * stride[x], at[x] = 0;
    }
  }
  return out;
}

// Kernels that the CPU runs one after the other, and what they exchange with the GPU.
struct CpuStep {
  std::size_t first = 0, count = 0;
  Plan plan; // of these kernels alone
  cpu::Executable executable;
  std::vector<TensorId> in, out; // not weights
};
struct GpuStep {
  std::size_t first = 0, count = 0;
};

struct Loaded {
  Launch launch;
  std::vector<TensorId> arguments;
  bool faults = false, own_faults = false; // the kernel or those ahead of it have a word; the kernel itself
  std::shared_ptr<const Tables> tables;  // that it reads
  std::vector<Launch> ahead;             // of the kernels that make them; none: an earlier one has
};

// The graphs of one set of addresses, one a GPU step; none where it was met only once.
struct Recorded {
  std::vector<Address> key;
  std::vector<Graph> graphs;
  std::int64_t runs = 0;
};
constexpr std::size_t most_recorded = 8;
constexpr std::int64_t granule = 256; // between tensors on the device

// Kernels that wait by themselves came with this architecture.
bool waits_work(const std::string& arch) { return std::atoi(arch.c_str() + 3) >= 90; }

bool one_by_one() { // to find the kernel that fails
  const char* set = std::getenv("TILEWRIGHT_CUDA_SYNC");
  return set && std::string_view(set) == "1";
}

} // namespace

struct Executor::State {
  Device& gpu;
  const Plan& plan;
  std::vector<Loaded> kernels; // one a planned kernel; without a function: on the CPU
  std::vector<std::variant<GpuStep, CpuStep>> steps;
  std::vector<Address> base;                      // by tensor
  std::vector<TensorId> moving;                   // those that `place` moves
  std::vector<std::shared_ptr<std::byte[]>> host; // by tensor: mirrors of what CPU steps touch
  std::vector<std::byte*> host_base;
  std::set<TensorId> kept;
  std::unique_ptr<Pool> pool;
  std::shared_ptr<std::byte[]> scratch;
  std::list<Recorded> recorded; // last used first
  std::int64_t weight_bytes = 0;
  bool recording = false;
  Address faults = 0; // a word a kernel; 0: no kernel has faults
  std::map<const Tables*, std::array<Address, Tables::all>> tables{};

  const Program& p() const { return *plan.program; }
  const Tensor& tensor(TensorId t) const { return p().tensor(t); }
  std::size_t bytes(TensorId t) const { return static_cast<std::size_t>(bytes_of_tensor(tensor(t))); }

  // ---- making

  void load(const Built& built) {
    std::map<const Compiled*, Function> functions;
    for (const BuiltKernel& k : built.kernels) {
      Loaded l;
      if (k.code) {
        Function& f = functions[k.code.get()];
        if (!f) f = gpu.load(*k.code, k.source.name, k.source.scratch);
        l = {{f, k.source.blocks, k.source.threads, k.source.scratch, k.source.waits && waits_work(gpu.arch()), k.source.maps}, k.source.arguments, k.source.faults, k.source.faults, k.tables, {}};
        if (k.tables) place_tables(*k.tables, l);
      }
      kernels.push_back(std::move(l));
    }
  }

  void place_tables(const Tables& t, Loaded& l) {
    const auto [at, fresh] = tables.try_emplace(&t);
    if (!fresh) return;
    for (std::size_t i = 0; i < t.bytes.size(); ++i)
      if (t.bytes[i] > 0) at->second[i] = gpu.allocate(static_cast<std::size_t>(t.bytes[i]));
    for (std::size_t i = 0; i < t.kernels.size(); ++i) {
      const Ahead& a = t.kernels[i];
      l.ahead.push_back({gpu.load(*t.code[i], a.name, a.scratch), a.blocks, a.threads, a.scratch, waits_work(gpu.arch())});
      l.faults = l.faults || std::count(a.arguments.begin(), a.arguments.end(), Ahead::Argument::fault) > 0;
    }
  }
  Address address_of(const Tables& t, Ahead::Argument a, std::size_t k) const {
    const auto& at = tables.at(&t);
    switch (a) {
      case Ahead::Argument::source: return base[static_cast<std::size_t>(t.source)];
      case Ahead::Argument::slot: return at[Tables::slot];
      case Ahead::Argument::count: return at[Tables::count];
      case Ahead::Argument::tile: return at[Tables::tile];
      case Ahead::Argument::marks: return at[Tables::marks];
      case Ahead::Argument::parts: return at[Tables::parts];
      case Ahead::Argument::fault: return faults + k * sizeof(unsigned);
    }
    return 0;
  }

  void cut_steps() {
    for (std::size_t k = 0; k < kernels.size(); ++k) {
      const bool on_gpu = kernels[k].launch.function != nullptr;
      if (on_gpu) {
        if (steps.empty() || !std::holds_alternative<GpuStep>(steps.back())) steps.emplace_back(GpuStep{k, 0});
        ++std::get<GpuStep>(steps.back()).count;
      } else {
        if (steps.empty() || !std::holds_alternative<CpuStep>(steps.back()))
          steps.emplace_back(CpuStep{k, 0, {}, {}, {}, {}});
        ++std::get<CpuStep>(steps.back()).count;
      }
    }
  }

  void prepare_cpu(int threads) {
    std::size_t need = 0;
    if (std::none_of(steps.begin(), steps.end(), [](const auto& s) { return std::holds_alternative<CpuStep>(s); }))
      return;
    pool = std::make_unique<Pool>(threads);
    for (auto& step : steps) {
      CpuStep* c = std::get_if<CpuStep>(&step);
      if (!c) continue;
      c->plan = Plan{plan.program, plan.machine, plan.options, {}, plan.layouts, {}};
      for (std::size_t t = 0; t < plan.layouts.size();
           ++t) // in the caller's order here, whatever order they have on the GPU
        if (p().tensors[t].kind == Kind::weight) c->plan.layouts[t] = row_major(plan.layouts[t].size());
      std::set<TensorId> read, written;
      for (std::size_t k = c->first; k < c->first + c->count; ++k) {
        const PlannedKernel& kernel = plan.kernels[k];
        c->plan.kernels.push_back(kernel);
        if (kernel.region) {
          const Boundary b = boundary(p(), *kernel.region);
          read.insert(b.inputs.begin(), b.inputs.end()), written.insert(b.outputs.begin(), b.outputs.end());
        } else {
          const Opaque& o = std::get<Opaque>(p().nodes[static_cast<std::size_t>(kernel.opaque)]);
          read.insert(o.in.begin(), o.in.end()), written.insert(o.out.begin(), o.out.end());
        }
      }
      c->executable = cpu::compile(c->plan);
      need = std::max(need, static_cast<std::size_t>(c->executable.scratch));
      for (TensorId t : read) {
        if (!written.count(t) && tensor(t).kind != Kind::weight) c->in.push_back(t);
        if (tensor(t).kind == Kind::weight)
          kept.insert(t), host_base[static_cast<std::size_t>(t)] = const_cast<std::byte*>(tensor(t).data.data());
      }
      c->out.assign(written.begin(), written.end());
      for (const std::set<TensorId>* list : {&read, &written})
        for (TensorId t : *list) mirror(t);
    }
    scratch = zeroed_bytes(need * static_cast<std::size_t>(pool->size()) + 64);
  }
  void mirror(TensorId t) {
    const auto i = static_cast<std::size_t>(t);
    if (tensor(t).kind == Kind::weight || host[i]) return;
    host[i] = zeroed_bytes(bytes(t) + 64);
    host_base[i] = host[i].get();
  }

  // Weights that kernels on the GPU read, or that are results as they are.
  void upload_weights() {
    std::set<TensorId> wanted = p().results();
    for (const Loaded& k : kernels) {
      wanted.insert(k.arguments.begin(), k.arguments.end());
      if (k.tables) wanted.insert(k.tables->source);
    }
    std::erase_if(wanted, [&](TensorId t) { return static_cast<std::size_t>(t) >= p().tensors.size() || tensor(t).kind != Kind::weight; });
    std::int64_t at = 0;
    std::map<TensorId, std::int64_t> offset;
    for (TensorId t : wanted) offset[t] = at, at += ceil_div_i64(bytes_of_tensor(tensor(t)), granule) * granule;
    weight_bytes = at;
    const Address all = gpu.allocate(static_cast<std::size_t>(at));
    for (TensorId t : wanted) {
      const Address to = base[static_cast<std::size_t>(t)] = all + static_cast<Address>(offset[t]);
      const DimOrder& order = plan.layouts[static_cast<std::size_t>(t)];
      if (order == row_major(order.size()))
        gpu.upload(to, tensor(t).data.data(), tensor(t).data.size());
      else
        gpu.upload(to, in_order(tensor(t), order).get(), tensor(t).data.size());
    }
  }

  void place_arena(const MemoryPlan& memory) {
    const Address arena = gpu.allocate(static_cast<std::size_t>(memory.bytes));
    for (std::size_t t = 0; t < memory.offset.size(); ++t)
      if (memory.offset[t] >= 0) base[t] = arena + static_cast<Address>(memory.offset[t]);
  }

  // ---- running

  std::string where(std::size_t k) const {
    const PlannedKernel& kernel = plan.kernels[k];
    const Launch& l = kernels[k].launch;
    return fmt::format("kernel {} '{}' ({}; {} blocks of {} threads, {} bytes of shared memory)", k, kernel.name,
                       kernel.region ? text(*kernel.region, kernel.schedule) : "", l.blocks, l.threads, l.scratch);
  }

  void launch_kernel(std::size_t k, bool early = true) {
    std::vector<Address> arguments;
    for (TensorId t : kernels[k].arguments) {
      const std::size_t part = static_cast<std::size_t>(t) - std::min(static_cast<std::size_t>(t), p().tensors.size());
      arguments.push_back(static_cast<std::size_t>(t) < p().tensors.size() ? base[static_cast<std::size_t>(t)] : tables.at(kernels[k].tables.get())[part]);
    }
    if (kernels[k].own_faults) arguments.push_back(faults + k * sizeof(unsigned));
    Launch l = kernels[k].launch;
    l.early = l.early && (early || !kernels[k].ahead.empty());
    try {
      for (std::size_t i = 0; i < kernels[k].ahead.size(); ++i) {
        Launch a = kernels[k].ahead[i];
        a.early = a.early && (early || i > 0);
        std::vector<Address> given;
        for (Ahead::Argument x : kernels[k].tables->kernels[i].arguments) given.push_back(address_of(*kernels[k].tables, x, k));
        gpu.launch(a, given);
      }
      gpu.launch(l, arguments);
      if (one_by_one() && !recording) gpu.synchronise();
    } catch (const Error& e) {
      throw Error(e.code, where(k), e.message, e.hint);
    }
  }
  // The first kernel of a step may not start before what is in front of it has ended: that may be a copy, which tells
  // nobody.
  void launch_all(const GpuStep& s) {
    for (std::size_t k = s.first; k < s.first + s.count; ++k) launch_kernel(k, k > s.first);
  }

  void run_on_cpu(const CpuStep& s, const std::atomic<bool>* cancelled) {
    for (TensorId t : s.in)
      gpu.download(host_base[static_cast<std::size_t>(t)], base[static_cast<std::size_t>(t)], bytes(t));
    cpu::run(s.plan, s.executable, *pool, host_base.data(), scratch.get(), nullptr, cancelled);
    for (TensorId t : s.out)
      if (const Address to = base[static_cast<std::size_t>(t)])
        gpu.upload(to, host_base[static_cast<std::size_t>(t)], bytes(t));
  }

  Recorded& graphs_here() {
    std::vector<Address> key;
    for (TensorId t : moving) key.push_back(base[static_cast<std::size_t>(t)]);
    const auto found = std::find_if(recorded.begin(), recorded.end(), [&](const Recorded& r) { return r.key == key; });
    if (found != recorded.end()) {
      recorded.splice(recorded.begin(), recorded, found);
      return recorded.front();
    }
    recorded.push_front({std::move(key), {}, 0});
    if (recorded.size() > most_recorded) {
      gpu.synchronise();
      for (Graph g : recorded.back().graphs) gpu.destroy(g);
      recorded.pop_back();
    }
    return recorded.front();
  }

  template <class F> Graph record(F&& launches) {
    gpu.begin_capture();
    recording = true;
    try {
      launches();
    } catch (...) {
      recording = false;
      gpu.abandon_capture();
      throw;
    }
    recording = false;
    return gpu.end_capture();
  }

  void record_all(Recorded& here) {
    for (const auto& step : steps)
      if (const GpuStep* g = std::get_if<GpuStep>(&step)) here.graphs.push_back(record([&] { launch_all(*g); }));
  }

  void run(const std::atomic<bool>* cancelled) {
    Recorded& here = graphs_here();
    const bool direct = one_by_one() || ++here.runs == 1;
    if (!direct && here.graphs.empty()) record_all(here);
    std::size_t graph = 0;
    for (const auto& step : steps) {
      if (cancelled && cancelled->load(std::memory_order_relaxed)) throw Error(Code::interrupted, "", "interrupted");
      if (const CpuStep* c = std::get_if<CpuStep>(&step))
        run_on_cpu(*c, cancelled);
      else if (direct)
        launch_all(std::get<GpuStep>(step));
      else
        gpu.launch(here.graphs[graph++]);
    }
  }

  // What kernels cannot throw they leave in their words.
  void raise_faults() {
    if (!faults) return;
    std::vector<unsigned> words(kernels.size(), 0);
    gpu.download(words.data(), faults, words.size() * sizeof(unsigned));
    const auto bad = std::find_if(words.begin(), words.end(), [](unsigned w) { return w != 0; });
    if (bad == words.end()) return;
    gpu.fill(faults, 0, words.size() * sizeof(unsigned));
    throw Error(Code::bounds, plan.kernels[static_cast<std::size_t>(bad - words.begin())].name,
                "an element of an index tensor is out of range", "give the access an `else` value, or check the input");
  }

  // ---- measuring

  template <class F> static double clocked(F&& work) {
    const auto begin = std::chrono::steady_clock::now();
    work();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  }
  template <class F> static double median(int repeats, F&& work) {
    std::vector<double> list;
    for (int i = 0; i < repeats; ++i) list.push_back(clocked(work));
    std::sort(list.begin(), list.end());
    return list[list.size() / 2];
  }

  std::vector<double> seconds(int runs) {
    if (steps.size() == 1 && std::holds_alternative<GpuStep>(steps[0])) {
      Recorded& here = graphs_here();
      if (here.graphs.empty()) record_all(here);
      return gpu.times(here.graphs[0], runs);
    }
    std::vector<double> list;
    for (int i = 0; i < runs; ++i)
      list.push_back(clocked([&] {
        run(nullptr);
        gpu.synchronise();
      }));
    return list;
  }

  std::vector<double> kernel_seconds(int repeats) {
    constexpr int side_by_side = 20; // launches of one kernel in a graph
    std::vector<double> list(kernels.size(), 0);
    for (const auto& step : steps) {
      if (const CpuStep* c = std::get_if<CpuStep>(&step)) {
        list[c->first] = median(std::min(repeats, 5), [&] { run_on_cpu(*c, nullptr); });
        continue;
      }
      const GpuStep& g = std::get<GpuStep>(step);
      for (std::size_t k = g.first; k < g.first + g.count; ++k) {
        const Graph graph = record([&] {
          for (int i = 0; i < side_by_side; ++i) launch_kernel(k, i > 0);
        });
        list[k] = gpu.seconds(graph, repeats) / side_by_side;
        gpu.destroy(graph);
      }
    }
    return list;
  }
};

Executor::Executor(Device& gpu, const Plan& plan, const Built& built, const MemoryPlan& memory, int threads)
    : state_(new State{gpu, plan, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, 0, false, 0}) {
  State& s = *state_;
  const std::size_t n = plan.program->tensors.size();
  s.base.assign(n, 0), s.host.resize(n), s.host_base.assign(n, nullptr);
  s.load(built);
  s.cut_steps();
  s.upload_weights();
  s.place_arena(memory);
  s.prepare_cpu(threads);
  if (std::any_of(s.kernels.begin(), s.kernels.end(), [](const Loaded& k) { return k.faults; })) {
    s.faults = gpu.allocate(s.kernels.size() * sizeof(unsigned));
    gpu.fill(s.faults, 0, s.kernels.size() * sizeof(unsigned));
  }
  const Program& p = *plan.program;
  for (const auto* list : {&p.inputs, &p.outputs})
    for (TensorId t : *list)
      if (p.tensor(t).kind != Kind::weight && memory.offset[static_cast<std::size_t>(t)] < 0) s.moving.push_back(t);
}

Executor::~Executor() {
  for (const Recorded& r : state_->recorded)
    for (Graph g : r.graphs) state_->gpu.destroy(g);
}

bool Executor::keeps(TensorId t) const { return state_->kept.count(t) > 0; }

std::size_t Executor::steps_on_cpu() const {
  return static_cast<std::size_t>(std::count_if(state_->steps.begin(), state_->steps.end(),
                                                [](const auto& s) { return std::holds_alternative<CpuStep>(s); }));
}

std::int64_t Executor::weight_bytes() const { return state_->weight_bytes; }

Address Executor::address(TensorId t) const { return state_->base[static_cast<std::size_t>(t)]; }
void Executor::place(TensorId t, Address a) { state_->base[static_cast<std::size_t>(t)] = a; }
void Executor::run(const std::atomic<bool>* cancelled) { state_->run(cancelled); }

void Executor::finish() {
  State& s = *state_;
  try {
    s.gpu.synchronise();
  } catch (const Error& e) {
    throw Error(e.code, fmt::format("{} kernels of {}", s.kernels.size(), s.p().name), e.message,
                "set TILEWRIGHT_CUDA_SYNC=1 to learn which kernel fails");
  }
  s.raise_faults();
}

std::vector<double> Executor::seconds(int runs) { return state_->seconds(runs); }
std::vector<double> Executor::kernel_seconds(int repeats) { return state_->kernel_seconds(repeats); }

} // namespace tilewright::cuda
