#include "model/columns.h"

#include <algorithm>

#include <fmt/format.h>

#include "expr/text.h"

namespace tilewright {

namespace {

bool uses(const Node& n, BufferId b) {
  if (const auto* s = std::get_if<Store>(&n.op)) return s->buffer == b;
  if (const auto* c = std::get_if<Compute>(&n.op))
    return c->out == b || std::count(c->reads.begin(), c->reads.end(), b) > 0;
  return std::any_of(n.body.begin(), n.body.end(), [&](const Node& x) { return uses(x, b); });
}

// Loads move down to what needs them first.
Block loaded_late(const Block& block) {
  Block out;
  std::vector<Node> waiting;
  for (const Node& n : block) {
    if (std::holds_alternative<Load>(n.op)) {
      waiting.push_back(n);
      continue;
    }
    for (std::size_t i = 0; i < waiting.size();) {
      if (uses(n, std::get<Load>(waiting[i].op).buffer)) {
        out.push_back(waiting[i]);
        waiting.erase(waiting.begin() + static_cast<std::ptrdiff_t>(i));
      } else
        ++i;
    }
    out.push_back({n.op, loaded_late(n.body)});
  }
  return out;
}

struct Walker {
  const Program& p;
  const Region& r;
  const Schedule& s;
  const Nest& nest;
  const Extents& e;
  Columns& out;
  std::vector<int> value_of;                // a buffer
  std::vector<std::pair<int, int>> loops{}; // first and last column
  struct Event {
    int value, column;
  };
  std::vector<Event> events{};

  int at() const { return static_cast<int>(out.columns.size()); }
  Column& add(Column::Kind kind, int depth, std::string text) {
    out.columns.push_back({kind, depth, std::move(text), -1, -1, {}, {}});
    return out.columns.back();
  }
  void touch(int value) { events.push_back({value, at() - 1}); }
  std::string shape(int value) const {
    const Lived& v = out.values[static_cast<std::size_t>(value)];
    return v.size == Formula(1) ? v.name : fmt::format("{} ({})", v.name, v.size.text());
  }

  void block(const Block& nodes, int depth) {
    for (const Node& n : nodes) node(n, depth);
  }

  void node(const Node& n, int depth) {
    if (const auto* f = std::get_if<For>(&n.op)) {
      const auto step = static_cast<std::size_t>(f->step);
      const std::string& axis = out.names.axes[static_cast<std::size_t>(s.steps[step].axis)];
      const bool grid = f->kind == For::Kind::grid;
      add(grid ? Column::Kind::grid : Column::Kind::loop, depth,
          fmt::format("{} {} in tiles of {}", grid ? "grid over" : "for", axis, out.names.steps[step]));
      const int first = at() - 1;
      block(n.body, depth + 1);
      if (!grid) add(Column::Kind::end, depth, fmt::format("end of {}", axis)), loops.emplace_back(first, at() - 1);
    } else if (const auto* l = std::get_if<Load>(&n.op)) {
      const int v = value_of[static_cast<std::size_t>(l->buffer)];
      add(Column::Kind::load, depth, "load " + shape(v)).value = v;
      touch(v);
    } else if (const auto* st = std::get_if<Store>(&n.op)) {
      const int v = value_of[static_cast<std::size_t>(st->buffer)];
      add(Column::Kind::store, depth, "save " + shape(v)).value = v;
      out.values[static_cast<std::size_t>(v)].stored = true;
      touch(v);
    } else if (const auto* i = std::get_if<Init>(&n.op)) {
      const int v = value_of[static_cast<std::size_t>(i->buffer)];
      add(Column::Kind::init, depth, fmt::format("init {} for {}", shape(v), name_of(i->reducer))).value = v;
      touch(v);
    } else if (const auto* c = std::get_if<Compute>(&n.op)) {
      Column& column = add(Column::Kind::compute, depth, print(p, *p.statement(c->statement)));
      column.statement = c->statement, column.value = value_of[static_cast<std::size_t>(c->out)];
      for (BufferId b : c->reads) {
        const int v = value_of[static_cast<std::size_t>(b)];
        if (std::find(column.reads.begin(), column.reads.end(), v) == column.reads.end()) column.reads.push_back(v);
      }
      touch(column.value);
      for (int v : std::vector<int>(out.columns.back().reads)) touch(v);
    } else {
      block(n.body, depth);
    }
  }

  // From its first column to its last; inside a loop that it was made outside of, to the loop's end.
  void lifetimes() {
    for (std::size_t v = 0; v < out.values.size(); ++v) {
      Lived& value = out.values[v];
      value.first = at(), value.last = -1;
      for (const Event& x : events)
        if (x.value == static_cast<int>(v))
          value.first = std::min(value.first, x.column), value.last = std::max(value.last, x.column);
      for (bool grown = true; grown;) {
        grown = false;
        for (const auto& [first, last] : loops)
          if (value.first < first && value.last > first && value.last < last) value.last = last, grown = true;
      }
    }
    for (std::size_t v = 0; v < out.values.size(); ++v)
      for (int c = out.values[v].first; c <= out.values[v].last; ++c)
        out.columns[static_cast<std::size_t>(c)].live.push_back(static_cast<int>(v));
  }

  bool is_map_onto(const Column& c, int value) const {
    return c.kind == Column::Kind::compute && c.value == value && p.statement(c.statement)->reduced.empty();
  }

