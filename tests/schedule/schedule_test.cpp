// Spans, hulls, transfers and legality against enumeration: every box is compared with the elements that are really
// read.
#include "schedule/schedule.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <map>
#include <numeric>
#include <set>

#include "expr/random_program.h"
#include "expr/text.h"
#include "schedule/layout.h"
#include "schedule/pieces.h"

namespace tilewright {
namespace {

using testing::Random;
using Point = std::vector<std::int64_t>;

std::uint64_t cases(std::uint64_t usual) { return std::getenv("TILEWRIGHT_LONG") ? 10 * usual : usual; }
std::int64_t between(Random& random, std::int64_t low, std::int64_t high) {
  return low + static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(high - low + 1));
}
Program program(const std::string& text) { return fix_sizes(parse(text, "case.tw"), {}); }
RegionAxis axis_of(const Region& r, const std::string& name) {
  return static_cast<RegionAxis>(std::find(r.names.begin(), r.names.end(), name) - r.names.begin());
}

// Every combination of tiles that a schedule's loops visit: the variables of all steps.
void for_each_tile(const Region& r, const Schedule& s, const std::function<void(const Point&)>& visit) {
  Point variables(2 * s.steps.size() + 1, 0);
  std::function<void(std::size_t)> loop = [&](std::size_t i) {
    if (i == s.steps.size()) return visit(variables);
    const std::int64_t extent = r.axes[static_cast<std::size_t>(s.steps[i].axis)].constant();
    for (std::int64_t low = 0; low < extent; low += s.steps[i].size) {
      variables[2 * i] = low;
      variables[2 * i + 1] = std::min(low + s.steps[i].size, extent);
      loop(i + 1);
    }
  };
  loop(0);
}

void for_each_point(const std::vector<std::pair<std::int64_t, std::int64_t>>& box,
                    const std::function<void(const Point&)>& visit) {
  Point point(box.size(), 0);
  std::function<void(std::size_t)> loop = [&](std::size_t d) {
    if (d == box.size()) return visit(point);
    for (point[d] = box[d].first; point[d] < box[d].second; ++point[d]) loop(d + 1);
  };
  loop(0);
}

std::int64_t value_of(const Index& index, const Point& axes) {
  std::int64_t v = index.offset.constant();
  for (const Index::Term& t : index.terms)
    v += t.coefficient.constant() * axes[static_cast<std::size_t>(std::get<AxisId>(t.of))];
  return v;
}

TEST(Span, CountsTheElementsInsideTheTensor) {
  Random random(1);
  for (std::uint64_t n = cases(5000); n-- > 0;) {
    const std::int64_t low = between(random, -9, 9), high = low + between(random, -1, 14), step = between(random, 1, 4),
                       dim = between(random, 0, 9);
    const Span span{{low, {}}, {high, {}}, step};
    std::int64_t want = 0, want_first = 0, first = 0;
    for (std::int64_t e = low; e < high; e += step)
      if (e >= 0 && e < dim && want++ == 0) want_first = e;
    ASSERT_EQ(span.count(nullptr, dim, &first), want) << low << ":" << high << ":" << step << " in " << dim;
    if (want > 0) {
      ASSERT_EQ(first, want_first);
    }
  }
}

TEST(Hull, IsTheRangeOfTheIndexAndItsStepTheirGcd) {
  Random random(2);
  for (std::uint64_t n = cases(3000); n-- > 0;) {
    const int axes = static_cast<int>(between(random, 1, 3));
    Index index = constant_index(Size(between(random, -4, 4)));
    std::vector<Span> axis_ranges;
    std::vector<std::pair<std::int64_t, std::int64_t>> box;
    for (int a = 0; a < axes; ++a) {
      std::int64_t c = between(random, -3, 3);
      if (c != 0) index.terms.push_back({Size(c), AxisId{a}});
      const std::int64_t low = between(random, 0, 5), high = low + between(random, 1, 4);
      axis_ranges.push_back({{low, {}}, {high, {}}, 1});
      box.emplace_back(low, high);
    }
    std::set<std::int64_t> values;
    for_each_point(box, [&](const Point& point) { values.insert(value_of(index, point)); });
    const Span span = hull(index, axis_ranges, Size(100));
    ASSERT_EQ(span.low.at(nullptr), *values.begin());
    ASSERT_EQ(span.high.at(nullptr), *values.rbegin() + 1);
    std::int64_t gcd = 0;
    for (std::int64_t v : values) gcd = std::gcd(gcd, v - *values.begin());
    ASSERT_EQ(span.step, gcd == 0 ? 1 : gcd);
  }
}

Schedule random_schedule(const Program& p, const Region& r, Random& random) {
  Schedule s;
  for (const bool streams : {false, true})
    for (std::size_t a = 0; a < r.axes.size(); ++a) {
      const Laws l = laws(p, r, static_cast<RegionAxis>(a));
      if (random() % 2 || r.axes[a].constant() < 1 || (streams ? !l.stream : !l.tile)) continue;
      s.steps.push_back({streams ? AxisStep::How::stream : AxisStep::How::tile, static_cast<RegionAxis>(a),
                         between(random, 1, r.axes[a].constant())});
    }
  return s;
}

// Whatever the index, an element that a tile reads is in the box that the tile loads, and every element of the result
// is stored by exactly one tile.
void expect_covered(const Program& p, const Region& r, const Schedule& s) {
  const auto list = transfers(p, r, s);
  std::map<TensorId, std::map<Point, int>> stored;
  for_each_tile(r, s, [&](const Point& variables) {
    for (std::size_t i = 0; i < r.statements.size(); ++i) {
      const Statement& st = *p.statement(r.statements[i]);
      std::vector<std::pair<std::int64_t, std::int64_t>> box;
      const std::vector<Span> spans = ranges(p, r, s, static_cast<int>(i));
      for (const Span& span : spans) box.emplace_back(span.low.at(variables.data()), span.high.at(variables.data()));
      for_each_point(box, [&](const Point& point) {
        for (std::size_t a = 0; a < point.size();
             ++a) // outside the statement, or between the points that its readers ask for
          if (point[a] < 0 || point[a] >= st.axes[a].constant() || (point[a] - box[a].first) % spans[a].step != 0)
            return;
        for_each_access(st, [&](const Access& a) {
          const auto t = std::find_if(list.begin(), list.end(),
                                      [&](const Transfer& x) { return x.tensor == a.tensor && !x.store; });
          if (t == list.end()) return;
          for (std::size_t d = 0; d < a.at.size(); ++d) {
            const std::int64_t dim = p.tensor(a.tensor).dims[d].constant();
            if (!is_affine(a.at[d])) continue;
            const std::int64_t v = value_of(a.at[d], point);
            if (v < 0 || v >= dim) continue;
            const std::int64_t low = t->box[d].low.at(variables.data());
            EXPECT_GE(v, low);
            EXPECT_LT(v, t->box[d].high.at(variables.data()));
            EXPECT_EQ((v - low) % t->box[d].step, 0);
          }
        });
      });
    }
  });
  Schedule grid = s;
  std::erase_if(grid.steps, [](const AxisStep& step) { return step.how == AxisStep::How::stream; });
  for_each_tile(r, grid, [&](const Point& variables) {
    for (const Transfer& t : transfers(p, r, grid)) {
      if (!t.store) continue;
      std::vector<std::pair<std::int64_t, std::int64_t>> box;
      for (const Span& span : t.box) box.emplace_back(span.low.at(variables.data()), span.high.at(variables.data()));
      for_each_point(box, [&](const Point& point) {
        bool on_grid = true;
        for (std::size_t d = 0; d < point.size(); ++d) on_grid &= (point[d] - box[d].first) % t.box[d].step == 0;
        if (on_grid) ++stored[t.tensor][point];
      });
    }
  });
  // What an earlier statement gives away may be the same for many tiles; what the region ends in never is.
  const Statement& last = *p.statement(r.statements.back());
  for (const auto& [point, times] : stored[last.out]) EXPECT_EQ(times, 1) << p.tensor(last.out).name;
  for (const Size& e : last.axes)
    if (e.constant() == 0) return;
  std::int64_t points = 1;
  for (AxisId a : parallel_axes(last)) points *= last.axes[static_cast<std::size_t>(a)].constant();
  EXPECT_EQ(static_cast<std::int64_t>(stored[last.out].size()), points) << p.tensor(last.out).name;
}

TEST(Transfers, CoverWhatIsReadAndStoreEachElementOnce) {
  int regions = 0;
  for (std::uint64_t seed = 1; seed <= cases(150) && !HasFailure(); ++seed) {
    Random random(seed);
    testing::RandomOptions o;
    o.free_sizes = false;
    o.max_extent = 5;
    const Program p = fix_sizes(testing::random_program(random, o), {});
    for (std::size_t n = 0; n < p.nodes.size(); ++n) {
      const auto id = static_cast<StatementId>(n);
      auto r = unify(p, {id});
      bool reads_previous = false;
      for_each_access(*p.statement(id),
                      [&](const Access& a) { reads_previous |= n > 0 && p.statement(id - 1)->out == a.tensor; });
      if (reads_previous && random() % 2)
        if (auto both = unify(p, {id - 1, id})) r = both;
      ASSERT_TRUE(r) << r.reason();
      if (std::any_of(r->axes.begin(), r->axes.end(), [](const Size& e) { return e.constant() == 0; })) continue;
      const Schedule s = random_schedule(p, *r, random);
      expect_covered(p, *r, s);
      ++regions;
      if (HasFailure()) ADD_FAILURE() << "seed " << seed << " schedule " << text(*r, s) << "\n" << print(p);
    }
  }
  std::printf("%d regions\n", regions);
}

const char* depthwise =
    "program dw(c=8, y=10, x=12, h=20, w=24, i=3, j=3)\ninput X[c h w] : f32\nweight W[c i j] : f32\n"
    "Y[c y x] = sum[i j] X[c, 2*y+i-1, 2*x+j-1 else 0] * W[c i j]\noutput Y\n";

TEST(Transfers, StandAsDeepAsTheLoopsTheyDependOn) {
  const Program p = program(depthwise);
  const auto r = unify(p, {0});
  ASSERT_TRUE(r);
  Schedule s;
  s.steps = {{AxisStep::How::tile, axis_of(*r, "y"), 4},
             {AxisStep::How::stream, axis_of(*r, "i"), 1},
             {AxisStep::How::stream, axis_of(*r, "j"), 2}};
  const auto list = transfers(p, *r, s);
  ASSERT_EQ(list.size(), 3u);
  EXPECT_EQ(list[0].depth, 3); // X: its columns move with j
  EXPECT_EQ(list[1].depth, 3); // W
  EXPECT_EQ(list[2].depth, 1); // Y: the grid
  EXPECT_TRUE(list[2].store);
  const std::int64_t variables[] = {4, 8, 1, 2, 0, 2};
  EXPECT_EQ(list[0].box[1].low.at(variables), 2 * 4 + 1 - 1);
  EXPECT_EQ(list[0].box[1].high.at(variables), 2 * 7 + 1 - 1 + 1);
  EXPECT_EQ(list[0].box[1].step, 1); // the hull of i moves in ones, though one row of taps would move in twos
}

TEST(Transfers, OneTensorIsLoadedOnceAsTheHullOfItsReads) {
  const Program p = program("program p(y=10, h=12)\ninput X[h] : f32\nY[y] = X[y] + X[y+2]\noutput Y\n");
  const auto r = unify(p, {0});
  ASSERT_TRUE(r);
  Schedule s;
  s.steps = {{AxisStep::How::tile, 0, 4}};
  const auto list = transfers(p, *r, s);
  ASSERT_EQ(list.size(), 2u);
  const std::int64_t variables[] = {4, 8};
  EXPECT_EQ(list[0].box[0].low.at(variables), 4);
  EXPECT_EQ(list[0].box[0].high.at(variables), 10);
}

// Refusals carry the numbers of the schedule that they refuse.
class Legality : public ::testing::Test {
protected:
  Program p = program(depthwise);
  Region r = *unify(p, {0});
  RegionAxis y = axis_of(r, "y"), i = axis_of(r, "i");
  std::vector<Refusal> refuse(std::vector<AxisStep> steps) const {
    Schedule s;
    s.steps = std::move(steps);
    return legality(p, r, s, machine_named("generic-avx2"));
  }
};

TEST_F(Legality, AcceptsTilesAndThenStreams) {
  EXPECT_TRUE(refuse({{AxisStep::How::tile, y, 4}, {AxisStep::How::stream, i, 1}}).empty());
  EXPECT_TRUE(refuse({}).empty());
  EXPECT_TRUE(refuse({{AxisStep::How::tile, y, 1000000}}).empty()); // the last tile is ragged, the first may be too
}

TEST_F(Legality, ATileOfAReducedAxis) {
  const auto list = refuse({{AxisStep::How::tile, i, 2}});
  ASSERT_EQ(list.size(), 1u);
  EXPECT_EQ(list[0].rule, Refusal::Rule::not_tiled);
  EXPECT_EQ(text(list[0]), "not tiled: " + laws(p, r, i).tile.reason());
}

TEST_F(Legality, AStreamOfAParallelAxis) {
  const auto list = refuse({{AxisStep::How::stream, y, 2}});
  ASSERT_EQ(list.size(), 1u);
  EXPECT_EQ(list[0].rule, Refusal::Rule::not_streamed);
  EXPECT_EQ(text(list[0]), "not streamed: " + laws(p, r, y).stream.reason());
}

TEST_F(Legality, SizesThatAreNotPositive) {
  for (std::int64_t size : {std::int64_t{0}, std::int64_t{-7}}) {
    const auto list = refuse({{AxisStep::How::tile, y, size}});
    ASSERT_EQ(list.size(), 1u);
    EXPECT_EQ(list[0].rule, Refusal::Rule::size_not_positive);
    EXPECT_EQ(text(list[0]), "tile of y is " + std::to_string(size) + ", at least 1 is needed");
  }
}

TEST_F(Legality, AnAxisWithTwoSteps) {
  const auto list = refuse({{AxisStep::How::tile, y, 4}, {AxisStep::How::tile, y, 2}});
  ASSERT_EQ(list.size(), 1u);
  EXPECT_EQ(text(list[0]), "y has more than one step");
}

TEST_F(Legality, ATileInsideAStream) {
  const auto list = refuse({{AxisStep::How::stream, i, 1}, {AxisStep::How::tile, y, 4}});
  ASSERT_EQ(list.size(), 1u);
  EXPECT_EQ(text(list[0]), "tile of y stands inside a stream");
}

TEST_F(Legality, AWalk) {
  EXPECT_TRUE(refuse({{AxisStep::How::walk, y, 4}}).empty());
  const AxisStep walk{AxisStep::How::walk, y, 4}, tile{AxisStep::How::tile, axis_of(r, "x"), 4};
  const auto only = [](const std::vector<Refusal>& list) { return list.size() == 1 ? text(list[0]) : std::to_string(list.size()) + " refusals"; };
  EXPECT_EQ(only(refuse({walk, tile})), "tile of x stands inside a walk");
  EXPECT_EQ(only(refuse({walk, {AxisStep::How::stream, i, 1}})), "not walked: i is streamed inside a walk: what is kept would be whole along it");
  EXPECT_EQ(only(refuse({walk, {AxisStep::How::walk, axis_of(r, "x"), 1}})), "not walked: x stands inside a stream or another walk");
  const RegionAxis c = axis_of(r, "c");
  EXPECT_EQ(only(refuse({{AxisStep::How::walk, c, 1}})), "not walked: " + laws(p, r, c).walk.reason());
  EXPECT_EQ(only(refuse({{AxisStep::How::walk, i, 1}})), "not walked: " + laws(p, r, i).tile.reason());
  Schedule s;
  s.steps = {walk};
  EXPECT_EQ(only(legality(p, r, s, machine_named("h200"))), "not walked: what a turn of y has made is kept by kernels for a CPU only");
}

TEST_F(Legality, ASizeThatIsNotFixed) {
  const Program free = parse("program p(n)\ninput X[n] : f32\nY[n] = X[n]\noutput Y\n", "case.tw");
  const auto list = legality(free, *unify(free, {0}), {}, machine_named("generic-avx2"));
  ASSERT_EQ(list.size(), 1u);
  EXPECT_EQ(text(list[0]), "size n is not fixed (give it with --size)");
}

TEST_F(Legality, SaysEverythingAtOnce) {
  EXPECT_EQ(refuse({{AxisStep::How::tile, i, 0}, {AxisStep::How::stream, y, 1}}).size(), 3u);
}

TEST(ScheduleText, NamesTheSteps) {
  const Program p = program(depthwise);
  const auto r = unify(p, {0});
  Schedule s;
  EXPECT_EQ(text(*r, s), "whole");
  s.steps = {{AxisStep::How::tile, axis_of(*r, "y"), 14}, {AxisStep::How::stream, axis_of(*r, "i"), 2}};
  EXPECT_EQ(text(*r, s), "tile y 14, stream i 2");
}

TEST(Layout, StridesVisitEveryElementOnce) {
  Random random(3);
  for (std::uint64_t n = cases(300); n-- > 0;) {
    std::vector<std::int64_t> dims(static_cast<std::size_t>(between(random, 0, 4)));
    std::vector<std::pair<std::int64_t, std::int64_t>> box;
    for (auto& d : dims) box.emplace_back(0, d = between(random, 1, 4));
    DimOrder order = row_major(dims.size());
    std::shuffle(order.begin(), order.end(), random);
    const auto stride = dense_strides(dims, order);
    std::set<std::int64_t> seen;
    for_each_point(box, [&](const Point& point) {
      seen.insert(std::inner_product(point.begin(), point.end(), stride.begin(), std::int64_t{0}));
    });
    const std::int64_t count = std::accumulate(dims.begin(), dims.end(), std::int64_t{1}, std::multiplies<>());
    ASSERT_EQ(static_cast<std::int64_t>(seen.size()), count);
    ASSERT_EQ(*seen.rbegin(), count - 1);
    if (!order.empty()) {
      ASSERT_EQ(stride[static_cast<std::size_t>(order.back())], 1);
    }
  }
}

// A depthwise convolution inside a stream over the channels that the pointwise one sums, as schedule.h has it.
TEST(Depths, OfAWindowInsideAStream) {
  const Program p = fix_sizes(parse("program pair(c=8, f=4, h=10, y=8, i=3)\ninput X[c h], V[c i], W[f c] : f32\nD[c y] = sum[i] X[c, y+i] * V[c i]\n"
                                    "Y[f y] = sum[c] D[c y] * W[f c]\nZ[f y] = max(Y[f y], 0)\noutput Z\n", "pair.tw"), {});
  const auto r = unify(p, {0, 1, 2});
  ASSERT_TRUE(r) << r.reason();
  Schedule s;
  for (const auto& [name, how, size] : {std::tuple{"y", AxisStep::How::tile, 4}, std::tuple{"c", AxisStep::How::stream, 2}})
    for (std::size_t a = 0; a < r->axes.size(); ++a)
      if (r->names[a] == name) s.steps.push_back({how, static_cast<RegionAxis>(a), size});
  ASSERT_EQ(s.steps.size(), 2u);
  EXPECT_TRUE(legality(p, *r, s, machine_named("generic-avx2")).empty());
  const std::vector<Depth> list = depths(p, *r, s);
  const std::vector<std::pair<int, int>> want = {{2, 2}, {1, 2}, {1, 1}};   // around the whole result, around its points
  for (std::size_t i = 0; i < want.size(); ++i) {
    EXPECT_EQ(list[i].result, want[i].first) << i;
    EXPECT_EQ(list[i].points, want[i].second) << i;
  }
  // Tiles stand around streams.
  std::swap(s.steps[0], s.steps[1]);
  EXPECT_FALSE(legality(p, *r, s, machine_named("generic-avx2")).empty());
}

// Rows of 33 elements from one before a piece of 16 bytes on: a lead of seven makes five pieces of them.
TEST(Pieces, OfRowsThatBeginWithinOne) {
  const Program p = fix_sizes(parse("program first(h=16, w=64, H=32, V=128, i=3, j=3)\ninput X[H V], W[i j] : f16\n"
                                    "Y[h w] = sum[i j] X[2*h+i-1, 2*w+j-1 else 0] * W[i j]\noutput Y\n", "first.tw"), {});
  const auto region = unify(p, {0});
  ASSERT_TRUE(region);
  Schedule s;
  s.steps = {{AxisStep::How::tile, 0, 4}, {AxisStep::How::tile, 1, 16}};
  const auto moves = transfers(p, *region, s);
  const auto x = std::find_if(moves.begin(), moves.end(), [&](const Transfer& t) { return p.tensor(t.tensor).name == "X"; });
  ASSERT_NE(x, moves.end());
  ValueAt v{x->tensor, LevelRole::scratch, {0, 1}};
  EXPECT_EQ(piece_width(p, s, v, x->box, {9, 33}), 1);
  align_to_pieces(p, s, v, x->box, {9, 33});
  EXPECT_EQ(v.lead, 7);
  EXPECT_EQ(v.pad, 0);
  EXPECT_EQ(piece_width(p, s, v, x->box, {9, 33}), 8);
  EXPECT_EQ(brought_by_pieces(v, 33, 8), 40);
  s.steps[1].size = 15;                                  // 30 * tile - 1 lies anywhere within a piece
  ValueAt odd{x->tensor, LevelRole::scratch, {0, 1}};
  align_to_pieces(p, s, odd, transfers(p, *region, s)[static_cast<std::size_t>(x - moves.begin())].box, {9, 31});
  EXPECT_EQ(odd.lead, 0);
}

} // namespace
} // namespace tilewright
