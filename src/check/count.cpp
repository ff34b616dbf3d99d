#include "check/count.h"

#include <algorithm>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace tilewright {

namespace {

using Point = std::vector<std::int64_t>;

// The value of an index at a point of its statement, or nothing where an element of a tensor decides it.
std::optional<std::int64_t> value_at(const Index& i, const Point& point) {
  std::int64_t sum = i.offset.constant();
  for (const Index::Term& t : i.terms) {
    std::optional<std::int64_t> v;
    if (const AxisId* a = std::get_if<AxisId>(&t.of)) v = point[static_cast<std::size_t>(*a)];
    else if (const auto* inner = std::get_if<std::shared_ptr<const Index>>(&t.of)) v = value_at(**inner, point);
    if (!v) return std::nullopt;
    sum += t.coefficient.constant() * *v;
  }
  if (i.div != Size(1)) sum = floor_div_i64(sum, i.div.constant());
  if (i.mod != Size(0)) sum = floor_mod_i64(sum, i.mod.constant());
  return sum;
}

// Whether the hull of the reads inside the tensor is the hull of all reads, clipped: each axis stands in one dim only (else a point
// that leaves one dim keeps elements of another from being read), and the terms of a dim leave no gaps between them.
bool separable(const Access& a) {
  std::vector<AxisId> seen;
  for (const Index& i : a.at)
    for (const Index::Term& t : i.terms) {
      const AxisId* x = std::get_if<AxisId>(&t.of);
      if (!x || std::find(seen.begin(), seen.end(), *x) != seen.end()) return false;
      seen.push_back(*x);
      if (i.terms.size() > 1 && t.coefficient != i.terms[0].coefficient) return false;
    }
  return true;
}

// What was read of a buffer since it was loaded.
struct Seen {
  bool active = false, any = false, exact = true;
  Point low, high;                       // hull of the elements inside the tensor
  std::vector<std::int64_t> box_low, box_high;
  std::set<Point> made;                  // of a map that stays in the kernel, in this tile of the grid
  bool begun = false;                    // of a reduction: all its points are there
};

struct Counter {
  const Program& p;
  const Nest& nest;
  const bool points;
  Counted out;
  Point variables;
  std::vector<Seen> seen;

  const Buffer& buffer(BufferId b) const { return nest.buffers[static_cast<std::size_t>(b)]; }
  std::int64_t dim(TensorId t, std::size_t d) const { return p.tensor(t).dims[d].constant(); }

  std::int64_t bytes(const Buffer& b) const {
    std::int64_t n = static_cast<std::int64_t>(bytes_of(p.tensor(b.tensor).dtype));
    for (std::size_t d = 0; d < b.box.size(); ++d) n = checked_mul(n, b.box[d].count(variables.data(), dim(b.tensor, d)));
    return n;
  }

  void load(BufferId id) {
    const Buffer& b = buffer(id);
    out.loaded[b.tensor] += bytes(b);
    open(id);
  }

  // From now on every read of the buffer must lie in its box.
  void open(BufferId id) {
    const Buffer& b = buffer(id);
    Seen& s = seen[static_cast<std::size_t>(id)];
    std::set<Point> made = std::move(s.made);
    const bool begun = s.begun;
    s = Seen{};
    s.made = std::move(made), s.begun = begun;
    s.active = true;
    for (std::size_t d = 0; d < b.box.size(); ++d) {
      std::int64_t first = 0;
      const std::int64_t count = b.box[d].all().count(variables.data(), dim(b.tensor, d), &first);
      s.box_low.push_back(first);
      s.box_high.push_back(first + (count - 1) * b.box[d].step);
    }
    s.low.assign(b.box.size(), INT64_MAX);
    s.high.assign(b.box.size(), INT64_MIN);
  }

  [[noreturn]] void wrong(const Buffer& b, const std::string& what) const {
    throw Error(Code::internal, nest.name, fmt::format("buffer {}: {}", b.name, what));
  }

  // One access at one point. Elements outside the tensor are `else` values: nothing is read.
  void read(BufferId id, const Access& a, bool exact, const Point& point) {
    Seen& s = seen[static_cast<std::size_t>(id)];
    if (!s.active) return;
    Point at;
    bool known = exact;
    for (std::size_t d = 0; d < a.at.size(); ++d) {
      const auto v = value_at(a.at[d], point);
      known &= v.has_value() && is_affine(a.at[d]);
      if (v && (*v < 0 || *v >= dim(a.tensor, d))) return;
      at.push_back(v.value_or(s.box_low[d]));
    }
    s.any = true;
    s.exact &= known;
    if (buffer(id).inner && known && !s.begun && !s.made.count(at)) wrong(buffer(id), fmt::format("{} is read and was not made", fmt::join(at, ", ")));
    for (std::size_t d = 0; d < at.size(); ++d) {
      s.low[d] = std::min(s.low[d], at[d]);
      s.high[d] = std::max(s.high[d], at[d]);
      const bool inside = at[d] >= s.box_low[d] && at[d] <= s.box_high[d] && (at[d] - s.box_low[d]) % buffer(id).box[d].step == 0;
      if (!inside) wrong(buffer(id), fmt::format("element {} of dim {} is read, {}..{} is loaded", at[d], d, s.box_low[d], s.box_high[d]));
    }
  }

