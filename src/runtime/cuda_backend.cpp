#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstring>

#include "runtime/backend.h"
#include "runtime/copy.h"
#include "support/file.h"
#include "target/cuda/executor.h"

namespace tilewright {

namespace {

constexpr cuda::Address alignment = 16; // of what kernels read in pieces

cuda::Address address_of(const Strided& s) { return reinterpret_cast<cuda::Address>(s.data); }
std::size_t size_of(const Tensor& t) {
  std::size_t n = bytes_of(t.dtype);
  for (std::int64_t d : dims_of(t)) n *= static_cast<std::size_t>(d);
  return n;
}

class CudaBackend : public Backend {
public:
  CudaBackend(std::unique_ptr<cuda::Device> gpu, Program& own, const Plan& plan, const cuda::Built& built,
              const MemoryPlan& memory, int threads)
      : gpu_(std::move(gpu)), plan_(plan), memory_(memory), executor_(*gpu_, plan, built, memory, threads) {
    for (std::size_t t = 0; t < own.tensors.size(); ++t) {
      Tensor& w = own.tensors[t];
      if (w.kind != Kind::weight || w.data.empty() || executor_.keeps(static_cast<TensorId>(t))) continue;
      release_pages(w.data);
      w.data = {};
      w.owner.reset();
    }
    staged_.assign(own.tensors.size(), 0);
  }

  Dims run(const std::vector<Strided>& in, const std::vector<Strided>& out, const RunOptions& o) override {
    gpu_->use();
    const Program& p = *plan_.program;
    const bool on_gpu = std::any_of(in.begin(), in.end(), [](const Strided& s) { return s.gpu >= 0; }) ||
                        std::any_of(out.begin(), out.end(), [](const Strided& s) { return s.gpu >= 0; });
    // Arrays on the GPU that come without a stream were made in its default one.
    constexpr std::uintptr_t legacy = 1;
    const cuda::Stream stream = o.stream ? o.stream : reinterpret_cast<cuda::Stream>(legacy);
    if (on_gpu) gpu_->follow(stream);
    for (std::size_t i = 0; i < in.size(); ++i) take(in[i], p.inputs[i]);
    for (std::size_t i = 0; i < out.size(); ++i)
      if (p.tensor(p.outputs[i]).kind == Kind::intermediate) give(in, out, i);
    executor_.run(o.cancelled);
    Dims dims = counted_dims(p, out, [&](TensorId t) {
      std::int64_t rows = 0;
      gpu_->download(&rows, executor_.address(t), sizeof rows);
      return rows;
    });
    bool waits = !o.stream;
    for (std::size_t i = 0; i < out.size(); ++i) waits |= bring(out[i], p.outputs[i]);
    if (on_gpu) gpu_->lead(stream);
    if (waits) executor_.finish();
    if (o.kernel_seconds) *o.kernel_seconds = executor_.kernel_seconds(9);
    return dims;
  }

  std::vector<double> device_seconds(int runs) override {
    gpu_->use();
    return executor_.seconds(runs);
  }

  std::optional<Array> intermediate(TensorId t) const override {
    const Tensor& tensor = plan_.program->tensor(t);
    if (memory_.offset[static_cast<std::size_t>(t)] < 0) return {};
    gpu_->use();
    Array raw = Array::make(tensor.dtype, dims_of(tensor)), a = Array::make(tensor.dtype, dims_of(tensor));
    gpu_->download(raw.data, executor_.address(t), raw.bytes());
    copy_elements(dense(a),
                  {tensor.dtype, a.dims, dense_strides(a.dims, plan_.layouts[static_cast<std::size_t>(t)]), raw.data});
    return a;
  }

  int gpu() const override { return gpu_->ordinal(); }

private:
  // Memory of our own for an input or output that kernels cannot use where it is.
  cuda::Address staged(TensorId t) {
    cuda::Address& a = staged_[static_cast<std::size_t>(t)];
    if (!a) a = gpu_->allocate(size_of(plan_.program->tensor(t)));
    return a;
  }

  bool usable(const Strided& s, TensorId t) const {
    if (s.gpu < 0) return false;
    if (s.gpu != gpu_->ordinal())
      throw Error(Code::input, plan_.program->tensor(t).name,
                  fmt::format("the array is on GPU {}, the session on GPU {}", s.gpu, gpu_->ordinal()),
                  "move one of them");
    Strided aligned = s;
    aligned.data = nullptr;
    if (!is_dense(aligned))
      throw Error(Code::input, plan_.program->tensor(t).name, "an array on the GPU must be dense and row-major",
                  "make it contiguous");
    return address_of(s) % alignment == 0;
  }

