// Rows in registers: a group of four warps owns 64 rows of the tile, and what a kernel makes of them stays there as the fragments of its
// instructions: results of contractions (64 x columns), maps of them, statistics of rows. A contraction's result, rounded and packed,
// is the first operand of the next one as it lies: both have the same layout.
//
//   contract S = Q * K     t_S[columns / 8][4]: of each 8 columns a thread holds two neighbours of two rows
//   reduce   m = max(S)    t_m[2]: over its own columns, then over the four threads of a row
//   map      E = exp(S - m);  contract O += E * V
#pragma once
#include "target/cuda/tensor_leaf_inl.h"

namespace tilewright::cuda {

struct FragmentLeaf : TensorLeaf {
  struct Shape { RegionAxis column = -1; std::int64_t columns = 0; };    // no column: one value a row
  std::map<TensorId, Shape> held{};
  std::set<TensorId> fresh{};            // held, but nothing was added yet

  std::string fragment(TensorId t) const { return "t_" + tensor(t); }
  RegionAxis row_axis() const {
    RegionAxis a = -1;
    for (const AxisStep& step : s.steps)
      if (step.how == AxisStep::How::tile && step.size > 1) a = step.axis;
    return a;
  }
  RegionAxis axis_in_region(StatementId id, AxisId a) const {
    const auto x = plain_axis(r.image[static_cast<std::size_t>(r.position(id))][static_cast<std::size_t>(a)]);
    return x ? *x : -1;
  }
  // The statement's axis that runs along an axis of its own points.
  static AxisId axis_of(const Points& points, StatementId id, RegionAxis x) {
    const auto& image = points.region.image[static_cast<std::size_t>(points.region.position(id))];
    for (std::size_t a = 0; a < image.size(); ++a)
      if (plain_axis(image[a]) == x) return static_cast<AxisId>(a);
    return -1;
  }

  // The column axis of a statement's points, reduced ones among them; refused where there are several.
  Or<Shape> columns_of(const Points& points, StatementId id) const {
    Shape shape;
    for (std::size_t x = 0; x < points.region.axes.size(); ++x) {
      const AxisId a = axis_of(points, id, static_cast<RegionAxis>(x));
      const RegionAxis own = axis_in_region(id, a);
      if (own == row_axis() || points.full[x] == 1) continue;
      if (shape.column >= 0) return Refused{p.tensor(statement(id).out).name + " has more than rows and columns"};
      shape = {own, points.full[x]};
    }
    if (shape.columns % 8) return Refused{fmt::format("{}: {} columns are no multiple of 8", p.tensor(statement(id).out).name, shape.columns)};
    return shape;
  }

  // ---- points of a thread: row u / 2, column n * 8 + u % 2 of its own

  static constexpr const char* own_row = "threadIdx.x / 128 * 64 + threadIdx.x / 32 % 4 * 16 + threadIdx.x % 32 / 4";
  // `stores`: rows that do not exist are not read in place of others, they are left out. `places`: what is the same for all of a thread's points, and what is known once its loops are unrolled.
  std::vector<ScalarSource::Place> places{};
  void name_axes(const Points& points, StatementId id, const std::string& row, const std::string& column, const std::string& own_part = "0", bool stores = false) {
    places.clear();
    for (std::size_t x = 0; x < points.region.axes.size(); ++x) {
      const auto at = static_cast<RegionAxis>(x);
      const RegionAxis own = axis_in_region(id, axis_of(points, id, at));
      ScalarSource::Place place{low(points, at), "0"};
      if (own == row_axis()) {
        place = {fmt::format("{} + int({})", place.base, own_row), row + " * 8"};
        if (!stores && reads_by_row(points, id)) place = {fmt::format("min({} + {}, {})", place.base, place.offset, points.extent[x] - 1), "0"};
      } else if (points.full[x] > 1 && !column.empty()) {
        place = {fmt::format("{} + {}", place.base, own_part), column};
      }
      line(place.offset == "0" ? fmt::format("const int {} = {};", axis(points, at), place.base) : fmt::format("const int {} = {} + {};", axis(points, at), place.base, place.offset));
      places.push_back(std::move(place));
    }
  }
  // Whether a statement reads memory at rows that may not exist.
  bool reads_by_row(const Points& points, StatementId id) const {
    bool any = false;
    for_each_access(statement(id), [&](const Access& a) {
      if (held.count(a.tensor)) return;
      for (const Index& i : indices(points, id, a.at))
        for (std::size_t x = 0; x < points.region.axes.size(); ++x)
          any |= axis_in_region(id, axis_of(points, id, static_cast<RegionAxis>(x))) == row_axis() && mentions_axis(i, static_cast<RegionAxis>(x));
    });
    return any;
  }
  void name_point(const Points& points, StatementId id) { name_axes(points, id, "u / 2", "n * 8 + u % 2", own_columns); }
  static constexpr const char* own_columns = "int(threadIdx.x % 4) * 2";
  // The condition under which a point exists in a ragged tile; empty where it always does.
  bool whole_turns = false;              // every column exists, every guard holds
  std::string existing(const Points& points, StatementId id, bool rows) const {
    std::string all;
    if (whole_turns && !rows) return all;
    for (std::size_t x = 0; x < points.region.axes.size(); ++x) {
      const auto at = static_cast<RegionAxis>(x);
      const bool row = axis_in_region(id, axis_of(points, id, at)) == row_axis();
      // A group has 64 rows, whether there are as many or not.
      if ((row && !rows) || (always_live(points, at) && !(row && points.full[x] < s.threads / 2))) continue;
      all += fmt::format("{}{} < {}", all.empty() ? "" : " && ", axis(points, at), high(points, at));
    }
    return all;
  }

