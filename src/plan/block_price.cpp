#include "plan/block_price.h"

#include <algorithm>
#include <cmath>

#include "schedule/engine_box.h"

namespace tilewright {

namespace {

// What one block does, in seconds of each pipe of its core; `busy`: how many of its warps have a part in it; `chain`: seconds of
// dependent instructions in one iteration.
struct Work { double tensor = 0, issue = 0, scratch = 0, copy = 0, busy = 1, chain = 0; };

// What generated kernels were seen to do on an H200 (1000 schedules of ten kernels, bench_gpu explore), beyond the rates of a machine:
// warps wait for operands, so that they fill at most `most` of the slots, and alone a tenth each; the leaf's instructions a multiply-add
// against those counted below; those that issue a copy or a store of 16 bytes; a block's own; latencies around a leaf, and of one that stands behind
// another (in a loop half, behind two others); clocks
// from a product to the next of a thread that has many.
struct Seen {
  double most = 0.65, warp = 1 / 10.2, window = 0.74, product = 0.65, load = 8.3, store = 1.9, iteration = 4, block = 270, scratch = 2;
  double leaf = 98e-9, phase = 0.7e-6, chain = 0.27, copy = 0.3, product_clocks = 10;
};
constexpr Seen seen;
double filled(double warps) { return std::min(seen.most, warps * seen.warp); }

struct Pricer {
  const BlockPlan& b;
  double blocks, cores, clock;

  const Statement& statement(std::size_t i) const { return *b.p.statement(b.r.statements[i]); }
  const LeafAt* leaf(std::size_t i) const {
    for (const LeafAt& l : b.s.leaves)
      if (l.statement == b.r.statements[i]) return &l;
    return nullptr;
  }
  double slots() const {                 // instruction slots a second and core, a lane
    const auto units = units_of(b.m, UnitKind::issue);
    return units.empty() || b.m.units[static_cast<std::size_t>(units[0])].rates.empty() ? 128 * clock : b.m.units[static_cast<std::size_t>(units[0])].rates[0].per_clock * clock;
  }
  double scratch_rate() const { return bytes_per_second(b.m, level_of(b.m, LevelRole::scratch)) / cores; }

  // A contraction on the tensor instructions: fragments come from scratch, a warp's rows and columns once a product.
  Work on_tensors(std::size_t i, const LeafAt& l) const {
    const DType type = b.p.tensor(b.facts[i].contraction->a->tensor).dtype;
    const double macs = static_cast<double>(b.cost.done[i].multiply_adds) / blocks * waste(i, l);
    if (l.group) return {2 * macs / (operations_per_second(b.m, *group_unit(b.m, type), type) / cores), 0, 0, 0, b.s.threads / 32.0, 0};
    const double bytes = macs * static_cast<double>(bytes_of(type)) * (1.0 / l.rows + 1.0 / l.columns);
    const double rate = operations_per_second(b.m, *warp_unit(b.m, type), type) / cores;
    const double steps = macs / blocks_steps(l);     // of 16 products, one behind the other
    if (l.by_element) return by_element(2 * macs / rate, i, l);
    return {2 * macs / rate, 0, seen.scratch * bytes / scratch_rate(), 0, b.s.threads / 32.0, steps / iterations() * b.m.units[static_cast<std::size_t>(*warp_unit(b.m, type))].latency};
  }
  // Fragments of single elements: an access for each and half an instruction to put it beside another; where products are is found once a step.
  Work by_element(double tensor, std::size_t i, const LeafAt& l) const {
    constexpr double place = 40, together = 1.5, line = 128;
    double products = 1;
    for (AxisId a : statement(i).reduced) products *= static_cast<double>(statement(i).axes[static_cast<std::size_t>(a)].constant());
    const double steps = std::ceil(products / 16), warps = b.s.threads / 32.0, elements = steps * (l.rows / 16.0 * 8 + l.columns / 8.0 * 4);
    const double latency = b.m.units[static_cast<std::size_t>(*warp_unit(b.m, b.p.tensor(b.facts[i].contraction->a->tensor).dtype))].latency;
    return {tensor, warps * 32 * (elements * together + steps * (place + l.rows / 16.0 * l.columns / 8.0)) / slots(), warps * elements * line / scratch_rate(), 0, warps, steps * latency};
  }
  double blocks_steps(const LeafAt& l) const { return 16.0 * l.rows * l.warps_m * l.columns * l.warps_n * l.warps_k; }
  // Rows of fragments that hold no row of the tile.
  double waste(std::size_t i, const LeafAt& l) const {
    const auto& c = b.facts[i].contraction;
    double rows = 1;
    for (AxisId a : c->m) {
      std::int64_t extent = statement(i).axes[static_cast<std::size_t>(a)].constant();
      if (const auto x = plain_axis(b.r.image[i][static_cast<std::size_t>(a)]))
        for (const AxisStep& step : b.s.steps)
          if (step.axis == *x) extent = std::min(extent, step.size);
      rows *= static_cast<double>(extent);
    }
    return std::max(1.0, l.rows * l.warps_m / rows);
  }

