// Indices: constructors, simplification, substitution and bounds, against evaluation at every point.
#include <gtest/gtest.h>

#include <cstdlib>
#include <functional>
#include <random>

#include "expr/scalar.h"
#include "support/error.h"

namespace tilewright {
namespace {

using Values = std::vector<std::int64_t>;

std::int64_t value_at(const Index& i, const Values& point, const Binding& b = {}) {
  std::int64_t sum = i.offset.at(b);
  for (const Index::Term& term : i.terms) {
    std::int64_t of = 0;
    if (auto* axis = std::get_if<AxisId>(&term.of)) of = point.at(static_cast<std::size_t>(*axis));
    if (auto* inner = std::get_if<std::shared_ptr<const Index>>(&term.of)) of = value_at(**inner, point, b);
    sum += term.coefficient.at(b) * of;
  }
  if (i.div != Size(1)) sum = floor_div_i64(sum, i.div.at(b));
  if (i.mod != Size(0)) sum = floor_mod_i64(sum, i.mod.at(b));
  return sum;
}

std::string show(const Index& i) {
  std::string s;
  for (const Index::Term& term : i.terms) {
    s += (s.empty() ? "" : " + ") + term.coefficient.text() + "*";
    if (auto* axis = std::get_if<AxisId>(&term.of)) s += "x" + std::to_string(*axis);
    if (auto* inner = std::get_if<std::shared_ptr<const Index>>(&term.of)) s += show(**inner);
    if (term.of.index() == 1) s += "gather";
  }
  s = "(" + s + " + " + i.offset.text() + ")";
  if (i.div != Size(1)) s += "//(" + i.div.text() + ")";
  if (i.mod != Size(0)) s += "%(" + i.mod.text() + ")";
  return s;
}

bool for_each_point(const Values& extents, const std::function<bool(const Values&)>& f) {
  Values point(extents.size(), 0);
  if (std::find(extents.begin(), extents.end(), 0) != extents.end()) return true;
  for (;;) {
    if (!f(point)) return false;
    std::size_t a = extents.size();
    while (a > 0 && ++point[a - 1] == extents[a - 1]) point[--a] = 0;
    if (a == 0) return true;
  }
}

std::vector<Size> sizes_of(const Values& v) { return {v.begin(), v.end()}; }

const Index a = axis_index(0), b = axis_index(1), c = axis_index(2);
const Size n = Size::symbol("n"), w = Size::symbol("w");

TEST(Index, Constructors) {
  EXPECT_EQ(plain_axis(a), AxisId{0});
  EXPECT_FALSE(plain_axis(2 * a));
  EXPECT_FALSE(plain_axis(a + constant_index(1)));
  EXPECT_EQ(plain_axis(a + b - b), AxisId{0});
  EXPECT_EQ(a + b, b + a);
  EXPECT_EQ(hash(2 * a + floor_div(b, 2)), hash(floor_div(b, 2) + 2 * a));
  EXPECT_EQ(floor_div(6 * a + constant_index(7), 6), a + constant_index(1));
  EXPECT_EQ(floor_div(floor_div(a, 2), 3), floor_div(a, 6));
  EXPECT_EQ(floor_mod(floor_mod(a, 12), 4), floor_mod(a, 4));
  EXPECT_EQ(floor_mod(6 * a + b, 6), floor_mod(b, 6));
  EXPECT_EQ(floor_div(floor_mod(a, 12), 4), floor_mod(floor_div(a, 4), 3));
  EXPECT_TRUE(is_affine(2 * a + b - constant_index(n)));
  EXPECT_FALSE(is_affine(floor_div(a, 2)));
  EXPECT_EQ(coefficient_of(n * a + b, 0), n);
  EXPECT_EQ(coefficient_of(n * a + b, 2), Size(0));
  EXPECT_TRUE(mentions_axis(floor_div(a + 3 * floor_mod(b, 2), 4), 1));
  EXPECT_FALSE(mentions_axis(floor_div(a, 4), 1));
  EXPECT_EQ(0 * a, constant_index(0));
}

TEST(Index, Simplify) {
  const std::vector<Size> e{5, 6, 4};
  EXPECT_EQ(simplify(floor_div(6 * a + b, 6), e), a);
  EXPECT_EQ(simplify(floor_mod(6 * a + b, 6), e), b);
  EXPECT_EQ(simplify(floor_mod(floor_div(6 * a + b, 3), 2), e), floor_div(b, 3));
  EXPECT_EQ(simplify(floor_div(4 * a + c, 8), e), floor_div(a, 2));
  EXPECT_EQ(simplify(4 * floor_div(b, 4) + floor_mod(b, 4), e), b);
  EXPECT_EQ(simplify(floor_mod(floor_div(24 * a + 4 * b + c, 4), 6), e), b);
  EXPECT_EQ(simplify(floor_div(a + b, 3), e), floor_div(a + b, 3));
  const std::vector<Size> s{n, w, 4};
  EXPECT_EQ(simplify(floor_div(w * a + b, w), s), a);
  EXPECT_EQ(simplify(floor_mod(w * a + b, w), s), b);
  EXPECT_EQ(simplify(floor_mod(floor_div(4 * w * a + 4 * b + c, 4), w), s), b);
  EXPECT_EQ(simplify(floor_div(n * w * c + w * a + b, n * w), s), c);
  EXPECT_EQ(simplify(floor_mod(w * a + b, 2 * w), s), w * floor_mod(a, 2) + b);
}

TEST(Index, HullsAndBounds) {
  const Size h = Size::symbol("h");
  const Size y = floor_div(h - 2, 2) + 1;   // pooling by 2
  EXPECT_TRUE(in_bounds(2 * a + b, h, {y, 2}));
  EXPECT_FALSE(in_bounds(2 * a + b, h, {y, 3}));
  EXPECT_FALSE(in_bounds(2 * a + b - constant_index(1), h, {y, 2}));
  EXPECT_TRUE(in_bounds(w * a + b, n * w, {n, w}));
  EXPECT_TRUE(in_bounds(constant_index(n - 1) - a, n, {n}));
  EXPECT_TRUE(in_bounds(floor_mod(7 * a - b, w), w, {n, n}));
  EXPECT_TRUE(in_bounds(constant_index(0), n, {n}));       // where n is 0 there is no point
  EXPECT_FALSE(in_bounds(constant_index(0), n, {w}));
  const Interval i = bounds(2 * a - b + constant_index(1), {3, n}, {{"n", {1, 10}}});
  EXPECT_EQ(i.low, -8);
  EXPECT_EQ(i.high, 5);
}

TEST(Index, HullOfGathers) {
  Program p;
  Builder build(p);
  const TensorId t = build.tensor("t", DType::i32, {n}, Kind::input);
  auto access = std::make_shared<const Access>(Access{t, {a}, nullptr});
  Index gather;
  gather.terms.push_back({1, access});
  EXPECT_FALSE(in_bounds(gather, w, {n}, {}, &p));
  p.tensor(t).index_of = w;
  EXPECT_TRUE(in_bounds(gather, w, {n}, {}, &p));
  EXPECT_FALSE(in_bounds(gather, w, {n}));
  EXPECT_FALSE(in_bounds(gather + gather, w, {n}, {}, &p));
  EXPECT_EQ(gather + gather, 2 * gather);
  EXPECT_EQ(bounds(gather, {n}).low, INT64_MIN);
}

// ---- properties

struct Tree {
  Index index;
  std::function<std::int64_t(const Values&)> value;
};

class Trees {
 public:
  explicit Trees(std::uint64_t seed) : random_(seed) {}
  std::int64_t below(std::int64_t k) { return static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(k)); }

