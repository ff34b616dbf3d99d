// Points on ordinary threads: in each round a thread owns a box of points, whose accumulators are an array that it keeps in
// registers, over (round, element) where they live across a loop. Any body runs this way; it is the plain form. Where every operand
// of a box is there (in scratch, or no point of it is dead), a thread first fetches what its box reads, in pieces of up to 16 bytes,
// so that a window's neighbours and a product's rows and columns are read once:
//
//   D[y x c] = sum[i j] X[y+i, x+j, c] * V[i j c], 4 x 8 points a thread:    for i, j: fetch X of 4 x 8, V of 8; 32 multiply-adds
#pragma once
#include "target/cuda/leaf_inl.h"

namespace tilewright::cuda {

struct VectorLeaf : LeafShape {
  // ---- what is known about points

  bool always_live(const Points& points, RegionAxis a) const {
    return always_inside(points.spans[static_cast<std::size_t>(a)], points.extent[static_cast<std::size_t>(a)]);
  }
  const std::vector<Index>& image(const Points& points, StatementId id) const { return points.region.image[static_cast<std::size_t>(points.region.position(id))]; }
  std::vector<Index> indices(const Points& points, StatementId id, const std::vector<Index>& at) const {
    std::vector<Index> list;
    for (const Index& i : at) list.push_back(substitute(p, i, image(points, id)));
    return list;
  }
  bool depends(const std::vector<Index>& at, RegionAxis a) const {
    return std::any_of(at.begin(), at.end(), [&](const Index& i) { return mentions_axis(i, a); });
  }
  // The largest power of two up to `most` elements along axis x that lie side by side from any multiple of it on, as far as their
  // bytes go into one access.
  std::int64_t together(const Points& points, TensorId t, const std::vector<Index>& at, RegionAxis x, std::int64_t most) const {
    const Where& w = where.at(t);
    const auto xs = static_cast<std::size_t>(x);
    const auto width = static_cast<std::int64_t>(bytes_of(p.tensor(t).dtype));
    for (std::int64_t n = std::min<std::int64_t>(16 / width, most); n > 1; n /= 2) {
      if (most % n || points.full[xs] % n || points.extent[xs] % n || !multiple_of(s, points.spans[xs].low, n) || range_of(r, s, points.spans[xs].low).first < 0) continue;
      bool fits = true, found = false;
      for (std::size_t d = 0; d < at.size(); ++d) {
        if (!is_affine(at[d])) return 1;
        if (!mentions_axis(at[d], x)) {
          fits &= w.stride[d] % n == 0 || p.tensor(t).dims[d] == Size(1);
          continue;
        }
        fits &= !found && (d >= w.through.size() || w.through[d].empty()) && w.stride[d] == 1 && at[d].terms.size() == 1 && coefficient_of(at[d], x) == Size(1) && at[d].offset.constant() % n == 0;
        if (in_scratch(buffer_of(t))) fits &= multiple_of(s, buffer_of(t).box[d].low, n);
        found = true;
      }
      if (fits && found) return n;
    }
    return 1;
  }

  // A value that lives in scratch and leaves the kernel too is written to both places by who makes it.
  bool in_both(TensorId t) const { return in_scratch(buffer_of(t)) && std::count(nest.outputs.begin(), nest.outputs.end(), t) > 0; }
  template <class Body> auto outside_of_scratch(TensorId t, Body body) {
    std::vector<std::int64_t> dims;
    for (std::size_t d = 0; d < p.tensor(t).dims.size(); ++d) dims.push_back(dim(t, d));
    Where here{global(t), dense_strides(dims, layouts[static_cast<std::size_t>(t)]), {}, false, patterns(buffer_of(t))};
    std::swap(where.at(t), here);
    auto result = body();
    std::swap(where.at(t), here);
    return result;
  }
  // Elements of a result along axis x that are stored as one piece, wherever it is stored.
  std::int64_t stored_as_one(const Points& points, StatementId id, RegionAxis x, std::int64_t most) {
    const TensorId t = statement(id).out;
    const auto at = indices(points, id, statement(id).at);
    const std::int64_t n = together(points, t, at, x, most);
    return in_both(t) ? std::min(n, outside_of_scratch(t, [&] { return together(points, t, at, x, most); })) : n;
  }

