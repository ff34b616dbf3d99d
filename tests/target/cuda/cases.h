// The kernels that the CUDA target's tests and its bench share: planned for a GPU, run by the CPU target here and printed there.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstring>

#include "expr/evaluate.h"
#include "expr/text.h"
#include "law/excerpt.h"
#include "law/operand_types.h"
#include "law/stream_forms.h"
#include "law/unscaled.h"
#include "normal/normal.h"
#include "plan/choose.h"
#include "target/cuda/source.h"

namespace tilewright::testing {

struct GpuCase {
  std::string name;
  std::shared_ptr<const Program> program;
  Region region;
  Schedule schedule;
  Nest nest;                                     // one object: counted, run on the CPU, printed as CUDA
  std::vector<DimOrder> layouts;
  double predicted = 0;                          // seconds
};

// `choice`: which of the schedules that were priced, 0 the best.
inline GpuCase gpu_case(const std::string& name, const std::string& text, const Machine& machine, std::size_t choice = 0) {
  GpuCase c;
  c.name = name;
  Program written = fix_sizes(parse(text, name + ".tw"), {});
  // Definitions that stream are normalised first, as a session does; the others are written as their kernels.
  if (text.find("program attention") == 0) {
    const Program normal = normalise(std::move(written));
    written = unscaled(round_operands(normal, stream_forms(normal)));
  }
  c.program = std::make_shared<const Program>(std::move(written));
  std::vector<StatementId> all;
  for (std::size_t n = 0; n < c.program->nodes.size(); ++n) all.push_back(static_cast<StatementId>(n));
  auto region = unify(*c.program, all);
  if (!region) throw Error(Code::internal, name, region.reason());
  c.region = std::move(*region);
  for (const Tensor& t : c.program->tensors) c.layouts.push_back(row_major(t.dims.size()));
  const auto choices = block_choices(*c.program, c.region, machine, c.layouts);
  if (choice >= choices.size()) throw Error(Code::internal, name, "no such schedule");
  c.schedule = choices[choice].schedule, c.predicted = choices[choice].seconds;
  c.nest = expand(*c.program, c.region, c.schedule, name);
  return c;
}

// A kernel of a plan as a program of its own: what it reads are inputs, what others read outputs.
inline GpuCase kernel_case(const Plan& plan, const PlannedKernel& k) {
  Program p = *plan.program;
  const Boundary b = boundary(p, *k.region);
  std::set<TensorId> used;
  p.nodes.clear(), p.inputs.clear(), p.outputs = b.outputs;
  for (StatementId id : k.region->statements) {
    const Statement& s = *plan.program->statement(id);
    used.insert(s.out);
    for_each_access(s, [&](const Access& a) { used.insert(a.tensor); });
    p.nodes.emplace_back(s);
  }
  for (TensorId t : b.inputs) {
    if (p.tensor(t).kind == Kind::intermediate) p.tensor(t).kind = Kind::input;
    if (p.tensor(t).kind == Kind::input) p.inputs.push_back(t);
  }
  for (std::size_t t = 0; t < p.tensors.size(); ++t)
    if (!used.count(static_cast<TensorId>(t))) p.tensors[t].dims.clear(), p.tensors[t].kind = Kind::intermediate;
  GpuCase c;
  c.name = k.name, c.layouts = plan.layouts, c.schedule = k.schedule, c.predicted = k.cost.seconds;
  std::vector<StatementId> all;
  for (std::size_t n = 0; n < p.nodes.size(); ++n) all.push_back(static_cast<StatementId>(n));
  c.program = std::make_shared<const Program>(std::move(p));
  c.region = *unify(*c.program, all);
  for (LeafAt& l : c.schedule.leaves) l.statement = all[static_cast<std::size_t>(k.region->position(l.statement))];
  c.nest = expand(*c.program, c.region, c.schedule, c.name);
  return c;
}
// Of a plan's kernels one of each signature, and how often it stands there.
inline std::vector<std::pair<GpuCase, int>> distinct_kernels(const Plan& plan) {
  std::vector<std::pair<GpuCase, int>> list;
  std::map<std::string, std::size_t> known;
  for (const PlannedKernel& k : plan.kernels) {
    if (!k.region) continue;
    const auto [at, fresh] = known.emplace(signature(*plan.program, *k.region, &plan.layouts), list.size());
    if (fresh) list.emplace_back(kernel_case(plan, k), 0);
    ++list[at->second].second;
  }
  return list;
}

inline Array array_of(const Program& p, TensorId t) {
  std::vector<std::int64_t> dims;
  for (const Size& d : p.tensor(t).dims) dims.push_back(d.constant());
  return Array::make(p.tensor(t).dtype, dims);
}
inline double element(const Array& a, std::int64_t i) {
  switch (a.dtype) {
    case DType::f64: return a.as<double>()[i];
    case DType::f32: return a.as<float>()[i];
    case DType::f16: return f16_to_f32(a.as<std::uint16_t>()[i]);
    case DType::bf16: return bf16_to_f32(a.as<std::uint16_t>()[i]);
    case DType::i64: return static_cast<double>(a.as<std::int64_t>()[i]);
    case DType::i32: return a.as<std::int32_t>()[i];
    case DType::i8: return a.as<std::int8_t>()[i];
    default: return a.as<std::uint8_t>()[i];
  }
}
// Values of a tensor, row-major: its own, or floats of a size that leaves sums of order one, or indices that are some.
inline Array some_of(const Program& p, TensorId t, std::uint64_t& seed) {
  const Tensor& tensor = p.tensor(t);
  Array a = array_of(p, t);
  if (!tensor.data.empty()) std::memcpy(a.data, tensor.data.data(), a.bytes());
  const bool weight = tensor.kind == Kind::weight && a.dims.size() > 1;
  const float scale = weight ? 2.0f / std::sqrt(static_cast<float>(std::max<std::int64_t>(1, a.count() / std::max<std::int64_t>(1, a.dims[0])))) : 1.0f;
  for (std::int64_t i = 0; i < a.count() && tensor.data.empty(); ++i) {
    seed = seed * 6364136223846793005ull + 1442695040888963407ull;
    const float v = scale * (static_cast<float>(seed >> 40) / 8388608.0f - 1.0f);
    const std::int64_t n = static_cast<std::int64_t>(seed >> 33) % (tensor.index_of ? tensor.index_of->constant() : 2);
    if (a.dtype == DType::f64) a.as<double>()[i] = v;
    else if (a.dtype == DType::f32) a.as<float>()[i] = v;
    else if (a.dtype == DType::f16) a.as<std::uint16_t>()[i] = f32_to_f16(v);
    else if (a.dtype == DType::bf16) a.as<std::uint16_t>()[i] = f32_to_bf16(v);
    else if (a.dtype == DType::i64) a.as<std::int64_t>()[i] = n;
    else if (a.dtype == DType::i32) a.as<std::int32_t>()[i] = static_cast<std::int32_t>(n);
    else a.as<std::uint8_t>()[i] = static_cast<std::uint8_t>(a.dtype == DType::boolean ? n % 2 : seed >> 40);
  }
  return a;
}
// Of all that a case reads.
inline Values sample(const GpuCase& c) {
  Values given;
  std::uint64_t seed = 17;
  for (TensorId t : boundary(*c.program, c.region).inputs) given[t] = some_of(*c.program, t, seed);
  return given;
}
// From row-major into a layout, or back.
inline Array relaid(const Array& a, const DimOrder& from_order, const DimOrder& to_order) {
  Array out = Array::make(a.dtype, a.dims);
  const auto from = dense_strides(a.dims, from_order), to = dense_strides(a.dims, to_order);
  const auto width = static_cast<std::int64_t>(bytes_of(a.dtype));
  std::vector<std::int64_t> point(a.dims.size(), 0);
  for (std::int64_t n = a.count(); n-- > 0;) {
    std::int64_t f = 0, t = 0;
    for (std::size_t d = 0; d < point.size(); ++d) f += point[d] * from[d], t += point[d] * to[d];
    std::memcpy(out.data + t * width, a.data + f * width, static_cast<std::size_t>(width));
    for (std::size_t d = point.size(); d-- > 0;) {
      if (++point[d] < a.dims[d]) break;
      point[d] = 0;
    }
  }
  return out;
}
// Norm of the difference over norm; where both are nothing but zeros, or the same integers, 0.
inline double difference(const Array& want, const Array& got) {
  double apart = 0, norm = 0;
  for (std::int64_t i = 0; i < want.count(); ++i) {
    const double w = element(want, i), g = element(got, i);
    if (w == g || (std::isnan(w) && std::isnan(g))) {
      if (std::isfinite(w)) norm += w * w;
      continue;
    }
    apart += (w - g) * (w - g), norm += w * w;
  }
  return apart == 0 ? 0 : norm > 0 && std::isfinite(apart) ? std::sqrt(apart / norm) : INFINITY;
}

// Depthwise 3 x 3 then pointwise, channels last, bias and ReLU6 behind both.
inline std::string depthwise_pointwise(int n, int size, int c, int f, int stride, const char* dtype) {
  const int out = (size + stride - 1) / stride, before = stride == 1 ? 1 : size % 2;
  return "program dwpw(n=" + std::to_string(n) + ", h=" + std::to_string(size) + ", w=" + std::to_string(size) + ", c=" + std::to_string(c) + ", f=" +
         std::to_string(f) + ", y=" + std::to_string(out) + ", x=" + std::to_string(out) + ", i=3, j=3)\ninput X[n h w c] : " + dtype + "\nweight V[i j c], a[c], W[f c], b[f] : " +
         dtype + "\nD[n y x c] : f32 = sum[i j] X[n, " + (stride == 2 ? "2*y" : "y") + "+i-" + std::to_string(before) + ", " + (stride == 2 ? "2*x" : "x") + "+j-" +
         std::to_string(before) + ", c else 0] * V[i j c]\nE[n y x c] : " + dtype +
         " = min(max(D[n y x c] + a[c], 0), 6)\nY[n y x f] : f32 = sum[c] E[n y x c] * W[f c]\nZ[n y x f] : " + dtype + " = min(max(Y[n y x f] + b[f], 0), 6)\noutput Z\n";
}

inline std::string matmul(int m, int n, int k, const char* dtype) {
  return "program matmul(m=" + std::to_string(m) + ", n=" + std::to_string(n) + ", k=" + std::to_string(k) + ")\ninput A[m k], B[k n] : " + dtype +
         "\nC[m n] : f32 = sum[k] A[m k] * B[k n]\nD[m n] : " + dtype + " = C[m n]\noutput D\n";
}

// The same with something behind it: a bias, a ReLU behind the bias, a residual, a gate (SiLU times another matrix), or a norm of the
// rows in front, whose factor is multiplied in behind.
inline std::string matmul_with(const std::string& behind, int m, int n, int k, const char* dtype) {
  const std::string t = std::string(" : ") + dtype + "\n", head = "program matmul(m=" + std::to_string(m) + ", n=" + std::to_string(n) + ", k=" + std::to_string(k) + ")\ninput A[m k], B[k n]" + t;
  const std::string product = "C[m n] : f32 = sum[k] A[m k] * B[k n]\nD[m n]" + t.substr(0, t.size() - 1) + " = ", end = "\noutput D\n";
  if (behind == "bias") return head + "input b[n]" + t + product + "C[m n] + b[n]" + end;
  if (behind == "relu") return head + "input b[n]" + t + product + "max(C[m n] + b[n], 0)" + end;
  if (behind == "normed") return head + "S[m] : f32 = sum[k] A[m k] * A[m k]\n" + product + "C[m n] / sqrt(S[m] / " + std::to_string(k) + " + 0.00001)" + end;
  if (behind == "residual") return head + "input R[m n]" + t + product + "C[m n] + R[m n]" + end;
  return head + "input G[m n]" + t + product + "C[m n] / (1 + exp(-C[m n])) * G[m n]" + end;
}

// Attention as the mathematics has it: heads of keys, queries' heads for each of them, queries, keys, dims of keys and of values.
struct Attention {
  int heads = 1, queries_heads = 1, queries = 128, keys = 128, depth = 64, width = 64;
  const char* dtype = "bf16";
  enum class Weights { softmax, sigmoid, l2 } weights = Weights::softmax;
  bool causal = false, alibi = false, softcap = false, lengths = false, sums = false;   // sums: their logarithms leave too
  int window = 0;                        // keys that a query sees up to itself; 0: all
  bool streams() const { return weights != Weights::sigmoid; }
};
inline std::string attention(const Attention& a) {
  const auto n = [](int x) { return std::to_string(x); };
  std::string text = "program attention(g=" + n(a.heads) + ", r=" + n(a.queries_heads) + ", q=" + n(a.queries) + ", x=" + n(a.keys) + ", d=" + n(a.depth) + ", e=" + n(a.width) +
                     ")\ninput Q[g r q d], K[g x d], V[g x e] : " + a.dtype + "\n";
  if (a.alibi) text += "input slope[g r] : f32\n";
  if (a.lengths) text += "input length[g] : index(x)\n";
  text += "S[g r q x] : f32 = sum[d] Q[g r q d] * K[g x d] / sqrt(d)\n";
  std::string scores = "S[g r q x]", seen;
  if (a.softcap) text += "C[g r q x] : f32 = tanh(S[g r q x] / 20) * 20\n", scores = "C[g r q x]";
  if (a.alibi) text += "B[g r q x] : f32 = " + scores + " + slope[g r] * f32(index(x) - index(q))\n", scores = "B[g r q x]";
  const std::string diagonal = a.queries == a.keys ? "index(q)" : "index(q) + " + n(a.keys - a.queries);
  const auto see = [&](const std::string& c) { seen += (seen.empty() ? "" : " and ") + c; };
  if (a.causal || a.window) see("index(x) <= " + diagonal);
  if (a.window) see("index(x) > " + diagonal + " - " + n(a.window));
  if (a.lengths) see("index(x) <= length[g]");
  if (a.weights == Attention::Weights::softmax) {
    if (!seen.empty()) text += "M[g r q x] : f32 = select(" + seen + ", " + scores + ", -inf)\n", scores = "M[g r q x]";
    if (!a.sums) text += std::string("P[g r q x] : ") + a.dtype + " = softmax[x] " + scores + "\n";
    else text += "m[g r q] : f32 = max[x] " + scores + "\nE[g r q x] : f32 = exp(" + scores + " - m[g r q])\nZ[g r q] : f32 = sum[x] E[g r q x]\nP[g r q x] : " + a.dtype +
                 " = E[g r q x] / Z[g r q]\nL[g r q] : f32 = m[g r q] + log(Z[g r q])\n";
  } else if (a.weights == Attention::Weights::sigmoid) {
    const std::string value = "1 / (1 + exp(-" + scores + "))";
    text += std::string("P[g r q x] : ") + a.dtype + " = " + (seen.empty() ? value : "select(" + seen + ", " + value + ", 0)") + "\n";
  } else {
    text += "Z[g r q] : f32 = sum[x] " + scores + " * " + scores + "\nP[g r q x] : " + a.dtype + " = " + scores + " / sqrt(Z[g r q])\n";
  }
  return text + "O[g r q e] : f32 = sum[x] P[g r q x] * V[g x e]\nY[g r q e] : " + a.dtype + " = O[g r q e]\noutput Y" + (a.sums ? ", L" : "") + "\n";
}

}  // namespace tilewright::testing
