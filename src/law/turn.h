// The turn of a stream while it is derived: the region's statements along the axis, and those that are put beside them: what was
// before the turn, how much was seen, maps onto the sums.
#pragma once
#include <algorithm>
#include <map>
#include <set>

#include <fmt/format.h>

#include "law/stream.h"

namespace tilewright {

struct Turn {
  Stream out;
  Builder build{out.program};
  std::set<TensorId> reductions{};                           // over the axis, of the region
  std::vector<StatementId> own{};                            // the region's statements along the axis
  std::map<StatementId, std::vector<StatementId>> before{}, after{};   // what stands around a statement in a turn
  std::map<TensorId, TensorId> was{};
  std::vector<std::pair<std::vector<Size>, TensorId>> counts{};   // by the extents that are counted

  explicit Turn(Stream s) : out(std::move(s)) {}

  Program& p() { return out.program; }
  Statement& at(StatementId id) { return std::get<Statement>(out.program.nodes[static_cast<std::size_t>(id)]); }
  const std::vector<Index>& image(StatementId id) const { return out.region.image[static_cast<std::size_t>(out.region.position(id))]; }
  const std::string& name(TensorId t) const { return out.program.tensor(t).name; }

  bool along(StatementId id) const {
    return std::any_of(image(id).begin(), image(id).end(), [&](const Index& i) { return mentions_axis(i, out.axis); });
  }
  bool reduces(StatementId id) {
    return std::any_of(at(id).reduced.begin(), at(id).reduced.end(), [&](AxisId a) { return mentions_axis(image(id)[static_cast<std::size_t>(a)], out.axis); });
  }

  // ---- statements beside the region's

  StatementId add(Statement s, std::vector<Index> its_image) {
    const auto id = static_cast<StatementId>(p().nodes.size());
    p().nodes.emplace_back(std::move(s));
    out.region.statements.push_back(id);
    out.region.image.push_back(std::move(its_image));
    return id;
  }

  // A map over the parallel axes of a reduction, onto a tensor of its shape.
  StatementId add_map(const Statement& like, const std::vector<Index>& its_image, TensorId to, const ScalarRef& body) {
    Statement m;
    std::vector<Index> mine;
    for (AxisId a : parallel_axes(like)) {
      m.axes.push_back(like.axes[static_cast<std::size_t>(a)]);
      m.names.push_back(like.names.empty() ? fmt::format("a{}", a) : like.names[static_cast<std::size_t>(a)]);
      mine.push_back(its_image[static_cast<std::size_t>(a)]);
    }
    m.out = to, m.body = body, m.label = like.label, m.place = like.place;
    for (const Index& i : like.at) m.at.push_back(substitute(p(), i, over_dims(like)));
    return add(std::move(m), std::move(mine));
  }

  // The axes of a reduction as those of a map over its parallel axes.
  static std::vector<Index> over_dims(const Statement& s) {
    std::vector<Index> with(s.axes.size(), constant_index(0));
    AxisId next = 0;
    for (AxisId a : parallel_axes(s)) with[static_cast<std::size_t>(a)] = axis_index(next++);
    return with;
  }

  TensorId kept(TensorId t, StatementId first_change) {
    const auto found = was.find(t);
    if (found != was.end()) return found->second;
    const Tensor& like = p().tensor(t);
    const TensorId to = build.tensor(like.name + "_was", held_as(p(), at(first_change)), like.dims);
    const Statement reduction = at(first_change);
    const std::vector<Index> its_image = image(first_change);
    std::vector<Index> point;
    for (const Index& i : reduction.at) point.push_back(substitute(p(), i, over_dims(reduction)));
    const StatementId copy = add_map(reduction, its_image, to, read(p(), t, point));
    auto& list = before[first_change];
    list.insert(list.begin(), copy);
    out.kept.push_back({t, to, copy});
    return was[t] = to;
  }

  StatementId writer_of(TensorId t) {
    for (StatementId id : out.region.statements)
      if (at(id).out == t && reduces(id)) return id;
    return -1;
  }

  // How many elements were seen: one for all statistics over as many.
  TensorId count_beside(StatementId id) {
    const Statement& s = at(id);
    std::vector<Size> extents;
    for (AxisId r : s.reduced) extents.push_back(s.axes[static_cast<std::size_t>(r)]);
    for (const auto& [counted, n] : counts)
      if (counted == extents) return n;
    Statement n;
    std::vector<Index> its_image;
    for (AxisId r : s.reduced) {
      n.reduced.push_back(static_cast<AxisId>(n.axes.size()));
      n.axes.push_back(s.axes[static_cast<std::size_t>(r)]);
      n.names.push_back(s.names.empty() ? fmt::format("a{}", r) : s.names[static_cast<std::size_t>(r)]);
      its_image.push_back(image(id)[static_cast<std::size_t>(r)]);
    }
    n.reducer = Reducer::sum, n.label = s.label, n.place = s.place;
    const DType type = held_as(p(), s);
    n.body = number(1, type);
    n.out = build.tensor(name(s.out) + "_count", type, {});
    const TensorId t = n.out;
    const StatementId made = add(std::move(n), std::move(its_image));
    after[id].insert(after[id].begin(), made);
    reductions.insert(t);
    out.state.push_back({t, made, -1, nullptr, Stream::Anchor::none, {}});
    counts.emplace_back(extents, t);
    return t;
  }
};

}  // namespace tilewright