  // ---- vector leaf

  // Opens the loop over a thread's items; inside, the axes' first points are named base_*.
  void open_items(const Points& points, const Leaf& leaf, bool in_registers) {
    if (in_registers) line("#pragma unroll");
    line(fmt::format("for (int round = 0; round < {}; ++round) {{", leaf.rounds));
    ++depth;
    line(leaf.lanes > 1 ? fmt::format("unsigned rest = (threadIdx.x + round * {}) / {};", s.threads, leaf.lanes) : fmt::format("unsigned rest = threadIdx.x + round * {};", s.threads));
    line(leaf.items * leaf.lanes % s.threads ? fmt::format("if (rest < {}) {{", leaf.items) : "{");
    ++depth;
    for (std::size_t i = leaf.parallel.size(); i-- > 0;) {
      const RegionAxis a = leaf.parallel[i];
      line(fmt::format("const int base{} = {} + int(rest % {} * {}); rest /= {};", a, low(points, a), leaf.threads[i], leaf.piece(i), leaf.threads[i]));
    }
  }
  // Names the axes of element e and says whether it exists (`live`), and whether it lies in the box of a full tile (`boxed`), where
  // dead points are written as zeros.
  void name_element(const Points& points, const Leaf& leaf) {
    std::string live, boxed;
    std::int64_t divisor = 1;
    for (std::size_t i = leaf.parallel.size(); i-- > 0;) {
      const RegionAxis a = leaf.parallel[i];
      line(fmt::format("const int {} = base{} + {};", axis(points, a), a, leaf.offset(i, fmt::format("e / {} % {}", divisor, leaf.tile[i]))));
      divisor *= leaf.tile[i];
      if (const std::string one = exists(points, a); !one.empty()) live += " && " + one;
      const std::int64_t whole = points.full[static_cast<std::size_t>(a)];
      if (leaf.threads[i] * leaf.tile[i] > whole) boxed += fmt::format("{}{} - {} < {}", boxed.empty() ? "" : " && ", axis(points, a), low(points, a), whole);
    }
    all_boxed = boxed.empty(), all_live = boxed.empty() && live.empty();
    line(fmt::format("const bool boxed = {};", boxed.empty() ? "true" : boxed));
    line(fmt::format("const bool live = boxed{};", live));
  }
  bool all_boxed = false, all_live = false;          // of the elements just named

  void open_elements(const Points& points, const Leaf& leaf, std::int64_t step = 1) {
    line("#pragma unroll");
    line(fmt::format("for (int e = 0; e < {}; e += {}) {{", leaf.elements, step));
    ++depth;
    name_element(points, leaf);
  }
  // How many loops it opened.
  int open_reduced(const Points& points, const Leaf& leaf) {
    if (leaf.lanes > 1) return open_shared(points, leaf);
    for (RegionAxis a : leaf.reduced) {
      const std::int64_t step = a == leaf.reduced.back() ? leaf.products : 1;
      if (!points.tiled[static_cast<std::size_t>(a)] && points.extent[static_cast<std::size_t>(a)] <= 16) line("#pragma unroll");
      else if (listed(points.spans[static_cast<std::size_t>(a)])) line("#pragma unroll 4");      // else whole micro-tiles are, and registers run out
      line(fmt::format("for (int {0} = {1}; {0} < {2}; {0} += {3}) {{", axis(points, a), low(points, a), high(points, a), step));
      ++depth;
    }
    return static_cast<int>(leaf.reduced.size());
  }
  // One loop over all reduced axes, of which each thread takes every `lanes`-th piece.
  int open_shared(const Points& points, const Leaf& leaf) {
    std::int64_t all = 1;
    for (RegionAxis a : leaf.reduced) all *= points.extent[static_cast<std::size_t>(a)];
    line(fmt::format("for (int flat = int(threadIdx.x % {0}) * {1}; flat < {2}; flat += {3}) {{", leaf.lanes, leaf.products, all, leaf.lanes * leaf.products));
    ++depth;
    std::int64_t divisor = 1;
    for (std::size_t i = leaf.reduced.size(); i-- > 0;) {
      const std::int64_t n = points.extent[static_cast<std::size_t>(leaf.reduced[i])];
      line(fmt::format("const int {} = flat / {}{};", axis(points, leaf.reduced[i]), divisor, i > 0 ? fmt::format(" % {}", n) : ""));
      divisor *= n;
    }
    return 1;
  }
  // What the threads that share a box have is put together, in the same order in each of them.
  void share(const Leaf& leaf, const std::string& array, const Statement& st) {
    line("#pragma unroll");
    line(fmt::format("for (int e = 0; e < {}; ++e)", leaf.elements));
    line("#pragma unroll");
    line(fmt::format("  for (int other = {}; other > 0; other /= 2) {{", leaf.lanes / 2));
    ++depth;
    line(fmt::format("  const {} theirs = from_lane<{}>({}, other);", type_of(accumulated(st)), leaf.lanes, array));
    line(fmt::format("  {0} = {1};", array, combined(st.reducer, array, "theirs")));
    --depth;
    line("  }");
  }

