// Points on ordinary threads: in each round a thread owns a box of points, whose accumulators are an array that it keeps in
// registers, over (round, element) where they live across a loop. Any body runs this way; it is the plain form.
#pragma once
#include "target/cuda/kernel_text_inl.h"

namespace tilewright::cuda {

struct VectorLeaf : KernelText {
  // ---- leaves

  struct Leaf {
    const LeafAt* at = nullptr;
    StatementId first = -1;
    std::vector<RegionAxis> parallel, reduced;       // of the points' region
    std::vector<std::int64_t> tile, threads;         // vector leaf, one a parallel axis
    std::int64_t elements = 1, items = 1, rounds = 1;
    std::vector<RegionAxis> m, n, k;                 // tensor leaf; k innermost last
  };

  std::string axis(const Points& points, RegionAxis a) const { return "a" + std::to_string(a) + "_" + c_name(points.region.names[static_cast<std::size_t>(a)]); }
  std::string low(const Points& points, RegionAxis a) const {
    const Span& span = points.spans[static_cast<std::size_t>(a)];
    return span.low.terms.empty() ? std::to_string(std::max<std::int64_t>(span.low.offset, 0)) : fmt::format("max({}, 0)", affine(span.low));
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
    leaf.rounds = ceil_div_i64(leaf.items, s.threads);
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

  // ---- vector leaf

  // Opens the loop over a thread's items; inside, the axes' first points are named base_*.
  void open_items(const Points& points, const Leaf& leaf, bool in_registers) {
    if (in_registers) line("#pragma unroll");
    line(fmt::format("for (int round = 0; round < {}; ++round) {{", leaf.rounds));
    ++depth;
    line(fmt::format("int rest = threadIdx.x + round * {};", s.threads));
    line(fmt::format("if (rest < {}) {{", leaf.items));
    ++depth;
    for (std::size_t i = leaf.parallel.size(); i-- > 0;) {
      const RegionAxis a = leaf.parallel[i];
      line(fmt::format("const int base{} = {} + rest % {} * {}; rest /= {};", a, low(points, a), leaf.threads[i], leaf.tile[i], leaf.threads[i]));
    }
  }
  void close(int n) {
    while (n-- > 0) {
      --depth;
      line("}");
    }
  }
  // Opens the loop over a thread's elements; inside, the axes are named; `live` says whether the point exists, `boxed` whether it
  // lies in the box of a full tile, where dead points are written as zeros.
  void open_elements(const Points& points, const Leaf& leaf) {
    line("#pragma unroll");
    line(fmt::format("for (int e = 0; e < {}; ++e) {{", leaf.elements));
    ++depth;
    std::string live, boxed;
    std::int64_t divisor = 1;
    for (std::size_t i = leaf.parallel.size(); i-- > 0;) {
      const RegionAxis a = leaf.parallel[i];
      line(fmt::format("const int {} = base{} + e / {} % {};", axis(points, a), a, divisor, leaf.tile[i]));
      divisor *= leaf.tile[i];
      live += fmt::format(" && {} < {}", axis(points, a), high(points, a));
      const std::int64_t whole = points.full[static_cast<std::size_t>(a)];
      if (leaf.threads[i] * leaf.tile[i] > whole) boxed += fmt::format("{}{} - {} < {}", boxed.empty() ? "" : " && ", axis(points, a), low(points, a), whole);
    }
    line(fmt::format("const bool boxed = {};", boxed.empty() ? "true" : boxed));
    line(fmt::format("const bool live = boxed{};", live));
  }

  void open_reduced(const Points& points, const Leaf& leaf) {
    for (RegionAxis a : leaf.reduced) {
      if (!points.tiled[static_cast<std::size_t>(a)] && points.extent[static_cast<std::size_t>(a)] <= 16) line("#pragma unroll");
      line(fmt::format("for (int {0} = {1}; {0} < {2}; ++{0}) {{", axis(points, a), low(points, a), high(points, a)));
      ++depth;
    }
  }

  void accumulate(const Points& points, const Leaf& leaf, const std::string& array) {
    open_items(points, leaf, true);
    accumulate_elements(points, leaf, array);
    close(2);
  }
  void accumulate_elements(const Points& points, const Leaf& leaf, const std::string& array) {
    const Statement& st = statement(leaf.first);
    open_reduced(points, leaf);
    open_elements(points, leaf);
    line("if (live) {");
    ++depth;
    ScalarSource source(p, points, where, axes(points), pad());
    std::string guard = st.guard ? source.value(st.guard, leaf.first) : "";
    const std::string v = source.value(st.body, leaf.first);
    out.text += source.lines;
    const std::string update = fmt::format("{0} = {1};", array, combined(st.reducer, array, v));
    line(guard.empty() ? update : fmt::format("if ({}) {}", guard, update));
    close(2 + static_cast<int>(leaf.reduced.size()));
  }

  // The maps behind a reduction (or a group of maps alone) at one point; `value` is the accumulator there. Where a later leaf reads
  // whole boxes from scratch, points that do not exist are zeros.
  void finish_point(const Points& points, const std::vector<StatementId>& group, const std::string& value) {
    line("if (live) {");
    ++depth;
    ScalarSource source(p, points, where, axes(points), pad());
    std::string stores;
    std::vector<std::string> zeros;
    for (StatementId id : group) {
      const Statement& st = statement(id);
      const DType declared = p.tensor(st.out).dtype;
      const DType have = st.reduced.empty() ? compute_type(st.body->dtype) : accumulated(st);
      std::string v = st.reduced.empty() ? source.value(st.body, id) : value;
      if (st.guard && st.reduced.empty()) v = fmt::format("({} ? {} : {}(0))", source.value(st.guard, id), v, type_of(have));
      const std::string name = fmt::format("r_{}", tensor(st.out));
      source.lines += fmt::format("{}const {} {} = {};\n", pad(), type_of(declared), name, source.rounded(v, have, declared));
      source.know(st.out, name);
      if (!is_stored(group, id)) continue;
      std::vector<Index> at;
      for (const Index& i : st.at) at.push_back(substitute(p, i, points.region.image[static_cast<std::size_t>(points.region.position(id))]));
      const std::string address = source.address(st.out, at);
      stores += fmt::format("{}{} = round_to<{}>({});\n", pad(), address, stored_type_of(declared), name);
      if (in_scratch(buffer_of(st.out))) zeros.push_back(fmt::format("{} = round_to<{}>({}(0));", address, stored_type_of(declared), type_of(declared)));
    }
    out.text += source.lines + stores;
    if (!zeros.empty()) {
      --depth;
      line("} else if (boxed) {");
      ++depth;
      for (const std::string& z : zeros) line(z);
    }
    close(1);
  }

  const Buffer& buffer_of(TensorId t) const {
    for (const Buffer& b : nest.buffers)
      if (b.tensor == t) return b;
    TW_ASSERT(!"no such buffer");
    return nest.buffers[0];
  }
  // Whether a value of the group must leave it.
  bool is_stored(const std::vector<StatementId>& group, StatementId id) const {
    const TensorId t = statement(id).out;
    if (std::count(nest.outputs.begin(), nest.outputs.end(), t)) return true;
    for (StatementId other : r.statements) {
      if (std::count(group.begin(), group.end(), other)) continue;
      bool reads = false;
      for_each_access(statement(other), [&](const Access& a) { reads |= a.tensor == t; });
      if (reads) return true;
    }
    return false;
  }

  void vector_group(const Points& points, const std::vector<StatementId>& group) {
    const Leaf leaf = leaf_of(points, group[0], group.back());
    const Statement& st = statement(group[0]);
    open_items(points, leaf, false);
    if (!st.reduced.empty()) {
      line(fmt::format("{} acc[{}];", type_of(accumulated(st)), leaf.elements));
      line("#pragma unroll");
      line(fmt::format("for (int e = 0; e < {}; ++e) acc[e] = {};", leaf.elements, identity(st.reducer, accumulated(st))));
      accumulate_elements(points, leaf, "acc[e]");
    }
    open_elements(points, leaf);
    finish_point(points, group, "acc[e]");
    close(3);
  }
};

}  // namespace tilewright::cuda
