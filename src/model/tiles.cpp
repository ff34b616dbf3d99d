#include "model/tiles.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "model/live.h"

namespace tilewright {

namespace {

// What neither a program nor a machine file says. Fitted once, so that the tiles of hand-tuned forward kernels for an
// H100 (head 64 to 256, two and one byte, full and causal) are among the best three; tests/model/tiles_test.cpp holds
// them.
constexpr double row_clocks = 2.6;      // a row and turn, of every lane that shares it: shuffles, statistics, loop
constexpr double store_share = 0.02;    // instructions to store an element of an operand that passes through scratch
constexpr double beside = 0.1;          // of the shorter of special and vector work that is not hidden under the longer
constexpr double chain_clocks = 1240;   // latencies of one warpgroup's turn: two contractions, reductions, barriers
constexpr double exchange_clocks = 175; // and of an operand through scratch
constexpr double mask_operations = 4.4; // an element of a turn in which some elements do not exist
constexpr double not_hidden = 0.5;      // of every pipe that is not the slowest
constexpr int own_registers = 28;       // of a thread, for addresses and statistics
constexpr int stages = 2, producers = 128, producer_registers = 24;
constexpr std::int64_t causal_keys = 2048; // tiles of causal kernels must also do for short streams

struct Turn {                               // of one chunk size
  double tensor = 0, first = 0, second = 0; // clocks a row
  double special = 0, issue = 0;
  double read_by_group = 0, read_by_row = 0;                 // bytes of scratch
  double streamed = 0;                                       // bytes
  double resident_row = 0, stored_row = 0, accumulators = 0; // bytes, bytes, columns a row
  double operand_row = 0;                                    // bytes of the operand that is made, a row
};

struct TileChooser {
  const Program& p;
  const Part& part;
  const Machine& m;
  Schedule s;
  Nest nest;
  Columns c;
  int row_step = -1, chunk_step = -1;
  std::int64_t group_rows = 64, group_threads = 128, chunk_granule = 16;

  TileChooser(const Program& program, const Part& x, const Machine& machine)
      : p(program), part(x), m(machine), s(x.schedule) {}

  void set(int step, std::int64_t size) {
    s.steps[static_cast<std::size_t>(step)].size = size;
    c.point[c.names.steps[static_cast<std::size_t>(step)]] = static_cast<double>(size);
  }

  // The reason why not, or nothing.
  std::string prepare() {
    for (std::size_t i = 0; i < s.steps.size(); ++i)
      if (s.steps[i].how == AxisStep::How::stream) chunk_step = static_cast<int>(i);
    if (chunk_step < 0) return "nothing is streamed";
    std::vector<Placed> contractions;
    const RegionAxis x = s.steps[static_cast<std::size_t>(chunk_step)].axis;
    for (std::size_t i = 0; i < part.region.statements.size(); ++i)
      if (auto at = placed(p, part.region, static_cast<int>(i), m)) contractions.push_back(std::move(*at));
    if (contractions.size() != 2) return "it is not two contractions";
    for (const Placed& at : contractions)
      if (m.units[static_cast<std::size_t>(at.unit)].kind != UnitKind::tensor)
        return "the machine has no tensor unit for its types";
    if (!std::count(contractions[0].n.begin(), contractions[0].n.end(), x) ||
        !std::count(contractions[1].k.begin(), contractions[1].k.end(), x))
      return "the stream is not columns of the first and products of the second contraction";
    for (std::size_t i = 0; i < s.steps.size(); ++i) {
      const auto& step = s.steps[i];
      const bool rows = std::all_of(contractions.begin(), contractions.end(), [&](const Placed& at) {
        return std::count(at.m.begin(), at.m.end(), step.axis) > 0;
      });
      if (step.how == AxisStep::How::tile && rows &&
          (row_step < 0 || extent(step.axis) > extent(s.steps[static_cast<std::size_t>(row_step)].axis)))
        row_step = static_cast<int>(i);
    }
    if (row_step < 0) return "no tiled axis is a row of both contractions";
    const Unit& unit = m.units[static_cast<std::size_t>(contractions[1].unit)];
    const UnitRate& rate = *rate_for(m, contractions[1].unit, contractions[1].type);
    group_rows = rate.shape[0] * std::max(1, 4 / unit.warps), group_threads = 4 * m.core.lanes;
    chunk_granule = std::lcm<std::int64_t>(rate.shape[2], 16);
    nest = expand(p, part.region, s, part.name);
    c = columns(p, part.region, s, nest);
    for (std::size_t i = 0; i < s.steps.size(); ++i)
      set(static_cast<int>(i), static_cast<int>(i) == row_step     ? group_rows
                               : static_cast<int>(i) == chunk_step ? chunk_granule
                                                                   : 1);
    return {};
  }
  std::int64_t extent(RegionAxis a) const { return part.region.axes[static_cast<std::size_t>(a)].constant(); }