  // Multiply-adds on ordinary threads: an instruction each, and what a thread's box fetches and converts.
  Work on_threads(std::size_t i, const LeafAt* l) const {
    double lanes = 1, beside = 1, fetched = 2, width = 4;
    if (l && !l->tile.empty()) {
      for (std::size_t a = 0; a < l->tile.size(); ++a) (a + 1 == l->tile.size() ? lanes : beside) *= static_cast<double>(l->tile[a]);
      if (const auto& w = b.facts[i].window) {
        // Neighbours share what they read, along every axis that slides.
        const auto& axes = b.facts[i].parallel;
        double data = 1;
        for (std::size_t a = 0; a < axes.size(); ++a)
          for (std::size_t k = 0; k < std::min(w->parallel.size(), w->taps.size()); ++k)
            if (w->parallel[k] == axes[a]) {
              const auto tile = static_cast<double>(l->tile[a]), taps = static_cast<double>(statement(i).axes[static_cast<std::size_t>(w->taps[k])].constant());
              data *= (tile + taps - 1) / (tile * taps);
            }
        fetched = data + 1 / beside;
        width = static_cast<double>(bytes_of(b.p.tensor(w->data->tensor).dtype));
      } else {
        fetched = 1 / beside + 1 / lanes;
      }
    }
    const auto fma = unit_for(b.m, UnitKind::fma, DType::f32), alu = unit_for(b.m, UnitKind::alu, DType::f32);
    const std::int64_t points_of = std::max<std::int64_t>(b.cost.done[i].points, 1);
    if (!b.facts[i].window && !b.facts[i].contraction) {
      // What a point reads, over its operations.
      double accesses = 0;
      for_each_access(statement(i), [&](const Access&) { accesses += 1; });
      fetched = accesses * static_cast<double>(points_of) / static_cast<double>(std::max<std::int64_t>(1, b.cost.done[i].multiply_adds + b.cost.done[i].operations));
    }
    const double convert = width >= 4 || !fma || !alu ? 0 : operations_per_second(b.m, *fma, DType::f32) / 2 / operations_per_second(b.m, *alu, DType::f32);
    const double n = static_cast<double>(b.cost.done[i].multiply_adds + b.cost.done[i].operations) / blocks;
    const double pieces = std::max(1.0, lanes * width / 16);
    double points = 1, products = 1;
    for (AxisId a : statement(i).reduced) products *= static_cast<double>(statement(i).axes[static_cast<std::size_t>(a)].constant());
    points = n / products / iterations_around(i);
    const double helped = l ? l->lanes : 1;
    const double busy = std::clamp(points / (lanes * beside) * helped, 32.0, static_cast<double>(b.s.threads)) / 32;
    const double latency = fma ? b.m.units[static_cast<std::size_t>(*fma)].latency : 0;
    const double leaf_instructions = l && !l->tensor && b.facts[i].contraction ? seen.product : seen.window;
    return {0, leaf_instructions * n * (1 + fetched * (convert + pieces / lanes)) / slots(), seen.scratch * n * fetched * width / scratch_rate() / 2, 0, busy,
            products > 16 && !is_streamed(i) ? products / helped * seen.product_clocks / clock / seen.chain : std::min(products / helped, 16.0) * latency};
  }

  // How often a block comes by a statement's points: a reduction over the streamed axis sees each of them in every iteration.
  double iterations_around(std::size_t i) const { return b.facts[i].contraction ? 1 : iterations(); }

