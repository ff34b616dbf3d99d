#include "target/cpu/executor.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <set>

#include <fmt/format.h>

#include "target/cpu/gathered_leaf.h"

namespace tilewright::cpu {

namespace k = kernels;

namespace {

// The tensors that a kernel's steps read where they lie: not a weight that was packed for a leaf.
void collect_reads(const std::vector<Kernel::Step>& steps, const Kernel& k, std::set<TensorId>& out) {
  auto read = [&](BufferId b) {
    if (b >= 0) out.insert(k.places[static_cast<std::size_t>(b)].tensor);
  };
  for (const Kernel::Step& s : steps) {
    if (const auto* stream = std::get_if<Kernel::Stream>(&s.op)) collect_reads(stream->body, k, out);
    if (const auto* lanes = std::get_if<Kernel::Lanes>(&s.op))
      for (const auto& pointer : lanes->program.pointers) read(pointer.buffer);
    if (const auto* c = std::get_if<Kernel::Contract>(&s.op)) {
      read(c->leaf.a);
      if (!c->leaf.packed) read(c->leaf.b);
      for (const StepOf& step : c->leaf.steps) read(step.buffer);
    }
    if (const auto* f = std::get_if<Kernel::Fold>(&s.op)) {
      read(f->leaf.x);
      for (const StepOf& step : f->leaf.steps) read(step.buffer);
    }
    if (const auto* w = std::get_if<Kernel::Window>(&s.op)) {
      read(w->leaf.a);
      for (const StepOf& step : w->leaf.steps) read(step.buffer);
    }
  }
}

// Tiles of a stream that leaves turns out take longer and shorter, in order: the workers take turns, each round in the other direction.
bool leaves_turns_out(const std::vector<Kernel::Step>& steps) {
  for (const Kernel::Step& s : steps)
    if (const auto* stream = std::get_if<Kernel::Stream>(&s.op); stream && (!stream->turns.every() || leaves_turns_out(stream->body))) return true;
  return false;
}
std::int64_t in_turns(std::int64_t round, int worker, int workers) { return round * workers + (round % 2 ? workers - 1 - worker : worker); }

// The contractions of a kernel that read an operand through slots.
template <class F> void each_gathered(const std::vector<Kernel::Step>& steps, F&& f) {
  for (const Kernel::Step& s : steps) {
    if (const auto* stream = std::get_if<Kernel::Stream>(&s.op)) each_gathered(stream->body, f);
    if (const auto* c = std::get_if<Kernel::Contract>(&s.op); c && c->leaf.gathered) f(c->leaf);
  }
}

}  // namespace

Executable compile(const Plan& plan, const std::function<void(TensorId)>& packed, const RowLengths& rows) {
  const Program& p = *plan.program;
  Executable out;
  out.leaf = &k::kernels_for(parse_isa(plan.options.isa));
  // How many kernels still want a weight's bytes; outputs and opaque nodes want them for ever.
  std::map<TensorId, int> wanted;
  std::vector<std::vector<TensorId>> inputs(plan.kernels.size());
  for (std::size_t n = 0; n < plan.kernels.size(); ++n) {
    if (plan.kernels[n].region) inputs[n] = boundary(p, *plan.kernels[n].region).inputs;
    else for (TensorId t : std::get<Opaque>(p.nodes[static_cast<std::size_t>(plan.kernels[n].opaque)]).in) ++wanted[t];
    for (TensorId t : inputs[n]) ++wanted[t];
  }
  for (TensorId t : p.results()) ++wanted[t];
  for (std::size_t n = 0; n < plan.kernels.size(); ++n) {
    const PlannedKernel& planned = plan.kernels[n];
    if (!planned.region) {
      out.kernels.emplace_back();
      continue;
    }
    Kernel kernel = compile_kernel(*out.leaf, p, *planned.region, expand(p, *planned.region, planned.schedule, planned.name), plan.layouts, rows);
    each_gathered(kernel.steps, [&](const ContractLeaf& l) {
      l.gathered->tiles = tile_forms(plan.machine, l.gathered->dtype);
      l.gathered->costs = selection_costs(plan.machine);
      l.gathered->costs.index_rate = 0, l.gathered->costs.launch = 0; // the marks are there
    });
    out.scratch = std::max(out.scratch, (kernel.scratch + 127) / 64 * 64);
    out.packed_bytes += kernel.packed_bytes;
    std::set<TensorId> read;
    collect_reads(kernel.steps, kernel, read);
    for (TensorId t : inputs[n])
      if (!read.count(t) && --wanted[t] == 0 && packed && p.tensor(t).kind == Kind::weight) packed(t);
    out.kernels.push_back(std::move(kernel));
  }
  return out;
}

std::vector<std::string> decisions_text(const Plan& plan, const Executable& exe) {
  std::vector<std::string> lines;
  for (const Kernel& kernel : exe.kernels)
    each_gathered(kernel.steps, [&](const ContractLeaf& l) {
      const Gathered& g = *l.gathered;
      if (!g.a.there() || g.form == Gathered::Form::buckets) return;
      const std::int64_t cells = std::max<std::int64_t>(g.a.detector.cells.count(), 1);
      std::string line = fmt::format("{}: {}, {:.3g} % live", plan.program->tensor(kernel.places[static_cast<std::size_t>(l.a)].tensor).name, text(g, g.way),
                                     100 * static_cast<double>(g.live.load()) / static_cast<double>(cells));
      if (const Selection* s = g.decisions.last(); s && s->dense.seconds > 0)
        line += fmt::format("; {:.0f} % of the dense time expected; {} {}, the last in {:.2f} ms", 100 * std::min(1.0, s->best.seconds / s->dense.seconds),
                            g.decisions.searches(), g.decisions.searches() == 1 ? "search" : "searches", 1e3 * g.decisions.last_search_seconds());
      lines.push_back(std::move(line));
    });
  return lines;
}

namespace {

struct Execution {
  const Plan& plan;
  const Executable& exe;
  std::byte* const* tensors;
  std::byte* scratch;
  double* seconds;
  const std::atomic<bool>* cancelled;
  int workers;
  Barrier barrier;
  std::vector<const LaneProgram::Fault*> faults; // one a worker, all of one kernel
  std::atomic<std::int64_t> next{0};             // tile of a kernel whose tiles take longer and shorter
  std::exception_ptr opaque_error{};
  std::atomic_flag refused{};                    // opaque_error is somebody's
  std::atomic<std::size_t> unprepared{SIZE_MAX}; // the kernel whose operands could not be got ready
  // The kernel after which to stop: a fault of one worker must not let another miss the barrier behind that kernel.
  std::atomic<std::size_t> stop{SIZE_MAX};