  Turn turn(std::int64_t chunk) {
    set(chunk_step, chunk);
    Turn t;
    const Budget b = budget(p, part.region, s, c, nest, m, {});
    double operations = 0;
    for (const Clock& line : b.lines) {
      if (line.pipe == UnitKind::tensor)
        (t.tensor == 0 ? t.first : t.second) += line.clocks, t.tensor += line.clocks;
      else
        operations += line.pipe == UnitKind::fma ? line.operations / 2 : line.operations;
      if (line.pipe == UnitKind::special) t.special += line.clocks;
    }
    t.issue = operations / (4.0 * m.core.lanes) + row_clocks;
    const auto rows = static_cast<double>(group_rows);
    const std::string& row = c.names.steps[static_cast<std::size_t>(row_step)];
    const Program& q = program_of(p, nest);
    const Region& region = region_of(part.region, nest);
    std::set<int> operands;
    for (const Column& column : c.columns) {
      if (column.kind != Column::Kind::compute) continue;
      const auto at = placed(q, region, region.position(column.statement), m);
      if (!at) continue;
      t.accumulators += c.values[static_cast<std::size_t>(column.value)].size.at(c.point) / rows;
      for (int v : column.reads) {
        const Lived& x = c.values[static_cast<std::size_t>(v)];
        const double bytes = x.size.at(c.point) * static_cast<double>(bytes_of(at->type));
        if (v == column.value) continue;
        if (x.loaded && x.size.mentions(row))
          t.read_by_row += bytes / rows;
        else if (x.loaded)
          t.read_by_group += bytes;
        else if (x.size.mentions(row))
          operands.insert(v), t.operand_row += bytes / rows;
      }
    }
    for (const Lived& v : c.values) {
      const double bytes =
          v.size.at(c.point) * static_cast<double>(bytes_of(v.loaded ? v.held : q.tensor(v.tensor).dtype));
      if (v.streamed)
        t.streamed += bytes;
      else if (v.loaded && v.size.mentions(row))
        t.resident_row += bytes / rows;
      else if (v.stored)
        t.stored_row += bytes / rows;
    }
    return t;
  }

  double clock() const {
    double lowest = m.core.clock;
    for (const Unit& u : m.units)
      if (u.kind == UnitKind::tensor && !u.rates.empty() && u.rates[0].clock > 0 && u.warps == 4)
        lowest = std::min(lowest, u.rates[0].clock);
    return lowest;
  }

