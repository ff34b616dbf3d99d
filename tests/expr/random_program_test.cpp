// The generator of random programs keeps its promises: what it makes verifies, and holds every form.
#include "expr/random_program.h"

#include <gtest/gtest.h>

#include <map>

#include "expr/text.h"
#include "support/error.h"

namespace tilewright {
namespace {

TEST(RandomProgram, Verifies) {
  std::map<std::string, int> seen;
  for (std::uint64_t seed = 0; seed < 3000; ++seed) {
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

}  // namespace
}  // namespace tilewright
