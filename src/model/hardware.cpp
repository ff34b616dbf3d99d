#include "model/hardware.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "expr/scalar.h"
#include "expr/text.h"

namespace tilewright {

namespace {

struct Tile {
  const Program& p; // of the nest
  const Region& r;
  const Schedule& s;
  const Columns& c;
  const Machine& m;
  const Setup& setup;

  const Statement& at(StatementId id) const { return *p.statement(id); }
  const Lived& value(int v) const { return c.values[static_cast<std::size_t>(v)]; }
  DType type_of(const Lived& v) const {
    const auto it = setup.held.find(v.name);
    return it == setup.held.end() ? v.held : it->second;
  }
  std::optional<Placed> on_unit(StatementId id) const { return placed(p, r, r.position(id), m); }

  // The first and last column of the outermost stream: a turn is what stands between. The whole tile where nothing is
  // streamed.
  std::pair<std::size_t, std::size_t> turn() const {
    for (std::size_t i = 0; i < c.columns.size(); ++i)
      if (c.columns[i].kind == Column::Kind::loop)
        for (std::size_t j = i + 1; j < c.columns.size(); ++j)
          if (c.columns[j].kind == Column::Kind::end && c.columns[j].depth == c.columns[i].depth) return {i, j};
    return {0, c.columns.size()};
  }

  // Tiled axes that every contraction of the turn has as an m.
  std::vector<int> row_steps() const {
    std::vector<int> steps;
    const auto [first, last] = turn();
    for (std::size_t i = 0; i < s.steps.size(); ++i) {
      if (s.steps[i].how != AxisStep::How::tile) continue;
      bool everywhere = true, any = false;
      for (std::size_t k = first; k < last; ++k) {
        if (c.columns[k].kind != Column::Kind::compute) continue;
        const auto unit = on_unit(c.columns[k].statement);
        if (!unit) continue;
        any = true, everywhere &= std::count(unit->m.begin(), unit->m.end(), s.steps[i].axis) > 0;
      }
      if (any && everywhere) steps.push_back(static_cast<int>(i));
    }
    return steps;
  }
  double rows() const {
    double n = 1;
    for (int i : row_steps()) n *= static_cast<double>(s.steps[static_cast<std::size_t>(i)].size);
    return n;
  }
  bool has_rows(const Formula& size) const {
    const auto steps = row_steps();
    return std::any_of(steps.begin(), steps.end(),
                       [&](int i) { return size.mentions(c.names.steps[static_cast<std::size_t>(i)]); });
  }
  double a_row(const Formula& size) const { return size.at(c.point) / rows(); }
  std::string life(const Lived& v) const { return fmt::format("c{}-c{}", v.first, v.last); }
};

struct Table {
  const Tile& t;
  Configuration out;

  void add(std::string name, const Formula& size, DType type, bool scratch, int copies, double values,
           std::string lifetime) {
    Held h{std::move(name), size, type, scratch, !t.has_rows(size), copies, 0, std::move(lifetime)};
    h.bytes = values * static_cast<double>(bytes_of(type)) * copies;
    out.values.push_back(h);
  }
  double of_group(const Formula& size) const { // values of one warpgroup, or of the block
    return t.has_rows(size) ? t.a_row(size) * static_cast<double>(t.setup.rows) : size.at(t.c.point);
  }
  Sub piece_of(const std::string& result, double columns) const {
    for (const Sub& s : t.setup.pieces)
      if (s.result == result) return s;
    return {result, static_cast<std::int64_t>(columns), 0};
  }

  // Operands, then a line for each slot of what is made.
  void values() {
    for (std::size_t v = 0; v < t.c.values.size(); ++v) {
      const Lived& x = t.c.values[v];
      if (x.loaded)
        add(x.name, x.size, t.type_of(x), true, x.streamed ? t.setup.stages : 1, of_group(x.size), t.life(x));
    }
    for (const auto& slot : t.c.slots) {
      std::string name;
      const Lived* largest = nullptr;
      int first = 1 << 30, last = -1;
      for (int v : slot) {
        const Lived& x = t.value(v);
        if (x.loaded) continue;
        name += (name.empty() ? "" : ", ") + x.name;
        first = std::min(first, x.first), last = std::max(last, x.last);
        if (!largest || bytes_of(t.type_of(x)) > bytes_of(t.type_of(*largest))) largest = &x;
      }
      const bool registers = t.m.target == Target::cuda;
      if (largest)
        add(name, largest->size, t.type_of(*largest), !registers, 1, of_group(largest->size),
            fmt::format("c{}-c{}", first, last));
    }
  }