  // Whether a statement's accumulators live across a loop.
  bool is_streamed(std::size_t i) const {
    for (const AxisStep& step : b.s.steps)
      for (AxisId a : statement(i).reduced)
        if (step.how == AxisStep::How::stream && plain_axis(b.r.image[i][static_cast<std::size_t>(a)]) == step.axis) return true;
    return false;
  }
  // Of a thread: accumulators that live across the stream, and what the hungriest leaf needs beside them.
  std::int64_t registers() const {
    std::int64_t held = 0, most = 0;
    for (std::size_t i = 0; i < b.r.statements.size(); ++i) {
      const LeafAt* l = leaf(i);
      if (!l) continue;
      const bool streamed = is_streamed(i);
      std::int64_t points = l->tensor ? l->rows * l->columns / 32 : 1, fetched = l->tensor && !l->group ? (l->rows + l->columns) / 2 : 0;
      for (std::int64_t t : l->tile) points *= t;
      if (!l->tensor) fetched = 32 + points / 4;
      if (l->by_element) fetched = 48 + l->rows / 8 * 2 + l->columns / 8 * 4;
      if (streamed) held += points, most = std::max(most, fetched);
      else most = std::max(most, points + fetched);
    }
    return held + most + 40;
  }
  int most_resident() const {                 // none where a thread has too few registers
    const Core& core = b.m.core;
    if (registers() > core.thread_registers) return 0;
    const std::int64_t granule = std::max<std::int64_t>(core.register_granule, 1);
    const std::int64_t by_scratch = b.scratch ? b.m.levels[static_cast<std::size_t>(level_of(b.m, LevelRole::scratch))].capacity / (b.scratch + core.reserved_scratch) : core.blocks;
    const std::int64_t by_registers = core.registers / (ceil_div_i64(std::min<std::int64_t>(registers(), core.thread_registers), granule) * granule * b.s.threads);
    return static_cast<int>(std::max<std::int64_t>(1, std::min<std::int64_t>({by_scratch, by_registers, core.threads / b.s.threads, core.blocks})));
  }
  int resident() const { return b.s.resident > 0 ? b.s.resident : most_resident(); }

  double iterations() const {
    double n = 1;
    for (const AxisStep& step : b.s.steps)
      if (step.how == AxisStep::How::stream) n *= static_cast<double>(ceil_div_i64(b.r.axes[static_cast<std::size_t>(step.axis)].constant(), step.size));
    return n;
  }
  bool bulk() const {
    return std::any_of(b.s.values.begin(), b.s.values.end(), [](const ValueAt& v) { return v.bulk; });
  }
  // Bytes that a block's share of the L2's work is: of what the blocks of a cluster read alike each asks for a part.
  double fetched(double loaded) const {
    if (b.s.cluster < 2) return loaded;
    const int along = cluster_step(b.s);
    double alike = 0, all = 0;
    const auto moves = transfers(b.p, b.r, b.s);
    for (std::size_t i = 0; i < moves.size(); ++i) {
      if (moves[i].store) continue;
      const auto bytes = static_cast<double>(b.cost.moved[i].bytes);
      all += bytes;
      bool same = true;
      for (const Span& span : moves[i].box)
        for (const auto& term : span.low.terms) same &= term.first / 2 != along;
      if (same) alike += bytes;
    }
    return all > 0 ? loaded * (1 - alike / all * (1 - 1.0 / b.s.cluster)) : loaded;
  }
  int stages() const {
    int n = 1;
    for (const ValueAt& v : b.s.values) n = std::max(n, v.stages);
    return n;
  }

  // Copies go on while results are stored: a block's tiles follow one another at the rate of the slowest of its parts.
  double in_bulk(const Work& all, double beside, double chain, double coming) const {
    const double tile = std::pow(std::pow(beside + chain, 4) + std::pow(all.copy, 4), 0.25);
    const double turns = b.s.blocks > 0 ? std::ceil(blocks / static_cast<double>(b.s.blocks)) : std::ceil(blocks / cores);
    const double dram = static_cast<double>(b.cost.compulsory) / bytes_per_second(b.m, level_of(b.m, LevelRole::memory));
    const double body = turns * (tile + coming / stages() + (b.s.blocks > 0 ? 0 : coming));
    return std::max(body, dram) + 0.1 * std::min(body, dram) + coming + b.m.launch.step;
  }