  // At the end of a buffer's life its box must be the hull of what was read, where one affine, separable access reads it.
  void close(BufferId id, int accesses) {
    Seen& s = seen[static_cast<std::size_t>(id)];
    s.active = false;
    if (!points || accesses != 1 || !s.exact || !s.any) return;   // nothing read: every point lay outside in some dim
    for (std::size_t d = 0; d < s.low.size(); ++d)
      if ((s.low[d] != s.box_low[d] && buffer(id).box[d].walk < 0) || s.high[d] != s.box_high[d])   // the turn before may have read it
        wrong(buffer(id), fmt::format("dim {}: {}..{} is loaded, {}..{} is read", d, s.box_low[d], s.box_high[d], s.low[d], s.high[d]));
  }

  int accesses_of(TensorId t) const {
    int n = 0;
    std::function<void(const Block&)> walk = [&](const Block& b) {
      for (const Node& node : b) {
        if (const Compute* c = std::get_if<Compute>(&node.op))
          for_each_access(*p.statement(c->statement), [&](const Access& a) { n += a.tensor == t; });
        walk(node.body);
      }
    };
    walk(nest.body);
    return n;
  }

  void compute(const Compute& c) {
    if (!points) return;
    const Statement& s = *p.statement(c.statement);
    if (buffer(c.out).inner) open(c.out);
    Point point, from, to;
    for (std::size_t a = 0; a < c.ranges.size(); ++a) {
      from.push_back(std::max<std::int64_t>(c.ranges[a].from(variables.data()), 0));
      to.push_back(std::min(c.ranges[a].high.at(variables.data()), s.axes[a].constant()));
      if (to.back() <= from.back()) return;
    }
    std::vector<Access> accesses;
    std::vector<bool> exact;
    for_each_access(s, [&](const Access& a) {
      accesses.push_back(a);
      exact.push_back(separable(a));
    });
    point = from;
    for (bool more = true; more;) {
      for (std::size_t i = 0; i < accesses.size(); ++i) read(c.reads[i], accesses[i], exact[i], point);
      if (buffer(c.out).inner) made(c.out, s, point);
      more = false;
      for (std::size_t a = point.size(); a-- > 0 && !more;) {
        more = ++point[a] < to[a];
        if (!more) point[a] = from[a];
      }
    }
  }

  void made(BufferId id, const Statement& s, const Point& point) {
    Point at;
    for (const Index& i : s.at)
      if (const auto v = value_at(i, point)) at.push_back(*v);
    seen[static_cast<std::size_t>(id)].made.insert(std::move(at));
  }

  void block(const Block& nodes) {
    std::vector<BufferId> opened;
    for (const Node& n : nodes) {
      if (const For* f = std::get_if<For>(&n.op)) {
        for (std::int64_t at = 0; at < f->extent; at += f->size) {
          variables[2 * static_cast<std::size_t>(f->step)] = at;
          variables[2 * static_cast<std::size_t>(f->step) + 1] = std::min(at + f->size, f->extent);
          if (f->kind == For::Kind::grid)
            for (Seen& s : seen) s.made.clear(), s.begun = false;
          if (f->turns.live(variables.data())) block(n.body);
        }
      } else if (const Load* l = std::get_if<Load>(&n.op)) {
        load(l->buffer);
        opened.push_back(l->buffer);
      } else if (const Store* st = std::get_if<Store>(&n.op)) {
        out.stored[buffer(st->buffer).tensor] += bytes(buffer(st->buffer));
      } else if (const Init* i = std::get_if<Init>(&n.op)) {
        seen[static_cast<std::size_t>(i->buffer)].begun = true;
        if (buffer(i->buffer).inner) open(i->buffer);        // a state may be read before a share is added to it
      } else if (const Compute* c = std::get_if<Compute>(&n.op)) {
        compute(*c);
      }
    }
    for (BufferId b : opened) close(b, points ? accesses_of(buffer(b).tensor) : 0);
  }
};

}  // namespace

std::int64_t Counted::total() const {
  std::int64_t n = 0;
  for (const auto* list : {&loaded, &stored})
    for (const auto& [t, bytes] : *list) n = checked_add(n, bytes);
  return n;
}

Counted count(const Program& p, const Nest& nest, bool points) {
  Counter c{program_of(p, nest), nest, points, {}, Point(static_cast<std::size_t>(nest.variables) + 2, 0), std::vector<Seen>(nest.buffers.size())};
  c.block(nest.body);
  return std::move(c.out);
}

}  // namespace tilewright