  // What a body reads of the rows is in registers, if it reads it at the point where it is made.
  bool know_fragments(ScalarSource& source, StatementId id, const std::string& n, const std::string& u, const std::string& row) {
    const Statement& st = statement(id);
    for_each_access(st, [&](const Access& a) {
      const auto it = held.find(a.tensor);
      if (it == held.end()) return;
      const StatementId writer = writer_of(a.tensor);
      for (std::size_t d = 0; d < a.at.size(); ++d)
        if (!(substitute(p, a.at[d], r.image[static_cast<std::size_t>(r.position(id))]) ==
              substitute(p, statement(writer).at[d], r.image[static_cast<std::size_t>(r.position(writer))])))
          why = fmt::format("{} reads {} at other points than it is made at", p.tensor(st.out).name, p.tensor(a.tensor).name);
      source.know(a.tensor, it->second.column < 0 ? fmt::format("{}[{}]", fragment(a.tensor), row) : fmt::format("{}[{} * 4 + {}]", fragment(a.tensor), n, u));
    });
    return why.empty();
  }
  StatementId writer_of(TensorId t) const {
    for (StatementId id : r.statements)
      if (statement(id).out == t) return id;
    TW_ASSERT(!"nobody writes it");
    return -1;
  }

  void open_columns_of(std::int64_t columns) {
    line("#pragma unroll");
    line(fmt::format("for (int n = 0; n < {}; ++n)", columns / 8));
    line("#pragma unroll");
    line("for (int u = 0; u < 4; ++u) {");
    ++depth;
  }
  void declare(TensorId t, const Shape& shape, DType type) {
    if (!held.emplace(t, shape).second) return;
    line(fmt::format("{} {}[{}];", type_of(type), fragment(t), shape.column < 0 ? 2 : shape.columns / 2));
  }

  // ---- statements

  // The accumulator of a reduction; a contraction that adds to it at once overwrites it instead.
  void begin_fragment(const Block& nodes, std::size_t n, BufferId b) {
    const TensorId t = buffer(b).tensor;
    StatementId id = -1;
    for (StatementId x : r.statements)
      if (statement(x).out == t && !statement(x).reduced.empty()) id = x;
    const auto points = common_points(p, nest, {id});
    Shape shape;
    for (std::size_t x = 0; x < points->region.axes.size(); ++x) {
      const AxisId a = axis_of(*points, id, static_cast<RegionAxis>(x));
      const auto& reduced = statement(id).reduced;
      if (std::count(reduced.begin(), reduced.end(), a) || axis_in_region(id, a) == row_axis() || points->full[x] == 1) continue;
      if (shape.column >= 0) why = p.tensor(t).name + " has more than rows and columns";
      shape = {axis_in_region(id, a), points->full[x]};
    }
    if (shape.columns % 8) why = fmt::format("{}: {} columns are no multiple of 8", p.tensor(t).name, shape.columns);
    held.erase(t);
    declare(t, shape, accumulated(statement(id)));
    const Compute* next = n + 1 < nodes.size() ? std::get_if<Compute>(&nodes[n + 1].op) : nullptr;
    if (next && next->statement == id && next->kind == Compute::Kind::contract) {
      fresh.insert(t);
      return;
    }
    line("#pragma unroll");
    line(fmt::format("for (int e = 0; e < {}; ++e) {}[e] = {};", shape.column < 0 ? 2 : shape.columns / 2, fragment(t), identity(statement(id).reducer, accumulated(statement(id)))));
  }

