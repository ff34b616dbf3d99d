// How a statement's points are shared: axes with their bounds in a tile, boxes of points a thread, and what a reducer does.
#pragma once
#include "target/cuda/turns_inl.h"

namespace tilewright::cuda {

struct LeafShape : TurnConditions {
  // ---- leaves

  struct Leaf {
    const LeafAt* at = nullptr;
    StatementId first = -1;
    std::vector<RegionAxis> parallel, reduced;       // of the points' region
    std::vector<std::int64_t> tile, threads;         // vector leaf, one a parallel axis
    std::int64_t elements = 1, items = 1, rounds = 1;
    std::int64_t products = 1;                       // of the innermost reduced axis that are fetched together
    int lanes = 1;                                   // threads that share a box's reduced points
    std::int64_t beside = 1;                         // points of the innermost axis that lie side by side; the next ones belong to other threads

    // A thread's points along an axis are pieces; pieces of all threads alternate, so that neighbouring threads touch neighbouring pieces.
    std::int64_t piece(std::size_t i) const { return i + 1 == parallel.size() ? beside : tile[i]; }
    std::string offset(std::size_t i, const std::string& e) const {
      return piece(i) == tile[i] ? e : fmt::format("(({0}) / {1} * {2} + ({0}) % {1})", e, piece(i), piece(i) * threads[i]);
    }
  };

  std::string axis(const Points& points, RegionAxis a) const { return "a" + std::to_string(a) + "_" + c_name(points.region.names[static_cast<std::size_t>(a)]); }
  // Where an axis begins in a tile. What is made for later readers is made with its border too, which begins before the tensor does.
  std::string low(const Points& points, RegionAxis a) const { return affine(points.spans[static_cast<std::size_t>(a)].low); }
  // The condition under which a named axis exists; empty where that is certain.
  std::string exists(const Points& points, RegionAxis a) const {
    const Span& span = points.spans[static_cast<std::size_t>(a)];
    if (always_inside(span, points.extent[static_cast<std::size_t>(a)])) return {};
    return fmt::format("{}{} < {}", range_of(r, s, span.low).first < 0 ? axis(points, a) + " >= 0 && " : "", axis(points, a), high(points, a));
  }
  // The points of a group; where they reach over the tensor's border, a full tile is as wide as its box.
  Points points_of(const std::vector<StatementId>& group) const {
    Points points = *common_points(p, nest, group);
    for (std::size_t a = 0; a < points.spans.size(); ++a)
      if (range_of(r, s, points.spans[a].low).first < 0 || range_of(r, s, points.spans[a].high).second > points.extent[a]) points.full[a] = full_extent(nest, points.spans[a]);
    return points;
  }
  std::string high(const Points& points, RegionAxis a) const {
    const Span& span = points.spans[static_cast<std::size_t>(a)];
    const std::int64_t extent = points.extent[static_cast<std::size_t>(a)];
    return span.high.terms.empty() ? std::to_string(std::min(span.high.offset, extent)) : fmt::format("min({}, {})", affine(span.high), extent);
  }
  std::vector<std::string> axes(const Points& points) const {
    std::vector<std::string> list;
    for (std::size_t a = 0; a < points.region.axes.size(); ++a) list.push_back(axis(points, static_cast<RegionAxis>(a)));
    return list;
  }

  // The points in the order in which the result lies, innermost last: neighbouring threads get neighbouring points.
  Leaf leaf_of(const Points& points, StatementId first, StatementId last) const {
    Leaf leaf;
    leaf.first = first;
    for (const LeafAt& at : s.leaves)
      if (at.statement == first) leaf.at = &at;
    const Statement& st = statement(first);
    const auto& image = points.region.image[static_cast<std::size_t>(points.region.position(first))];
    std::map<RegionAxis, std::int64_t> wanted;
    std::size_t n = 0;
    for (AxisId a : parallel_axes(st)) {
      const auto x = plain_axis(image[static_cast<std::size_t>(a)]);
      if (x && leaf.at && n < leaf.at->tile.size()) wanted[*x] = leaf.at->tile[n];
      ++n;
    }
    for (AxisId a : st.reduced)
      if (const auto x = plain_axis(image[static_cast<std::size_t>(a)])) leaf.reduced.push_back(*x);
    std::vector<std::pair<std::int64_t, RegionAxis>> by_stride;
    const Statement& final = statement(last);
    const auto& final_image = points.region.image[static_cast<std::size_t>(points.region.position(last))];
    for (std::size_t a = 0; a < points.region.axes.size(); ++a) {
      const auto x = static_cast<RegionAxis>(a);
      if (std::count(leaf.reduced.begin(), leaf.reduced.end(), x)) continue;
      std::int64_t stride = 0;
      for (std::size_t d = 0; d < final.at.size(); ++d)
        if (mentions_axis(substitute(p, final.at[d], final_image), x)) stride = std::max(stride, where.at(final.out).stride[d]);
      by_stride.emplace_back(-stride, x);
    }
    std::stable_sort(by_stride.begin(), by_stride.end());
    for (const auto& [stride, x] : by_stride) {
      leaf.parallel.push_back(x);
      leaf.tile.push_back(std::min(wanted.count(x) ? wanted[x] : 1, points.full[static_cast<std::size_t>(x)]));
      leaf.threads.push_back(ceil_div_i64(points.full[static_cast<std::size_t>(x)], leaf.tile.back()));
      leaf.elements *= leaf.tile.back();
      leaf.items *= leaf.threads.back();
    }
    if (leaf.at) leaf.lanes = leaf.at->lanes;
    leaf.rounds = ceil_div_i64(leaf.items * leaf.lanes, s.threads);
    if (leaf.parallel.empty()) return leaf;
    const std::int64_t wide = 16 / static_cast<std::int64_t>(bytes_of(p.tensor(final.out).dtype)), all = leaf.tile.back();
    const bool whole = leaf.threads.back() * all == points.full[static_cast<std::size_t>(leaf.parallel.back())];
    leaf.beside = whole && wide > 0 && all > wide && all % wide == 0 ? wide : all;
    return leaf;
  }

  std::string identity(Reducer reducer, DType t) const {
    const bool real = is_float(t);
    switch (reducer) {
      case Reducer::prod: return real ? literal(1.0, t) : "1";
      case Reducer::max: return real ? literal(-INFINITY, t) : literal(compute_type(t) == DType::i64 ? INT64_MIN : INT32_MIN, t);
      case Reducer::min: return real ? literal(INFINITY, t) : literal(compute_type(t) == DType::i64 ? INT64_MAX : INT32_MAX, t);
      case Reducer::all: return "true";
      case Reducer::any: return "false";
      default: return real ? literal(0.0, t) : "0";
    }
  }
  std::string combined(Reducer reducer, const std::string& a, const std::string& v) const {
    switch (reducer) {
      case Reducer::prod: return fmt::format("{} * {}", a, v);
      case Reducer::max: return fmt::format("maximum({}, {})", a, v);
      case Reducer::min: return fmt::format("minimum({}, {})", a, v);
      case Reducer::all: return fmt::format("{} && {}", a, v);
      case Reducer::any: return fmt::format("{} || {}", a, v);
      default: return fmt::format("{} + {}", a, v);
    }
  }
  DType accumulated(const Statement& st) const {
    return st.reducer == Reducer::any || st.reducer == Reducer::all ? DType::boolean : compute_type(st.body->dtype);
  }
};

}  // namespace tilewright::cuda