  // A slot for each value: that of an operand which dies where the value is made from it, point by point; else one that
  // is free; else a new one.
  void slots() {
    std::vector<int> order, free_from;
    for (std::size_t v = 0; v < out.values.size(); ++v) order.push_back(static_cast<int>(v));
    std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
      return out.values[static_cast<std::size_t>(a)].first < out.values[static_cast<std::size_t>(b)].first;
    });
    auto lived = [&](int v) -> Lived& { return out.values[static_cast<std::size_t>(v)]; };
    for (int v : order) {
      const Column& made = out.columns[static_cast<std::size_t>(lived(v).first)];
      int slot = -1;
      for (bool in_place : {true, false})
        for (std::size_t x = 0; x < out.slots.size() && slot < 0; ++x) {
          const Lived& holder = lived(out.slots[x].back());
          if (holder.size != lived(v).size || holder.loaded != lived(v).loaded) continue;
          const bool dies_here = holder.last == lived(v).first && is_map_onto(made, v) &&
                                 std::count(made.reads.begin(), made.reads.end(), out.slots[x].back()) > 0;
          if (in_place ? dies_here : holder.last < lived(v).first) slot = static_cast<int>(x);
        }
      if (slot < 0) slot = static_cast<int>(out.slots.size()), out.slots.emplace_back();
      out.slots[static_cast<std::size_t>(slot)].push_back(v);
      lived(v).slot = slot;
    }
  }
};

} // namespace

Columns columns(const Program& planned, const Region& region, const Schedule& s, const Nest& nest, bool late) {
  const Program& p = program_of(planned, nest);
  const Region& r = region_of(region, nest);
  const Extents e(p, r, s);
  Columns out;
  out.names = e.names, out.point = e.point;
  Walker w{p, r, s, nest, e, out, {}};
  std::set<std::string> streams;
  for (std::size_t i = 0; i < s.steps.size(); ++i)
    if (s.steps[i].how == AxisStep::How::stream) streams.insert(e.names.steps[i]);
  for (const Buffer& b : nest.buffers) {
    Lived v{b.tensor, b.name, b.held, {}, false, false, false, 0, 0, 0};
    const bool loaded = std::count(nest.inputs.begin(), nest.inputs.end(), b.tensor) > 0;
    for (std::size_t i = 0; i < r.statements.size(); ++i) {
      const Statement& st = *p.statement(r.statements[i]);
      auto consider = [&](const std::vector<Index>& at) {
        const Formula box = e.box(r, static_cast<int>(i), at, p.tensor(b.tensor));
        if (v.size.is_zero() || box.at(e.point) > v.size.at(e.point)) v.size = box;
      };
      if (!loaded && st.out == b.tensor) consider(st.at);
      if (loaded)
        for_each_access(st, [&](const Access& a) {
          if (a.tensor == b.tensor) consider(a.at);
        });
    }
    v.loaded = loaded;
    v.streamed =
        loaded && std::any_of(streams.begin(), streams.end(), [&](const std::string& x) { return v.size.mentions(x); });
    w.value_of.push_back(static_cast<int>(out.values.size()));
    out.values.push_back(std::move(v));
  }
  w.block(late ? loaded_late(nest.body) : nest.body, 0);
  w.lifetimes();
  w.slots();
  return out;
}

Formula Columns::held(std::size_t column, Count c) const {
  std::map<int, Formula> of_slot;
  for (int v : columns[column].live) {
    const Lived& value = values[static_cast<std::size_t>(v)];
    const Formula size = c == Count::bytes ? static_cast<double>(bytes_of(value.held)) * value.size : value.size;
    Formula& mine = of_slot[value.slot];
    if (mine.is_zero() || size.at(point) > mine.at(point)) mine = size;
  }
  Formula total;
  for (const auto& one : of_slot) total = total + one.second;
  return total;
}

std::size_t Columns::widest(Count c) const {
  std::size_t best = 0;
  double most = -1;
  for (std::size_t i = 0; i < columns.size(); ++i)
    if (const double held_here = held(i, c).at(point); held_here > most) most = held_here, best = i;
  return best;
}

std::vector<Formula> Columns::footprint(Count c) const {
  std::vector<Formula> list;
  for (std::size_t i = 0; i < columns.size(); ++i)
    if (const Formula f = held(i, c); std::find(list.begin(), list.end(), f) == list.end()) list.push_back(f);
  return list;
}

double most(const std::vector<Formula>& footprint, const Point& point) {
  double held = 0;
  for (const Formula& f : footprint) held = std::max(held, f.at(point));
  return held;
}

std::string print(const Columns& c) {
  std::string out;
  std::size_t width = 0;
  std::vector<std::string> lines;
  for (std::size_t i = 0; i < c.columns.size(); ++i) {
    const Column& column = c.columns[i];
    lines.push_back(
        fmt::format("c{:<3} {}{}", i, std::string(static_cast<std::size_t>(2 * column.depth), ' '), column.text));
    if (lines.back().size() <= 76) width = std::max(width, lines.back().size());
  }
  for (std::size_t i = 0; i < c.columns.size(); ++i) {
    std::string alive;
    for (int v : c.columns[i].live) alive += (alive.empty() ? "" : " ") + c.values[static_cast<std::size_t>(v)].name;
    out += alive.empty() ? lines[i] + "\n" : fmt::format("{:<{}}  | {}\n", lines[i], width, alive);
  }
  return out;
}

} // namespace tilewright