  Array view(TensorId t) const {
    const Tensor& tensor = plan.program->tensor(t);
    Array a;
    a.dtype = tensor.dtype;
    for (const Size& d : tensor.dims) a.dims.push_back(d.constant());
    a.data = tensors[t];
    return a;
  }

  void call(const PlannedKernel& kernel, std::size_t n) {
    const Opaque& o = std::get<Opaque>(plan.program->nodes[static_cast<std::size_t>(kernel.opaque)]);
    std::vector<Array> in, out;
    for (TensorId t : o.in) in.push_back(view(t));
    for (TensorId t : o.out) out.push_back(view(t));
    try {
      if (!o.reference) throw Error(Code::unsupported, o.place.node, fmt::format("opaque operator {} has no reference", o.op));
      (*o.reference)(in, out);
    } catch (...) {
      opaque_error = std::current_exception();
      stop = n;
    }
  }

  bool wanted_to_end(std::size_t n) {
    if (!cancelled || !cancelled->load(std::memory_order_relaxed)) return false;
    stop = n;
    return true;
  }

  // What must be known of operands before the tiles that read them through slots; whether there are any. Which worker runs a tile
  // changes no bit of it.
  bool prepare(const Kernel& kernel, std::size_t n, int w) {
    bool any = false;
    each_gathered(kernel.steps, [&](const ContractLeaf& l) {
      any = true;
      if (w == 0) next = 0;
      const auto tensor = [&](BufferId b) { return kernel.places[static_cast<std::size_t>(b)].tensor; };
      for (int step = 0; step < steps_before_tiles; ++step) {
        try {
          if (unprepared != n) before_tiles({*exe.leaf, l, tensors, tensor(l.a), tensor(l.b)}, step, w, workers);
        } catch (...) { // no memory for what lives; every worker still comes to every barrier
          if (!refused.test_and_set()) opaque_error = std::current_exception();
          unprepared = stop = n;
        }
        if (l.gathered->wrong && w == 0) faults[0] = earlier(faults[0], &l.gathered->wrong_key), stop = n;
        if (workers > 1) barrier.wait(w);
      }
    });
    return any;
  }

