// The worked numbers of spec fcm 4, N1 to N8, as one kernel and layer by layer: what a window pads is the result before
// it, never what lies before that; dot products and requantisation of bytes.
#include <gtest/gtest.h>

#include <cstring>
#include <numeric>

#include "expr/text.h"
#include "target/cpu/execute.h"
#include "target/cpu/random_plan.h"

namespace tilewright {
namespace {

struct Given {
  std::string name;
  std::vector<double> values;
};

template <class T> void put(Array& a, const std::vector<double>& values) {
  ASSERT_EQ(static_cast<std::size_t>(a.count()), values.size());
  for (std::size_t i = 0; i < values.size(); ++i) a.as<T>()[i] = static_cast<T>(values[i]);
}
template <class T> std::vector<double> taken(const Array& a) { return {a.as<T>(), a.as<T>() + a.count()}; }

// As one kernel if together, else one a group of a reduction and its maps.
std::vector<double> result(const std::string& text, const std::vector<Given>& inputs, bool together, int threads = 1) {
  const Program p = fix_sizes(parse(text, "case.tw"), {});
  Values given;
  for (std::size_t t = 0; t < p.tensors.size(); ++t)
    for (const Given& g : inputs)
      if (p.tensors[t].name == g.name) {
        Array a = testing::empty_of(p, static_cast<TensorId>(t));
        if (a.dtype == DType::f32)
          put<float>(a, g.values);
        else if (a.dtype == DType::i32)
          put<std::int32_t>(a, g.values);
        else
          put<std::int8_t>(a, g.values);
        given[static_cast<TensorId>(t)] = a;
      }
  Grouping g = fold_maps(p);
  if (together) {
    g.groups.assign(1, {});
    for (std::size_t n = 0; n < p.nodes.size(); ++n) g.groups[0].push_back(static_cast<StatementId>(n));
    g.refusals.assign(1, {});
  }
  const auto isas = kernels::available_isas();
  const Plan plan = plan_groups(std::make_shared<Program>(p), machine_named("generic-avx2"),
                                testing::options_for(kernels::kernels_for(isas.back()), threads), g);
  EXPECT_EQ(plan.kernels.size() == 1, together || g.groups.size() == 1);
  const Array out = testing::execute(plan, given).at(p.outputs[0]);
  return out.dtype == DType::f32   ? taken<float>(out)
         : out.dtype == DType::i32 ? taken<std::int32_t>(out)
                                   : taken<std::int8_t>(out);
}

std::vector<double> counting(int n, double from) {
  std::vector<double> list(static_cast<std::size_t>(n));
  std::iota(list.begin(), list.end(), from);
  return list;
}
std::vector<double> same(int n, double value) { return std::vector<double>(static_cast<std::size_t>(n), value); }

// N1: x0 counts from 1 to 9, x1 is 1, weights 1 and -1; then ones over 3 x 3.
TEST(WorkedNumbers, PointwiseThenWindow) {
  std::vector<double> x = counting(9, 1);
  const auto ones = same(9, 1);
  x.insert(x.end(), ones.begin(), ones.end());
  for (const bool together : {true, false})
    EXPECT_EQ(
        result(
            "program n1(c=2, f=1, y=3, x=3, i=3, j=3)\ninput X[c y x], W[f c], V[f i j] : f32\n"
            "Y[f y x] = sum[c] X[c y x] * W[f c]\nZ[f y x] = sum[i j] Y[f, y+i-1, x+j-1 else 0] * V[f i j]\noutput Z\n",
            {{"X", x}, {"W", {1, -1}}, {"V", same(9, 1)}}, together),
        (std::vector<double>{8, 15, 12, 21, 36, 27, 20, 33, 24}));
}

// N2: stride 2, padded behind only and on all sides.
TEST(WorkedNumbers, WindowsOfStrideTwo) {
  for (const bool together : {true, false})
    for (const int pad : {0, 1}) {
      const std::string index = pad == 0 ? "2*u+i, 2*v+j" : "2*u+i-1, 2*v+j-1";
      EXPECT_EQ(result("program n2(c=1, f=1, y=4, x=4, u=2, v=2, i=3, j=3)\ninput X[c y x], W[f c], V[f i j] : f32\n"
                       "Y[f y x] = sum[c] X[c y x] * W[f c]\nZ[f u v] = sum[i j] Y[f, " +
                           index + " else 0] * V[f i j]\noutput Z\n",
                       {{"X", counting(16, 0)}, {"W", {1}}, {"V", same(9, 1)}}, together),
                pad == 0 ? (std::vector<double>{45, 39, 66, 50}) : (std::vector<double>{10, 24, 51, 90}));
    }
}

// N3: beyond the edge of the result before it a window reads 0 and not its bias: 20 everywhere, 45 were wrong.
TEST(WorkedNumbers, ThePaddingHasNoBias) {
  for (const bool together : {true, false})
    EXPECT_EQ(result("program n3(c=1, f=1, y=2, x=2, i=3, j=3)\ninput X[c y x], W[f c], V[f i j], b[f] : f32\n"
                     "S[f y x] = sum[c] X[c y x] * W[f c]\nY[f y x] = S[f y x] + b[f]\n"
                     "Z[f y x] = sum[i j] Y[f, y+i-1, x+j-1 else 0] * V[f i j]\noutput Z\n",
                     {{"X", counting(4, 1)}, {"W", {0}}, {"V", same(9, 1)}, {"b", {5}}}, together),
              same(4, 20));
}

// N4: a dot product of bytes.
TEST(WorkedNumbers, DotProductOfBytes) {
  EXPECT_EQ(result("program n4(m=1, n=1, k=4)\ninput A[m k], B[k n] : i8\nY[m n] : i32 = sum[k] i32(A[m k]) * i32(B[k "
                   "n])\noutput Y\n",
                   {{"A", {1, -2, 3, 0}}, {"B", {4, 5, -6, 9}}}, true),
            std::vector<double>{-24});
}

// N5, N6: bias 50 less zero point -128 times a sum of weights of 10 is 1330; sums, scaled, limited to [0, 255], zero
// point -128.
TEST(WorkedNumbers, Requantisation) {
  EXPECT_EQ(result("program n5(n=1)\ninput b[n], z[n], w[n] : i32\nY[n] : i32 = b[n] - z[n] * w[n]\noutput Y\n",
                   {{"b", {50}}, {"z", {-128}}, {"w", {10}}}, true),
            std::vector<double>{1330});
  EXPECT_EQ(
      result("program n6(n=3)\ninput a[n], f[n] : i32\ninput s[n] : f32\n"
             "Y[n] : i8 = i8(min(max(round(min(max(f32(a[n] + f[n]) * s[n], 0), 255)) - 128, -128), 127))\noutput Y\n",
             {{"a", {100, -30, 1e5}}, {"f", {-20, 10, 0}}, {"s", {.05, .1, .01}}}, true),
      (std::vector<double>{-124, -128, 127}));
}

// N8: the largest value before it is limited, in steps of its scale.
TEST(WorkedNumbers, TheLimitInSteps) {
  EXPECT_EQ(result("program n8(n=1)\ninput s[n] : f32\nY[n] : i32 = i32(round(6 / s[n]))\noutput Y\n",
                   {{"s", {0.0235294}}}, true),
            std::vector<double>{255});
}

} // namespace
} // namespace tilewright