  void fragment_map(StatementId id) {
    const Statement& st = statement(id);
    const auto points = common_points(p, nest, {id});
    const auto shape = columns_of(*points, id);
    if (!shape) {
      why = shape.reason();
      return;
    }
    const bool stored = std::count(nest.outputs.begin(), nest.outputs.end(), st.out) > 0 && !is_state(st.out), rows_only = shape->column < 0;
    // A state that is multiplied by a value of its row stays as it is where that is 1 in all of a warp's rows: mostly.
    const TensorId factor = rows_only ? -1 : row_factor(st);
    if (factor >= 0) {
      line(fmt::format("if (__any_sync(0xffffffffu, {0}[0] != 1.0f || {0}[1] != 1.0f)) {{", fragment(factor)));
      ++depth;
    }
    declare(st.out, *shape, compute_type(p.tensor(st.out).dtype));
    if (rows_only) {
      line("#pragma unroll");
      line("for (int u = 0; u < 2; ++u) {");
      ++depth;
      name_axes(*points, id, "u", "");
    } else {
      open_columns_of(shape->columns);
      name_point(*points, id);
    }
    ScalarSource source(p, *points, where, axes(*points), pad());
    source.approximate = true, source.places = places;
    if (!know_fragments(source, id, "n", "u", rows_only ? "u" : "u / 2")) return;
    const DType have = compute_type(st.body->dtype);
    const bool masked = without_guard.count(id) > 0;
    if (masked) know_finite(source, st);
    std::string v = source.value(st.body, id), live = masked ? "" : existing(*points, id, false);
    if (st.guard && !whole_turns && !masked) live += (live.empty() ? "" : " && ") + source.value(st.guard, id);
    if (!only_packed(st.out)) v = source.rounded(v, have, p.tensor(st.out).dtype);
    out.text += source.lines;
    line(fmt::format("{}[{}] = {};", fragment(st.out), rows_only ? "u" : "n * 4 + u", live.empty() ? v : fmt::format("{} ? {} : {}(0)", live, v, type_of(p.tensor(st.out).dtype))));
    close(factor >= 0 ? 2 : 1);
    if (stored) store_fragment(*points, id, *shape);
  }

  // out = out * f or select(f == 0, 0, out * f), f of the row: f; else none.
  TensorId row_factor(const Statement& st) const {
    auto tensor_of = [](const ScalarRef& x) { return x->op == Op::read ? std::get<Access>(x->leaf).tensor : TensorId{-1}; };
    ScalarRef body = st.body;
    TensorId zero = -1;
    double none = 1;
    if (body->op == Op::select && body->args[0]->op == Op::eq && is_literal(body->args[0]->args[1], &none) && none == 0 && is_literal(body->args[1], &none) && none == 0) {
      zero = tensor_of(body->args[0]->args[0]);
      body = body->args[2];
    }
    if (body->op != Op::mul || tensor_of(body->args[0]) != st.out) return -1;
    const TensorId f = tensor_of(body->args[1]);
    const auto it = held.find(f);
    return it != held.end() && it->second.column < 0 && (zero < 0 || zero == f) ? f : -1;
  }

  // Whether a value goes nowhere but out, or into the packed operand of a contraction: both round it.
  bool only_packed(TensorId t) const {
    for (StatementId id : r.statements) {
      const auto c = contraction(p, statement(id));
      bool read = false;
      for_each_access(statement(id), [&](const Access& a) { read |= a.tensor == t; });
      if (read && !(c && (c->a->tensor == t || c->b->tensor == t))) return false;
    }
    return true;
  }

  // What a reduction makes turn by turn leaves behind the loop, when it is whole: at the points of the map that corrects or keeps it.
  bool is_state(TensorId t) const {
    return std::any_of(r.statements.begin(), r.statements.end(), [&](StatementId id) { return statement(id).out == t && !statement(id).reduced.empty(); });
  }
  std::set<StatementId> made_whole{};    // reductions of columns outside of all loops
  void store_state(TensorId t) {
    if (!is_state(t) || !held.count(t)) return;
    for (StatementId id : r.statements) {
      const Statement& st = statement(id);
      const bool keeps = st.body->op == Op::read && std::get<Access>(st.body->leaf).tensor == t && std::get<Access>(st.body->leaf).at == st.at;
      if (!st.reduced.empty() || (st.out != t && !keeps)) continue;
      const auto points = common_points(p, nest, {id});
      return store_fragment(*points, id, held.at(t), t);
    }
    // It was made behind the last turn.
    for (StatementId id : r.statements)
      if (statement(id).out == t && made_whole.count(id)) return store_fragment(*common_points(p, nest, {id}), id, held.at(t), t);
    why = fmt::format("{} leaves the kernel as it was added up", p.tensor(t).name);
  }