  void accumulate(const Points& points, const Leaf& leaf, const std::string& array) {
    open_items(points, leaf, true);
    accumulate_elements(points, leaf, array);
    close(2);
  }
  void accumulate_elements(const Points& points, Leaf leaf, const std::string& array) {
    if (whole_boxes(points, leaf)) return accumulate_boxes(points, leaf, array);
    const Statement& st = statement(leaf.first);
    const int loops = open_reduced(points, leaf);
    open_elements(points, leaf);
    line("if (live) {");
    ++depth;
    ScalarSource source(p, points, where, axes(points), pad());
    std::string guard = st.guard ? source.value(st.guard, leaf.first) : "";
    const std::string v = source.value(st.body, leaf.first);
    out.text += source.lines;
    const std::string update = fmt::format("{0} = {1};", array, combined(st.reducer, array, v));
    line(guard.empty() ? update : fmt::format("if ({}) {}", guard, update));
    close(2 + loops);
  }

  // Whether the box of a buffer in scratch holds what the points of a full tile read, those that do not exist included. One that is
  // wider than its tile (read through two maps, or whole) ends where its tensor does.
  bool box_holds(const Points& points, TensorId t, const std::vector<Index>& at) const {
    const Buffer& b = buffer_of(t);
    for (std::size_t d = 0; d < at.size(); ++d) {
      if (d < b.through.size() && b.through[d].with >= 0) continue;      // one with a dim before
      std::int64_t first = at[d].offset.constant() - b.box[d].low.offset, last = first;
      std::map<int, std::int64_t> terms;
      for (const auto& [v, c] : b.box[d].low.terms) terms[v] -= c;
      for (std::size_t x = 0; x < points.spans.size(); ++x) {
        const std::int64_t c = coefficient_of(at[d], static_cast<RegionAxis>(x)).constant(), reach = c * (points.full[x] - 1);
        first += c * points.spans[x].low.offset + std::min<std::int64_t>(reach, 0), last += c * points.spans[x].low.offset + std::max<std::int64_t>(reach, 0);
        for (const auto& [v, n] : points.spans[x].low.terms) terms[v] += c * n;
      }
      const bool moves = std::any_of(terms.begin(), terms.end(), [](const auto& term) { return term.second != 0; });
      if (moves || first < 0 || last >= b.extent[d]) return false;
    }
    return true;
  }
  bool all_live_points(const Points& points, const Leaf& leaf) const {
    return std::all_of(leaf.parallel.begin(), leaf.parallel.end(), [&](RegionAxis a) { return always_live(points, a); });
  }

  // ---- boxes whose operands are all there

