#include "report/diagram.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "expr/scalar.h"
#include "expr/text.h"

namespace tilewright {

namespace {

constexpr const char *memory = "#222222", *scratch = "#e07b00", *registers = "#2e8b3d", *grey = "#888888";
constexpr double pad = 8, wire = 18; // between the wires of a value

struct Band { // a value
  std::string name;
  std::vector<std::pair<std::string, bool>> axes; // label; tiled
  const char* colour = scratch;
  int first = 0, last = 0, row = 0;
};
struct Event { // a column
  std::vector<std::string> label;
  enum class Kind { load, save, work } kind = Kind::work;
  std::vector<int> reads;
  int makes = -1;
  Formula moved, held;
};
struct Frame {
  std::string label;
  int first = 0, last = 0, depth = 0;
};
struct Scene {
  std::string title;
  std::vector<Band> bands;
  std::vector<Event> events;
  std::vector<Frame> frames;
};

// What a statement does, in short: "S = sum d", "P_exp = exp".
std::vector<std::string> label_of(const Program& p, const Statement& s) {
  std::string over;
  for (AxisId a : s.reduced) over += " " + s.names[static_cast<std::size_t>(a)];
  std::string what;
  if (!s.reduced.empty())
    what = std::string(name_of(s.reducer)) + over;
  else if (s.body->args.empty())
    what = "copy";
  else
    what = std::string(name_of(s.body->op));
  return {p.tensor(s.out).name, what};
}

std::vector<std::pair<std::string, bool>> axes_of(const Extents& e, const Region& r, int statement,
                                                  const std::vector<Index>& at, const Tensor& t) {
  std::vector<std::pair<std::string, bool>> out;
  for (std::size_t d = 0; d < at.size(); ++d) {
    const Formula extent =
        e.box(r, statement, {at[d]}, Tensor{t.name, t.dtype, {t.dims[d]}, t.kind, {}, {}, {}, {}, {}, {}, {}});
    if (extent == Formula(1)) continue;
    const std::string label = extent.text();
    out.emplace_back(label, label.find("g_") != std::string::npos);
  }
  return out;
}

// A part with its schedule: the columns of its nest, without those that only begin or end something.
void add_part(Scene& scene, const Program& planned, const Part& part, bool gpu) {
  const Nest nest = expand(planned, part.region, part.schedule, part.name);
  const Columns c = columns(planned, part.region, part.schedule, nest);
  const Program& p = program_of(planned, nest);
  const Region& r = region_of(part.region, nest);
  const Extents e(p, r, part.schedule);
  const int base = static_cast<int>(scene.bands.size());
  for (const Lived& v : c.values) {
    Band b{v.name, {}, v.loaded || !gpu ? scratch : registers, -1, -1, 0};
    for (std::size_t i = 0; i < r.statements.size() && b.axes.empty(); ++i) {
      const Statement& s = *p.statement(r.statements[i]);
      if (!v.loaded && s.out == v.tensor) b.axes = axes_of(e, r, static_cast<int>(i), s.at, p.tensor(v.tensor));
      if (v.loaded)
        for_each_access(s, [&](const Access& a) {
          if (a.tensor == v.tensor && b.axes.empty())
            b.axes = axes_of(e, r, static_cast<int>(i), a.at, p.tensor(v.tensor));
        });
    }
    scene.bands.push_back(std::move(b));
  }
  std::vector<Frame> open;
  auto shown = [&] { return static_cast<int>(scene.events.size()); };
  for (std::size_t i = 0; i < c.columns.size(); ++i) {
    const Column& column = c.columns[i];
    if (column.kind == Column::Kind::grid || column.kind == Column::Kind::loop) {
      open.push_back({column.text, shown(), -1, column.depth});
      if (column.kind == Column::Kind::grid) continue;
    } else if (column.kind == Column::Kind::end) {
      open.back().last = shown() - 1;
      scene.frames.push_back(open.back()), open.pop_back();
    } else if (column.kind != Column::Kind::init) {
      Event event;
      event.kind = column.kind == Column::Kind::load    ? Event::Kind::load
                   : column.kind == Column::Kind::store ? Event::Kind::save
                                                        : Event::Kind::work;
      if (event.kind == Event::Kind::work)
        event.label = label_of(p, *p.statement(column.statement));
      else
        event.label = {event.kind == Event::Kind::load ? "load" : "save",
                       c.values[static_cast<std::size_t>(column.value)].name};
      for (int v : column.reads) event.reads.push_back(base + v);
      event.makes = base + column.value;
      if (event.kind != Event::Kind::work) event.moved = c.values[static_cast<std::size_t>(column.value)].size;
      event.held = c.held(i, Count::values);
      scene.events.push_back(std::move(event));
    }
    for (int v : column.live) {
      Band& b = scene.bands[static_cast<std::size_t>(base + v)];
      if (b.first < 0)
        b.first =
            std::max(0, shown() - (column.kind == Column::Kind::init || column.kind == Column::Kind::loop ? 0 : 1));
      b.last = std::max(b.last, shown() - 1);
    }
  }
  for (Frame& f : open) f.last = shown() - 1, scene.frames.push_back(f);
}

// A group that is not scheduled: everything in, its statements, everything out.
void add_group(Scene& scene, const Program& p, const std::vector<StatementId>& group) {
  const std::set<StatementId> inside(group.begin(), group.end());
  const Readers readers = readers_by_tensor(p);
  std::map<TensorId, int> band_of;
  std::map<TensorId, Formula> size_of;
  const Schedule none;
  auto band = [&](TensorId t, const Region& r, const std::vector<Index>& at) {
    if (band_of.count(t)) return band_of.at(t);
    const Extents e(p, r, none);
    size_of[t] = e.box(r, 0, at, p.tensor(t));
    scene.bands.push_back(
        {p.tensor(t).name, axes_of(e, r, 0, at, p.tensor(t)), scratch, static_cast<int>(scene.events.size()), 0, 0});
    return band_of[t] = static_cast<int>(scene.bands.size()) - 1;
  };
  const int first = static_cast<int>(scene.events.size());
  std::set<TensorId> made;
  std::vector<TensorId> saved;
  for (StatementId id : group) {
    const Statement& s = *p.statement(id);
    const auto r = unify(p, {id});
    if (!r) continue;
    Event work;
    work.label = label_of(p, s);
    for_each_access(s, [&](const Access& a) {
      const bool known = band_of.count(a.tensor) > 0;
      const int b = band(a.tensor, *r, a.at);
      work.reads.push_back(b);
      if (known || made.count(a.tensor)) return;
      scene.events.push_back({{"load", p.tensor(a.tensor).name}, Event::Kind::load, {}, b, size_of.at(a.tensor), {}});
    });
    work.makes = band(s.out, *r, s.at);
    scene.events.push_back(std::move(work));
    made.insert(s.out);
    const auto& list = readers[static_cast<std::size_t>(s.out)];
    if (p.is_result(s.out) || std::any_of(list.begin(), list.end(), [&](StatementId x) { return !inside.count(x); }))
      saved.push_back(s.out);
  }
  for (TensorId t : saved)
    scene.events.push_back({{"save", p.tensor(t).name}, Event::Kind::save, {}, band_of.at(t), size_of.at(t), {}});
  // A band begins where it is loaded or made and ends where it is needed last.
  for (const auto& [t, b] : band_of) {
    Band& value = scene.bands[static_cast<std::size_t>(b)];
    value.first = static_cast<int>(scene.events.size()), value.last = first;
    for (int i = first; i < static_cast<int>(scene.events.size()); ++i) {
      const Event& e = scene.events[static_cast<std::size_t>(i)];
      if (e.makes == b || std::count(e.reads.begin(), e.reads.end(), b))
        value.first = std::min(value.first, i), value.last = std::max(value.last, i);
    }
  }
  for (int i = first; i < static_cast<int>(scene.events.size()); ++i) {
    Formula& held = scene.events[static_cast<std::size_t>(i)].held;
    for (const auto& [t, b] : band_of)
      if (scene.bands[static_cast<std::size_t>(b)].first <= i && i <= scene.bands[static_cast<std::size_t>(b)].last)
        held = held + size_of.at(t);
  }
  scene.frames.push_back({"kernel", first, static_cast<int>(scene.events.size()) - 1, 0});
}

Scene scene_of(const Move& m, bool gpu) {
  Scene s;
  s.title = m.name + ": " + m.does;
  if (m.parts.empty())
    for (const auto& group : m.groups) add_group(s, *m.program, group);
  else
    for (const Part& part : m.parts) add_part(s, *m.program, part, gpu);
  std::erase_if(s.frames, [](const Frame& f) { return f.last < f.first; });
  return s;
}

std::vector<std::string> terms_of(const Formula& f) {
  std::vector<std::string> out;
  for (const Formula::Product& p : f.products()) out.push_back((out.empty() ? "" : "+ ") + text(p));
  return out;
}

struct Painter {
  Scene scene;
  Drawing d;
  std::vector<double> x;     // left of each column, and the right of the last
  std::vector<double> row_y; // top of each row of bands
  double heads = 0, bands = 0, table = 0;

