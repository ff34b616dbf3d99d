#include "loop/through.h"

#include <algorithm>
#include <functional>
#include <map>

#include <fmt/format.h>

#include "expr/scalar.h"
#include "law/permute.h"

namespace tilewright {

namespace {

// The schedule's operand over the axes of the statement that reads it.
struct View {
  const OperandAt* of = nullptr;
  std::size_t statement = 0;                 // of the region
  Access access;
  std::optional<KeyedProduct> keyed;
  std::vector<RegionAxis> axis;              // one a dim of the cells (of the key); -1: one element
};

RegionAxis region_axis(const Region& r, std::size_t i, const Index& at) {
  const auto own = plain_axis(at);
  const auto x = own ? plain_axis(r.image[i][static_cast<std::size_t>(*own)]) : std::nullopt;
  return x ? *x : -1;
}

Or<View> view_of(const Program& p, const Region& r, const OperandAt& o) {
  View v{&o, 0, {}, {}, {}};
  for (std::size_t i = 0; i < r.statements.size(); ++i) {
    const Statement& s = *p.statement(r.statements[i]);
    if (auto keyed = keyed_product(p, s); keyed && keyed->operand == o.tensor && keyed->key.tensor == o.source) {
      v.statement = i, v.access = keyed->key, v.keyed = std::move(*keyed);
      for (const Index& at : v.access.at) v.axis.push_back(region_axis(r, i, at));
      return v;
    }
    const auto c = contraction(p, s);
    for (const Access* a : c ? std::vector<const Access*>{c->a, c->b} : std::vector<const Access*>{}) {
      if (a->tensor != o.tensor) continue;
      v.statement = i, v.access = *a;
      for (std::size_t d : o.dims) v.axis.push_back(region_axis(r, i, a->at[d]));
      return v;
    }
  }
  return Refused{p.tensor(o.tensor).name + " is no operand of a product here"};
}

struct Walker {
  const Program& p;
  const Region& r;
  const Schedule& s;
  std::string name;
  std::string why{};

  std::int64_t extent(RegionAxis a) const { return r.axes[static_cast<std::size_t>(a)].constant(); }
  int step_of(RegionAxis a) const {
    for (std::size_t i = 0; i < s.steps.size(); ++i)
      if (s.steps[i].axis == a) return static_cast<int>(i);
    return -1;
  }
  static TensorId table(Program& to, const std::string& what, std::vector<Size> dims) {
    Tensor t;
    t.name = what, t.dtype = DType::i32, t.dims = std::move(dims), t.kind = Kind::input;
    to.tensors.push_back(std::move(t));
    return static_cast<TensorId>(to.tensors.size()) - 1;
  }
  const std::string& source(const View& v) const { return p.tensor(v.of->source).name; }

  template <class Look> void each_access(Look look) const {
    for (std::size_t i = 0; i < r.statements.size(); ++i) {
      const Statement& st = *p.statement(r.statements[i]);
      for_each_access(st, [&](const Access& a) { look(i, a); });
      look(i, Access{st.out, st.at, nullptr});
    }
  }
  // The dims at which the region has one of the axes; each of them has it alone, and always.
  using Dims = std::map<std::pair<TensorId, std::size_t>, RegionAxis>;
  Dims plain_dims(const std::vector<RegionAxis>& axes) {
    Dims dims;
    each_access([&](std::size_t i, const Access& a) {
      for (std::size_t d = 0; d < a.at.size(); ++d)
        for (RegionAxis x : axes) {
          if (!mentions_axis(substitute(p, a.at[d], r.image[i]), x) || !is_affine(a.at[d])) continue;
          if (region_axis(r, i, a.at[d]) != x) why = p.tensor(a.tensor).name + " has a packed axis within an index";
          else if (a.otherwise) why = p.tensor(a.tensor).name + " is read beyond its edge along a packed axis";
          else dims[{a.tensor, d}] = x;
        }
    });
    each_access([&](std::size_t i, const Access& a) {
      for (const auto& [at, x] : dims)
        if (a.tensor == at.first && region_axis(r, i, a.at[at.second]) != x) why = p.tensor(a.tensor).name + " is read in two ways";
    });
    for (std::size_t i = 0; i < r.statements.size(); ++i)
      for (AxisId a : used_axis_values(*p.statement(r.statements[i])))
        for (RegionAxis x : axes)
          if (mentions_axis(r.image[i][static_cast<std::size_t>(a)], x)) why = "a body uses the value of a packed axis";
    return dims;
  }
  static void set(Nest& nest, TensorId t, std::size_t d, const Through& through) {
    for (Buffer& b : nest.buffers) {
      if (b.tensor != t || b.inner) continue;
      b.through.resize(b.box.size());
      b.through[d] = through;
    }
  }
  static void each_loop(Block& nodes, const std::function<void(For&)>& f) {
    for (Node& n : nodes) {
      if (For* loop = std::get_if<For>(&n.op)) f(*loop);
      each_loop(n.body, f);
    }
  }

