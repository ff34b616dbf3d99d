// The kernels that the CUDA target's tests and its bench share: planned for a GPU, run by the CPU target here and printed there.
#pragma once
#include "expr/text.h"
#include "law/operand_types.h"
#include "law/stream_forms.h"
#include "normal/normal.h"
#include "plan/plan.h"
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
  if (text.find("softmax") != std::string::npos) {
    const Program normal = normalise(std::move(written));
    written = round_operands(normal, stream_forms(normal));
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

// Softmax attention: heads x queries x keys x head dim.
inline std::string attention(int h, int q, int x, int d, const char* dtype, bool causal = false) {
  return "program attention(h=" + std::to_string(h) + ", q=" + std::to_string(q) + ", x=" + std::to_string(x) + ", d=" + std::to_string(d) + ", e=" + std::to_string(d) +
         ")\ninput Q[h q d], K[h x d], V[h x e] : " + dtype + "\nS[h q x] : f32 = sum[d] Q[h q d] * K[h x d] / sqrt(d)" + (causal ? " where x <= q" : "") + "\nP[h q x] : " + dtype +
         " = softmax[x] S[h q x]\nO[h q e] : f32 = sum[x] P[h q x] * V[h x e]\nY[h q e] : " + dtype + " = O[h q e]\noutput Y\n";
}

}  // namespace tilewright::testing