  double band_height(const Band& b) const { return Drawing::leading + wire * static_cast<double>(b.axes.size()) + 12; }

  // Values that do not live at once share a row.
  void rows() {
    std::vector<int> order;
    for (std::size_t i = 0; i < scene.bands.size(); ++i)
      if (scene.bands[i].first >= 0) order.push_back(static_cast<int>(i));
    std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
      return scene.bands[static_cast<std::size_t>(a)].first < scene.bands[static_cast<std::size_t>(b)].first;
    });
    std::vector<int> until;
    std::vector<double> height;
    for (int i : order) {
      Band& b = scene.bands[static_cast<std::size_t>(i)];
      std::size_t row = 0;
      while (row < until.size() && until[row] >= b.first) ++row;
      if (row == until.size()) until.push_back(-1), height.push_back(0);
      until[row] = b.last, b.row = static_cast<int>(row);
      height[row] = std::max(height[row], band_height(b));
    }
    double y = bands;
    for (double h : height) row_y.push_back(y), y += h;
    row_y.push_back(y);
  }

  void widths() {
    double at = pad + 30; // room for the names of the table's rows
    for (std::size_t i = 0; i < scene.events.size(); ++i) {
      const Event& e = scene.events[i];
      double w = 40;
      for (const std::string& l : e.label) w = std::max(w, Drawing::width_of(l) + 2 * pad);
      for (const Formula* f : {&e.moved, &e.held})
        for (const std::string& t : terms_of(*f)) w = std::max(w, Drawing::width_of(t) + 2 * pad);
      for (const Band& b : scene.bands)
        if (b.first == static_cast<int>(i)) {
          w = std::max(w, Drawing::width_of(b.name) + 2 * pad + 6);
          for (const auto& a : b.axes) w = std::max(w, Drawing::width_of(a.first) + 2 * pad + 6);
        }
      x.push_back(at), at += w;
    }
    x.push_back(at);
  }