  Tree tree(int depth, AxisId axes) {
    if (depth == 0 || below(6) == 0) {
      if (below(5) == 0) {
        const std::int64_t k = below(9) - 3;
        return {constant_index(k), [k](const Values&) { return k; }};
      }
      const auto axis = static_cast<AxisId>(below(axes));
      return {axis_index(axis), [axis](const Values& p) { return p[static_cast<std::size_t>(axis)]; }};
    }
    const Tree x = tree(depth - 1, axes);
    const std::int64_t k = divisor(), f = below(4) == 0 ? -1 - below(3) : divisor();
    switch (below(7)) {
    case 0: return {floor_div(x.index, k), [=](const Values& p) { return floor_div_i64(x.value(p), k); }};
    case 1: return {floor_mod(x.index, k), [=](const Values& p) { return floor_mod_i64(x.value(p), k); }};
    case 2: return {Size(f) * x.index, [=](const Values& p) { return f * x.value(p); }};
    default: break;
    }
    const Tree y = tree(depth - 1, axes);
    if (below(4) == 0) return {x.index - y.index, [=](const Values& p) { return x.value(p) - y.value(p); }};
    return {Size(f) * x.index + y.index, [=](const Values& p) { return f * x.value(p) + y.value(p); }};
  }

  Values extents(AxisId axes) {
    Values e;
    for (AxisId i = 0; i < axes; ++i) e.push_back(1 + below(6));
    return e;
  }