  // ---- a stream through the live micro-tiles of a group

  std::optional<Nest> columns(const View& v, int step, RegionAxis packed, std::size_t place) {
    const OperandAt& o = *v.of;
    Slots slots{step, o, -1, -1, -1, o.unit[place], 0, 0, 0, {}};
    if (extent(packed) % slots.unit || s.steps[static_cast<std::size_t>(step)].size % slots.unit) return why = "a micro-tile is cut", std::nullopt;
    slots.most = extent(packed) / slots.unit;
    std::int64_t groups = 1;
    for (std::size_t i = v.axis.size(); i-- > 0;) {
      const std::int64_t cells = ceil_div_i64(p.tensor(o.tensor).dims[o.dims[i]].constant(), o.unit[i]);
      if (i == place || cells == 1) continue;
      const int tile = v.axis[i] < 0 ? -1 : step_of(v.axis[i]);
      if (tile < 0 || s.steps[static_cast<std::size_t>(tile)].how != AxisStep::How::tile || o.unit[i] % s.steps[static_cast<std::size_t>(tile)].size)
        return why = "a tile lies in several groups of micro-tiles", std::nullopt;
      slots.group.push_back({2 * tile, o.unit[i], groups});
      groups *= cells;
    }
    Nest nest = expand(p, r, s, name);
    if (nest.program) return why = "a sum follows its statistics", std::nullopt;
    auto own = std::make_shared<Program>(p);
    slots.count = table(*own, source(v) + "_count", {groups});
    slots.slot = table(*own, source(v) + "_slot", {groups, slots.most});
    const Boundary bound = boundary(p, r);
    for (const auto& [at, x] : plain_dims({packed})) {
      if (std::count(bound.outputs.begin(), bound.outputs.end(), at.first)) why = p.tensor(at.first).name + " is stored along the packed axis";
      set(nest, at.first, at.second, {0, false, 1, 0});
    }
    each_loop(nest.body, [&](For& f) { f.slots = f.step == step ? 0 : f.slots; });
    nest.inputs.insert(nest.inputs.end(), {slots.count, slots.slot});
    nest.slots = {std::move(slots)};
    nest.program = std::move(own), nest.region = std::make_shared<const Region>(r);
    return nest;
  }

  // ---- a grid through a list of rows

