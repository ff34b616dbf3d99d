#include "runtime/session.h"

#include <algorithm>
#include <chrono>
#include <cstring>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "expr/text.h"
#include "machine/host.h"
#include "normal/normal.h"

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

std::vector<std::int64_t> extents(const Tensor& t) {
  std::vector<std::int64_t> dims;
  for (const Size& d : t.dims) dims.push_back(d.constant());
  return dims;
}

std::vector<std::int64_t> row_strides(const std::vector<std::int64_t>& dims) { return dense_strides(dims, row_major(dims.size())); }

std::int64_t count(const std::vector<std::int64_t>& dims) {
  std::int64_t n = 1;
  for (std::int64_t d : dims) n = checked_mul(n, d);
  return n;
}

bool is_dense(const Strided& s) {
  std::int64_t step = 1;
  for (std::size_t d = s.dims.size(); d-- > 0;) {
    if (s.dims[d] != 1 && s.strides[d] != step) return false;
    step *= s.dims[d];
  }
  return true;
}

// Copies between strided and dense memory, row by row of the last dim.
void copy_strided(std::byte* to, const std::vector<std::int64_t>& to_stride, const std::byte* from, const std::vector<std::int64_t>& from_stride,
                  const std::vector<std::int64_t>& dims, std::size_t width, std::size_t d = 0) {
  const auto w = static_cast<std::int64_t>(width);
  if (d == dims.size()) {
    std::memcpy(to, from, width);
    return;
  }
  for (std::int64_t i = 0; i < dims[d]; ++i)
    copy_strided(to + i * to_stride[d] * w, to_stride, from + i * from_stride[d] * w, from_stride, dims, width, d + 1);
}

PlanOptions plan_options(const SessionOptions& o, int threads) {
  const Isa isa = o.isa.empty() ? detect_isa() : parse_isa(o.isa);
  const kernels::Kernels& leaf = kernels::kernels_for(kernels::available(isa) ? isa : Isa::base);
  return {threads, std::string(name_of(leaf.isa)), leaf.mr, leaf.nr, leaf.lanes};
}

Plan planned(Program program, const SessionOptions& o, int threads, Timing* t) {
  Stopwatch watch;
  verify(program);
  auto normal = std::make_shared<Program>(normalise(fix_sizes(program, o.sizes), o.without));
  t->normalise = watch.lap();
  Plan plan = make_plan(std::move(normal), this_cpu(threads), plan_options(o, threads));
  t->plan = watch.lap();
  return plan;
}

}  // namespace

Strided dense(const Array& a) { return {a.dtype, a.dims, row_strides(a.dims), a.data}; }

Session::Session(Program program, const SessionOptions& options)
    : plan_(planned(std::move(program), options, options.threads > 0 ? options.threads : default_threads(), &timing_)),
      pool_(plan_.options.threads) {
  Stopwatch watch;
  executable_ = cpu::compile(plan_);
  memory_ = cpu::plan_memory(plan_);
  timing_.pack = watch.lap();
  arena_ = std::make_shared<cpu::Aligned>(static_cast<std::size_t>(memory_.bytes) + 64);
  scratch_ = std::make_shared<cpu::Aligned>(static_cast<std::size_t>(executable_.scratch) * static_cast<std::size_t>(pool_.size()) + 64);
}

Session::~Session() = default;

void Session::check(const Strided& s, TensorId t, const char* what) const {
  const Tensor& tensor = program().tensor(t);
  const auto want = extents(tensor);
  if (s.dtype != tensor.dtype)
    throw Error(Code::input, tensor.name, fmt::format("{} is {}, {} is wanted", what, name_of(s.dtype), name_of(tensor.dtype)), "convert the array");
  if (s.dims != want)
    throw Error(Code::input, tensor.name, fmt::format("{} has shape [{}], [{}] is wanted", what, fmt::join(s.dims, ", "), fmt::join(want, ", ")),
                "give arrays of that shape, or fix other sizes when the model is opened");
  if (!s.data && count(want) > 0) throw Error(Code::input, tensor.name, fmt::format("{} has no data", what));
}

void Session::run(const std::vector<Strided>& in, const std::vector<Strided>& out, std::vector<double>* kernel_seconds,
                  const std::atomic<bool>* cancelled) {
  const Program& p = program();
  if (in.size() != p.inputs.size())
    throw Error(Code::input, "", fmt::format("{} inputs are given, {} are wanted", in.size(), p.inputs.size()));
  if (out.size() != p.outputs.size())
    throw Error(Code::input, "", fmt::format("{} outputs are given, {} are wanted", out.size(), p.outputs.size()));
  for (std::size_t i = 0; i < in.size(); ++i) check(in[i], p.inputs[i], "the input");
  for (std::size_t i = 0; i < out.size(); ++i) check(out[i], p.outputs[i], "the output");

  const std::lock_guard lock(turn_);
  std::vector<std::byte*> base(p.tensors.size(), nullptr);
  std::vector<Array> copies;
  for (std::size_t t = 0; t < p.tensors.size(); ++t) {
    if (memory_.offset[t] >= 0) base[t] = arena_->data + memory_.offset[t];
    // Weights are only read; the executor's addresses serve reads and writes alike.
    else if (!p.tensors[t].data.empty()) base[t] = const_cast<std::byte*>(p.tensors[t].data.data());
  }
  auto place = [&](const Strided& s, TensorId t, bool copy_in) {
    if (is_dense(s)) {
      base[static_cast<std::size_t>(t)] = s.data;
      return;
    }
    Array a = Array::make(s.dtype, s.dims);
    if (copy_in) copy_strided(a.data, row_strides(s.dims), s.data, s.strides, s.dims, bytes_of(s.dtype));
    base[static_cast<std::size_t>(t)] = a.data;
    copies.push_back(std::move(a));
  };
  for (std::size_t i = 0; i < in.size(); ++i) place(in[i], p.inputs[i], true);
  for (std::size_t i = 0; i < out.size(); ++i)
    if (p.tensor(p.outputs[i]).kind == Kind::intermediate) place(out[i], p.outputs[i], false);
  std::vector<double> seconds(plan_.kernels.size(), 0);
  cpu::run(plan_, executable_, pool_, base.data(), scratch_->data, kernel_seconds ? seconds.data() : nullptr, cancelled);
  if (kernel_seconds) *kernel_seconds = std::move(seconds);
  // What was computed elsewhere goes to the caller: strided outputs, inputs that are outputs, repeated outputs.
  for (std::size_t i = 0; i < out.size(); ++i) {
    const std::byte* from = base[static_cast<std::size_t>(p.outputs[i])];
    if (from != out[i].data) copy_strided(out[i].data, out[i].strides, from, row_strides(out[i].dims), out[i].dims, bytes_of(out[i].dtype));
  }
}

}  // namespace tilewright
