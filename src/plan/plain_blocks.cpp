#include "plan/block_shape_inl.h"

namespace tilewright {

namespace {

// Schedules of what has no contraction to be cut by: tiles of the result's axes, as it lies, until a block has some
// points for each of its threads. Sliding axes are cut in two directions; where something is read along another axis
// than the result is written, both are cut and the box is turned in scratch; threads that have no point of their own
// share those of a reduction.
struct PlainChooser : BlockShape {
  // ---- what may be cut

  // The result's axes, outermost first as it lies; what it lacks comes first of all.
  std::vector<RegionAxis> axes() const {
    const std::size_t end = r.statements.size() - 1;
    std::vector<RegionAxis> last, all;
    for (int d : layouts[static_cast<std::size_t>(statement(end).out)]) {
      const Index at = substitute(p, statement(end).at[static_cast<std::size_t>(d)], r.image[end]);
      for (std::size_t a = 0; a < r.axes.size(); ++a)
        if (mentions_axis(at, static_cast<RegionAxis>(a)) &&
            !std::count(last.begin(), last.end(), static_cast<RegionAxis>(a)))
          last.push_back(static_cast<RegionAxis>(a));
    }
    for (std::size_t a = 0; a < r.axes.size(); ++a)
      if (!std::count(last.begin(), last.end(), static_cast<RegionAxis>(a))) all.push_back(static_cast<RegionAxis>(a));
    all.insert(all.end(), last.begin(), last.end());
    return cuttable(all);
  }
  std::vector<RegionAxis> cuttable(const std::vector<RegionAxis>& all) const {
    Schedule s;
    std::vector<RegionAxis> list;
    for (RegionAxis a : all) {
      if (extent(a) < 2) continue;
      s.steps.push_back({AxisStep::How::tile, a, 1});
      if (legality(p, r, s, m).empty())
        list.push_back(a);
      else
        s.steps.pop_back();
    }
    return list;
  }

  std::int64_t piece() const {
    return std::max<std::int64_t>(1, 16 / width_of(statement(r.statements.size() - 1).out));
  }

  // Every way to cut: windows by rows and columns of their positions, turned boxes by both of their inner axes, all
  // else from inside.
  std::vector<std::vector<Cut>> ways(const std::vector<RegionAxis>& list, int threads) const {
    std::vector<std::vector<Cut>> all;
    const auto role = roles(p, r);
    std::vector<Cut> cuts;
    const RegionAxis other = turned(list);
    int sliding = 0;
    for (RegionAxis a : list) sliding += role[static_cast<std::size_t>(a)].windowed;
    if (sliding > 0 || other >= 0) {
      for (RegionAxis a : list) {
        if (role[static_cast<std::size_t>(a)].windowed)
          cuts.push_back({a, parts(extent(a), 32)});
        else if (a == list.back() || a == other)
          cuts.push_back({a, sliding ? powers(extent(a), 2 * piece(), 128) : powers(extent(a), 32, 64)});
        else
          cuts.push_back({a, {1}});
      }
      all.push_back(std::move(cuts));
    }
    if (sliding > 0) return all;
    // A point for each thread at least; threads may share those of a reduction.
    const bool reduces = std::any_of(r.statements.begin(), r.statements.end(),
                                     [&](StatementId id) { return !p.statement(id)->reduced.empty(); });
    for (std::int64_t points = reduces ? std::max(1, threads / m.core.lanes) : threads;
         points <= 16 * piece() * threads; points *= 2) {
      std::vector<Cut> inside;
      std::int64_t room = points;
      for (std::size_t i = list.size(); i-- > 0;) {
        const std::int64_t n = extent(list[i]), size = std::min(n, room);
        inside.insert(inside.begin(), {list[i], {size}});
        room = std::max<std::int64_t>(1, room / n);
      }
      all.push_back(std::move(inside));
      if (room > 1) break; // one block
    }
    return all;
  }

  // An axis along which a large input lies innermost, where the result does not.
  RegionAxis turned(const std::vector<RegionAxis>& list) const {
    RegionAxis found = -1;
    for (std::size_t i = 0; i < r.statements.size() && !list.empty(); ++i)
      for_each_access(statement(i), [&](const Access& a) {
        const DimOrder& order = layouts[static_cast<std::size_t>(a.tensor)];
        if (order.empty() || !count_of(bound.inputs, a.tensor) || !affine(a) || elements(a.tensor) < 4096) return;
        const Index at = substitute(p, a.at[static_cast<std::size_t>(order.back())], r.image[i]);
        if (mentions_axis(at, list.back())) return;
        for (RegionAxis x : list)
          if (plain_axis(at) == x) found = x;
      });
    return found;
  }
  static bool affine(const Access& a) {
    return std::all_of(a.at.begin(), a.at.end(), [](const Index& i) { return is_affine(i); });
  }
  static bool count_of(const std::vector<TensorId>& list, TensorId t) {
    return std::count(list.begin(), list.end(), t) > 0;
  }
  std::int64_t elements(TensorId t) const {
    std::int64_t n = 1;
    for (const Size& d : p.tensor(t).dims) n *= d.constant();
    return n;
  }

  // ---- where values are

