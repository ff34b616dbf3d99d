// Two programs with the same inputs, and whether they give the same outputs: integers to the bit, floats in fp64 up to `slack`
// times the largest magnitude of the tensor (what literals and folded constants, rounded to f32, may cost).
#pragma once
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <string>

#include "expr/evaluate.h"
#include "expr/random_program.h"
#include "expr/text.h"

namespace tilewright::testing {

// 2000 cases and more where TILEWRIGHT_LONG is set; one case where TILEWRIGHT_SEED is.
inline std::vector<std::uint64_t> seeds(std::uint64_t usual, std::uint64_t thorough = 2000) {
  if (const char* one = std::getenv("TILEWRIGHT_SEED")) return {std::strtoull(one, nullptr, 10)};
  std::vector<std::uint64_t> all(std::getenv("TILEWRIGHT_LONG") ? thorough : usual);
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = i + 1;
  return all;
}

inline void expect_close(const std::string& name, const Array& got, const Array& want, double slack) {
  ASSERT_EQ(got.dims, want.dims);
  if (!is_float(want.dtype)) {
    EXPECT_EQ(std::memcmp(got.data, want.data, want.bytes()), 0) << name;
    return;
  }
  double scale = 1;
  for (std::int64_t i = 0; i < want.count(); ++i)
    if (std::isfinite(want.as<double>()[i])) scale = std::max(scale, std::abs(want.as<double>()[i]));
  for (std::int64_t i = 0; i < want.count(); ++i) {
    const double g = got.as<double>()[i], w = want.as<double>()[i];
    if (g == w || (std::isnan(g) && std::isnan(w))) continue;
    EXPECT_NEAR(g, w, slack * scale) << name << "[" << i << "]";
    if (!(std::abs(g - w) <= slack * scale)) return;
  }
}

// What a program still asks for: weights that have bytes may have got another shape with them.
inline Values asked_for(const Program& p, Values given) {
  for (std::size_t t = 0; t < p.tensors.size(); ++t)
    if (!p.tensors[t].data.empty()) given.erase(static_cast<TensorId>(t));
  return given;
}

inline void expect_same_outputs(const Program& p, const Program& q, const Values& given, double slack) {
  ASSERT_NO_THROW(verify(q)) << print(p) << print(q);
  ASSERT_EQ(p.inputs, q.inputs);
  ASSERT_EQ(p.outputs.size(), q.outputs.size());
  const Values want = evaluate(p, asked_for(p, given), {}, Evaluation::fp64), got = evaluate(q, asked_for(q, given), {}, Evaluation::fp64);
  for (std::size_t i = 0; i < p.outputs.size(); ++i) expect_close(p.tensor(p.outputs[i]).name, got.at(q.outputs[i]), want.at(p.outputs[i]), slack);
  if (::testing::Test::HasFailure()) ADD_FAILURE() << print(p) << print(q);
}

// Gives the program's weights bytes from these values, so that passes may compute with them.
inline void make_known(Program& p, const Values& given) {
  for (std::size_t t = 0; t < p.tensors.size(); ++t)
    if (p.tensors[t].kind == Kind::weight) {
      const Array& a = given.at(static_cast<TensorId>(t));
      p.tensors[t].data = {a.data, a.bytes()};
      p.tensors[t].owner = a.owner;
    }
}

}  // namespace tilewright::testing