  void take(const Strided& s, TensorId t) {
    const Tensor& tensor = plan_.program->tensor(t);
    if (memory_.offset[static_cast<std::size_t>(t)] >= 0) return;
    if (usable(s, t)) return executor_.place(t, address_of(s));
    const cuda::Address to = staged(t);
    executor_.place(t, to);
    if (s.gpu >= 0) return gpu_->copy(to, address_of(s), size_of(tensor));
    if (is_dense(s)) return gpu_->upload(to, s.data, size_of(tensor));
    const Array packed = Array::make(s.dtype, s.dims);
    copy_elements(dense(packed), s);
    gpu_->upload(to, packed.data, size_of(tensor));
  }

  // An output is written in place where nothing else of the call touches it.
  void give(const std::vector<Strided>& in, const std::vector<Strided>& out, std::size_t i) {
    const TensorId t = plan_.program->outputs[i];
    auto apart_from = [&](const Strided& other) { return other.gpu != out[i].gpu || !overlap(out[i], other); };
    const bool alone = std::all_of(in.begin(), in.end(), apart_from) &&
                       std::all_of(out.begin(), out.begin() + static_cast<std::ptrdiff_t>(i), apart_from);
    executor_.place(t, usable(out[i], t) && alone ? address_of(out[i]) : staged(t));
  }

  // A result to the caller; whether the call must wait for it.
  bool bring(const Strided& s, TensorId t) {
    const std::size_t bytes = size_of(plan_.program->tensor(t));
    const cuda::Address from = executor_.address(t);
    if (s.gpu >= 0) {
      if (from != address_of(s)) gpu_->copy(address_of(s), from, bytes);
      return false;
    }
    executor_.finish();
    if (is_dense(s)) {
      gpu_->download(s.data, from, bytes);
    } else {
      const Array packed = Array::make(s.dtype, s.dims);
      gpu_->download(packed.data, from, bytes);
      copy_elements(s, dense(packed));
    }
    return true;
  }

  std::unique_ptr<cuda::Device> gpu_;
  const Plan& plan_;
  const MemoryPlan& memory_;
  cuda::Executor executor_;
  std::vector<cuda::Address> staged_; // by tensor
};

int number_of(const std::string& arch) { return std::atoi(arch.c_str() + std::min<std::size_t>(3, arch.size())); }

// The words of a name; of a machine's title the one that says which product it is: "H200" of "NVIDIA H200 SXM, 141 GB".
std::vector<std::string> words_of(const std::string& name) {
  std::vector<std::string> words(1);
  for (char c : name) {
    if (std::isalnum(static_cast<unsigned char>(c)))
      words.back() += c;
    else if (!words.back().empty())
      words.emplace_back();
  }
  return words;
}
std::string product_of(const std::string& title) {
  const auto words = words_of(title.substr(0, title.find(',')));
  const auto numbered = std::find_if(words.begin(), words.end(), [](const std::string& w) {
    return w.find_first_of("0123456789") != std::string::npos;
  });
  return numbered != words.end() ? *numbered : words.back();
}
bool has_word(const std::string& name, const std::string& word) {
  const auto words = words_of(name);
  return std::find(words.begin(), words.end(), word) != words.end();
}

bool own_only(const std::string& arch) {
  return arch.ends_with('a');
} // has instructions that no other architecture has

} // namespace

std::unique_ptr<Backend> cuda_backend(std::unique_ptr<cuda::Device> gpu, Program& own, const Plan& plan,
                                      const cuda::Built& built, const MemoryPlan& memory, int threads) {
  return std::make_unique<CudaBackend>(std::move(gpu), own, plan, built, memory, threads);
}

int parse_device(const std::string& text, const std::string& option) {
  if (text == "cpu") return -1;
  if (text == "cuda") return 0;
  int n = 0;
  constexpr std::string_view prefix = "cuda:";
  if (text.starts_with(prefix)) {
    const auto [end, error] = std::from_chars(text.data() + prefix.size(), text.data() + text.size(), n);
    if (error == std::errc() && end == text.data() + text.size() && n >= 0) return n;
  }
  throw Error(Code::option, option, fmt::format("is '{}', must be cpu, cuda or cuda:N", text));
}

Machine machine_for(const cuda::Facts& gpu, std::string& note) {
  std::optional<Machine> best;
  for (const std::string& name : machine_names()) {
    Machine m = machine_named(name);
    if (m.target != Target::cuda) continue;
    if (m.arch == gpu.arch && has_word(gpu.name, product_of(m.title))) return m;
    if (m.arch != gpu.arch && (own_only(m.arch) || number_of(m.arch) > number_of(gpu.arch))) continue;
    const auto rank = [&](const Machine& x) {
      return std::pair(-std::abs(x.core.count - gpu.cores), number_of(x.arch));
    };
    if (!best || rank(m) > rank(*best)) best = std::move(m);
  }
  if (!best)
    throw Error(Code::device, gpu.name, fmt::format("no machine file is for a GPU as old as this one ({})", gpu.arch),
                "run with --device cpu");
  note = fmt::format("no machine file is for {} ({}); planned as for {}", gpu.name, gpu.arch, best->title);
  return std::move(*best);
}

} // namespace tilewright