  // What one leaf makes for another lies in scratch; so do windows' operands, and inputs that are read more than once
  // or turned.
  void place_values(Schedule& s, bool inputs, RegionAxis other) const {
    auto place = [&](TensorId t) {
      for (const ValueAt& v : s.values)
        if (v.tensor == t) return;
      // Rows that tensor instructions read stand apart, so that they do not meet in the same banks.
      bool fragments = false;
      for (const StatementFacts& f : facts)
        fragments |= f.contraction && (f.contraction->a->tensor == t || f.contraction->b->tensor == t);
      const std::int64_t pad = fragments && width_of(t) == 2 && p.tensor(t).dims.size() > 1 ? 8 : 0;
      s.values.push_back({t, LevelRole::scratch, layouts[static_cast<std::size_t>(t)], pad});
    };
    for (TensorId t : handed_on) place(t);
    if (!inputs) return;
    for (const StatementFacts& f : facts)
      if (f.contraction)
        for (const Access* a : {f.contraction->a, f.contraction->b}) place(a->tensor);
    if (std::any_of(facts.begin(), facts.end(),
                    [](const StatementFacts& f) { return f.contraction || (f.window && f.window->weights); }))
      for (TensorId t : read_behind()) place(t);
    std::map<TensorId, std::set<std::size_t>> readers;
    for (std::size_t i = 0; i < r.statements.size(); ++i)
      for_each_access(statement(i), [&](const Access& a) {
        if (!count_of(bound.inputs, a.tensor) || !affine(a) || a.at.empty()) return;
        readers[a.tensor].insert(first[i]);
        const auto& w = facts[i].window;
        bool slides = false;
        if (w)
          for (const Index& at : w->data->at) slides |= at.terms.size() > 1;
        const Index inner = substitute(
            p, a.at[static_cast<std::size_t>(layouts[static_cast<std::size_t>(a.tensor)].back())], r.image[i]);
        if (slides || readers[a.tensor].size() > 1 || (other >= 0 && plain_axis(inner) == other)) place(a.tensor);
      });
  }

  // ---- leaves

  std::vector<LeafAt> leaves(const Schedule& s, const Limits& most) const {
    std::vector<LeafAt> list;
    for (std::size_t i = 0; i < r.statements.size(); ++i) {
      if (first[i] != i) continue;
      if (const auto tensor = whole_tensor_leaf(s, i)) {
        list.push_back(*tensor);
        continue;
      }
      LeafAt leaf = vector_leaf(s, i, most);
      leaf.lanes = lanes_of(s, i, leaf);
      list.push_back(std::move(leaf));
    }
    return list;
  }

  // ---- prices

  void offer(Schedule s, RegionAxis other, bool inputs, std::vector<BlockChoice>& found) const {
    place_values(s, inputs, other);
    odd_rows(s), align_rows(s);
    const std::int64_t values = scratch_bytes(s);
    if (values > m.core.block_scratch) return;
    const Cost moved = cost_of(s);
    const double copied = pieces(s, moved);
    std::vector<std::vector<LeafAt>> known;
    for (const Limits& most :
         {Limits{8, 4, 1}, Limits{8, 2, 1}, Limits{4, 4, 1}, Limits{4, 2, 2}, Limits{2, 4, 2}, Limits{1, 1, 1}}) {
      s.leaves = leaves(s, most);
      const bool again = std::any_of(known.begin(), known.end(), [&](const std::vector<LeafAt>& l) {
        return std::equal(l.begin(), l.end(), s.leaves.begin(), s.leaves.end(),
                          [](const LeafAt& x, const LeafAt& y) { return x.tile == y.tile; });
      });
      if (again) continue;
      known.push_back(s.leaves);
      const std::int64_t scratch = values + parts_bytes(s.leaves);
      if (scratch > m.core.block_scratch) continue;
      const int most_resident = resident_blocks({p, r, s, m, facts, moved, scratch});
      for (s.resident = most_resident; s.resident > 0; s.resident /= 2)
        found.push_back({s, block_seconds({p, r, s, m, facts, moved, scratch, copied})});
    }
  }
  void try_all(const std::vector<Cut>& cuts, std::size_t at, Schedule s, RegionAxis other, bool inputs,
               std::vector<BlockChoice>& found) const {
    if (at == cuts.size()) {
      if (order_of(s).legal) offer(std::move(s), other, inputs, found);
      return;
    }
    for (std::int64_t size : cuts[at].sizes) {
      Schedule more = s;
      if (size < extent(cuts[at].axis)) more.steps.push_back({AxisStep::How::tile, cuts[at].axis, size});
      try_all(cuts, at + 1, std::move(more), other, inputs, found);
    }
  }

  std::vector<BlockChoice> run() const {
    std::vector<BlockChoice> found;
    if (std::count(r.axes.begin(), r.axes.end(), Size(0))) return found;
    const auto list = axes();
    // Operands stay where they are only if no schedule has room for them.
    for (bool inputs : {true, false})
      for (int threads : {128, 256}) {
        if (!inputs && threads == 128 && !found.empty()) break;
        Schedule s;
        s.threads = threads;
        for (const auto& cuts : ways(list, threads)) try_all(cuts, 0, s, turned(list), inputs, found);
      }
    auto picoseconds = [](const BlockChoice& choice) { return std::llround(choice.seconds * 1e12); };
    std::stable_sort(found.begin(), found.end(),
                     [&](const BlockChoice& a, const BlockChoice& b) { return picoseconds(a) < picoseconds(b); });
    return found;
  }
};

} // namespace

std::vector<BlockChoice> plain_blocks(const Program& p, const Region& r, const Machine& m,
                                      const std::vector<DimOrder>& layouts) {
  return PlainChooser{{p, r, m, layouts}}.run();
}

} // namespace tilewright