  // Neighbouring columns leave together.
  void store_fragment(const Points& points, StatementId id, const Shape& shape, TensorId state = -1) {
    const Statement& st = statement(id);
    const TensorId out_tensor = state < 0 ? st.out : state;
    ScalarSource to(p, points, where, axes(points), pad());
    const std::string address = to.address(out_tensor, indices(points, id, st.at)), live = existing(points, id, true);
    if (shape.column < 0) {
      line("#pragma unroll");
      line("for (int u = 0; u < 2; ++u) {");
      ++depth;
      name_axes(points, id, "u", "", "0", true);
      line(fmt::format("if (threadIdx.x % 4 == 0{}) put<1>(&{}, {} + u);", live.empty() ? "" : " && " + live, address, fragment(out_tensor)));
      close(1);
      return;
    }
    const std::int64_t inner = p.tensor(out_tensor).dims[static_cast<std::size_t>(layouts[static_cast<std::size_t>(out_tensor)].back())].constant();
    const bool beside = column_stride(points, id, shape) == 1, pairs = beside && inner % 2 == 0;
    if (state < 0 && beside && inner % 4 == 0 && shape.columns % 16 == 0 && bytes_of(p.tensor(out_tensor).dtype) == 2) return store_fours(points, id, shape);
    line("#pragma unroll");
    line(fmt::format("for (int n = 0; n < {}; ++n)", shape.columns / 8));
    line("#pragma unroll");
    line(fmt::format("for (int u = 0; u < 4; u += {}) {{", pairs ? 2 : 1));
    ++depth;
    name_axes(points, id, "u / 2", "n * 8 + u % 2", own_columns, true);
    line(fmt::format("{}put<{}>(&{}, {} + n * 4 + u);", live.empty() ? "" : fmt::format("if ({}) ", live), pairs ? 2 : 1, address, fragment(out_tensor)));
    close(1);
  }
  // Two threads exchange halves of two fragments, so that four of them fill a sector.
  void store_fours(const Points& points, StatementId id, const Shape& shape) {
    const Statement& st = statement(id);
    ScalarSource to(p, points, where, axes(points), pad());
    const std::string address = to.address(st.out, indices(points, id, st.at)), live = existing(points, id, true), t = fragment(st.out);
    line("#pragma unroll");
    line(fmt::format("for (int n = 0; n < {}; n += 2)", shape.columns / 8));
    line("#pragma unroll");
    line("for (int u = 0; u < 4; u += 2) {");
    ++depth;
    line(fmt::format("const float four[4] = {{{0}[n * 4 + u], {0}[n * 4 + u + 1], {0}[n * 4 + u + 4], {0}[n * 4 + u + 5]}};", t));
    line(fmt::format("const word<8> together = exchange<{}>(four);", stored_type_of(p.tensor(st.out).dtype)));
    name_axes(points, id, "u / 2", "n * 8", "int(threadIdx.x % 2 * 8 + threadIdx.x / 2 % 2 * 4)", true);
    line(fmt::format("{}*reinterpret_cast<word<8>*>(&{}) = together;", live.empty() ? "" : fmt::format("if ({}) ", live), address));
    close(1);
  }
  std::int64_t column_stride(const Points& points, StatementId id, const Shape& shape) const {
    for (std::size_t x = 0; x < points.region.axes.size(); ++x)
      if (axis_in_region(id, axis_of(points, id, static_cast<RegionAxis>(x))) == shape.column)
        return stride_along(points, id, Access{statement(id).out, statement(id).at, {}}, static_cast<RegionAxis>(x));
    return 0;
  }

  // Over the columns of a thread in several chains, then over the four threads of a row.
  void fragment_reduce(StatementId id) {
    const Statement& st = statement(id);
    const auto points = common_points(p, nest, {id});
    const auto shape = columns_of(*points, id);
    if (!shape || shape->column < 0) {
      why = shape ? p.tensor(st.out).name + " is not reduced over columns" : shape.reason();
      return;
    }
    const DType type = accumulated(st);
    const std::string part = "part_" + tensor(st.out), none = identity(st.reducer, type);
    const int chains = shape->columns % 16 == 0 ? 8 : 4;
    line("{");
    ++depth;
    line(fmt::format("{} {}[{}];", type_of(type), part, chains));
    line("#pragma unroll");
    line(fmt::format("for (int e = 0; e < {}; ++e) {}[e] = {};", chains, part, none));
    open_columns_of(shape->columns);
    name_point(*points, id);
    ScalarSource source(p, *points, where, axes(*points), pad());
    source.approximate = true, source.places = places;
    if (!know_fragments(source, id, "n", "u", "u / 2")) return;
    const bool masked = without_guard.count(id) > 0;
    std::string v = source.value(st.body, id), live = masked ? "" : existing(*points, id, false);
    if (st.guard && !whole_turns && !masked) live += (live.empty() ? "" : " && ") + source.value(st.guard, id);
    if (!live.empty()) v = fmt::format("({} ? {} : {})", live, v, none);
    out.text += source.lines;
    const std::string chain = chains == 8 ? part + "[n % 2 * 4 + u]" : part + "[u]";
    line(fmt::format("{} = {};", chain, combined(st.reducer, chain, v)));
    close(1);
    if (!turn_nodes) made_whole.insert(id);
    const bool apart = adds_up_behind(id), lags = st.reducer == Reducer::max && lag_of(st.out) > 0;
    line("#pragma unroll");
    line("for (int u = 0; u < 2; ++u) {");
    ++depth;
    auto fold = [&](const std::string& other) { line(fmt::format("{0}[u * 2] = {1};", part, combined(st.reducer, part + "[u * 2]", other))); };
    fold(part + "[u * 2 + 1]");
    if (chains == 8) fold(part + "[u * 2 + 4]"), fold(part + "[u * 2 + 5]");
    for (int lanes : {1, 2})
      if (!apart) fold(fmt::format("__shfl_xor_sync(0xffffffffu, {}[u * 2], {})", part, lanes));
    const std::string whole = combined(st.reducer, fragment(st.out) + "[u]", part + "[u * 2]");
    if (lags) {
      line(fmt::format("const float high = {};", whole));
      line(fmt::format("if (!(high - {0}[u] <= {1})) {0}[u] = high;  // it may lag behind: sums are as exact", fragment(st.out), literal(lag_of(st.out), DType::f32)));
    } else {
      line(fmt::format("{}[u] = {};", fragment(st.out), whole));
    }
    if (apart) behind_loop.insert(id);
    close(2);
  }