  double seconds() const {
    Work all;
    double chain = 0, step = 0;          // of one block: phases one after the other; latencies of an iteration
    int phases = 0;                      // leaves, one after the other
    double beside = 0, rides = 0;        // what runs by itself while the threads go on; what they do meanwhile
    for (std::size_t i = 0; i < b.r.statements.size(); ++i) {
      const LeafAt* l = leaf(i);
      const Work w = l && l->tensor ? on_tensors(i, *l) : on_threads(i, l);
      if (l && l->group && !l->tensor) {
        rides = std::max({rides, w.issue / filled(b.s.threads / 32.0), w.scratch});
        all.issue += w.issue, all.scratch += w.scratch;
        continue;
      }
      (l && l->group ? beside : chain) += std::max({w.tensor, w.issue / filled(w.busy), w.scratch});
      if (l) step += seen.leaf + seen.chain * w.chain, ++phases;
      all.tensor += w.tensor, all.issue += w.issue, all.scratch += w.scratch;
    }
    beside = std::max(beside, rides);
    const auto cache = find(b.m, LevelRole::cache);
    const LevelId near = cache ? *cache : level_of(b.m, LevelRole::memory), far = level_of(b.m, LevelRole::memory);
    const double loaded = static_cast<double>(b.cost.loaded) / blocks, stored = static_cast<double>(b.cost.stored) / blocks;
    all.copy = (fetched(loaded) + stored) / (bytes_per_second(b.m, near) / cores);
    const double own = ((iterations() * seen.iteration + seen.block) * b.s.threads + (bulk() ? 0 : (b.pieces < 0 ? loaded / 16 : b.pieces) * seen.load) + stored / 16 * seen.store) / slots();
    all.issue += own, chain += own / filled(b.s.threads / 32.0);
    const double one = loaded / iterations() / bytes_per_second(b.m, near, Direction::down, 1);   // an iteration's copies
    const bool near_enough = cache && b.cost.compulsory <= b.m.levels[static_cast<std::size_t>(near)].usable;
    const double coming = seen.copy * b.m.latency.copy + (near_enough ? 0 : 2 * b.m.levels[static_cast<std::size_t>(far)].latency) + one;
    const double wait = stages() == 1 ? coming : std::max(0.0, coming / (stages() - 1) - chain / iterations() - step);
    double alone = chain + iterations() * (step + wait) + (iterations() > 1 ? iterations() * std::max(0, phases - 2) * seen.phase / 2 : std::max(0, phases - 1) * seen.phase);
    if (bulk()) return in_bulk(all, beside, chain, coming);
    alone = (stages() == 1 ? beside + alone : std::max(beside, alone) + 0.1 * iterations() * coming / (stages() - 1)) + one;
    // The pipes of a core and the chain of a block get in each other's way: they add as squares.
    auto round = [&](double n) {
      const double pipes[] = {n * all.tensor, n * all.issue / seen.most, n * all.scratch, n * all.copy, alone};
      double sum = 0;
      for (double x : pipes) sum += x * x;
      return std::sqrt(sum);
    };
    const double fit = static_cast<double>(resident()), each = cores * fit;
    const double full = std::floor(blocks / each), rest = std::ceil((blocks - full * each) / cores);
    const double body = full * round(fit) + (rest > 0 ? round(rest) : 0);
    const double dram = static_cast<double>(b.cost.compulsory) / bytes_per_second(b.m, far);
    return std::max(body, dram) + 0.1 * std::min(body, dram) + b.m.launch.step;
  }
};

}  // namespace

std::vector<StatementFacts> facts_of(const Program& p, const Region& r) {
  std::vector<StatementFacts> list;
  for (StatementId id : r.statements) {
    const Statement& s = *p.statement(id);
    StatementFacts f{{}, {}, parallel_axes(s)};
    if (const auto c = contraction(p, s)) f.contraction = *c;
    if (const auto w = window(p, s)) f.window = *w;
    list.push_back(std::move(f));
  }
  return list;
}

int resident_blocks(const BlockPlan& b) { return Pricer{b, 1, 1, b.m.core.clock}.most_resident(); }

std::optional<UnitId> warp_unit(const Machine& m, DType type) {
  if (type != DType::f16 && type != DType::bf16) return std::nullopt;
  for (UnitId u : units_of(m, UnitKind::tensor)) {
    const Unit& unit = m.units[static_cast<std::size_t>(u)];
    const UnitRate* rate = rate_for(m, u, type, DType::f32);
    if (rate && unit.warps == 1 && !unit.rounds_operands && rate->shape == std::array<int, 3>{16, 8, 16}) return u;
  }
  return std::nullopt;
}

std::optional<UnitId> group_unit(const Machine& m, DType type) {
  if (type != DType::f16 && type != DType::bf16) return std::nullopt;
  for (UnitId u : units_of(m, UnitKind::tensor)) {
    const Unit& unit = m.units[static_cast<std::size_t>(u)];
    if (rate_for(m, u, type, DType::f32) && unit.warps == 4 && unit.asynchronous && unit.a_scratch && unit.b_scratch) return u;
  }
  return std::nullopt;
}

double block_seconds(const BlockPlan& b) {
  return Pricer{b, static_cast<double>(std::max<std::int64_t>(b.cost.tiles, 1)), static_cast<double>(std::max(b.m.core.count, 1)), b.m.core.clock}.seconds();
}

}  // namespace tilewright