  // Whether a thread may read everything that its box asks for, points that do not exist included: those lie in scratch too.
  bool whole_boxes(const Points& points, const Leaf& leaf) const {
    const Statement& st = statement(leaf.first);
    if (st.guard) return false;
    bool alive = true;
    for (std::size_t i = 0; i < leaf.parallel.size(); ++i) {
      if (leaf.threads[i] * leaf.tile[i] != points.full[static_cast<std::size_t>(leaf.parallel[i])]) return false;
      alive &= always_live(points, leaf.parallel[i]);
    }
    ScalarSource source(p, points, where, axes(points), "");
    bool whole = true;
    for_each_access(st, [&](const Access& a) {
      Access read = a;
      read.at = indices(points, leaf.first, a.at);
      for (const Index& i : read.at) whole &= is_affine(i);
      whole = whole && !source.conditional(read) && (alive || (in_scratch(buffer_of(a.tensor)) && box_holds(points, a.tensor, read.at)));
    });
    return whole;
  }

  // An operand's part of a box in registers: over the box's axes that it depends on, one of them in pieces.
  struct Fetch {
    const Access* access = nullptr;
    std::vector<Index> at;
    std::vector<std::size_t> over;               // places in the box's axes
    std::vector<std::int64_t> stride;            // of the array, one a place of `over`
    std::size_t along = 0;                       // a place of `over`
    std::int64_t width = 1, elements = 1;
  };
  struct Box {
    std::vector<RegionAxis> axis;
    std::vector<std::int64_t> extent;
    const Leaf* leaf = nullptr;                  // whose points the first axes are
    std::int64_t piece(std::size_t i) const { return leaf && i < leaf->parallel.size() ? leaf->piece(i) : extent[i]; }
    std::string offset(std::size_t i, const std::string& e) const { return leaf && i < leaf->parallel.size() ? leaf->offset(i, e) : e; }
  };

  Fetch fetch_of(const Points& points, StatementId id, const Access& a, const Box& box) const {
    Fetch f{&a, indices(points, id, a.at), {}, {}, 0, 1, 1};
    for (std::size_t i = 0; i < box.axis.size(); ++i)
      if (box.extent[i] > 1 && depends(f.at, box.axis[i])) f.over.push_back(i);
    for (std::size_t i = 0; i < f.over.size(); ++i)
      if (const std::int64_t n = together(points, a.tensor, f.at, box.axis[f.over[i]], box.piece(f.over[i])); n > f.width) f.width = n, f.along = i;
    f.stride.assign(f.over.size(), 1);
    if (!f.over.empty()) f.elements = box.extent[f.over[f.along]];
    for (std::size_t i = f.over.size(); i-- > 0;)
      if (i != f.along) f.stride[i] = f.elements, f.elements *= box.extent[f.over[i]];
    return f;
  }
  // Its array, filled; the box's axes start at the expressions of `first`.
  void fetch(const Points& points, const Fetch& f, const Box& box, std::vector<std::string> first, const std::string& name) {
    line(fmt::format("{} {}[{}];", type_of(p.tensor(f.access->tensor).dtype), name, f.elements));
    std::string flat;
    for (std::size_t i = 0; i < f.over.size(); ++i) {
      const std::string variable = fmt::format("d{}", i);
      line("#pragma unroll");
      line(fmt::format("for (int {0} = 0; {0} < {1}; {0} += {2}) {{", variable, box.extent[f.over[i]], i == f.along ? f.width : 1));
      ++depth;
      std::string& expression = first[static_cast<std::size_t>(box.axis[f.over[i]])];
      expression = fmt::format("({} + {})", expression, box.offset(f.over[i], variable));
      flat += fmt::format("{}{} * {}", flat.empty() ? "" : " + ", variable, f.stride[i]);
    }
    ScalarSource source(p, points, where, std::move(first), pad());
    line(fmt::format("fetch<{}>({} + {}, &{});", f.width, name, flat.empty() ? "0" : flat, source.address(f.access->tensor, f.at)));
    close(static_cast<int>(f.over.size()));
  }
  // Where an element of the box is in a fetched array; `place` gives each of the box's axes as an offset into the box.
  static std::string fetched_element(const Fetch& f, const std::string& name, const std::vector<std::string>& place) {
    std::string flat;
    for (std::size_t i = 0; i < f.over.size(); ++i) flat += fmt::format("{}({}) * {}", flat.empty() ? "" : " + ", place[f.over[i]], f.stride[i]);
    return fmt::format("{}[{}]", name, flat.empty() ? "0" : flat);
  }

