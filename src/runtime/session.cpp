#include "runtime/session.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <set>

#include "expr/results.h"
#include "expr/text.h"
#include "law/stream_forms.h"
#include "machine/host.h"
#include "normal/normal.h"
#include "runtime/copy.h"
#include "runtime/plan_file.h"
#include "runtime/sparse_options.h"
#include "sparse/spread.h"
#include "support/file.h"
#include "support/memory.h"

namespace tilewright {

namespace {

class Stopwatch {
public:
  double lap() {
    const auto now = std::chrono::steady_clock::now();
    const double s = std::chrono::duration<double>(now - then_).count();
    then_ = now;
    return s;
  }

private:
  std::chrono::steady_clock::time_point then_ = std::chrono::steady_clock::now();
};

std::int64_t count(const std::vector<std::int64_t>& dims) {
  std::int64_t n = 1;
  for (std::int64_t d : dims) n = checked_mul(n, d);
  return n;
}

int threads_of(const SessionOptions& o) {
  constexpr int most = 1024;
  if (o.threads < 0 || o.threads > most)
    throw Error(Code::option, "threads", fmt::format("is {}, must be 0 to {}", o.threads, most));
  return o.threads > 0 ? o.threads : default_threads();
}

PlanOptions plan_options(const SessionOptions& o, const Machine& machine) {
  const Isa isa = o.isa.empty() ? detect_isa() : parse_isa(o.isa);
  const kernels::Kernels& leaf = kernels::kernels_for(kernels::available(isa) ? isa : Isa::base);
  const int threads = machine.target == Target::cpu && o.machine.empty() ? threads_of(o)
                      : o.threads > 0                                    ? threads_of(o)
                                                                         : std::max(1, machine.core.count);
  PlanOptions plan{threads, std::string(name_of(leaf.isa)), leaf.mr, leaf.nr, leaf.lanes};
  plan.objective = o.objective;
  plan.fuse = o.fuse;
  plan.strict = o.strict;
  for (const auto& [tensor, text] : o.sparse)
    if (const double live = parse_sparse(tensor, text).live; live >= 0) plan.live_of[tensor] = live;
  return plan;
}

// A place of its own for every tensor that the memory plan keeps at all.
cpu::MemoryPlan apart(cpu::MemoryPlan shared, const Program& p) {
  constexpr std::int64_t line = 64;
  shared.bytes = 0;
  for (std::size_t t = 0; t < shared.offset.size(); ++t) {
    if (shared.offset[t] < 0) continue;
    const std::int64_t bytes =
        checked_mul(count(dims_of(p.tensors[t])), static_cast<std::int64_t>(bytes_of(p.tensors[t].dtype)));
    shared.offset[t] = shared.bytes;
    shared.bytes = checked_add(shared.bytes, ceil_div_i64(checked_add(bytes, line), line) * line);
  }
  return shared;
}

// Constants may come from anybody: their bytes must be what the extents say, now that all are known.
void require_bytes(const Program& p) {
  for (const Tensor& t : p.tensors) {
    if (t.kind != Kind::weight) continue;
    const auto have = static_cast<std::int64_t>(t.data.size());
    const std::int64_t want = checked_mul(count(dims_of(t)), static_cast<std::int64_t>(bytes_of(t.dtype)));
    if (have != want)
      throw Error(
          Code::input, t.name,
          fmt::format("the weight has {} bytes, its shape [{}] needs {}", have, fmt::join(dims_of(t), ", "), want),
          have == 0 ? "give it a value, or declare it an input" : "");
  }
}

// Kernels read whole elements, but in a model's file weights lie anywhere: those are copied, until they are packed. So are small
// ones, since a page of a file brings its neighbours with it.
void copy_weights(Program& p) {
  constexpr std::size_t small = 1 << 16;
  std::set<const void*> files;
  for (Tensor& t : p.tensors) {
    if (t.kind != Kind::weight || t.data.empty()) continue;
    if (t.data.size() > small && reinterpret_cast<std::uintptr_t>(t.data.data()) % bytes_of(t.dtype) == 0) continue;
    const auto copy = zeroed_bytes(t.data.size());
    std::memcpy(copy.get(), t.data.data(), t.data.size());
    release_pages(t.data);
    if (t.data.size() <= small && files.insert(t.owner.get()).second) release_mapping(t.data);
    t.data = {copy.get(), t.data.size()};
    t.owner = copy;
  }
}

void require_cpu(const Plan& plan) {
  if (plan.machine.target != Target::cpu)
    throw Error(Code::device, plan.machine.name, "a plan for this machine cannot be run here", "leave --machine out");
}

} // namespace

std::vector<std::int64_t> dims_of(const Tensor& t) {
  std::vector<std::int64_t> dims;
  for (const Size& d : t.dims) dims.push_back(d.constant());
  return dims;
}

Strided dense(const Array& a) { return {a.dtype, a.dims, row_strides(a.dims), a.data}; }

namespace {

// What a plan file is made for holds where the caller asks for nothing else; a caller who does is told.
SessionOptions with_file(SessionOptions o, const PlanFile& file) {
  if (o.threads > 0 && o.threads != file.threads)
    throw Error(Code::option, file.path, fmt::format("is a plan for {} threads, {} are asked for", file.threads, o.threads));
  if (!o.isa.empty() && o.isa != file.isa)
    throw Error(Code::option, file.path, fmt::format("is a plan for {}, {} is asked for", file.isa, o.isa));
  const auto isa_of = [&] {
    try {
      return parse_isa(file.isa);
    } catch (const Error& e) {
      throw Error(e.code, file.path, e.message, e.hint);
    }
  };
  if (!kernels::available(isa_of()))
    throw Error(Code::device, file.path, fmt::format("is a plan for {}, which this CPU does not have", file.isa), "plan again here");
  o.threads = file.threads;
  o.isa = file.isa;
  return o;
}

Plan plan_as_in(const Program& program, const SessionOptions& o, Timing* timing) {
  const PlanFile file = read_plan_file(o.plan);
  SessionOptions own = with_file(o, file);
  own.plan.clear();
  Plan plan = plan_program(program, own, timing);
  apply(file, plan, plan.machine);
  return plan;
}

}  // namespace

Plan plan_program(const Program& program, const SessionOptions& o, Timing* timing) {
  if (!o.plan.empty()) return plan_as_in(program, o, timing);
  Stopwatch watch;
  Timing ignored;
  Timing& t = timing ? *timing : ignored;
  Program said = program;
  annotate(said, o.sparse);
  verify(said);
  Program fixed = fix_sizes(said, o.sizes);
  require_bytes(fixed);
  auto normal = std::make_shared<Program>(stream_forms(normalise(std::move(fixed), o.without, nullptr, &t.passes), nullptr, true));
  spread_patterns(*normal, {o.recognise, o.strict});
  t.normalise = watch.lap();
  const Machine machine = o.machine.empty() ? this_cpu(threads_of(o)) : machine_named(o.machine);
  Plan plan = make_plan(std::move(normal), machine, plan_options(o, machine));
  t.plan = watch.lap();
  return plan;
}

Session::Session(const Program& program, const SessionOptions& options)
    : plan_(plan_program(program, options, &timing_)), pool_((require_cpu(plan_), plan_.options.threads)) {
  Stopwatch watch;
  // A weight that was packed gives up its bytes: its pages if it lies in a mapped file, its memory if it was made here.
  Program& own = const_cast<Program&>(*plan_.program); // made by plan_program for this session alone
  copy_weights(own);
  executable_ = cpu::compile(plan_, [&](TensorId t) {
    release_pages(own.tensor(t).data);
    own.tensor(t).data = {};
    own.tensor(t).owner.reset();
  });
  memory_ = cpu::plan_memory(plan_);
  kept_ = options.keep;
  if (kept_) memory_ = apart(std::move(memory_), this->program());
  timing_.pack = watch.lap();
  arena_ = std::make_shared<cpu::Aligned>(static_cast<std::size_t>(memory_.bytes) + 64);
  scratch_ = std::make_shared<cpu::Aligned>(
      static_cast<std::size_t>(executable_.scratch) * static_cast<std::size_t>(pool_.size()) + 64);
}

Session::~Session() = default;

void Session::check(const Strided& s, TensorId t, const char* what) const {
  const Tensor& tensor = program().tensor(t);
  const auto want = dims_of(tensor);
  if (s.dtype != tensor.dtype)
    throw Error(Code::input, tensor.name,
                fmt::format("{} is {}, {} is wanted", what, name_of(s.dtype), name_of(tensor.dtype)),
                "convert the array");
  if (s.dims != want)
    throw Error(Code::input, tensor.name,
                fmt::format("{} has shape [{}], [{}] is wanted", what, fmt::join(s.dims, ", "), fmt::join(want, ", ")),
                "give arrays of that shape, or fix other sizes when the model is opened");
  TW_ASSERT(s.strides.size() == s.dims.size());
  if (!s.data && count(want) > 0) throw Error(Code::input, tensor.name, fmt::format("{} has no data", what));
}

// Addresses of the caller's arrays, or of copies where kernels cannot work on them in place.
struct Session::Call {
  const std::vector<Strided>&in, &out;
  std::vector<std::byte*> base;
  std::vector<Array> copies;

