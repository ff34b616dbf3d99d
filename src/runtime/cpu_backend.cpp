#include <algorithm>
#include <cstring>

#include "runtime/backend.h"
#include "runtime/copy.h"
#include "support/file.h"

namespace tilewright {

namespace {

// Addresses of the caller's arrays, or of copies where kernels cannot work on them in place.
struct Call {
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

class CpuBackend : public Backend {
public:
  CpuBackend(Program& own, const Plan& plan, const MemoryPlan& memory)
      : plan_(plan), memory_(memory), pool_(plan.options.threads) {
    // A weight that was packed gives up its bytes: its pages if it lies in a mapped file, its memory if it was made
    // here.
    executable_ = cpu::compile(plan_, [&](TensorId t) {
      release_pages(own.tensor(t).data);
      own.tensor(t).data = {};
      own.tensor(t).owner.reset();
    });
    arena_ = std::make_shared<cpu::Aligned>(static_cast<std::size_t>(memory_.bytes) + 64);
    scratch_ = std::make_shared<cpu::Aligned>(
        static_cast<std::size_t>(executable_.scratch) * static_cast<std::size_t>(pool_.size()) + 64);
  }

  Dims run(const std::vector<Strided>& in, const std::vector<Strided>& out, const RunOptions& o) override {
    const Program& p = *plan_.program;
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
    cpu::run(plan_, executable_, pool_, call.base.data(), scratch_->data, o.kernel_seconds ? seconds.data() : nullptr,
             o.cancelled);
    if (o.kernel_seconds) *o.kernel_seconds = std::move(seconds);
    // Before an output of the caller covers an input that counts.
    auto dims = counted_dims(p, out, [&](TensorId t) {
      std::int64_t rows = 0;
      std::memcpy(&rows, call.base[static_cast<std::size_t>(t)], sizeof rows);
      return rows;
    });
    // What was computed elsewhere goes to the caller: strided outputs, inputs that are outputs, repeated outputs.
    for (std::size_t i = 0; i < out.size(); ++i) {
      std::byte* from = call.base[static_cast<std::size_t>(p.outputs[i])];
      if (from != out[i].data) copy_elements(out[i], {out[i].dtype, out[i].dims, row_strides(out[i].dims), from});
    }
    return dims;
  }

  std::optional<Array> intermediate(TensorId t) const override {
    const Tensor& tensor = plan_.program->tensor(t);
    const std::int64_t offset = memory_.offset[static_cast<std::size_t>(t)];
    if (offset < 0) return {};
    Array a = Array::make(tensor.dtype, dims_of(tensor));
    copy_elements(dense(a), {tensor.dtype, a.dims, dense_strides(a.dims, plan_.layouts[static_cast<std::size_t>(t)]),
                             arena_->data + offset});
    return a;
  }

  const cpu::Executable* executable() const override { return &executable_; }

private:
  const Plan& plan_;
  const MemoryPlan& memory_;
  cpu::Executable executable_;
  Pool pool_;
  std::shared_ptr<cpu::Aligned> arena_, scratch_;
};

} // namespace

std::unique_ptr<Backend> cpu_backend(Program& own, const Plan& plan, const MemoryPlan& memory) {
  return std::make_unique<CpuBackend>(own, plan, memory);
}

} // namespace tilewright