  void accumulate_boxes(const Points& points, Leaf& leaf, const std::string& array) {
    const Statement& st = statement(leaf.first);
    leaf.products = products_together(points, leaf);
    const int loops = open_reduced(points, leaf);
    Box box{leaf.parallel, leaf.tile, &leaf};
    if (leaf.products > 1) box.axis.push_back(leaf.reduced.back()), box.extent.push_back(leaf.products);
    std::vector<std::string> first = axes(points), at = axes(points), place;
    std::int64_t divisor = leaf.elements;
    for (std::size_t i = 0; i < leaf.parallel.size(); ++i) {
      const auto a = static_cast<std::size_t>(leaf.parallel[i]);
      divisor /= leaf.tile[i];
      first[a] = fmt::format("base{}", a);
      place.push_back(leaf.tile[i] == 1 ? "0" : fmt::format("e / {} % {}", divisor, leaf.tile[i]));
      at[a] = leaf.tile[i] == 1 ? first[a] : fmt::format("({} + {})", first[a], leaf.offset(i, place.back()));
    }
    if (leaf.products > 1) place.push_back("k"), at[static_cast<std::size_t>(leaf.reduced.back())] = fmt::format("({} + k)", axis(points, leaf.reduced.back()));
    std::vector<Fetch> list;
    for_each_access(st, [&](const Access& a) {
      for (const Fetch& f : list)
        if (f.access->tensor == a.tensor && f.access->at == a.at) return;
      list.push_back(fetch_of(points, leaf.first, a, box));
    });
    for (std::size_t i = 0; i < list.size(); ++i) fetch(points, list[i], box, first, fmt::format("operand{}", i));
    if (leaf.products > 1) line("#pragma unroll"), line(fmt::format("for (int k = 0; k < {}; ++k)", leaf.products));
    line("#pragma unroll");
    line(fmt::format("for (int e = 0; e < {}; ++e) {{", leaf.elements));
    ++depth;
    ScalarSource source(p, points, where, at, pad());
    for (std::size_t i = 0; i < list.size(); ++i) source.fetched(source.address(list[i].access->tensor, list[i].at), fetched_element(list[i], fmt::format("operand{}", i), place));
    const std::string v = source.value(st.body, leaf.first);
    out.text += source.lines;
    line(fmt::format("{0} = {1};", array, combined(st.reducer, array, v)));
    close(1 + loops);
  }

  // How many products one piece of an operand holds: where the axis has whole pieces, or the operands are zero behind its last product.
  std::int64_t products_together(const Points& points, const Leaf& leaf) const {
    if (leaf.reduced.empty()) return 1;
    const Statement& st = statement(leaf.first);
    const bool product = st.reducer == Reducer::sum && contraction(p, st);
    const RegionAxis k = leaf.reduced.back();
    const auto ks = static_cast<std::size_t>(k);
    std::int64_t most = 1;
    bool there = product;
    for_each_access(st, [&](const Access& a) {
      there &= in_scratch(buffer_of(a.tensor));
      most = std::max(most, together(points, a.tensor, indices(points, leaf.first, a.at), k, product && leaf.lanes == 1 ? 4 : 8));
    });
    const bool whole = !points.tiled[ks] && points.extent[ks] % most == 0;
    return (whole && (product || leaf.lanes > 1)) || (there && points.full[ks] % most == 0 && points.extent[ks] % most == 0) ? most : 1;
  }

  // ---- the maps behind a reduction, or a group of maps alone

  // Elements side by side along the innermost axis that are finished together: they exist together and are stored as one piece.
  std::int64_t stored_together(const Points& points, const Leaf& leaf, const std::vector<StatementId>& group) {
    if (leaf.parallel.empty() || leaf.tile.back() == 1) return 1;
    const RegionAxis x = leaf.parallel.back();
    std::int64_t n = leaf.beside;
    for (StatementId id : group)
      if (is_stored(group, id)) n = std::min(n, stored_as_one(points, id, x, leaf.beside));
    return leaf.threads.back() * leaf.tile.back() == points.full[static_cast<std::size_t>(x)] ? n : 1;
  }

