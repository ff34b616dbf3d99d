// A nest says which operands are read through slots.
#include <gtest/gtest.h>

#include "expr/text.h"
#include "loop/nest.h"
#include "plan/plan.h"

namespace tilewright {
namespace {

TEST(Nest, SaysWhatIsGathered) {
  const Program p =
      fix_sizes(parse("program p(m=64, k=50, n=40)\ninput A[m k] : f32 sparse(zeros, tile 32, 1)\ninput B[k n] : f32\n"
                      "C[m n] = sum[k] A[m k] * B[k n]\noutput C\n",
                      "case.tw"),
                {});
  const auto r = unify(p, {0});
  ASSERT_TRUE(r);
  Schedule s;
  s.operands = choose_views(p, *r);
  const Nest nest = expand(p, *r, s, "C");
  ASSERT_TRUE(nest.buffers[0].gathered);
  EXPECT_FALSE(nest.buffers[1].gathered);
  const std::string text = print(p, *r, s, nest);
  EXPECT_NE(text.find("load A[0:64, 0:50], live micro-tiles of 32 x 1 by zeros A, packed along dim 1\n"),
            std::string::npos)
      << text;
}

} // namespace
} // namespace tilewright
