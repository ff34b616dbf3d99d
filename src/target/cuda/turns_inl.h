// Conditions on indices over a whole tile, as C expressions of its ends: whether some point can meet them, and whether all do.
//
//   index(x) <= index(q), tiles q_0..q_1, turns x_0..x_1       some: x_0 <= q_1 - 1       all: x_1 - 1 <= q_0
//
// What reads anything but axes, integers, and elements that are one for the tile, may hold for some and need not hold for all.
#pragma once
#include "target/cuda/bulk_inl.h"
#include "target/cuda/masked_turns.h"

namespace tilewright::cuda {

struct TurnConditions : Bulk {
  struct Ends { std::string low, high; };         // of an integer; empty: not known

  Ends ends(const ScalarRef& x) const {
    double literal_ = 0;
    if (is_literal(x, &literal_)) return {fmt::format("{}", static_cast<std::int64_t>(literal_)), fmt::format("{}", static_cast<std::int64_t>(literal_))};
    if (x->op == Op::cast && !is_float(x->dtype)) return ends(x->args[0]);
    if (x->op == Op::size) return {std::to_string(std::get<Size>(x->leaf).constant()), std::to_string(std::get<Size>(x->leaf).constant())};
    if (x->op == Op::axis) {
      const RegionAxis a = std::get<AxisId>(x->leaf);
      for (std::size_t i = 0; i < s.steps.size(); ++i)
        if (s.steps[i].axis == a) return {variable(static_cast<int>(2 * i)), fmt::format("({} - 1)", variable(static_cast<int>(2 * i + 1)))};
      return {"0", std::to_string(r.axes[static_cast<std::size_t>(a)].constant() - 1)};
    }
    if (x->op == Op::read) return element_ends(std::get<Access>(x->leaf));
    if (x->op != Op::add && x->op != Op::sub) return {};
    const Ends a = ends(x->args[0]), b = ends(x->args[1]);
    if (a.low.empty() || b.low.empty()) return {};
    if (x->op == Op::add) return {fmt::format("({} + {})", a.low, b.low), fmt::format("({} + {})", a.high, b.high)};
    return {fmt::format("({} - {})", a.low, b.high), fmt::format("({} - {})", a.high, b.low)};
  }

  // An integer that the data says once for a whole tile, such as the length of its row.
  Ends element_ends(const Access& a) const {
    if (is_float(p.tensor(a.tensor).dtype) || a.otherwise) return {};
    const auto stride = strides_of(a.tensor);
    std::string place;
    for (std::size_t d = 0; d < a.at.size(); ++d) {
      if (!is_affine(a.at[d])) return {};
      std::string index = std::to_string(a.at[d].offset.constant());
      for (const Index::Term& t : a.at[d].terms) {
        const auto step = std::find_if(s.steps.begin(), s.steps.end(), [&](const AxisStep& x) { return x.axis == std::get<AxisId>(t.of); });
        if (step == s.steps.end() || step->how != AxisStep::How::tile || step->size != 1) return {};
        index += fmt::format(" + {} * {}", t.coefficient.constant(), variable(static_cast<int>(2 * (step - s.steps.begin()))));
      }
      place += fmt::format("{}({}) * {}", place.empty() ? "" : " + ", index, stride[d]);
    }
    const std::string element = fmt::format("load({}[{}])", global(a.tensor), place.empty() ? "0" : place);
    return {element, element};
  }

  // What a mask says of a turn (masked_turns.h); empty: it has no marks.
  std::string marked(const Access& a, bool all) const {
    for (const Slots& l : nest.slots)
      if (only_marks(l) && l.of.source == a.tensor)
        return fmt::format("({}[i64({}) * {} + {} / {}] & {}) != 0", global(l.slot), group_of(l), l.most, variable(2 * l.step), l.unit, all ? 2 : 1);
    return "";
  }

  std::string holds(const ScalarRef& c, bool all) const {
    const std::string unknown = all ? "false" : "true";
    if (c->op == Op::logical_and) return fmt::format("({} && {})", holds(c->args[0], all), holds(c->args[1], all));
    if (c->op == Op::logical_or) return fmt::format("({} || {})", holds(c->args[0], all), holds(c->args[1], all));
    if (c->op == Op::read)
      if (std::string said = marked(std::get<Access>(c->leaf), all); !said.empty()) return said;
    if (c->args.size() != 2) return unknown;
    const Ends a = ends(c->args[0]), b = ends(c->args[1]);
    if (a.low.empty() || b.low.empty() || is_float(c->args[0]->dtype)) return unknown;
    switch (c->op) {
      case Op::le: return all ? fmt::format("{} <= {}", a.high, b.low) : fmt::format("{} <= {}", a.low, b.high);
      case Op::lt: return all ? fmt::format("{} < {}", a.high, b.low) : fmt::format("{} < {}", a.low, b.high);
      case Op::ge: return all ? fmt::format("{} >= {}", a.low, b.high) : fmt::format("{} >= {}", a.high, b.low);
      case Op::gt: return all ? fmt::format("{} > {}", a.low, b.high) : fmt::format("{} > {}", a.high, b.low);
      case Op::eq: return all ? unknown : fmt::format("({} <= {} && {} <= {})", a.low, b.high, b.low, a.high);
      default: return unknown;
    }
  }

  // ---- a loop over the turns in which some point counts, and those between them