  // ---- turns in which some points do not count: elements that only a maximum and its exponentials read become -inf, once

  std::set<StatementId> without_guard{};             // what reads such elements, or zeros that were made of them
  ScalarRef guard_of(StatementId id) const {
    const Statement& st = statement(id);
    return st.guard ? substitute(p, st.guard, r.image[static_cast<std::size_t>(r.position(id))]) : nullptr;
  }
  // exp(e * c - b), c not negative: 0 at -inf.
  bool vanishes(const ScalarRef& body, TensorId e) const {
    if (body->op == Op::cast) return vanishes(body->args[0], e);
    if (body->op != Op::exp || body->args[0]->op != Op::sub || exponent_scale(body, e) <= 0) return false;
    const auto names = [&](const ScalarRef& x, const auto& self) -> bool {
      return (x->op == Op::read && std::get<Access>(x->leaf).tensor == e) || std::any_of(x->args.begin(), x->args.end(), [&](const ScalarRef& a) { return self(a, self); });
    };
    return !names(body->args[0]->args[1], names);
  }
  void mask_elements(StatementId maker) {
    const TensorId e = statement(maker).out;
    if (whole_turns || !turn_nodes || !held.count(e) || held.at(e).column < 0) return;
    std::vector<StatementId> readers, sums;
    std::set<TensorId> zero;
    bool extreme = false;
    for (StatementId id : r.statements) {
      const Statement& st = statement(id);
      if (!reads(st, e)) continue;
      const bool is_maximum = st.reducer == Reducer::max && st.body->op == Op::read, is_exponential = st.reduced.empty() && vanishes(st.body, e);
      if (!in_turn(id) || !(is_maximum || is_exponential) || !equal(guard_of(id), guard_of(readers.empty() ? id : readers[0]))) return;
      extreme |= is_maximum, readers.push_back(id);
      if (is_exponential) zero.insert(st.out);
    }
    if (!extreme || zero.empty()) return;
    for (StatementId id : r.statements)
      if (const Statement& st = statement(id); st.reducer == Reducer::sum && in_turn(id) && st.body->op == Op::read && zero.count(std::get<Access>(st.body->leaf).tensor) && equal(guard_of(id), guard_of(readers[0]))) sums.push_back(id);
    const auto points = common_points(p, nest, {readers[0]});
    const auto shape = columns_of(*points, readers[0]);
    if (!shape || shape->columns != held.at(e).columns) return;
    std::string live = existing(*points, readers[0], false);
    if (live.empty() && !statement(readers[0]).guard) return;
    open_columns_of(shape->columns);
    name_point(*points, readers[0]);
    ScalarSource source(p, *points, where, axes(*points), pad());
    source.places = places;
    if (statement(readers[0]).guard) live += (live.empty() ? "" : " && ") + source.value(statement(readers[0]).guard, readers[0]);
    out.text += source.lines;
    line(fmt::format("if (!({})) {}[n * 4 + u] = {};", live, fragment(e), literal(-INFINITY, DType::f32)));
    close(1);
    without_guard.insert(readers.begin(), readers.end());
    without_guard.insert(sums.begin(), sums.end());
  }
  // Where nothing of a row has been seen its maximum is -inf, which no difference of infinities may meet.
  void know_finite(ScalarSource& source, const Statement& st) {
    for_each_access(st, [&](const Access& a) {
      if (const auto it = held.find(a.tensor); it != held.end() && it->second.column < 0)
        source.know(a.tensor, fmt::format("({0}[u / 2] == {1} ? 0.0f : {0}[u / 2])", fragment(a.tensor), literal(-INFINITY, DType::f32)));
    });
  }

  // ---- what a turn need not do

