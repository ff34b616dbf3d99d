// Worked examples that need a program: what may be renamed in a convolution, and what another order of a sum changes.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "expr/evaluate.h"
#include "expr/text.h"

namespace tilewright {
namespace {

Array numbers(std::vector<std::int64_t> dims, std::uint32_t seed) {
  Array a = Array::make(DType::f32, std::move(dims));
  for (std::int64_t i = 0; i < a.count(); ++i)
    a.as<float>()[i] = static_cast<float>((seed = seed * 1664525u + 1013904223u) >> 28) - 8;
  return a;
}

// Dim d in another order.
Array renamed(const Array& a, std::size_t d, const std::vector<std::int64_t>& order) {
  Array out = Array::make(a.dtype, a.dims);
  std::int64_t inner = 1;
  for (std::size_t i = d + 1; i < a.dims.size(); ++i) inner *= a.dims[i];
  for (std::int64_t i = 0; i < a.count(); ++i) {
    const std::int64_t at = i / inner % a.dims[d];
    out.as<float>()[i] = a.as<float>()[i + (order[static_cast<std::size_t>(at)] - at) * inner];
  }
  return out;
}

bool equal(const Array& a, const Array& b) {
  return std::equal(a.as<float>(), a.as<float>() + a.count(), b.as<float>());
}

TEST(Examples, ChannelsAndFiltersMayBeRenamedPositionsMayNot) {
  const Program p = fix_sizes(parse("program p(m=3, x=4, f=2, i=3, w=6)\ninput A[m w], W[f m i] : f32\n"
                                    "C[f x] = sum[m i] A[m, x+i] * W[f m i]\noutput C\n",
                                    "case.tw"),
                              {});
  const Array a = numbers({3, 6}, 1), w = numbers({2, 3, 3}, 2);
  const auto convolved = [&](const Array& data, const Array& filters) {
    return evaluate(p, {{p.inputs[0], data}, {p.inputs[1], filters}}, {}, Evaluation::typed).at(p.outputs[0]);
  };
  const Array c = convolved(a, w);
  std::vector<std::int64_t> channels{0, 1, 2};
  while (std::next_permutation(channels.begin(), channels.end()))
    EXPECT_TRUE(equal(convolved(renamed(a, 0, channels), renamed(w, 1, channels)), c));
  EXPECT_TRUE(equal(renamed(convolved(a, renamed(w, 0, {1, 0})), 0, {1, 0}), c));
  EXPECT_FALSE(equal(renamed(convolved(renamed(a, 1, {1, 0, 2, 3, 4, 5}), w), 1, {1, 0, 2, 3}), c));
}

TEST(Examples, FloatSumsDependOnTheirOrder) {
  std::vector<float> terms{-1e8f, 1, 1, 1e8f};
  std::set<float> sums;
  do {
    volatile float sum = 0;
    for (float t : terms) sum = sum + t;
    sums.insert(static_cast<float>(sum));
  } while (std::next_permutation(terms.begin(), terms.end()));
  EXPECT_EQ(sums, (std::set<float>{0, 1, 2}));
}

} // namespace
} // namespace tilewright
