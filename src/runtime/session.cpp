#include "runtime/session.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <set>

#include "expr/results.h"
#include "expr/text.h"
#include "law/operand_types.h"
#include "law/stream_forms.h"
#include "law/unscaled.h"
#include "machine/host.h"
#include "normal/normal.h"
#include "normal/passes.h"
#include "runtime/backend.h"
#include "runtime/copy.h"
#include "runtime/kept_plan.h"
#include "runtime/plan_file.h"
#include "runtime/sparse_options.h"
#include "sparse/spread.h"
#include "support/cache.h"
#include "support/file.h"
#include "support/memory.h"
#include "target/cuda/build.h"
#include "target/cuda/kernel_cache.h"

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
  // On this machine's own CPU. Tiles have 16 rows, and so few suit multiply-adds, too.
  plan.splits = leaf.contract_split && o.machine.empty() && machine.target == Target::cpu;
  if (plan.splits) plan.leaf_rows = 16;
  plan.objective = o.objective;
  plan.fuse = o.fuse.value_or(true);
  plan.strict = o.strict;
  for (const auto& [tensor, text] : o.sparse)
    if (const double live = parse_sparse(tensor, text).live; live >= 0) plan.live_of[tensor] = live;
  return with_rules(std::move(plan), o.rules);
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

// Kernels read whole elements, but in a model's file weights lie anywhere: those are copied, until they are packed. So
// are small ones, since a page of a file brings its neighbours with it.
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
    throw Error(Code::option, file.path,
                fmt::format("is a plan for {} threads, {} are asked for", file.threads, o.threads));
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
    throw Error(Code::device, file.path, fmt::format("is a plan for {}, which this CPU does not have", file.isa),
                "plan again here");
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

} // namespace

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
  const Machine machine = o.machine.empty() ? this_cpu(threads_of(o)) : machine_named(o.machine);
  const Program plain = normalise(std::move(fixed), o.without, nullptr, &t.passes);
  const bool gpu = machine.target == Target::cuda;
  Program formed = stream_forms(plain, nullptr, gpu ? StreamForms::products : StreamForms::exponentials);
  if (gpu) formed = fold_constants(unscaled(round_operands(plain, std::move(formed))));
  auto made = std::make_shared<Program>(std::move(formed));
  spread_patterns(*made, {o.recognise, o.strict});
  const std::shared_ptr<const Program> normal = std::move(made);
  t.normalise = watch.lap();
  const PlanOptions options = plan_options(o, machine);
  const std::string folder = o.kept_plans ? cache_folder() : "";
  const std::string key = folder.empty() ? "" : plan_key(*normal, machine, o.machine, options, fmt::format("{} {}", fmt::join(o.sparse, ","), o.recognise));
  if (auto kept = kept_plan(folder, key, normal, machine, options)) {
    t.plan = watch.lap();
    return std::move(*kept);
  }
  Plan plan = make_plan(normal, machine, options);
  if (o.kept_plans) {
    plan = cuda::printable(plan);
    keep_plan(folder, key, normal, plan);
  }
  t.plan = watch.lap();
  return plan;
}

namespace {

// What a plan for a GPU is made with: the machine that the GPU is, all of its cores.
SessionOptions for_gpu(SessionOptions o, const cuda::Device& gpu, std::vector<std::string>& notes) {
  o.threads = 0, o.kept_plans = o.plan.empty();
  if (o.machine.empty()) {
    std::string note;
    o.machine = machine_for(gpu.facts(), note).name;
    if (!note.empty()) notes.push_back(note);
  }
  return o;
}

void require_target(const Plan& plan, bool on_gpu) {
  if ((plan.machine.target == Target::cuda) == on_gpu) return;
  throw Error(Code::device, plan.machine.name, on_gpu ? "is no GPU" : "a plan for this machine cannot be run here",
              on_gpu ? "name a GPU's machine, or leave --machine out"
                     : "leave --machine out, or run with --device cuda");
}

// What was printed and compiled is what the plan says from now on.
void follow_build(Plan& plan, const cuda::Built& built, std::vector<std::string>& notes) {
  std::size_t left = 0;
  std::string first;
  for (std::size_t k = 0; k < plan.kernels.size(); ++k) {
    PlannedKernel& kernel = plan.kernels[k];
    const cuda::BuiltKernel& b = built.kernels[k];
    if (!b.why.empty() && kernel.region)
      kernel.refusals.push_back((b.code ? "plainer schedule: " : "on the CPU: ") + b.why);
    if (!b.code && left++ == 0) first = fmt::format("{}: {}", kernel.name, b.why);
    if (!b.code || !kernel.region) continue;
    kernel.schedule = b.schedule;
    kernel.cost = cost(*plan.program, *kernel.region, kernel.schedule, plan.machine);
    if (b.predicted > 0) kernel.cost.seconds = b.predicted;
  }
  if (left > 0)
    notes.push_back(
        fmt::format("{} of {} kernels run on the CPU, with copies around them ({})", left, plan.kernels.size(), first));
  if (!built.warning.empty()) notes.push_back(built.warning);
}

} // namespace