  double middle(int column) const {
    return (x[static_cast<std::size_t>(column)] + x[static_cast<std::size_t>(column) + 1]) / 2;
  }

  void frames() {
    int deepest = 0;
    for (const Frame& f : scene.frames) deepest = std::max(deepest, f.depth);
    // Labels of frames that begin in the same column stand on lines of their own, the outer one above.
    for (const Frame& f : scene.frames) {
      const double top = 30 + Drawing::leading * f.depth, inset = 2.0 * f.depth;
      const double left = x[static_cast<std::size_t>(f.first)] + inset,
                   right = x[static_cast<std::size_t>(f.last) + 1] - inset;
      const bool stream = f.label.rfind("for", 0) == 0;
      d.box(left, top, right - left, row_y.back() - top + 4 * (deepest - f.depth), stream ? "#fff8d6" : "none", grey,
            4);
    }
  }
  // Texts of frames are shortened to their frame.
  void frame_labels() {
    for (const Frame& f : scene.frames) {
      const double left = x[static_cast<std::size_t>(f.first)] + 2.0 * f.depth + 3,
                   right = x[static_cast<std::size_t>(f.last) + 1];
      std::string label = f.label;
      const auto room = static_cast<std::size_t>(std::max(0.0, (right - left - 4) / Drawing::advance));
      if (label.size() > room) label = label.substr(0, room);
      d.text(left, 30 + Drawing::leading * f.depth + 11, label, grey);
    }
  }