  // The packed axes of a statement become one, the first of them.
  struct Renamed { Statement statement; std::vector<AxisId> axis; };          // by old axis: the new one
  Renamed renamed(std::size_t i, const std::vector<RegionAxis>& packed, const View& v) const {
    const Statement& old = *p.statement(r.statements[i]);
    Renamed out{old, std::vector<AxisId>(old.axes.size(), -1)};
    Statement& st = out.statement;
    st.axes.clear(), st.names.clear(), st.reduced.clear();
    AxisId first = -1;
    std::int64_t all = 1;
    for (RegionAxis x : packed) all *= extent(x);
    for (std::size_t a = 0; a < old.axes.size(); ++a) {
      const auto x = plain_axis(r.image[i][a]);
      const bool one = x && std::count(packed.begin(), packed.end(), *x) > 0;
      if (one && first >= 0) {
        out.axis[a] = first;
        continue;
      }
      out.axis[a] = static_cast<AxisId>(st.axes.size());
      if (one) first = out.axis[a];
      st.axes.push_back(one ? Size(all) : old.axes[a]);
      st.names.push_back(a < old.names.size() ? old.names[a] : fmt::format("a{}", a));
    }
    for (AxisId a : old.reduced) st.reduced.push_back(out.axis[static_cast<std::size_t>(a)]);
    std::vector<Index> with;
    for (AxisId a : out.axis) with.push_back(axis_index(a));
    // What is read at the key is read at the slice that the tile has.
    const auto keyed = [&](const ScalarRef& node) {
      if (!v.keyed || node->op != Op::read) return node;
      const Access& a = std::get<Access>(node->leaf);
      std::vector<Index> at = a.at;
      bool changed = false;
      for (Index& index : at)
        if (is_key(i, index, v)) index = constant_index(0), changed = true;
      return changed ? read(p, a.tensor, std::move(at), a.otherwise) : node;
    };
    st.body = substitute(p, rewrite(old.body, keyed), with);
    if (old.guard) st.guard = substitute(p, rewrite(old.guard, keyed), with);
    for (Index& index : st.at) index = substitute(p, index, with);
    return out;
  }
  // Whether an index is an element of the key tensor at the packed axes.
  bool is_key(std::size_t i, const Index& index, const View& v) const {
    if (!v.keyed || index.terms.size() != 1) return false;
    const auto* inner = std::get_if<std::shared_ptr<const Access>>(&index.terms[0].of);
    if (!inner || (*inner)->tensor != v.of->source) return false;
    for (std::size_t d = 0; d < (*inner)->at.size(); ++d)
      if (v.axis[d] >= 0 && region_axis(r, i, (*inner)->at[d]) != v.axis[d]) return false;
    return index.offset == Size(0) && index.div == Size(1) && index.mod == Size(0) && index.terms[0].coefficient == Size(1);
  }

  // Steps, leaves and values over the new axes.
  static Schedule over(const Schedule& old, const std::vector<RegionAxis>& axis) {
    Schedule made = old;
    for (AxisStep& step : made.steps) step.axis = axis[static_cast<std::size_t>(step.axis)];
    return made;
  }

