// A stream whose turn would need what is known only behind its loop is none.
#include <gtest/gtest.h>

#include "expr/text.h"
#include "law/stream.h"

namespace tilewright {
namespace {

// A residual around two products: its channels are what the first one sums over and what the second one makes, one axis of the region.
TEST(Stream, RefusesATurnThatReadsWhatIsMadeBehindTheLoop) {
  const Program p = fix_sizes(parse("program residual(n=4, a=8, j=6)\ninput X[n a], U[j a], V[a j], W[j a] : f32\nH[n j] = sum[a] X[n a] * U[j a]\n"
                                    "R[n j] = max(H[n j], 0)\nY[n a] = sum[j] R[n j] * V[a j]\nZ[n a] = X[n a] + Y[n a]\nO[n j] = sum[a] Z[n a] * W[j a]\noutput O, Z\n",
                                    "case.tw"),
                              {});
  const auto r = unify(p, {0, 1, 2, 3, 4});
  ASSERT_TRUE(r) << r.reason();
  int along = 0;
  for (RegionAxis x = 0; x < static_cast<RegionAxis>(r->axes.size()); ++x) {
    if (!needs_stream(p, *r, x)) continue;
    ++along;
    EXPECT_FALSE(derive_stream(p, *r, x)) << print(*derive_stream(p, *r, x));
  }
  EXPECT_GT(along, 0);
}

}  // namespace
}  // namespace tilewright