  void place(const Strided& s, TensorId t, bool usable, bool copy_in) {
    std::byte*& address = base[static_cast<std::size_t>(t)];
    if (usable && is_dense(s)) {
      address = s.data;
      return;
    }
    copies.push_back(Array::make(s.dtype, s.dims));
    if (copy_in) copy_elements(dense(copies.back()), s);
    address = copies.back().data;
  }

  // Whether output i is memory that nothing else of this call touches.
  bool alone(std::size_t i) const {
    auto apart_from = [&](const Strided& other) { return !overlap(out[i], other); };
    return std::all_of(in.begin(), in.end(), apart_from) &&
           std::all_of(out.begin(), out.begin() + static_cast<std::ptrdiff_t>(i), apart_from);
  }
};

std::vector<std::vector<std::int64_t>> Session::run(const std::vector<Strided>& in, const std::vector<Strided>& out,
                                                    std::vector<double>* kernel_seconds,
                                                    const std::atomic<bool>* cancelled) {
  const Program& p = program();
  if (in.size() != p.inputs.size())
    throw Error(Code::input, "", fmt::format("{} inputs are given, {} are wanted", in.size(), p.inputs.size()));
  if (out.size() != p.outputs.size())
    throw Error(Code::input, "", fmt::format("{} outputs are given, {} are wanted", out.size(), p.outputs.size()));
  for (std::size_t i = 0; i < in.size(); ++i) check(in[i], p.inputs[i], "the input");
  for (std::size_t i = 0; i < out.size(); ++i) check(out[i], p.outputs[i], "the output");

  const std::lock_guard lock(turn_);
  Call call{in, out, std::vector<std::byte*>(p.tensors.size(), nullptr), {}};
  for (std::size_t t = 0; t < p.tensors.size(); ++t) {
    if (memory_.offset[t] >= 0) call.base[t] = arena_->data + memory_.offset[t];
    // Weights are only read; the executor's addresses serve reads and writes alike.
    else if (!p.tensors[t].data.empty())
      call.base[t] = const_cast<std::byte*>(p.tensors[t].data.data());
  }
  for (std::size_t i = 0; i < in.size(); ++i) call.place(in[i], p.inputs[i], true, true);
  for (std::size_t i = 0; i < out.size(); ++i)
    if (p.tensor(p.outputs[i]).kind == Kind::intermediate) call.place(out[i], p.outputs[i], call.alone(i), false);
  std::vector<double> seconds(plan_.kernels.size(), 0);
  cpu::run(plan_, executable_, pool_, call.base.data(), scratch_->data, kernel_seconds ? seconds.data() : nullptr,
           cancelled);
  if (kernel_seconds) *kernel_seconds = std::move(seconds);
  auto dims = results(out, call); // before an output of the caller covers an input that counts
  // What was computed elsewhere goes to the caller: strided outputs, inputs that are outputs, repeated outputs.
  for (std::size_t i = 0; i < out.size(); ++i) {
    std::byte* from = call.base[static_cast<std::size_t>(p.outputs[i])];
    if (from != out[i].data) copy_elements(out[i], {out[i].dtype, out[i].dims, row_strides(out[i].dims), from});
  }
  return dims;
}

std::vector<std::vector<std::int64_t>> Session::results(const std::vector<Strided>& out, const Call& call) const {
  std::vector<std::vector<std::int64_t>> dims;
  for (std::size_t i = 0; i < out.size(); ++i)
    dims.push_back(result_dims(program(), program().outputs[i], out[i].dims, [&](TensorId t) {
      std::int64_t rows = 0;
      std::memcpy(&rows, call.base[static_cast<std::size_t>(t)], sizeof rows);
      return rows;
    }));
  return dims;
}

std::optional<Array> Session::intermediate(TensorId t) const {
  TW_ASSERT(kept_);
  const Tensor& tensor = program().tensor(t);
  const std::int64_t offset = memory_.offset[static_cast<std::size_t>(t)];
  if (offset < 0) return {};
  Array a = Array::make(tensor.dtype, dims_of(tensor));
  copy_elements(dense(a), {tensor.dtype, a.dims, dense_strides(a.dims, plan_.layouts[static_cast<std::size_t>(t)]),
                           arena_->data + offset});
  return a;
}

} // namespace tilewright