  // What passes between the tensor unit and rows: fragments, and their exchanges in scratch; an exchange that is dead
  // lends its place.
  void fragments() {
    struct Exchange {
      std::string name;
      double bytes;
      int first, last;
      Formula size;
      DType type;
    };
    std::vector<Exchange> exchanges;
    const auto [first, last] = t.turn();
    std::set<int> results;
    for (std::size_t k = first; k < last; ++k) {
      const Column& c = t.c.columns[k];
      const auto unit = c.kind == Column::Kind::compute ? t.on_unit(c.statement) : std::nullopt;
      if (!unit || t.m.units[static_cast<std::size_t>(unit->unit)].kind != UnitKind::tensor) continue;
      const Lived& result = t.value(c.value);
      const double columns = t.a_row(result.size);
      const Sub piece = piece_of(result.name, columns);
      const Formula size = Formula(static_cast<double>(piece.piece) / columns) * result.size;
      const int here = static_cast<int>(k);
      add(result.name + " fragment", size, t.type_of(result), false, 1, of_group(size), fmt::format("c{}", here));
      exchanges.push_back({result.name + " exchange", of_group(size) * static_cast<double>(bytes_of(t.type_of(result))),
                           here, here, size, t.type_of(result)});
      if (piece.slice > 0) {
        const Formula slice = Formula(static_cast<double>(piece.slice) / columns) * result.size;
        add(result.name + " slice", slice, t.type_of(result), false, 1, of_group(slice), fmt::format("c{}", here));
      }
      for (int v : c.reads) {
        const Lived& operand = t.value(v);
        if (operand.loaded || v == c.value || !t.has_rows(operand.size)) continue;
        exchanges.push_back({operand.name + " exchange",
                             of_group(operand.size) * static_cast<double>(bytes_of(t.type_of(operand))), operand.first,
                             here, operand.size, t.type_of(operand)});
      }
      results.insert(c.value);
    }
    std::vector<Exchange> kept;
    for (const Exchange& e : exchanges) {
      const auto place = std::find_if(kept.begin(), kept.end(),
                                      [&](const Exchange& k) { return k.last < e.first || e.last < k.first; });
      if (place == kept.end()) {
        kept.push_back(e);
        continue;
      }
      place->name += ", " + e.name;
      place->first = std::min(place->first, e.first), place->last = std::max(place->last, e.last);
      if (e.bytes > place->bytes) place->bytes = e.bytes, place->size = e.size, place->type = e.type;
    }
    for (const Exchange& e : kept) {
      add(e.name, e.size, e.type, true, 1, 0, fmt::format("c{}-c{}", e.first, e.last));
      out.values.back().bytes = e.bytes;
    }
  }

  Configuration run() {
    values();
    if (t.setup.opaque) fragments();
    for (const Held& h : out.values)
      (h.scratch ? (h.block ? out.scratch_block : out.scratch_group)
                 : (h.block ? out.registers_block : out.registers_group)) += h.bytes;
    const double scratch =
        t.m.core.block_scratch > 0
            ? static_cast<double>(t.m.core.block_scratch)
            : static_cast<double>(t.m.levels[static_cast<std::size_t>(level_of(t.m, LevelRole::scratch))].capacity);
    const double registers = 4.0 * static_cast<double>(t.m.core.registers);
    out.by_scratch = out.scratch_group > 0 ? (scratch - out.scratch_block) / out.scratch_group : INFINITY;
    out.by_registers = out.registers_group > 0 && t.m.target == Target::cuda
                           ? (registers - out.registers_block) / out.registers_group
                           : INFINITY;
    const double fits = std::floor(std::min(out.by_scratch, out.by_registers));
    out.groups = std::isfinite(fits) ? std::max(0, static_cast<int>(fits)) : 0;
    out.tile_rows = out.groups * t.setup.rows;
    return std::move(out);
  }
};

bool is_special(Op op) {
  static constexpr Op list[] = {Op::exp, Op::log, Op::sqrt, Op::tanh, Op::erf, Op::sin, Op::cos, Op::pow};
  return std::find(std::begin(list), std::end(list), op) != std::end(list);
}

struct Operations {
  double special = 0, fma = 0, alu = 0;
};
Operations operations_of(const Statement& s) {
  Operations out;
  std::set<const Scalar*> seen;
  std::function<void(const ScalarRef&)> walk = [&](const ScalarRef& node) {
    if (!node || !seen.insert(node.get()).second) return;
    for (const ScalarRef& a : node->args) walk(a);
    if (node->args.empty()) return;
    // A division by a constant is a multiplication; any other takes a reciprocal.
    const bool by_constant = node->op == Op::div && is_literal(node->args[1]);
    if (is_special(node->op) || (node->op == Op::div && !by_constant))
      ++out.special;
    else if (node->op == Op::add || node->op == Op::sub || node->op == Op::mul || by_constant)
      ++out.fma;
    else
      ++out.alu;
  };
  walk(s.body); // a condition is asked only in the turns that it cuts, which stand apart
  if (s.reducer == Reducer::sum || s.reducer == Reducer::prod)
    ++out.fma;
  else if (!s.reduced.empty())
    ++out.alu;
  return out;
}

struct Counter {
  const Tile& t;
  Budget out;