  // Marks of the turns of this loop.
  bool masked(const For& f) const { return nest.slots.size() == 1 && only_marks(nest.slots[0]) && nest.slots[0].step == f.step; }
  bool all_turns(const For& f) const { return f.turns.every() && !masked(f); }
  // Whether between two turns that count there may be others.
  static bool has_gaps(const ScalarRef& c) {
    return c && (c->op == Op::logical_or || std::any_of(c->args.begin(), c->args.end(), [](const ScalarRef& a) { return has_gaps(a); }));
  }
  bool skips(const For& f) const { return masked(f) || (!f.turns.every() && has_gaps(f.turns.condition())); }
  std::string some_of(const For& f) const {
    const std::string by_index = f.turns.every() ? "" : holds(f.turns.condition(), false);
    const std::string by_mark = masked(f) ? marked({nest.slots[0].of.source, {}, nullptr}, false) : "";
    return by_index.empty() ? by_mark : by_mark.empty() ? by_index : fmt::format("({}) && {}", by_index, by_mark);
  }

  std::string first_turn_of(const For& f) const { return all_turns(f) ? "0" : "first_" + variable_name(f); }
  void bound_turns(const For& f, bool one_thread) {
    if (all_turns(f)) return;
    const std::string lo = variable(2 * f.step), hi = variable(2 * f.step + 1), name = variable_name(f);
    line(fmt::format("const auto live_{} = [&](int {}) {{", name, lo));
    line(fmt::format("  const int {} = min({} + {}, {});", hi, lo, f.size, f.extent));
    line(fmt::format("  return {};", some_of(f)));
    line("};");
    line(fmt::format("int first_{0} = 0, last_{0} = {1};  // turns in which some point counts", name, (f.extent - 1) / f.size * f.size));
    // Each question waits for nothing but the one before: of many turns several are asked at once.
    if (const std::int64_t together = 8 * f.size; f.extent >= 2 * together) {
      line(fmt::format("const auto some_{} = [&](int {}) {{", name, lo));
      line("  bool some = false;");
      line("  #pragma unroll");
      line(fmt::format("  for (int i = 0; i < 8; ++i) some |= live_{}({} + i * {});", name, lo, f.size));
      line("  return some;");
      line("};");
      line(fmt::format("while (first_{0} + {1} <= last_{0} && !some_{0}(first_{0})) first_{0} += {1};", name, together));
      line(fmt::format("while (first_{0} + {1} <= last_{0} && !some_{0}(last_{0} - {2})) last_{0} -= {1};", name, together, together - f.size));
    }
    line(fmt::format("while (first_{0} < last_{0} && !live_{0}(first_{0})) first_{0} += {1};", name, f.size));
    line(fmt::format("while (first_{0} < last_{0} && !live_{0}(last_{0})) last_{0} -= {1};", name, f.size));
    if (!skips(f)) return;
    // The next turn that counts: each lane of a warp asks for one.
    line(fmt::format("const auto next_{} = [&](int at) {{", name));
    if (one_thread) {
      line(fmt::format("  while (at <= last_{0} && !live_{0}(at)) at += {1};", name, f.size));
    } else {
      line(fmt::format("  for (; at <= last_{}; at += {}) {{", name, 32 * f.size));
      line(fmt::format("    const int own = at + int(threadIdx.x % 32) * {};", f.size));
      line(fmt::format("    const unsigned some = __ballot_sync(0xffffffffu, own <= last_{0} && live_{0}(own));", name));
      line(fmt::format("    if (some) return at + __popc((some & -some) - 1) * {};", f.size));
      line("  }");
    }
    line("  return at;");
    line("};");
  }
  std::string turn_behind(const For& f, const std::string& at) const { return skips(f) ? fmt::format("next_{}({})", variable_name(f), at) : at; }
  std::string more_turns(const For& f) const { return all_turns(f) ? fmt::format("{} < {}", variable(2 * f.step), end_of(f)) : fmt::format("{} <= last_{}", variable(2 * f.step), variable_name(f)); }

  // The stream that leaves turns out; null: there is none.
  static const For* uneven_stream(const Block& nodes) {
    for (const Node& n : nodes)
      if (const For* f = std::get_if<For>(&n.op)) {
        if (f->kind == For::Kind::seq && !f->turns.every()) return f;
        if (const For* inner = uneven_stream(n.body)) return inner;
      }
    return nullptr;
  }
  // How many turns count in a tile of the grid's last loop.
  std::int64_t turns_in(const For& stream, const For& last, std::int64_t tile) const {
    std::vector<std::int64_t> v(2 * s.steps.size() + 2, 0);
    for (std::size_t i = 0; i < s.steps.size(); ++i) v[2 * i + 1] = s.steps[i].size;
    auto at = [&](const For& f, std::int64_t low) { v[static_cast<std::size_t>(2 * f.step)] = low, v[static_cast<std::size_t>(2 * f.step) + 1] = std::min(low + f.size, f.extent); };
    at(last, tile * last.size);
    std::int64_t n = 0;
    for (std::int64_t low = 0; low < stream.extent; low += stream.size) at(stream, low), n += stream.turns.live(v.data());
    return n;
  }
  bool late_tiles_longer(const For& stream, const For& last) const {
    return turns_in(stream, last, 0) < turns_in(stream, last, ceil_div_i64(last.extent, last.size) - 1);
  }

  // Under which condition every point of a turn exists and counts; empty: always.
  std::string whole_turn(const Node& node, const For& f) const {
    std::string all;
    auto need = [&](const std::string& c) { all += (all.empty() ? "" : " && ") + c; };
    if (f.extent % f.size) need(fmt::format("{} - {} == {}", variable(2 * f.step + 1), variable(2 * f.step), f.size));
    std::set<std::string> asked;
    for (const Node& n : node.body)
      if (const Compute* c = std::get_if<Compute>(&n.op); c && statement(c->statement).guard)
        asked.insert(holds(substitute(p, statement(c->statement).guard, r.image[static_cast<std::size_t>(r.position(c->statement))]), true));
    for (const std::string& c : asked) need(c);
    return all;
  }
};

}  // namespace tilewright::cuda
