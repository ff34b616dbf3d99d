// Rings that warps of their own fill: both sides walk the specialised nest, in any order that the barriers allow. Nobody waits for
// ever, what is read is what was asked for, and nothing is overwritten while it may be read.
#include <gtest/gtest.h>

#include "expr/random_program.h"
#include "expr/text.h"
#include "law/region.h"
#include "loop/nest.h"

namespace tilewright {
namespace {

struct Made { Program p; Region r; Schedule s; Nest nest; };

Made matmul(std::int64_t k, int stages, int kept) {
  Made made;
  made.p = fix_sizes(parse("program mm(m=64, n=64, k=" + std::to_string(k) + ")\ninput A[m k], B[k n] : f16\nC[m n] : f32 = sum[k] A[m k] * B[k n]\noutput C\n", "mm.tw"), {});
  made.r = *unify(made.p, {0});
  RegionAxis products = -1;
  for (std::size_t a = 0; a < made.r.axes.size(); ++a)
    if (made.r.names[a] == "k") products = static_cast<RegionAxis>(a);
  made.s.steps = {{AxisStep::How::stream, products, 64}};
  for (TensorId t : boundary(made.p, made.r).inputs) made.s.values.push_back({t, LevelRole::scratch, {0, 1}, 0, true, stages, kept, true});
  made.nest = specialise(made.p, expand(made.p, made.r, made.s, "mm"));
  return made;
}

const Node& ring_of(const Block& b) {
  for (const Node& n : b)
    if (const For* f = std::get_if<For>(&n.op); f && f->stages > 1) return n;
  throw std::logic_error("no ring");
}

// Stages as the barriers see them: the box that lies in each, and how often it was freed and filled.
struct Ring {
  std::vector<std::int64_t> box;
  std::int64_t filled = 0, freed = 0;
};

// One side's walk of `iterations` rounds of the ring's body; `step` does one operation if the barriers let it.
struct Side {
  const Node& ring;
  bool copies;
  std::int64_t iterations, round = 0;
  std::size_t at = 0;
  bool done() const { return round == iterations; }
  bool step(Ring& r, int stages) {
    const Node& n = ring.body[at];
    const auto stage = static_cast<std::size_t>(round % stages);
    if (const Pipe* pipe = std::get_if<Pipe>(&n.op)) {
      if (copies && pipe->kind == Pipe::Kind::free && round >= r.freed + stages) return false;
      if (!copies && pipe->kind == Pipe::Kind::full && round >= r.filled) return false;
      if (!copies && pipe->kind == Pipe::Kind::release) {
        // Behind the last round all are free.
        r.freed = round + 1 == iterations ? iterations : std::max<std::int64_t>(r.freed, round + 1 - pipe->kept);
      }
    } else if (std::holds_alternative<Load>(n.op)) {
      if (copies) {
        EXPECT_LT(round, r.freed + stages) << "overwritten while it may be read";
        r.box[stage] = round;
      }
    } else if (std::holds_alternative<Compute>(n.op) && !copies) {
      EXPECT_EQ(r.box[stage], round);
    }
    if (++at == ring.body.size()) {
      if (copies) r.filled = round + 1;
      at = 0, ++round;
    }
    return true;
  }
};

TEST(Pipe, NeitherBlocksNorOverwrites) {
  testing::Random random(5);
  for (int stages : {2, 3, 4})
    for (int kept : {0, 1})
      for (std::int64_t k : {64 * 2, 64 * 3, 64 * 9}) {
        if (stages < 2 + kept) continue;
        const Made made = matmul(k, stages, kept);
        const Node& ring = ring_of(made.nest.body);
        EXPECT_EQ(std::get<For>(ring.op).stages, stages);
        for (int order = 0; order < 20; ++order) {
          Ring state{std::vector<std::int64_t>(static_cast<std::size_t>(stages), -1)};
          Side sides[] = {{ring, true, k / 64}, {ring, false, k / 64}};
          int stuck = 0;
          while (!(sides[0].done() && sides[1].done())) {
            Side& side = sides[random() % 2];
            stuck = !side.done() && side.step(state, stages) ? 0 : stuck + 1;
            ASSERT_LT(stuck, 200) << "both sides wait";
          }
        }
      }
}

// Read in sequence the nest is the same: each box is loaded before it is read.
TEST(Pipe, IsAnOrdinaryNestInSequence) {
  const Made made = matmul(64 * 4, 3, 1);
  const Node& ring = ring_of(made.nest.body);
  int loads = 0;
  for (const Node& n : ring.body) {
    loads += std::holds_alternative<Load>(n.op);
    if (std::holds_alternative<Compute>(n.op)) {
      EXPECT_EQ(loads, 2);
    }
    if (const Load* l = std::get_if<Load>(&n.op)) {
      EXPECT_EQ(l->ahead, 0);
    }
  }
}

}  // namespace
}  // namespace tilewright