  std::optional<TileChoice> price(const Turn& t, std::int64_t chunk, int groups, bool in_registers,
                                  const std::optional<Live>& live) const {
    TileChoice out{group_rows * groups, chunk, groups, in_registers, 0, "", 0, 0};
    const auto rows = static_cast<double>(out.rows), mine = static_cast<double>(group_rows);
    const double operand = t.operand_row * rows;
    const double scratch =
        std::max(t.resident_row, t.stored_row) * rows + stages * t.streamed + (in_registers ? 0 : operand);
    const double thread = mine / static_cast<double>(group_threads);
    const double registers = thread * (t.accumulators + (in_registers ? t.operand_row / 4 : 0));
    const std::int64_t quota =
        std::min<std::int64_t>(240, (m.core.registers - producers * producer_registers) / (group_threads * groups) /
                                        m.core.register_granule * m.core.register_granule);
    const double reserve = static_cast<double>(m.core.reserved_scratch); // barriers and alignment take as much again
    if (scratch > static_cast<double>(m.core.block_scratch) - reserve ||
        registers > static_cast<double>(quota - own_registers))
      return std::nullopt;
    out.scratch = static_cast<std::int64_t>(scratch), out.registers = static_cast<int>(std::ceil(registers));
    const double elements = mine * static_cast<double>(chunk);
    const double issue = t.issue * mine + (in_registers ? 0 : store_share * elements / (4.0 * m.core.lanes)),
                 special = t.special * mine;
    const double row_work = std::max(special, issue) + beside * std::min(special, issue);
    const Level& memory = m.levels[static_cast<std::size_t>(level_of(m, LevelRole::scratch))];
    const double scratch_rate = memory.down.one / m.core.clock;
    const auto cache = find(m, LevelRole::cache);
    const double ingest = bytes_per_second(m, cache ? *cache : level_of(m, LevelRole::memory)) / m.core.count / clock();
    const std::pair<const char*, double> pipes[] = {
        {"tensor", t.tensor * rows},
        {"rows", row_work * groups},
        {"scratch", (t.read_by_group * groups + t.read_by_row * rows + (in_registers ? 0 : 2 * operand) + t.streamed) /
                        scratch_rate},
        {"chain",
         std::max(t.first * mine, row_work) + t.second * mine + chain_clocks + (in_registers ? 0 : exchange_clocks)},
        {"cache", t.streamed / ingest}};
    double slowest = 0, all = 0;
    for (const auto& [name, clocks] : pipes) {
      all += clocks;
      if (clocks > slowest) slowest = clocks, out.bound = name;
    }
    out.clocks = (slowest + not_hidden * (all - slowest)) / (rows * static_cast<double>(chunk));
    if (live && live->extent) cut(out);
    return out;
  }

  // Where a condition cuts the stream short, the last turn of a tile does more than there is, and some turns are
  // masked.
  void cut(TileChoice& t) const {
    const auto n =
        static_cast<double>(std::min(causal_keys, extent(s.steps[static_cast<std::size_t>(chunk_step)].axis)));
    const auto chunk = static_cast<double>(t.chunk), rows = static_cast<double>(t.rows);
    const double common = static_cast<double>(std::gcd(t.rows, t.chunk));
    const double keys = n / 2 + rows / 2, over = (chunk - common) / 2, masked = (rows + chunk - common) / chunk;
    const auto alu = unit_for(m, UnitKind::alu, DType::f32);
    const double rate = alu ? rate_for(m, *alu, DType::f32)->per_clock : 64;
    t.clocks = t.clocks * (keys + over) / (n / 2) + masked * chunk / keys * mask_operations / rate;
  }
};

} // namespace

Or<std::vector<TileChoice>> tile_choices(const Program& p, const Part& part, const Machine& m) {
  if (m.target != Target::cuda) return Refused{"the machine has no warpgroups"};
  TileChooser chooser(p, part, m);
  if (const std::string why = chooser.prepare(); !why.empty()) return Refused{why};
  const auto live = live_share(p, part.region, part.schedule);
  std::vector<TileChoice> all;
  const std::int64_t most =
      std::min<std::int64_t>(256, chooser.extent(chooser.s.steps[static_cast<std::size_t>(chooser.chunk_step)].axis));
  for (std::int64_t chunk = chooser.chunk_granule; chunk <= most; chunk += chooser.chunk_granule) {
    const Turn t = chooser.turn(chunk);
    for (int groups = 1; groups <= 4; ++groups)
      for (bool in_registers : {true, false})
        if (auto choice = chooser.price(t, chunk, groups, in_registers, live)) all.push_back(std::move(*choice));
  }
  std::stable_sort(all.begin(), all.end(), [](const TileChoice& a, const TileChoice& b) {
    return std::llround(a.clocks * 1e9) < std::llround(b.clocks * 1e9);
  });
  std::vector<TileChoice> out;
  for (TileChoice& t : all)
    if (std::none_of(out.begin(), out.end(),
                     [&](const TileChoice& o) { return o.rows == t.rows && o.chunk == t.chunk; }))
      out.push_back(std::move(t));
  if (out.empty()) return Refused{"no tile fits the registers and the scratch"};
  return out;
}

} // namespace tilewright