  void heads_of_columns() {
    for (std::size_t i = 0; i < scene.events.size(); ++i) {
      const Event& e = scene.events[i];
      const char* fill = e.kind == Event::Kind::load ? "#cdeeee" : e.kind == Event::Kind::save ? "#f6d3ee" : "#ffffff";
      d.box(x[i] + 3, heads, x[i + 1] - x[i] - 6, 2 * Drawing::leading + 6, fill, "#555555");
      for (std::size_t l = 0; l < e.label.size(); ++l)
        d.text(x[i] + pad, heads + 12 + Drawing::leading * static_cast<double>(l), e.label[l]);
    }
  }

  double wire_y(const Band& b, std::size_t axis) const {
    return row_y[static_cast<std::size_t>(b.row)] + Drawing::leading + 4 + wire * (1 + static_cast<double>(axis));
  }

  void band(const Band& b) {
    const Event& begins = scene.events[static_cast<std::size_t>(b.first)];
    const bool loaded = begins.kind == Event::Kind::load && &scene.bands[static_cast<std::size_t>(begins.makes)] == &b;
    const auto first = static_cast<std::size_t>(b.first), last = static_cast<std::size_t>(b.last);
    const double left = x[first] + 4, right = x[last + 1] - 4;
    const double top = row_y[static_cast<std::size_t>(b.row)] + 1;
    d.line(left, top + 2, right, top + 2, b.colour, 0.5, "1 3");
    d.text(x[first] + pad, top + 12, b.name, b.colour);
    for (std::size_t a = 0; a < b.axes.size(); ++a) {
      const double y = wire_y(b, a);
      d.text(x[first] + pad, y - 3, b.axes[a].first, b.colour, b.axes[a].second);
      if (loaded) d.line(left, y + 1, left + 8, y + 1, memory, 1.6); // it comes from memory: the colour changes here
      d.line(loaded ? left + 8 : left, y + 1, right, y + 1, b.colour, 1.6);
    }
    if (scene.events[last].kind == Event::Kind::save && scene.events[last].makes >= 0 &&
        &scene.bands[static_cast<std::size_t>(scene.events[last].makes)] == &b)
      for (std::size_t a = 0; a < b.axes.size(); ++a)
        d.line(right - 8, wire_y(b, a) + 1, right, wire_y(b, a) + 1, memory, 1.6);
  }

  // From the head of a column to the values that it reads (a dot) and makes (a bar), along the right edge of the
  // column, where no text is.
  void touches() {
    for (std::size_t i = 0; i < scene.events.size(); ++i) {
      const double at = x[i + 1] - 5;
      double low = heads + 2 * Drawing::leading + 6;
      auto reach = [&](int b, bool makes) {
        if (b < 0) return;
        const double y = row_y[static_cast<std::size_t>(scene.bands[static_cast<std::size_t>(b)].row)] + 3;
        low = std::max(low, y);
        if (makes)
          d.box(at - 2, y - 2, 4, 8, "#555555", "#555555", 0);
        else
          d.box(at - 2, y - 2, 4, 4, "#ffffff", "#555555", 2);
      };
      for (int b : scene.events[i].reads) reach(b, false);
      reach(scene.events[i].makes, true);
      d.line(at, heads + 2 * Drawing::leading + 6, at, low, "#555555", 0.7);
    }
  }

  void cost_table() {
    std::size_t moved = 1, held = 1;
    for (const Event& e : scene.events)
      moved = std::max(moved, e.moved.products().size()), held = std::max(held, e.held.products().size());
    const double h = table + 12, m = h + Drawing::leading * static_cast<double>(moved) + 6;
    d.line(pad, table - 3, x.back(), table - 3, grey), d.line(pad, m - 14, x.back(), m - 14, grey, 0.5);
    d.text(pad, h, "H"), d.text(pad, m, "M");
    for (std::size_t i = 0; i < scene.events.size(); ++i) {
      const Event& e = scene.events[i];
      double y = h;
      for (const std::string& t : terms_of(e.moved)) d.text(x[i] + pad, y, t), y += Drawing::leading;
      y = m;
      for (const std::string& t : terms_of(e.held)) d.text(x[i] + pad, y, t), y += Drawing::leading;
    }
    d.line(pad, m + Drawing::leading * static_cast<double>(held) - 8, x.back(),
           m + Drawing::leading * static_cast<double>(held) - 8, grey);
  }

