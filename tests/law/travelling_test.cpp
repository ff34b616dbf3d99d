// Axes that travel together may be permuted together, across their borders.
#include <gtest/gtest.h>

#include <numeric>

#include "law/region.h"
#include "normal/same_outputs.h"

namespace tilewright {
namespace {

std::string groups_of(const std::string& text, std::vector<StatementId> statements) {
  const Program p = fix_sizes(parse(text, "case.tw"), {});
  const auto r = unify(p, std::move(statements));
  if (!r) return r.reason();
  std::string out;
  for (const auto& group : travelling(p, *r)) {
    for (RegionAxis x : group) out += r->names[static_cast<std::size_t>(x)];
    out += " ";
  }
  return out;
}

TEST(Travelling, Pixels) {
  EXPECT_EQ(groups_of("program p(n=2, c=3, f=4, y=5, x=6)\ninput X[n c y x], W[f c], b[f] : f32\nY[n f y x] = sum[c] X[n c y x] * W[f c]\n"
                      "Z[n f y x] = max(Y[n f y x] + b[f], 0)\noutput Z\n", {0, 1}), "nyx f c ");
  EXPECT_EQ(groups_of("program p(n=2, m=3, c=3, y=5, x=6, i=3, j=3)\ninput X[n m c y x], W[c i j] : f32\n"
                      "Y[n m c y x] = sum[i j] X[n, m, c, y+i-1, x+j-1 else 0] * W[c i j]\noutput Y\n", {0}), "nm c y x i j ");
  EXPECT_EQ(groups_of("program p(q=2, h=3, d=4, f=5)\ninput A[h q d], W[f h d] : f32\nY[q f] = sum[h d] A[h q d] * W[f h d]\noutput Y\n", {0}), "q f hd ");
}

TEST(Travelling, Apart) {
  EXPECT_EQ(groups_of("program p(y=5, x=6)\ninput X[y x], b[y] : f32\nZ[y x] = X[y x] + b[y]\noutput Z\n", {0}), "y x ");
  EXPECT_EQ(groups_of("program p(y=5, x=6)\ninput X[y x] : f32\nZ[y x] = X[y x] where index(x) < 3\noutput Z\n", {0}), "y x ");
  EXPECT_EQ(groups_of("program p(y=5, x=5)\ninput X[y x] : f32\nZ[y x] = X[y x] + X[x y]\noutput Z\n", {0}), "yx ");
  EXPECT_EQ(groups_of("program p(y=5, x=5)\ninput X[y x] : f32\nZ[y x] = X[y x] + X[y y]\noutput Z\n", {0}), "y x ");
  EXPECT_EQ(groups_of("program p(v=5, t=5, c=2)\ninput X[v c] : f32\ninput id[t] : index(v)\nZ[t c] = X[id[t], c]\noutput Z\n", {0}), "t c ");
}

// The elements of `a` moved so that the points of the two dims stand in another order.
Array moved(const Array& a, std::size_t first, std::size_t second, const std::vector<std::int64_t>& order) {
  Array out = Array::make(a.dtype, a.dims);
  const auto size = static_cast<std::int64_t>(bytes_of(a.dtype));
  std::vector<std::int64_t> at(a.dims.size(), 0);
  for (std::int64_t i = 0; i < a.count(); ++i) {
    auto from = at;
    const std::int64_t point = order[static_cast<std::size_t>(at[first] * a.dims[second] + at[second])];
    from[first] = point / a.dims[second], from[second] = point % a.dims[second];
    std::int64_t element = 0;
    for (std::size_t d = 0; d < at.size(); ++d) element = element * a.dims[d] + from[d];
    std::memcpy(out.data + i * size, a.data + element * size, static_cast<std::size_t>(size));
    for (std::size_t d = at.size(); d-- > 0;) {
      if (++at[d] < a.dims[d]) break;
      at[d] = 0;
    }
  }
  return out;
}

// Where the two axes stand in every access of the tensor: the same dims, or nothing.
std::optional<std::pair<std::size_t, std::size_t>> dims_of(const Statement& s, TensorId t, AxisId a, AxisId b, bool* known) {
  std::optional<std::pair<std::size_t, std::size_t>> found;
  for_each_access(s, [&](const Access& access) {
    if (access.tensor != t) return;
    std::optional<std::size_t> x, y;
    for (std::size_t d = 0; d < access.at.size(); ++d) {
      if (plain_axis(access.at[d]) == a) x = d;
      if (plain_axis(access.at[d]) == b) y = d;
    }
    const auto here = x && y ? std::optional(std::pair(*x, *y)) : std::nullopt;
    if (!here || (found && found != here)) *known = false;
    found = here;
  });
  return found;
}

TEST(Travelling, PointsMayBePermutedAcrossBorders) {
  int tried = 0;
  for (std::uint64_t seed : testing::seeds(600, 4000)) {
    testing::Random random(seed);
    testing::RandomOptions o;
    o.free_sizes = false, o.statements = 1, o.pieces = false, o.definitions = false;
    const Program p = fix_sizes(testing::random_program(random, o), {});
    const auto r = unify(p, {0});
    ASSERT_TRUE(r);
    const Statement& s = *p.statement(0);
    for (const auto& group : travelling(p, *r)) {
      if (group.size() < 2) continue;
      const RegionAxis a = group[0], b = group[1];
      AxisId sa = -1, sb = -1;
      for (AxisId x = 0; x < static_cast<AxisId>(s.axes.size()); ++x) {
        if (plain_axis(r->image[0][static_cast<std::size_t>(x)]) == a) sa = x;
        if (plain_axis(r->image[0][static_cast<std::size_t>(x)]) == b) sb = x;
      }
      if (std::count(s.reduced.begin(), s.reduced.end(), sa) > 0) continue;              // those reassociate
      const std::int64_t ea = s.axes[static_cast<std::size_t>(sa)].constant(), eb = s.axes[static_cast<std::size_t>(sb)].constant();
      std::vector<std::int64_t> order(static_cast<std::size_t>(ea * eb));
      std::iota(order.begin(), order.end(), 0);
      std::shuffle(order.begin(), order.end(), random);
      const Values given = testing::random_inputs(p, random);
      Values permuted = given;
      bool known = true;
      for (auto& [t, array] : permuted) {
        bool has = false;
        for_each_access(s, [&](const Access& access) {
          if (access.tensor == t)
            for (const Index& i : access.at) has |= mentions_axis(i, sa);
        });
        if (!has) continue;
        const auto dims = dims_of(s, t, sa, sb, &known);
        if (!known || array.dims[dims->first] != ea || array.dims[dims->second] != eb) {
          known = false;
          break;
        }
        array = moved(array, dims->first, dims->second, order);
      }
      if (!known) continue;
      std::size_t da = 0, db = 0;
      for (std::size_t d = 0; d < s.at.size(); ++d) {
        if (plain_axis(s.at[d]) == sa) da = d;
        if (plain_axis(s.at[d]) == sb) db = d;
      }
      const Array want = moved(evaluate(p, given, {}, Evaluation::typed).at(s.out), da, db, order), got = evaluate(p, permuted, {}, Evaluation::typed).at(s.out);
      ASSERT_EQ(std::memcmp(want.data, got.data, want.bytes()), 0) << "seed " << seed << "\n" << print(p);
      ++tried;
    }
  }
  std::printf("  %d permutations\n", tried);
  EXPECT_TRUE(std::getenv("TILEWRIGHT_SEED") || tried > 20) << tried;
}

}  // namespace
}  // namespace tilewright