  std::int64_t divisor() {
    static constexpr std::int64_t common[] = {2, 3, 4, 6, 12, 2, 3, 6, 8, 5};
    return common[below(10)];
  }

 private:
  std::mt19937_64 random_;
};

const int cases = std::getenv("TILEWRIGHT_LONG") ? 200000 : 10000;

TEST(IndexProperty, ConstructAndSimplify) {
  int simpler = 0;
  for (int seed = 0; seed < cases; ++seed) {
    Trees trees(static_cast<std::uint64_t>(seed));
    const Values extents = trees.extents(3);
    const Tree t = trees.tree(1 + seed % 5, 3);
    const Index s = simplify(t.index, sizes_of(extents));
    simpler += !(s == t.index);
    const Interval range = bounds(t.index, sizes_of(extents));
    const auto reach = hull(t.index, sizes_of(extents));
    const bool good = for_each_point(extents, [&](const Values& p) {
      const std::int64_t v = t.value(p);
      return value_at(t.index, p) == v && value_at(s, p) == v && range.low <= v && v <= range.high && reach &&
             reach->low.constant() <= v && v <= reach->high.constant();
    });
    ASSERT_TRUE(good) << "seed " << seed << ": " << show(t.index) << " is " << show(s);
    ASSERT_EQ(simplify(s, sizes_of(extents)), s) << "seed " << seed << ": " << show(t.index) << " is " << show(s);
  }
  EXPECT_GT(simpler, cases / 5);
}

TEST(IndexProperty, SubstituteComposes) {
  Program p;
  for (int seed = 0; seed < cases; ++seed) {
    Trees trees(static_cast<std::uint64_t>(seed) + 77777777);
    const Values extents = trees.extents(2);
    const Tree outer = trees.tree(1 + seed % 3, 3);
    std::vector<Tree> inner;
    std::vector<Index> with;
    for (int i = 0; i < 3; ++i) {
      inner.push_back(trees.tree(seed % 3, 2));
      with.push_back(inner.back().index);
    }
    const Index composed = substitute(p, outer.index, with);
    const ScalarRef value = substitute(p, index_value(p, outer.index), with);
    const Index simple = simplify(composed, sizes_of(extents));
    for_each_point(extents, [&](const Values& point) {
      Values middle;
      for (const Tree& t : inner) middle.push_back(t.value(point));
      EXPECT_EQ(value_at(composed, point), outer.value(middle)) << "seed " << seed << ": " << show(outer.index);
      EXPECT_EQ(value_at(simple, point), outer.value(middle)) << "seed " << seed << ": " << show(composed) << " is " << show(simple);
      return !::testing::Test::HasFailure();
    });
    ASSERT_FALSE(::testing::Test::HasFailure()) << seed;
    ASSERT_EQ(value->dtype, DType::i64);
  }
}

// A reshape there and back is the identity, and simplify sees it: with numbers, and with a symbolic leading dim.
TEST(IndexProperty, ReshapesCancel) {
  Program p;
  for (int seed = 0; seed < cases / 4; ++seed) {
    Trees trees(static_cast<std::uint64_t>(seed) + 5555);
    std::vector<std::int64_t> primes;
    for (std::int64_t i = 1 + trees.below(5); i > 0; --i) primes.push_back(2 + trees.below(2));
    auto shape = [&] {   // the product of the primes, cut at random; the order of primes differs
      std::vector<std::int64_t> mixed = primes;
      for (std::size_t i = mixed.size(); i > 1; --i) std::swap(mixed[i - 1], mixed[static_cast<std::size_t>(trees.below(static_cast<std::int64_t>(i)))]);
      std::vector<Size> dims{1};
      for (std::int64_t q : mixed) {
        if (trees.below(2)) dims.push_back(1);
        dims.back() = dims.back() * q;
      }
      if (seed % 2) dims[0] = dims[0] * n;
      return dims;
    };
    auto linear = [](const std::vector<Size>& dims) {
      Index sum = constant_index(0);
      for (std::size_t d = 0; d < dims.size(); ++d) sum = dims[d] * sum + axis_index(static_cast<AxisId>(d));
      return sum;
    };
    auto view = [&](const std::vector<Size>& from, const std::vector<Size>& to) {   // the index in `from` of a point of `to`
      std::vector<Index> at(from.size());
      Size stride = 1;
      for (std::size_t d = from.size(); d-- > 0; stride = stride * from[d]) {
        at[d] = floor_div(linear(to), stride);
        if (d > 0) at[d] = floor_mod(at[d], from[d]);
      }
      return at;
    };
    const std::vector<Size> x = shape(), y = shape();
    const std::vector<Index> there = view(x, y), back = view(y, x);
    for (std::size_t d = 0; d < x.size(); ++d) {
      const Index round = simplify(substitute(p, there[d], back), x);
      const bool one = x[d] == Size(1);
      ASSERT_TRUE(one ? round == constant_index(0) || plain_axis(round) == static_cast<AxisId>(d) : plain_axis(round) == static_cast<AxisId>(d))
          << "seed " << seed << " dim " << d << ": " << show(round);
    }
  }
}

// Symbolic coefficients, divisors and extents: simplified once, right at every binding.
TEST(IndexProperty, SymbolicSimplify) {
  int proved = 0;
  for (int seed = 0; seed < cases; ++seed) {
    Trees trees(static_cast<std::uint64_t>(seed) + 999);
    auto size = [&]() -> Size {
      const Size parts[] = {1, 2, 3, 4, 6, n, w, n * w, 2 * n, 3 * w, n + 1, w + 2};
      return parts[trees.below(12)];
    };
    const std::vector<Size> extents{size(), size(), size()};
    Index x = size() * a + size() * b + c + constant_index(trees.below(3) == 0 ? size() - 1 : Size(0));
    if (trees.below(2)) x = floor_div(x, size());
    if (trees.below(2)) x = floor_mod(x, size());
    if (trees.below(3) == 0) x = size() * x + floor_mod(a, size());
    if (trees.below(3) == 0) x = floor_div(x, size());
    const Index s = simplify(x, extents);
    proved += !(s == x);
    const Size dim = size();
    const bool inside = in_bounds(x, dim, extents);
    for (std::int64_t nv = 1; nv <= 4; ++nv)
      for (std::int64_t wv = 1; wv <= 4; wv += 1 + nv % 2) {
        const Binding at{{"n", nv}, {"w", wv}};
        Values bound;
        for (const Size& e : extents) bound.push_back(std::min<std::int64_t>(e.at(at), 7));
        const bool good = for_each_point(bound, [&](const Values& p) {
          const std::int64_t v = value_at(x, p, at);
          return value_at(s, p, at) == v && (!inside || (0 <= v && v < dim.at(at)));
        });
        ASSERT_TRUE(good) << "seed " << seed << ": " << show(x) << " is " << show(s);
      }
  }
  EXPECT_GT(proved, cases / 5);
}

}  // namespace
}  // namespace tilewright