  const Block* turn_nodes = nullptr;     // of the loop that is printed
  std::set<StatementId> behind_loop{};   // sums whose threads add up what they have behind the loop

  bool in_turn(StatementId id) const {
    return turn_nodes && std::any_of(turn_nodes->begin(), turn_nodes->end(), [&](const Node& n) {
      const Compute* c = std::get_if<Compute>(&n.op);
      return c && c->statement == id;
    });
  }
  static bool reads(const Statement& st, TensorId t) {
    bool any = false;
    for_each_access(st, [&](const Access& a) { any |= a.tensor == t; });
    return any;
  }
  // A sum of rows that lives across the loop, and that a turn does nothing with but multiply it.
  bool adds_up_behind(StatementId id) const {
    const Statement& st = statement(id);
    if (st.reducer != Reducer::sum || !in_turn(id)) return false;
    for (const Node& n : *turn_nodes) {
      if (const Init* i = std::get_if<Init>(&n.op); i && buffer(i->buffer).tensor == st.out) return false;
      const Compute* c = std::get_if<Compute>(&n.op);
      if (!c || c->statement == id) continue;
      const Statement& other = statement(c->statement);
      if (other.out == st.out ? row_factor(other) < 0 : reads(other, st.out)) return false;
    }
    return true;
  }
  void add_up() {
    for (StatementId id : behind_loop) {
      const Statement& st = statement(id);
      line("#pragma unroll");
      line("for (int u = 0; u < 2; ++u) {");
      ++depth;
      for (int lanes : {1, 2}) line(fmt::format("{0}[u] += __shfl_xor_sync(0xffffffffu, {0}[u], {1});", fragment(st.out), lanes));
      close(1);
    }
    behind_loop.clear();
  }

  // By how much a maximum that only bounds exponents may stay behind: so that none is larger than 2^8. 0: it may not.
  double lag_of(TensorId t) const {
    double scale = 0;
    for (StatementId id : r.statements) {
      const Statement& st = statement(id);
      if (!reads(st, t) || st.out == t) continue;
      if (!in_turn(id) || std::count(nest.outputs.begin(), nest.outputs.end(), st.out)) return 0;
      if (st.body->op == Op::read) continue;       // what it was
      const double by = exponent_scale(st.body, t);
      if (by <= 0 || (scale > 0 && by != scale)) return 0;
      scale = by;
    }
    return scale > 0 && !std::count(nest.outputs.begin(), nest.outputs.end(), t) ? 8 * std::log(2.0) / scale : 0;
  }
  // The factor of t in exponentials, if the body reads it nowhere else (but to see whether it has changed).
  double exponent_scale(const ScalarRef& x, TensorId t, bool inside = false, double by = 1) const {
    if (x->op == Op::read) return std::get<Access>(x->leaf).tensor != t ? 0 : inside ? by : -1;
    if (x->op == Op::eq || x->op == Op::ne) return 0;
    double factor = 0, found = 0;
    for (std::size_t i : {0, 1})
      if (x->op == Op::mul && inside && is_literal(x->args[i], &factor)) return exponent_scale(x->args[1 - i], t, inside, by * factor);
    if (x->op == Op::exp) inside = true;
    else if (inside && x->op != Op::sub && x->op != Op::add && x->op != Op::cast) inside = false;
    for (const ScalarRef& a : x->args) {
      const double own = exponent_scale(a, t, inside, by);
      if (own < 0 || (own > 0 && found > 0 && own != found)) return -1;
      found = std::max(found, own);
    }
    return found;
  }

  // Both operands from scratch, or the first one from registers.
  void fragment_contract(StatementId id) {
    const Statement& st = statement(id);
    const auto points = common_points(p, nest, {id});
    const auto c = contraction(p, st);
    auto runs = [&](const std::vector<AxisId>& list, RegionAxis x) {
      return std::any_of(list.begin(), list.end(), [&](AxisId a) { return axis_in_region(id, a) == x; });
    };
    const bool swapped = runs(c->n, row_axis());
    const Access *a = swapped ? c->b : c->a, *b = swapped ? c->a : c->b;
    RegionAxis k = -1;                   // of the points
    for (std::size_t x = 0; x < points->region.axes.size(); ++x)
      if (const AxisId own = axis_of(*points, id, static_cast<RegionAxis>(x)); std::count(c->k.begin(), c->k.end(), own) && points->full[x] > 1) {
        if (k >= 0) why = "more than one axis of products";
        k = static_cast<RegionAxis>(x);
      }
    const std::int64_t products = full(*points, k);
    const bool registers = held.count(a->tensor) > 0;
    const DType type = p.tensor(b->tensor).dtype;
    const DType taken = p.tensor(a->tensor).dtype;
    if (taken != type || (type != DType::f16 && type != DType::bf16) || products % 16 || !in_scratch(buffer_of(b->tensor)) || !buffer_of(b->tensor).at->swizzled ||
        (!registers && (!in_scratch(buffer_of(a->tensor)) || !buffer_of(a->tensor).at->swizzled))) {
      why = fmt::format("{} x {}: no instruction of four warps takes these operands ({}, {}; {} products)", p.tensor(a->tensor).name, p.tensor(b->tensor).name, name_of(taken), name_of(type), products);
      return;
    }
    issue_contract(*points, id, k, *a, *b, registers);
  }

