// The generator of random programs keeps its promises: what it makes verifies, and holds every form.
#include "expr/random_program.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <map>

#include "expr/text.h"
#include "support/error.h"

namespace tilewright {
namespace {

const std::uint64_t seeds = std::getenv("TILEWRIGHT_LONG") ? 50000 : 1500;

TEST(RandomProgram, Verifies) {
  std::map<std::string, int> seen;
  for (std::uint64_t seed = 0; seed < 2 * seeds; ++seed) {
    testing::Random random(seed);
    testing::RandomOptions options;
    options.smooth = seed % 3 == 0;
    options.free_sizes = seed % 4 != 0;
    const Program p = testing::random_program(random, options);
    try {
      verify(p);
    } catch (const Error& e) {
      FAIL() << "seed " << seed << ": " << e.what();
    }
    for (const auto& node : p.nodes) {
      const auto& s = std::get<Statement>(node);
      ++seen[std::string("reducer ") + std::string(name_of(s.reducer))];
      if (s.guard) ++seen["guard"];
      if (s.at.empty()) ++seen["scalar result"];
      for_each_access(s, [&](const Access& a) {
        if (a.otherwise) ++seen["else"];
        for (const Index& i : a.at)
          for (const Index::Term& term : i.terms) {
            if (term.of.index() == 1) ++seen["gather"];
            if (i.div != Size(1) || i.mod != Size(0)) ++seen["quotient"];
          }
      });
    }
    for (const Tensor& t : p.tensors) ++seen[std::string("dtype ") + std::string(name_of(t.dtype))];
  }
  EXPECT_EQ(seen.size(), 9u + 3 + 2 + 11);
  for (const auto& [what, count] : seen) EXPECT_GE(count, 20) << what;
}

double element(const Array& a, std::int64_t i) {
  switch (a.dtype) {
  case DType::f64: return a.as<double>()[i];
  case DType::f32: return static_cast<double>(a.as<float>()[i]);
  case DType::f16: return static_cast<double>(f16_to_f32(a.as<std::uint16_t>()[i]));
  case DType::bf16: return static_cast<double>(bf16_to_f32(a.as<std::uint16_t>()[i]));
  case DType::f8e4m3:
  case DType::f8e5m2: return static_cast<double>(f8_to_f32(a.as<std::uint8_t>()[i], a.dtype));
  case DType::i8: return a.as<std::int8_t>()[i];
  case DType::i32: return a.as<std::int32_t>()[i];
  case DType::i64: return static_cast<double>(a.as<std::int64_t>()[i]);
  default: return a.as<std::uint8_t>()[i];
  }
}

TEST(RandomProgram, ValuesAreFiniteAndModerate) {
  double largest = 0;
  for (std::uint64_t seed = 0; seed < seeds; ++seed) {
    testing::Random random(seed);
    const Program p = testing::random_program(random);
    const Values values = evaluate(p, testing::random_inputs(p, random), testing::default_sizes(p), Evaluation::typed);
    for (const auto& [id, array] : values)
      for (std::int64_t i = 0; i < array.count(); ++i) {
        ASSERT_TRUE(std::isfinite(element(array, i))) << "seed " << seed << " " << p.tensor(id).name << "\n" << print(p);
        largest = std::max(largest, std::abs(element(array, i)));
      }
  }
  EXPECT_GT(largest, 100);
  EXPECT_LT(largest, 1e5);
}

// Smooth programs in f32 and f64 agree: no rounding error is turned into another answer.
TEST(RandomProgram, SmoothProgramsAreStable) {
  int compared = 0;
  for (std::uint64_t seed = 0; seed < seeds; ++seed) {
    testing::Random random(seed);
    testing::RandomOptions options;
    options.smooth = true;
    options.narrow = false;
    const Program p = testing::random_program(random, options);
    const Values inputs = testing::random_inputs(p, random);
    const Values typed = evaluate(p, inputs, testing::default_sizes(p), Evaluation::typed), fine = evaluate(p, inputs, testing::default_sizes(p), Evaluation::fp64);
    for (const auto& [id, array] : typed)
      for (std::int64_t i = 0; i < array.count(); ++i, ++compared) {
        const double x = element(array, i), y = element(fine.at(id), i);
        ASSERT_LE(std::abs(x - y), 1e-4 * std::max(1.0, std::abs(y))) << "seed " << seed << " " << p.tensor(id).name << "\n" << print(p);
      }
  }
  EXPECT_GT(compared, 50000);
}

}  // namespace
}  // namespace tilewright