  Drawing run() {
    int deepest = 0;
    for (const Frame& f : scene.frames) deepest = std::max(deepest, f.depth + 1);
    heads = 34 + Drawing::leading * deepest, bands = heads + 2 * Drawing::leading + 16;
    d.text(pad, 16, scene.title);
    rows(), widths();
    table = row_y.back() + 14;
    frames(), touches(), frame_labels(), heads_of_columns();
    for (const Band& b : scene.bands)
      if (b.first >= 0 && b.last >= b.first && static_cast<std::size_t>(b.last) < scene.events.size()) band(b);
    cost_table();
    return std::move(d);
  }
};

Drawing legend(bool gpu) {
  Drawing d;
  double at = pad;
  auto entry = [&](const char* colour, const std::string& text) {
    d.line(at, 10, at + 18, 10, colour, 3);
    d.text(at + 24, 14, text, colour);
    at += 24 + Drawing::width_of(text) + 18;
  };
  entry(memory, "memory"), entry(scratch, gpu ? "scratch of a multiprocessor" : "scratch of a core");
  if (gpu) entry(registers, "registers");
  d.text(at, 14, "overlined: tiled; H: values moved by the column, M: values held behind it", grey);
  return d;
}

Drawing paint(const Move& m, bool gpu) { return Painter{scene_of(m, gpu), {}, {}, {}}.run(); }

Drawing pipeline(const KernelPage& k) {
  static constexpr const char* fills[] = {"#9ecae1", "#a1d99b", "#fdae6b", "#bcbddc", "#fc9272", "#d9d9d9"};
  Drawing d;
  const double until = 3.2 * k.timeline.interval, scale = 900 / until;
  d.text(pad, 16,
         fmt::format("{}: {} warpgroups in turns, {:.2f} clocks a row and turn of each", k.part.name, k.lanes,
                     k.timeline.interval / k.lanes));
  for (int lane = 0; lane < k.lanes; ++lane) {
    const double y = 34 + 34.0 * lane;
    d.text(pad, y + 16, fmt::format("warpgroup {}", lane));
    for (const Slot& s : k.timeline.slots) {
      if (s.lane != lane || s.end > until) continue;
      d.box(100 + s.start * scale, y, (s.end - s.start) * scale, 24,
            fills[static_cast<std::size_t>(s.phase) % std::size(fills)], "#555555", 0);
    }
  }
  double y = 34 + 34.0 * k.lanes + 16;
  for (std::size_t i = 0; i < k.phases.size(); ++i, y += 18) {
    d.box(pad, y - 10, 16, 12, fills[i % std::size(fills)], "#555555", 0);
    d.text(pad + 24, y,
           fmt::format("{}, on the {} pipe: {:.2f} clocks a row and turn", k.phases[i].what,
                       k.pipes[static_cast<std::size_t>(k.phases[i].pipe)], k.phases[i].length));
  }
  for (std::size_t i = 0; i < k.pipes.size(); ++i, y += 18)
    d.text(pad + 24, y, fmt::format("{} busy {:.0f}%", k.pipes[i], 100 * k.timeline.busy[i]));
  return d;
}

std::string file_name(const std::string& text) {
  std::string out;
  for (char c : text) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
    if (plain)
      out += c;
    else if (!out.empty() && out.back() != '-')
      out += '-';
  }
  return out.substr(0, 40);
}

} // namespace

Drawing picture(const Move& m) { return paint(m, true); }

std::vector<DrawnFile> diagrams(const DerivationReport& r) {
  std::vector<DrawnFile> out;
  const bool gpu = r.machine.target == Target::cuda;
  for (std::size_t i = 0; i < r.derivation.moves.size(); ++i) {
    const Move& m = r.derivation.moves[i];
    Drawing d;
    double y = 4;
    d.append(legend(gpu), 0, y), y += 24;
    if (i > 0) {
      const Drawing before = paint(r.derivation.moves[i - 1], gpu);
      d.append(before, 0, y), y += before.height() + 18;
      d.text(pad, y, "="), y += 8;
    }
    d.append(paint(m, gpu), 0, y);
    out.push_back({fmt::format("{}-{}.svg", i + 1, file_name(m.name)), std::move(d), m.name + ": " + m.does});
  }
  for (const KernelPage& k : r.kernels)
    if (k.phases.size() > 1 && !k.timeline.slots.empty())
      out.push_back({fmt::format("pipeline-{}.svg", file_name(k.part.name)), pipeline(k), k.part.name});
  return out;
}

} // namespace tilewright