  std::optional<Nest> rows(const View& v, const std::vector<RegionAxis>& packed, std::int64_t unit) {
    int step = -1;
    for (RegionAxis x : packed)
      if (const int at = step_of(x); at >= 0) {
        if (step >= 0 || s.steps[static_cast<std::size_t>(at)].how != AxisStep::How::tile) return why = "rows that are packed together have several steps", std::nullopt;
        step = at;
      }
    if (step < 0) return why = "the rows are in no tile", std::nullopt;
    std::int64_t all = 1;
    std::vector<std::int64_t> size(packed.size(), 1);
    for (std::size_t i = packed.size(); i-- > 0;) size[i] = all, all *= extent(packed[i]);
    if (extent(packed.back()) % unit || s.steps[static_cast<std::size_t>(step)].size % unit) return why = "a micro-tile is cut", std::nullopt;

    auto own = std::make_shared<Program>(p);
    std::vector<RegionAxis> new_axis(r.axes.size(), -1);
    std::vector<Renamed> list;
    for (std::size_t i = 0; i < r.statements.size(); ++i) {
      list.push_back(renamed(i, packed, v));
      own->nodes[static_cast<std::size_t>(r.statements[i])] = list.back().statement;
    }
    Or<Region> region = unify(*own, r.statements);
    if (!region) return why = region.reason(), std::nullopt;
    for (std::size_t i = 0; i < list.size(); ++i)
      for (std::size_t a = 0; a < list[i].axis.size(); ++a) {
        const auto from = plain_axis(r.image[i][a]), to = plain_axis(region->image[i][static_cast<std::size_t>(list[i].axis[a])]);
        if (from && to) new_axis[static_cast<std::size_t>(*from)] = *to;
      }
    for (const AxisStep& a : s.steps)
      if (new_axis[static_cast<std::size_t>(a.axis)] < 0) return why = "a step is over an axis that is gone", std::nullopt;
    Region packed_region = *region;
    packed_region.bound = boundary(*own, *region);
    Slots slots{step, *v.of, -1, -1, -1, unit, all / unit, 0, v.keyed ? p.tensor(v.of->tensor).dims[v.keyed->dim].constant() : 0, {}};
    slots.tiles = most_tiles(all, slots.keys, s.steps[static_cast<std::size_t>(step)].size);
    auto schedule = std::make_shared<Schedule>(over(s, new_axis));
    Nest nest = expand(*own, packed_region, *schedule, name);
    if (nest.program) return why = "a sum follows its statistics", std::nullopt;
    slots.slot = table(*own, source(v) + "_slot", {1, slots.most});
    slots.tile = table(*own, source(v) + "_tile", {slots.tiles, 4});
    for (const auto& [dim, x] : plain_dims(packed)) {
      const auto at = static_cast<std::size_t>(std::find(packed.begin(), packed.end(), x) - packed.begin());
      set(nest, dim.first, dim.second, {0, false, size[at], at == 0 ? 0 : extent(x)});
    }
    each_access([&](std::size_t i, const Access& a) {
      for (std::size_t d = 0; d < a.at.size(); ++d)
        if (is_key(i, a.at[d], v)) set(nest, a.tensor, d, {0, true, 1, 0});
    });
    if (!fits(nest, boundary(p, r), packed)) return std::nullopt;
    each_loop(nest.body, [&](For& f) { f.slots = f.step == step ? 0 : f.slots; });
    nest.inputs.insert(nest.inputs.end(), {slots.slot, slots.tile});
    nest.slots = {std::move(slots)};
    nest.program = std::move(own), nest.region = std::make_shared<const Region>(std::move(packed_region)), nest.schedule = std::move(schedule);
    return nest;
  }
  // What leaves has all of the packed axes; of what is brought in, dims that are packed together are one.
  bool fits(Nest& nest, const Boundary& bound, const std::vector<RegionAxis>& packed) {
    for (Buffer& b : nest.buffers) {
      int lead = -1;
      std::size_t dims = 0;
      for (std::size_t d = 0; d < b.through.size(); ++d) {
        Through& t = b.through[d];
        if (t.slots < 0 || t.key) continue;
        ++dims;
        if (lead < 0) lead = static_cast<int>(d);
        else t.with = lead, b.box[d] = {{}, {1, {}}}, b.extent[d] = 1;
      }
      if (std::count(bound.outputs.begin(), bound.outputs.end(), b.tensor) && dims != packed.size()) why = b.name + " has not all of the packed axes";
    }
    return why.empty();
  }

  Or<Nest> run() {
    if (s.operands.size() > 1) return Refused{"several operands are read through slots"};
    auto v = view_of(p, r, s.operands[0]);
    if (!v) return Refused{v.reason()};
    const OperandAt& o = s.operands[0];
    std::optional<Nest> nest;
    std::vector<RegionAxis> packed;
    std::int64_t unit = 1;
    if (v->keyed) {
      for (RegionAxis x : v->axis)
        if (x >= 0) packed.push_back(x);
      nest = rows(*v, packed, 1);
    } else {
      int stream = -1;
      std::size_t place = 0;
      for (std::size_t i : o.packed) {
        const RegionAxis x = v->axis[i];
        const int step = x < 0 ? -1 : step_of(x);
        if (x < 0) return Refused{"a packed dim is no axis"};
        packed.push_back(x), unit *= o.unit[i];
        if (step >= 0 && s.steps[static_cast<std::size_t>(step)].how == AxisStep::How::stream) stream = step, place = i;
      }
      if (o.lengths) packed.assign(v->axis.begin(), v->axis.end());
      if (stream >= 0 && packed.size() > 1) return Refused{"several axes are packed along a stream"};
      nest = stream >= 0 ? columns(*v, stream, packed[0], place) : rows(*v, packed, unit);
    }
    if (!why.empty() || !nest) return Refused{why};
    for (Buffer& b : nest->buffers) b.gathered.reset();
    return std::move(*nest);
  }
};

}  // namespace

std::int64_t most_tiles(std::int64_t rows, std::int64_t keys, std::int64_t size) { return ceil_div_i64(rows, size) + std::max<std::int64_t>(keys, 2) - 1; }

Or<Nest> expand_through(const Program& p, const Region& r, const Schedule& s, std::string name) {
  if (s.operands.empty()) return expand(p, r, s, std::move(name));
  return Walker{p, r, s, std::move(name)}.run();
}

}  // namespace tilewright