  // One worker's way through all kernels. Nothing here throws: faults are kept and raised after the region.
  void worker(int w) {
    auto then = std::chrono::steady_clock::now();
    for (std::size_t n = 0; n < exe.kernels.size(); ++n) {
      if (plan.kernels[n].region) {
        const Kernel& kernel = exe.kernels[n];
        const bool uneven = prepare(kernel, n, w);
        const auto run_one = [&](std::int64_t t) {
          if (t >= kernel.tiles) return;
          if (const LaneProgram::Fault* bad = run_tile(*exe.leaf, kernel, t, tensors, scratch + w * exe.scratch)) {
            const LaneProgram::Fault*& mine = faults[static_cast<std::size_t>(w)];
            mine = earlier(mine, bad);
            stop = n;
          }
        };
        if (unprepared == n) {} // an operand is not there
        else if (uneven)
          for (std::int64_t t = next++; t < kernel.tiles && !wanted_to_end(n); t = next++) run_one(t);
        else if (leaves_turns_out(kernel.steps))
          for (std::int64_t round = 0; round * workers < kernel.tiles && !wanted_to_end(n); ++round) run_one(in_turns(round, w, workers));
        else
          for (std::int64_t t = kernel.tiles * w / workers, to = kernel.tiles * (w + 1) / workers; t < to && !wanted_to_end(n); ++t) run_one(t);
      } else if (w == 0) {
        call(plan.kernels[n], n);
      }
      if (w == 0) wanted_to_end(n);
      if (workers > 1) barrier.wait(w);
      if (w == 0 && seconds) {
        const auto now = std::chrono::steady_clock::now();
        seconds[n] = std::chrono::duration<double>(now - then).count();
        then = now;
      }
      if (stop <= n) return;
    }
  }
};

[[noreturn]] void raise(const LaneProgram::Fault& fault) {
  if (fault.cause == LaneProgram::Cause::division)
    throw Error(Code::input, fault.where, "an integer is divided by zero", "leave such points out with `where`, or choose with `select`");
  throw Error(Code::bounds, fault.where, "an element of an index tensor is out of range", "give the access an `else` value, or check the input");
}

}  // namespace

void run(const Plan& plan, const Executable& exe, Pool& pool, std::byte* const* tensors, std::byte* scratch, double* seconds,
         const std::atomic<bool>* cancelled) {
  Execution r{plan, exe, tensors, scratch, seconds, cancelled, pool.size(), Barrier(pool.size()), {}};
  r.faults.resize(static_cast<std::size_t>(pool.size()), nullptr);
  pool.run([&](int w) { r.worker(w); });
  if (r.opaque_error) std::rethrow_exception(r.opaque_error);
  const LaneProgram::Fault* fault = nullptr;
  for (const LaneProgram::Fault* f : r.faults) fault = earlier(fault, f);
  if (fault) raise(*fault);
  if (cancelled && cancelled->load()) throw Error(Code::interrupted, "", "interrupted");
}

}  // namespace tilewright::cpu
