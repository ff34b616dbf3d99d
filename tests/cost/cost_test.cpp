// Bytes, work and time of schedules: worked numbers, a recount of every transfer over all loops, and what must hold for
// any sizes. That the expanded nest moves the same bytes is tested in tests/check.
#include "cost/cost.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <functional>

#include "expr/random_program.h"
#include "expr/text.h"

namespace tilewright {
namespace {

using testing::Random;

const Machine& machine() {
  static const Machine m = machine_named("generic-avx2");
  return m;
}

struct Layer {
  Program p;
  Region r;
  explicit Layer(const std::string& text) : p(fix_sizes(parse(text, "case.tw"), {})), r(*unify(p, {0})) {}
  Schedule tiles(const std::vector<std::pair<std::string, std::int64_t>>& sizes, int threads = 1) const {
    Schedule s;
    s.threads = threads;
    for (const auto& [name, size] : sizes)
      s.steps.push_back({AxisStep::How::tile,
                         static_cast<RegionAxis>(std::find(r.names.begin(), r.names.end(), name) - r.names.begin()),
                         size});
    return s;
  }
  std::int64_t moved(const Cost& c, const std::string& tensor) const {
    std::int64_t bytes = 0;
    for (const Moved& m : c.moved)
      if (p.tensor(m.tensor).name == tensor) bytes += m.bytes;
    return bytes;
  }
};

const char* pointwise = "program t1(c=64, f=128, y=56, x=56)\ninput X[c y x], W[f c] : f32\nY[f y x] = sum[c] X[c y x] "
                        "* W[f c]\noutput Y\n";
const char* depthwise = "program t2(c=128, y=56, x=56, i=3, j=3)\ninput X[c y x], W[c i j] : f32\n"
                        "Y[c y x] = sum[i j] X[c, y+i-1, x+j-1 else 0] * W[c i j]\noutput Y\n";

TEST(Bytes, PointwiseTensorByTensor) {
  const Layer l(pointwise);
  const Cost c = cost(l.p, l.r, l.tiles({{"f", 32}, {"y", 14}, {"x", 28}}), machine());
  EXPECT_EQ(l.moved(c, "X"), 4 * 4 * 200704); // once a block of filters
  EXPECT_EQ(l.moved(c, "W"), 4 * 8 * 8192);   // once a block of pixels
  EXPECT_EQ(l.moved(c, "Y"), 4 * 401408);
  EXPECT_EQ(c.loaded + c.stored, 4 * 1269760);
  EXPECT_EQ(c.stored, 4 * 401408);
  EXPECT_EQ(c.compulsory, 4 * (200704 + 8192 + 401408));
  EXPECT_EQ(c.multiply_adds, 64 * 128 * 56 * 56);
  EXPECT_EQ(c.tiles, 4 * 4 * 2);
}

TEST(Bytes, DepthwiseWithItsHalo) {
  const Layer l(depthwise);
  const Cost c = cost(l.p, l.r, l.tiles({{"y", 28}, {"x", 28}}), machine());
  EXPECT_EQ(l.moved(c, "X"), 4 * 128 * 58 * 58); // each cut is read by one more row or column on both sides
  EXPECT_EQ(l.moved(c, "W"), 4 * 4 * 1152);
  EXPECT_EQ(c.loaded + c.stored, 4 * 836608);
  EXPECT_EQ(c.multiply_adds, 128 * 56 * 56 * 9);
}

TEST(Bytes, RaggedTilesAreCountedAsTheyAre) {
  const Layer l("program p(y=10, i=3)\ninput X[y] : f32\nY[y] = max[i] X[y+i-1 else 0]\noutput Y\n");
  // Tiles [0,4) [4,8) [8,10): windows [-1,5) [3,9) [7,11) inside [0,10).
  const Cost c = cost(l.p, l.r, l.tiles({{"y", 4}}), machine());
  EXPECT_EQ(l.moved(c, "X"), 4 * (5 + 6 + 3));
  EXPECT_EQ(l.moved(c, "Y"), 4 * 10);
  EXPECT_EQ(c.tiles, 3);
}

TEST(Bytes, AStrideReadsEverySecondElementOnly) {
  const Layer l("program p(y=7, h=14)\ninput X[h] : f16\nY[y] : f16 = X[2*y]\noutput Y\n");
  EXPECT_EQ(l.moved(cost(l.p, l.r, l.tiles({{"y", 3}}), machine()), "X"), 2 * 7);
}

// A recount with one loop a step around every transfer, whichever it depends on.
std::int64_t recount(const Program& p, const Region& r, const Schedule& s, const Transfer& t) {
  std::vector<std::int64_t> variables(2 * s.steps.size() + 1, 0);
  std::int64_t elements = 0;
  std::function<void(std::size_t)> loop = [&](std::size_t i) {
    if (i == static_cast<std::size_t>(t.depth)) {
      std::int64_t box = 1;
      for (std::size_t d = 0; d < t.box.size(); ++d)
        box *= t.box[d].count(variables.data(), p.tensor(t.tensor).dims[d].constant());
      elements += box;
      return;
    }
    const std::int64_t extent = r.axes[static_cast<std::size_t>(s.steps[i].axis)].constant();
    for (std::int64_t low = 0; low < extent; low += s.steps[i].size) {
      variables[2 * i] = low;
      variables[2 * i + 1] = std::min(low + s.steps[i].size, extent);
      loop(i + 1);
    }
  };
  loop(0);
  return elements * static_cast<std::int64_t>(bytes_of(p.tensor(t.tensor).dtype));
}

TEST(Bytes, OfRandomSchedulesEqualTheRecount) {
  const std::uint64_t cases = std::getenv("TILEWRIGHT_LONG") ? 5000 : 400;
  int regions = 0;
  for (std::uint64_t seed = 1; seed <= cases && !HasFailure(); ++seed) {
    Random random(seed);
    testing::RandomOptions o;
    o.free_sizes = false;
    const Program p = fix_sizes(testing::random_program(random, o), {});
    for (std::size_t n = 0; n < p.nodes.size(); ++n) {
      const auto r = unify(p, {static_cast<StatementId>(n)});
      ASSERT_TRUE(r) << r.reason();
      Schedule s;
      for (std::size_t a = 0; a < r->axes.size(); ++a) {
        const std::int64_t extent = r->axes[a].constant();
        if (random() % 3 == 0 || extent == 0) continue;
        const bool reduced = roles(p, *r)[a].reducer != Reducer::none;
        s.steps.push_back({reduced ? AxisStep::How::stream : AxisStep::How::tile, static_cast<RegionAxis>(a),
                           1 + static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(extent))});
      }
      std::shuffle(s.steps.begin(), s.steps.end(), random);
      std::stable_partition(s.steps.begin(), s.steps.end(),
                            [](const AxisStep& x) { return x.how == AxisStep::How::tile; });
      const Cost c = cost(p, *r, s, machine());
      const auto list = transfers(p, *r, s);
      ASSERT_EQ(c.moved.size(), list.size());
      std::int64_t loaded = 0, stored = 0, once = 0;
      for (std::size_t t = 0; t < list.size(); ++t) {
        EXPECT_EQ(c.moved[t].bytes, recount(p, *r, s, list[t])) << p.tensor(list[t].tensor).name;
        (list[t].store ? stored : loaded) += c.moved[t].bytes;
      }
      for (const Transfer& t : transfers(p, *r, {})) once += recount(p, *r, {}, t);
      EXPECT_EQ(c.loaded, loaded);
      EXPECT_EQ(c.stored, stored);
      EXPECT_EQ(c.compulsory, once);
      ++regions;
      if (HasFailure()) ADD_FAILURE() << "seed " << seed << " schedule " << text(*r, s) << "\n" << print(p);
    }
  }
  std::printf("%d regions\n", regions);
}

TEST(Model, PricesAnySizesLikeAScheduleOfThem) {
  const Layer l(pointwise);
  const Model model(l.p, l.r, l.tiles({{"f", 1}, {"y", 1}}, 2), machine());
  Random random(5);
  for (int n = 0; n < 200; ++n) {
    const std::int64_t f = 1 + static_cast<std::int64_t>(random() % 130),
                       y = 1 + static_cast<std::int64_t>(random() % 60);
    const Cost a = model.at({f, y}), b = cost(l.p, l.r, l.tiles({{"f", f}, {"y", y}}, 2), machine());
    EXPECT_EQ(a.loaded, b.loaded);
    EXPECT_EQ(a.stored, b.stored);
    EXPECT_EQ(a.seconds, b.seconds);
    EXPECT_EQ(a.tiles, ceil_div_i64(128, f) * ceil_div_i64(56, y));
  }
}

// What is stored beyond half of the cores' own caches.
double spilled(const Machine& m, const Cost& c, int threads) {
  const auto cache = find(m, LevelRole::cache);
  const bool fits = cache && c.compulsory <= m.levels[static_cast<std::size_t>(*cache)].usable;
  const double room =
      0.5 * threads * static_cast<double>(m.levels[static_cast<std::size_t>(level_of(m, LevelRole::scratch))].capacity);
  return std::max(0.0, static_cast<double>(c.stored) - room) /
         bytes_per_second(m, fits ? *cache : level_of(m, LevelRole::memory), Direction::down, 1);
}

// Seconds of a compute-bound layer, by hand: each thread does its share of the tiles at the rate of one core.
TEST(Seconds, AreTheBusiestThreadsShare) {
  const Layer l(pointwise);
  const Machine& m = machine();
  const double rate = operations_per_second(m, *unit_for(m, UnitKind::fma, DType::f32), DType::f32) / m.core.count;
  const double work = 2.0 * 64 * 128 * 56 * 56 / rate;
  for (int threads : {1, 2, 3, 4})
    for (std::int64_t rows : {56, 28, 19, 14, 8}) {
      const Cost c = cost(l.p, l.r, l.tiles({{"y", rows}}, threads), m);
      const auto tiles = ceil_div_i64(56, rows);
      const std::int64_t workers = std::min<std::int64_t>(threads, tiles);
      std::int64_t busiest = 0; // rows: the last tile may have fewer
      for (std::int64_t w = 0; w < workers; ++w)
        busiest = std::max(busiest, std::min<std::int64_t>(56, rows * (tiles * (w + 1) / workers)) -
                                        rows * (tiles * w / workers));
      const double want =
          (work + spilled(m, c, threads) + 0.2e-6 * static_cast<double>(tiles)) * static_cast<double>(busiest) / 56 +
          m.launch.step;
      EXPECT_EQ(c.bound, "fma");
      EXPECT_NEAR(c.seconds, want, 1e-12) << threads << " threads, " << tiles << " tiles";
    }
}

TEST(Seconds, AreLostInRaggedRegisterTiles) {
  const Layer l(pointwise);
  const auto axis = [&](const std::string& name) {
    return static_cast<RegionAxis>(std::find(l.r.names.begin(), l.r.names.end(), name) - l.r.names.begin());
  };
  const Granule g{{axis("y"), axis("x")}, axis("f"), 6, 16};
  const Machine& m = machine();
  const double rate = operations_per_second(m, *unit_for(m, UnitKind::fma, DType::f32), DType::f32) / m.core.count;
  const Schedule s = l.tiles({{"f", 20}, {"y", 1}});
  const Cost c = cost(l.p, l.r, s, m, g);
  const double used = (56.0 / 60) * (128.0 / (6 * 32 + 16)); // 56 pixels in blocks of 6, 6 times 20 filters and 8 in blocks of 16
  EXPECT_NEAR(c.seconds,
              2.0 * 64 * 128 * 56 * 56 / rate / used + spilled(m, c, 1) + 0.2e-6 * static_cast<double>(c.tiles) +
                  m.launch.step,
              1e-12);
}

TEST(Seconds, OfAMapAreTheTimeOfItsBytes) {
  const Layer l("program copy(n=64000000)\ninput X[n] : f32\nY[n] = X[n]\noutput Y\n");
  const Machine& m = machine();
  const Cost c = cost(l.p, l.r, {}, m);
  EXPECT_EQ(c.bound, m.levels[static_cast<std::size_t>(level_of(m, LevelRole::memory))].name);
  EXPECT_NEAR(c.seconds,
              8.0 * 64e6 / bytes_per_second(m, level_of(m, LevelRole::memory), Direction::down, 1) + spilled(m, c, 1) +
                  0.2e-6 + m.launch.step,
              1e-9);
}

TEST(Seconds, OfNextToNothingAreTheLaunch) {
  const Layer l("program copy(n=4)\ninput X[n] : f32\nY[n] = X[n]\noutput Y\n");
  EXPECT_EQ(cost(l.p, l.r, {}, machine()).bound, "launch");
}

TEST(Work, CountsOperationsOfABodyOnce) {
  const Layer l("program p(n=10)\ninput X[n] : f32\nY[n] = exp(X[n] + 1) * 2 + max(X[n], 0)\noutput Y\n");
  EXPECT_EQ(cost(l.p, l.r, {}, machine()).operations, 10 * (8 + 1 + 1 + 1 + 1));
}

TEST(Work, TooLargeToCountIsAnError) {
  const Layer l("program p(n=2000000000, m=2000000000, k=9)\ninput X[n] : f32\ninput Z[m k] : f32\nY = sum[n m k] X[n] "
                "* Z[m k]\noutput Y\n");
  EXPECT_THROW(cost(l.p, l.r, {}, machine()), Error);
}

} // namespace
} // namespace tilewright