  // Finishes `count` points side by side along axis x (or one point, x < 0), the first of which is named; where they are not live
  // but boxed, a later leaf that reads whole boxes from scratch finds zeros. `value` is the accumulator of the u-th.
  void finish_points(const Points& points, const std::vector<StatementId>& group, RegionAxis x, std::int64_t count, const std::string& value) {
    // Into scratch, where everything read is there too, points that do not exist are computed and zeroed: no branch.
    const bool straight = x >= 0 && all_boxed && all_in_scratch(points, group);
    line(straight ? "{" : "if (live) {");
    ++depth;
    const std::vector<std::string> first = axes(points);
    std::vector<std::string> at = first;
    if (count > 1) at[static_cast<std::size_t>(x)] = fmt::format("({} + u)", first[static_cast<std::size_t>(x)]);
    std::vector<Fetch> list;
    if (count > 1) fetch_rows(points, group, x, count, first, list);
    for (StatementId id : group)
      if (is_stored(group, id)) line(fmt::format("{} w_{}[{}];", type_of(p.tensor(statement(id).out).dtype), tensor(statement(id).out), count));
    if (count > 1) {
      line("#pragma unroll");
      line(fmt::format("for (int u = 0; u < {}; ++u) {{", count));
      ++depth;
    }
    ScalarSource source(p, points, where, at, pad());
    for (std::size_t i = 0; i < list.size(); ++i) source.fetched(source.address(list[i].access->tensor, list[i].at), fetched_element(list[i], fmt::format("beside{}", i), {"u"}));
    finish_values(source, group, value, count > 1 ? "u" : "0", straight && !all_live);
    if (count > 1) close(1);
    std::vector<std::string> zeros;
    for (StatementId id : group) {
      if (!is_stored(group, id)) continue;
      const TensorId t = statement(id).out;
      ScalarSource to(p, points, where, first, pad());
      const std::string address = to.address(t, indices(points, id, statement(id).at));
      line(fmt::format("put<{}>(&{}, w_{});", count, address, tensor(t)));
      if (in_both(t)) {
        const std::string far = outside_of_scratch(t, [&] { return ScalarSource(p, points, where, first, pad()).address(t, indices(points, id, statement(id).at)); });
        line(fmt::format("if (live) put<{}>(&{}, w_{});", count, far, tensor(t)));
      }
      if (!straight && in_scratch(buffer_of(t))) zeros.push_back(fmt::format("const {0} zero[{1}] = {{}}; put<{1}>(&{2}, zero);", type_of(p.tensor(t).dtype), count, address));
    }
    for (const std::string& z : zeros) {
      --depth;
      line("} else if (boxed) {");
      ++depth;
      line(z);
    }
    close(1);
  }
  // What the group's maps read side by side.
  void fetch_rows(const Points& points, const std::vector<StatementId>& group, RegionAxis x, std::int64_t count, const std::vector<std::string>& first, std::vector<Fetch>& list) {
    const Box box{{x}, {count}, nullptr};
    for (StatementId id : group)
      if (statement(id).reduced.empty())
        for_each_access(statement(id), [&](const Access& a) {
          for (StatementId other : group)
            if (statement(other).out == a.tensor) return;
          Access read = a;
          read.at = indices(points, id, a.at);
          ScalarSource source(p, points, where, first, "");
          const bool affine_ = std::all_of(read.at.begin(), read.at.end(), [](const Index& i) { return is_affine(i); });
          if (!affine_ || source.conditional(read) || !depends(read.at, x)) return;
          Fetch f = fetch_of(points, id, a, box);
          if (f.width == 1) return;
          fetch(points, f, box, first, fmt::format("beside{}", list.size()));
          list.push_back(std::move(f));
        });
  }
  bool all_in_scratch(const Points& points, const std::vector<StatementId>& group) const {
    ScalarSource source(p, points, where, axes(points), "");
    bool all = true;
    for (StatementId id : group) {
      const Statement& st = statement(id);
      all &= !is_stored(group, id) || in_scratch(buffer_of(st.out));
      if (st.reduced.empty() && st.guard) return false;
      if (st.reduced.empty())
        for_each_access(st, [&](const Access& a) {
          for (StatementId other : group)
            if (statement(other).out == a.tensor) return;
          Access read = a;
          read.at = indices(points, id, a.at);
          for (const Index& i : read.at) all &= is_affine(i);
          all = all && in_scratch(buffer_of(a.tensor)) && !source.conditional(read) && box_holds(points, a.tensor, read.at);
        });
    }
    return all;
  }
  std::map<TensorId, std::string> beside_rows{};       // what rows have besides sums, where their maps are computed
  void finish_values(ScalarSource& source, const std::vector<StatementId>& group, const std::string& value, const std::string& u, bool zeroed = false) {
    std::string stores;
    for (const auto& [t, name] : beside_rows) source.know(t, name);
    for (StatementId id : group) {
      const Statement& st = statement(id);
      const DType declared = p.tensor(st.out).dtype;
      const DType have = st.reduced.empty() ? compute_type(st.body->dtype) : accumulated(st);
      std::string v = st.reduced.empty() ? source.value(st.body, id) : value;
      if (st.guard && st.reduced.empty()) v = fmt::format("({} ? {} : {}(0))", source.value(st.guard, id), v, type_of(have));
      const std::string name = fmt::format("r_{}", tensor(st.out));
      if (is_stored(group, id)) stores += fmt::format("{}w_{}[{}] = {}{}{};\n", pad(), tensor(st.out), u, zeroed ? "live ? " : "", plain_float(have, declared) ? v : source.rounded(v, have, declared),
                                                     zeroed ? fmt::format(" : {}(0)", type_of(declared)) : "");
      source.lines += fmt::format("{}const {} {} = {};\n", pad(), type_of(declared), name, plain_float(have, declared) && !decides(st.out) ? v : source.rounded(v, have, declared));
      source.know(st.out, name);
    }
    out.text += source.lines + stores;
  }
  // Whether a reader asks more of a value than its size: then it is rounded as declared first, else it may be held wider.
  bool decides(TensorId t) const {
    const auto asks = [&](const ScalarRef& x, const auto& self) -> bool {
      if (!x) return false;
      if ((x->op >= Op::eq && x->op <= Op::select) || (x->op >= Op::floor && x->op <= Op::trunc) || x->op == Op::floor_div || x->op == Op::mod || x->op == Op::sign || (x->op == Op::cast && !is_float(x->dtype))) return true;
      return std::any_of(x->args.begin(), x->args.end(), [&](const ScalarRef& a) { return self(a, self); });
    };
    for (StatementId id : r.statements) {
      bool reads = false;
      for_each_access(statement(id), [&](const Access& a) { reads |= a.tensor == t; });
      const Reducer how = statement(id).reducer;
      if (reads && (how == Reducer::argmax || how == Reducer::argmin || statement(id).guard || asks(statement(id).body, asks))) return true;
    }
    return false;
  }
  // Whether storing rounds as declared, so that a value need not be rounded before.
  static bool plain_float(DType have, DType declared) { return have == DType::f32 && (declared == DType::f16 || declared == DType::bf16 || declared == DType::f32); }

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
    if (leaf.lanes > 1) {
      share(leaf, "acc[e]", st);
      line(fmt::format("if (threadIdx.x % {} == 0) {{", leaf.lanes));
      ++depth;
    }
    finish_elements(points, leaf, group, "acc[e");
    close(leaf.lanes > 1 ? 3 : 2);
  }
  // `value`: an accumulator's name, open behind its index e.
  void finish_elements(const Points& points, const Leaf& leaf, const std::vector<StatementId>& group, const std::string& value) {
    const std::int64_t n = stored_together(points, leaf, group);
    open_elements(points, leaf, n);
    finish_points(points, group, leaf.parallel.empty() ? -1 : leaf.parallel.back(), n, value + (n > 1 ? " + u]" : "]"));
    close(1);
  }
};

}  // namespace tilewright::cuda