  // A contraction's instructions. Those that are put off read the stage that their pipe is at.
  StatementId put_off = -1;              // the contraction that ends a turn, if turns overlap
  std::optional<Pipe> put_off_ring{};    // that brings its operand
  bool first_turn = false, settled = true;   // settled: nothing of the turn before is under way any more

  void issue_contract(const Points& points, StatementId id, RegionAxis k, const Access& a, const Access& b, bool registers) {
    const Statement& st = statement(id);
    const Shape& shape = held.at(st.out);
    const std::int64_t products = full(points, k);
    const DType type = p.tensor(b.tensor).dtype;
    const bool k_last = stride_along(points, id, b, k) == 1, later = id == put_off;
    const std::string name = out.name + "_" + tensor(st.out);
    if (made_instructions.insert(id).second) group_primitives += group_instruction(name, static_cast<int>(shape.columns), type == DType::bf16, !k_last, registers);
    if (registers && later) settle();
    if (registers) pack_operand(a.tensor, products, stored_type_of(type), !later);
    const std::int64_t rows = s.threads / 2;     // of the tile: 64 a group
    // Sixteen products further on: in a panel of 128 bytes, or so many rows of it.
    const std::string from_b = "columns + " + (k_last ? panel_step(products, shape.columns) : std::string("k * 8"));
    const std::string from_a = registers ? fmt::format("p_{} + k / 4", tensor(a.tensor)) : "rows + " + panel_step(products, rows);
    std::vector<std::string> lines;
    lines.push_back("{");
    if (!registers) lines.push_back(fmt::format("  const unsigned long long rows = operand(shared_address({}) + threadIdx.x / 128 * {}, 16, 1024);", where.at(a.tensor).pointer, 64 * 128));
    lines.push_back(fmt::format("  const unsigned long long columns = operand(shared_address({}), {}, 1024);", later ? put_off_stage(b.tensor) : where.at(b.tensor).pointer,
                                k_last ? 16 : products * 128));
    lines.push_back("  group_begin();");
    lines.push_back("  #pragma unroll");
    lines.push_back(fmt::format("  for (int k = 0; k < {}; k += 16) group_multiply_{}({}, {}, {}, {});", products, name, fragment(st.out), from_a, from_b, fresh.count(st.out) ? "k > 0" : "1"));
    lines.push_back("  group_commit();");
    lines.push_back("}");
    fresh.erase(st.out);
    if (later) {
      put_off_lines = lines;
      return;
    }
    const bool beside = put_off >= 0;
    if (beside) line(fmt::format("turn_begins<{}>();", s.threads / 128));
    for (const std::string& text : lines) line(text);
    if (beside && !first_turn) print_put_off();
    if (beside) line(fmt::format("turn_ends<{}>();", s.threads / 128));
    // Where boxes are kept for a turn, its products may go on until the next ones are under way.
    if (const int kept = where_kept(b.tensor); kept > 0 && !beside) {
      line(fmt::format("group_wait<{}>();", kept));
      going_on.insert(st.out);
      return;
    }
    wait_for(st.out, beside && !first_turn ? 1 : 0);
    settled = first_turn || !beside;
  }
  std::set<TensorId> going_on{};         // sums whose last products may be under way behind the loop
  int where_kept(TensorId t) const { return buffer_of(t).at ? buffer_of(t).at->kept : 0; }
  void all_products() {
    for (TensorId t : going_on) wait_for(t, 0);
    going_on.clear();
  }
  std::set<StatementId> made_instructions{};
  std::vector<std::string> put_off_lines{};
  // Whether a pipe is handled where the contraction that was put off is.
  bool put_off_pipe(const Pipe& at) const { return put_off_ring && at.ring == put_off_ring->ring && at.boxes == put_off_ring->boxes; }
  void print_put_off() {
    line(fmt::format("// of the turn before: {}", print(p, statement(put_off))));
    if (put_off_ring) line(fmt::format("barrier_wait(full_{0} + 8 * stage_{0}, phase_{0});", pipe_name(*put_off_ring)));
    for (const std::string& text : put_off_lines) line(text);
  }
  std::string put_off_stage(TensorId t) const {
    if (!put_off_ring) return where.at(t).pointer;
    return put_off_ring->stages == 1 ? where.at(t).pointer : fmt::format("ring_{} + stage_{} * {}", tensor(t), pipe_name(*put_off_ring), stage_elements.at(t));
  }
  // What was put off is complete: its boxes may be overwritten, and its registers used.
  void settle() {
    if (settled) return;
    settled = true;
    wait_for(statement(put_off).out, 0);
    if (!put_off_ring) return;
    const std::string name = pipe_name(*put_off_ring);
    release(name, "stage_" + name);
    advance(*put_off_ring);
  }
  // Until then nothing may touch the result: the wait names its registers.
  void wait_for(TensorId t, int pending) {
    const std::int64_t n = held.at(t).columns / 2;
    if (waits.insert({n, pending}).second) {
      std::string operands;
      for (std::int64_t i = 0; i < n; ++i) operands += fmt::format("{}\"+f\"(d[{}])", i ? ", " : "", i);
      group_primitives += fmt::format("TW_DEVICE void group_wait_{0}_{1}(float* d) {{ asm volatile(\"wgmma.wait_group.sync.aligned {1};\" : {2} :: \"memory\"); }}\n", n, pending, operands);
    }
    line(fmt::format("group_wait_{}_{}({});", n, pending, fragment(t)));
  }
  std::set<std::pair<std::int64_t, int>> waits{};