Session::Session(const Program& program, const SessionOptions& options) {
  Stopwatch watch;
  const int ordinal = parse_device(options.device);
  std::unique_ptr<cuda::Device> gpu;
  if (ordinal >= 0) gpu = std::make_unique<cuda::Device>(ordinal);
  timing_.device = watch.lap();
  plan_ = plan_program(program, gpu ? for_gpu(options, *gpu, notes_) : options, &timing_);
  require_target(plan_, gpu != nullptr);
  if (gpu && !options.plan.empty()) plan_ = cuda::printable(plan_);
  trim_heap();
  watch.lap();
  Program& own = const_cast<Program&>(*plan_.program); // made by plan_program for this session alone
  copy_weights(own);
  cuda::Built built;
  if (gpu) {
    built = cuda::build(plan_, gpu->arch(), {threads_of(options), cache_folder(), cuda::compiling_allowed()});
    follow_build(plan_, built, notes_);
    timing_.compile = built.seconds;
    watch.lap();
  }
  constexpr std::int64_t cpu_line = 64, gpu_line = 256;
  kept_ = options.keep;
  const cpu::RowLengths rows = kept_ || gpu ? cpu::RowLengths{} : cpu::row_lengths(plan_);
  memory_ = plan_memory(plan_, gpu ? gpu_line : cpu_line, cpu::bytes_of_rows(plan_, rows));
  if (kept_) memory_ = apart(std::move(memory_), this->program(), gpu ? gpu_line : cpu_line);
  backend_ = gpu ? cuda_backend(std::move(gpu), own, plan_, built, memory_, threads_of(options)) : cpu_backend(own, plan_, memory_, rows);
  timing_.pack = watch.lap();
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
  if (s.gpu >= 0 && gpu() < 0)
    throw Error(Code::input, tensor.name, fmt::format("{} is on GPU {}, the session on the CPU", what, s.gpu),
                "move the array, or open the model with device cuda");
}

std::vector<std::vector<std::int64_t>> Session::run(const std::vector<Strided>& in, const std::vector<Strided>& out,
                                                    const RunOptions& o) {
  const Program& p = program();
  if (in.size() != p.inputs.size())
    throw Error(Code::input, "", fmt::format("{} inputs are given, {} are wanted", in.size(), p.inputs.size()));
  if (out.size() != p.outputs.size())
    throw Error(Code::input, "", fmt::format("{} outputs are given, {} are wanted", out.size(), p.outputs.size()));
  for (std::size_t i = 0; i < in.size(); ++i) check(in[i], p.inputs[i], "the input");
  for (std::size_t i = 0; i < out.size(); ++i) check(out[i], p.outputs[i], "the output");
  const std::lock_guard lock(turn_);
  return backend_->run(in, out, o);
}

std::vector<double> Session::device_seconds(int runs) {
  const std::lock_guard lock(turn_);
  return backend_->device_seconds(runs);
}

std::vector<std::vector<std::int64_t>> counted_dims(const Program& p, const std::vector<Strided>& out,
                                                    const std::function<std::int64_t(TensorId)>& count) {
  std::vector<std::vector<std::int64_t>> dims;
  for (std::size_t i = 0; i < out.size(); ++i) dims.push_back(result_dims(p, p.outputs[i], out[i].dims, count));
  return dims;
}

std::optional<Array> Session::intermediate(TensorId t) const {
  TW_ASSERT(kept_);
  return backend_->intermediate(t);
}

} // namespace tilewright