  double points_of(StatementId id) const {
    const int i = t.r.position(id);
    const Extents e(t.p, t.r, t.s);
    Formula points = 1;
    for (std::size_t a = 0; a < t.at(id).axes.size(); ++a)
      points = points * e.of(t.r.image[static_cast<std::size_t>(i)][a], t.at(id).axes[a]);
    return t.a_row(points);
  }
  void add(std::string what, UnitKind pipe, DType type, double operations, StatementId id) {
    if (operations <= 0) return;
    const auto unit = unit_for(t.m, pipe, type) ? unit_for(t.m, pipe, type) : unit_for(t.m, pipe, DType::f32);
    if (!unit) return;
    const UnitRate* rate = rate_for(t.m, *unit, type) ? rate_for(t.m, *unit, type) : rate_for(t.m, *unit, DType::f32);
    out.lines.push_back({std::move(what), pipe, type, operations, rate->per_clock, operations / rate->per_clock, id});
  }

  // A sum that a contraction adds to and a statistic scales: both together are one multiply-add an element, behind the
  // fragment.
  bool rescaled(int value, std::size_t first, std::size_t last) const {
    for (std::size_t k = first; k < last; ++k)
      if (const Column& c = t.c.columns[k];
          c.kind == Column::Kind::compute && c.value == value && t.at(c.statement).reduced.empty())
        return true;
    return false;
  }

  void statement(const Column& c, std::size_t first, std::size_t last) {
    const Statement& s = t.at(c.statement);
    const std::string name = t.p.tensor(s.out).name;
    const double points = points_of(c.statement);
    const DType type = t.type_of(t.value(c.value));
    if (const auto unit = t.on_unit(c.statement)) {
      const UnitKind kind = t.m.units[static_cast<std::size_t>(unit->unit)].kind;
      add(name, kind, unit->type, 2 * points, c.statement);
      out.flops += 2 * points;
      if (rescaled(c.value, first, last))
        add(name + " rescaled and accumulated", UnitKind::fma, type, 2 * t.a_row(t.value(c.value).size), c.statement);
      return;
    }
    const bool corrects = s.reduced.empty() &&
                          std::any_of(c.reads.begin(), c.reads.end(), [&](int v) { return v == c.value; }) &&
                          corrected_by_contraction(c.value, first, last);
    if (corrects) return; // counted with the contraction
    const Operations n = operations_of(s);
    add(name + ": exponentials and the like", UnitKind::special, type, n.special * points, c.statement);
    add(name + ": sums and products", UnitKind::fma, type, 2 * n.fma * points, c.statement);
    add(name + ": comparisons and the like", UnitKind::alu, type, n.alu * points, c.statement);
  }
  bool corrected_by_contraction(int value, std::size_t first, std::size_t last) const {
    for (std::size_t k = first; k < last; ++k)
      if (const Column& c = t.c.columns[k];
          c.kind == Column::Kind::compute && c.value == value && t.on_unit(c.statement))
        return true;
    return false;
  }

  Budget run() {
    const auto [first, last] = t.turn();
    for (std::size_t k = first; k < last; ++k) {
      const Column& c = t.c.columns[k];
      if (c.kind == Column::Kind::compute) statement(c, first, last);
      if (c.kind == Column::Kind::load)
        out.turn_bytes +=
            t.value(c.value).size.at(t.c.point) * static_cast<double>(bytes_of(t.type_of(t.value(c.value))));
    }
    const double tensor = out.of(UnitKind::tensor) > 0 ? out.of(UnitKind::tensor) : out.of(UnitKind::fma);
    double clock = t.m.core.clock;
    for (const Clock& line : out.lines)
      if (line.pipe == UnitKind::tensor)
        if (const auto u = unit_for(t.m, line.pipe, line.type))
          if (const double its = rate_for(t.m, *u, line.type)->clock; its > 0) clock = std::min(clock, its);
    out.clock = clock;
    out.ideal = tensor > 0 ? out.flops / tensor * t.m.core.count * clock : 0;
    out.seconds_moving = out.turn_bytes * t.m.core.count / bytes_per_second(t.m, level_of(t.m, LevelRole::memory));
    out.rows_to_balance = tensor > 0 ? out.seconds_moving * clock / tensor : 0;
    return std::move(out);
  }
};

} // namespace

double Budget::of(UnitKind pipe) const {
  double clocks = 0;
  for (const Clock& c : lines)
    if (c.pipe == pipe) clocks += c.clocks;
  return clocks;
}

Configuration configuration(const Program& planned, const Region& region, const Schedule& s, const Columns& c,
                            const Nest& n, const Machine& m, const Setup& setup) {
  const Tile t{program_of(planned, n), region_of(region, n), s, c, m, setup};
  return Table{t, {}}.run();
}

Budget budget(const Program& planned, const Region& region, const Schedule& s, const Columns& c, const Nest& n,
              const Machine& m, const Setup& setup) {
  const Tile t{program_of(planned, n), region_of(region, n), s, c, m, setup};
  return Counter{t, {}}.run();
}

} // namespace tilewright