  // ---- turns that overlap

  // The contraction whose result nothing else in the turn reads but what corrects it: it may end in the next turn.
  StatementId last_of(const Block& turn) const {
    StatementId last = -1;
    bool other = false;
    for (const Node& n : turn)
      if (const Compute* c = std::get_if<Compute>(&n.op); c && c->kind == Compute::Kind::contract) other |= last >= 0, last = c->statement;
    if (!other) return -1;
    for (const Node& n : turn)
      if (const Compute* c = std::get_if<Compute>(&n.op); c && statement(c->statement).out != statement(last).out) {
        bool reads = false;
        for_each_access(statement(c->statement), [&](const Access& a) { reads |= a.tensor == statement(last).out; });
        if (reads) return -1;
      }
    return last;
  }
  void begin_overlap(const Block& turn) {
    put_off = last_of(turn);
    if (put_off < 0) {
      why = "no contraction of a turn can end in the next one";
      return;
    }
    const auto c = contraction(p, statement(put_off));
    const auto points = common_points(p, nest, {put_off});
    for (const Access* a : {c->a, c->b}) {
      if (in_scratch(buffer_of(a->tensor))) {
        ring_of_put_off(turn, a->tensor);
        continue;
      }
      for (std::size_t x = 0; x < points->region.axes.size(); ++x)
        if (const AxisId own = axis_of(*points, put_off, static_cast<RegionAxis>(x)); std::count(c->k.begin(), c->k.end(), own) && points->full[x] > 1)
          line(fmt::format("unsigned p_{}[{}];", tensor(a->tensor), points->full[x] / 4));
    }
  }
  // Its operand stays until the next turn has read it: no other statement may be handed it before.
  void ring_of_put_off(const Block& turn, TensorId t) {
    for (const Node& n : turn)
      if (const Pipe* at = std::get_if<Pipe>(&n.op); at && at->kind == Pipe::Kind::full && std::count(at->boxes.begin(), at->boxes.end(), nest_buffer(t))) {
        if (at->boxes.size() == 1) put_off_ring = *at;
        else why = p.tensor(t).name + " comes with what an earlier contraction of the turn reads";
      }
  }
  BufferId nest_buffer(TensorId t) const {
    for (std::size_t b = 0; b < nest.buffers.size(); ++b)
      if (nest.buffers[b].tensor == t) return static_cast<BufferId>(b);
    return -1;
  }
  // The first statement of a turn that touches the sum of the last one: that must be there.
  void before_correction(StatementId id) {
    if (put_off >= 0 && id != put_off && statement(id).out == statement(put_off).out) settle();
  }
  void end_overlap() {
    print_put_off();
    settled = false;
    settle();
    put_off = -1, put_off_ring.reset();
  }

  // As the instruction takes it: four registers a thread for 16 products.
  void pack_operand(TensorId t, std::int64_t products, const std::string& type, bool declared) {
    if (declared) line(fmt::format("unsigned p_{}[{}];", tensor(t), products / 4));
    line("#pragma unroll");
    line(fmt::format("for (int e = 0; e < {}; ++e) p_{}[e] = packing<{}>::pair({}[e * 2], {}[e * 2 + 1]);", products / 4, tensor(t), type, fragment(t), fragment(t)));
  }

  void fragment_compute(const Compute& c) {
    line(fmt::format("// {}", print(p, statement(c.statement))));
    before_correction(c.statement);
    if (c.kind == Compute::Kind::map) fragment_map(c.statement);
    else if (c.kind == Compute::Kind::contract) fragment_contract(c.statement);
    else fragment_reduce(c.statement);
    if (c.kind != Compute::Kind::reduce && why.empty()) mask_elements(c.statement);
  }
};

}  // namespace tilewright::cuda
