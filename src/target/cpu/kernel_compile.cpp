#include <algorithm>
#include <cstring>
#include <map>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "loop/points.h"
#include "target/cpu/gathered_leaf.h"
#include "target/cpu/inner_layouts.h"
#include "target/cpu/map_order.h"
#include "target/cpu/kernel.h"
#include "target/cpu/masked_turns.h"

namespace tilewright::cpu {

namespace k = kernels;

namespace {

constexpr std::int64_t align(std::int64_t n) { return (n + 63) / 64 * 64; }

std::uint64_t bits_of(double v, DType t) {
  switch (t) {
    case DType::f32: return std::bit_cast<std::uint32_t>(static_cast<float>(v));
    case DType::f64: return std::bit_cast<std::uint64_t>(v);
    case DType::f16: return f32_to_f16(static_cast<float>(v));
    case DType::bf16: return f32_to_bf16(static_cast<float>(v));
    default: return static_cast<std::uint64_t>(static_cast<std::int64_t>(v));
  }
}

bool same_affine(const Affine& a, const Affine& b) { return a.offset == b.offset && a.terms == b.terms; }
bool same_span(const Span& a, const Span& b) { return same_affine(a.low, b.low) && same_affine(a.high, b.high); }

struct KernelCompiler {
  const k::Kernels& leaf;
  const Program& p;
  const Region& r;
  const Nest& nest;
  const std::vector<DimOrder>& layouts;
  const RowLengths& rows;
  Kernel out;
  std::map<int, BufferId> accumulators;            // of the reductions that take several passes
  std::int64_t leaf_scratch = 0;                   // shared by the leaves, after the buffers
  int streaming = -1;                              // the step of the stream around

  const Statement& statement(int i) const { return *p.statement(r.statements[static_cast<std::size_t>(i)]); }
  int position(const Compute& c) const { return r.position(c.statement); }

  // ---- buffers

  std::int64_t reserve(std::int64_t elements, DType t) {
    const std::int64_t at = out.scratch;
    out.scratch += align(elements * static_cast<std::int64_t>(bytes_of(t)) + 64);
    return at;
  }

  std::int64_t row(TensorId t) const { return static_cast<std::size_t>(t) < rows.size() ? rows[static_cast<std::size_t>(t)] : 0; }

  Kernel::Place place(const Buffer& b) {
    Kernel::Place at;
    at.tensor = b.tensor, at.dtype = p.tensor(b.tensor).dtype;
    at.box = b.box, at.extent = b.extent, at.order = layouts[static_cast<std::size_t>(b.tensor)], at.scratch = b.inner;
    for (const Size& d : p.tensor(b.tensor).dims) at.dims.push_back(d.constant());
    if (b.inner) make_ring(at);
    at.copy_stride = dense_strides(at.extent, at.order);
    at.stride = b.inner ? at.copy_stride : strides_of_rows(at.dims, at.order, row(b.tensor));
    if (b.through.empty()) return at;
    at.through = b.through, at.far_stride = at.stride, at.scratch = true;
    for (std::size_t d = 0; d < b.through.size(); ++d)
      if (b.through[d].with >= 0) at.copy_stride[d] = 0;
    at.stride = at.copy_stride;
    return at;
  }

  // Room for what a turn needs and for as much again as it keeps or makes: only every few turns must what is kept go back to the start.
  void make_ring(Kernel::Place& at) const {
    for (std::size_t d = 0; d < at.box.size(); ++d) {
      const Span& span = at.box[d];
      if (span.walk < 0) continue;
      at.ring = static_cast<int>(d);
      const Span fresh{.low = span.kept, .high = span.high}, old{.low = span.low, .high = span.kept};
      at.extent[d] += std::max(full_extent(nest, fresh), full_extent(nest, old));
    }
  }

  std::int64_t elements(const Kernel::Place& at) const {
    std::int64_t n = 1;
    for (std::int64_t e : at.extent) n *= std::max<std::int64_t>(e, 1);
    return n;
  }

  std::vector<Stored> stored(bool copies) const {
    std::vector<Stored> list;
    for (const Kernel::Place& at : out.places) list.push_back({at.dtype, copies ? at.copy_stride : at.stride});
    return list;
  }

  // The value outside the bounds becomes part of a tile's copy where what the access reads leaves the tensor. The copy holds what
  // this access reads, not the hull of all reads of the tensor; so a tensor that an earlier leaf copies in another box is not ours
  // to copy: false.
  bool prepare_copy(int i) {
    bool ours = true;
    for_each_access(statement(i), [&](const Access& a) {
      Kernel::Place& at = out.places[static_cast<std::size_t>(buffer_of(a.tensor))];
      double v = 0;
      if (!a.otherwise || !is_literal(a.otherwise, &v) || at.scratch) return;
      const auto& ranges = compute_of(nest, r.statements[static_cast<std::size_t>(i)]).ranges;
      std::vector<Span> box(a.at.size());
      std::vector<std::int64_t> extent(a.at.size());
      bool same = at.fill == bits_of(v, at.dtype);
      for (std::size_t d = 0; d < a.at.size(); ++d) {
        box[d] = hull(a.at[d], ranges, p.tensor(a.tensor).dims[d]);
        extent[d] = full_extent(nest, box[d]);
        same &= same_span(box[d], at.box[d]);
      }
      if (at.padded) {
        ours &= same;
        return;
      }
      at.box = std::move(box), at.extent = std::move(extent);
      at.copy_stride = dense_strides(at.extent, at.order);
      at.fill = bits_of(v, at.dtype);
    });
    return ours;
  }
  void pad(BufferId b, const Access& a) {
    if (!a.otherwise) return;
    Kernel::Place& at = out.places[static_cast<std::size_t>(b)];
    at.padded = true;
    if (at.offset < 0) at.offset = reserve(elements(at), at.dtype);
  }

  BufferId buffer_of(TensorId t) const {
    for (std::size_t b = 0; b < nest.buffers.size(); ++b)
      if (nest.buffers[b].tensor == t) return static_cast<BufferId>(b);
    return -1;
  }

  // An accumulator in memory for a statement whose reduction takes several passes.
  BufferId accumulator(int i) {
    const Statement& st = statement(i);
    if (lives_in_place(i)) return held_in_place(i);
    Kernel::Place at = place(nest.buffers[static_cast<std::size_t>(buffer_of(st.out))]);
    at.scratch = true, at.stride = at.copy_stride;
    const bool flag = st.reducer == Reducer::any || st.reducer == Reducer::all;
    at.dtype = flag ? DType::boolean : compute_type(st.body->dtype);
    at.offset = reserve(elements(at), at.dtype);
    out.places.push_back(at);
    return static_cast<BufferId>(out.places.size()) - 1;
  }

  // Along a stream that sums follow, a state is read in every turn: its buffer is the accumulator. What nothing follows may be
  // narrower than it is accumulated.
  bool lives_in_place(int i) const {
    return nest.program && p.tensor(statement(i).out).dtype == held_as(p, statement(i));
  }
  BufferId held_in_place(int i) {
    const BufferId b = buffer_of(statement(i).out);
    Kernel::Place& at = out.places[static_cast<std::size_t>(b)];
    if (at.scratch && at.offset < 0) at.offset = reserve(elements(at), at.dtype);
    return b;
  }

  // ---- grouping

  Points points(const std::vector<int>& group) const {
    std::vector<StatementId> ids;
    for (int i : group) ids.push_back(r.statements[static_cast<std::size_t>(i)]);
    auto made = common_points(p, nest, ids);
    TW_ASSERT(static_cast<bool>(made));
    return std::move(*made);
  }
  // Positions in a group's own region.
  std::vector<int> positions(const Points& l, const std::vector<int>& group) const {
    std::vector<int> list;
    for (int i : group) list.push_back(l.region.position(r.statements[static_cast<std::size_t>(i)]));
    return list;
  }
  static std::vector<Kernel::Axis> axes(const Points& l) {
    std::vector<Kernel::Axis> list;
    for (std::size_t a = 0; a < l.spans.size(); ++a) list.push_back({l.spans[a], l.extent[a]});
    return list;
  }

  // Buffers that must be written: the kernel's outputs, and what a statement outside the group reads.
  std::vector<bool> live(const std::vector<int>& group) const {
    std::vector<bool> list(out.places.size(), false);
    for (TensorId t : nest.outputs) list[static_cast<std::size_t>(buffer_of(t))] = true;
    for (std::size_t i = 0; i < r.statements.size(); ++i) {
      if (std::count(group.begin(), group.end(), static_cast<int>(i))) continue;
      for_each_access(statement(static_cast<int>(i)), [&](const Access& a) { list[static_cast<std::size_t>(buffer_of(a.tensor))] = true; });
    }
    return list;
  }

  // ---- steps

  // The group's positions are those in the kernel's region.
  void lanes(std::vector<Kernel::Step>& to, const Group& g) {
    const Points l = points(g.statements);
    const Group mine{positions(l, g.statements), g.part, g.accumulator};
    auto program = compile_lanes(p, l.region, nest, mine, stored(false), l.tiled, live(g.statements));
    if (!program) {
      const BufferId acc = accumulator(g.statements[0]);
      for (Group::Part part : {Group::Part::init, Group::Part::accumulate, Group::Part::finish})
        lanes(to, {part == Group::Part::finish ? g.statements : std::vector<int>{g.statements[0]}, part, acc});
      return;
    }
    leaf_scratch = std::max(leaf_scratch, scratch_bytes(*program));
    if (g.part != Group::Part::init && g.part != Group::Part::finish)
      out.leaves.push_back(fmt::format("interpret {} instructions", program->code.instructions.size()));
    to.push_back({Kernel::Lanes{std::move(*program)}, axes(l)});
  }

  static std::string step_names(const std::vector<StepOf>& steps) {
    static constexpr const char* names[] = {"add", "sub", "rsub", "mul", "div", "rdiv", "max", "min", "leaky", "elu", "neg", "abs", "square",
                                            "sqrt", "exp", "log", "sigmoid", "silu", "hardsigmoid", "hardswish", "tanh", "erf", "gated_erf",
                                            "softplus", "round", "rint", "gate", "to_float"};
    std::string text;
    for (const StepOf& st : steps) text += std::string(text.empty() ? "" : ", ") + names[static_cast<int>(st.op)];
    return text;
  }

  // Whether a map behind the first `count` reads what lies between those, which a leaf keeps in registers.
  bool reads_between(const std::vector<int>& group, std::size_t count) const {
    bool found = false;
    for (std::size_t m = count + 1; m < group.size(); ++m)
      for_each_access(statement(group[m]), [&](const Access& a) {
        for (std::size_t n = 0; n < count; ++n) found |= a.tensor == statement(group[n]).out;
      });
    return found;
  }

  // The fast leaves, with as many of the maps as their epilogue has in its menu, and the others interpreted behind.
  template <class Leaf, class Compile> bool fast(std::vector<Kernel::Step>& to, int i, std::vector<int> maps, Compile compile, std::string* why) {
    std::vector<int> group = maps;
    group.insert(group.begin(), i);
    const std::vector<bool> needed = live(group);
    for (std::size_t m = 0; m < maps.size(); ++m)
      if (needed[static_cast<std::size_t>(buffer_of(statement(group[m]).out))]) maps.resize(m);  // a value between is stored too
    for (;; maps.pop_back()) {
      if (!maps.empty() && reads_between(group, maps.size())) continue;
      const int last = maps.empty() ? i : maps.back();
      Kernel::Place& result = out.places[static_cast<std::size_t>(buffer_of(statement(last).out))];
      std::vector<int> together = maps;
      together.insert(together.begin(), i);
      const Points l = points(together);
      auto made = compile(l, together, Stored{result.dtype, result.stride});
      if (made && !covers_edges(*made) && hangs_over(i, made->a)) made = Refused{"an operand that the kernel itself makes hangs over its edge"};
      if (made) {
        if (result.scratch && result.offset < 0) result.offset = reserve(elements(result), result.dtype);
        if (!covers_edges(*made)) pad(made->a, made_access(i, made->a));
        add_leaf<Leaf>(to, std::move(*made), l);
        std::vector<int> rest(group.begin() + 1 + static_cast<std::ptrdiff_t>(maps.size()), group.end());
        if (!rest.empty()) maps_alone(to, rest);
        return true;
      }
      *why = made.reason();
      if (maps.empty()) return false;
    }
  }

  template <class Step, class Leaf> void add_leaf(std::vector<Kernel::Step>& to, Leaf made, const Points& l) {
    if constexpr (std::is_same_v<Leaf, ContractLeaf>) keep_packed(made, l);
    leaf_scratch = std::max(leaf_scratch, scratch_bytes(made));
    if constexpr (!std::is_same_v<Leaf, FoldLeaf>)
      if (made.packed) out.packed_bytes += static_cast<std::int64_t>(made.packed->bytes);
    out.leaves.push_back(describe(made));
    to.push_back({Step{std::move(made)}, axes(l)});
  }

  // An operand that the turns of a stream do not move is packed in the first.
  void keep_packed(ContractLeaf& made, const Points& l) {
    if (streaming < 0 || made.packed || made.gathered || made.b_in_place) return;
    for (std::size_t a = 0; a < l.spans.size(); ++a) {
      if (made.b_strides.axis[a] == 0) continue;
      for (const Affine* end : {&l.spans[a].low, &l.spans[a].high})
        for (const auto& term : end->terms)
          if (term.first / 2 == streaming) return;
      if (std::count(made.far.begin(), made.far.end(), static_cast<RegionAxis>(a)) && l.full[a] != 1) return;
    }
    made.kept = out.scratch;
    out.scratch += align(made.pack_bytes + 64);
    made.pack_bytes = 0;
  }

  // Maps of what the kernel makes and shares of reductions, a pass each; nothing where the leaf does not take them.
  std::optional<FoldLeaf> fold(int i, const Points& l, BufferId accumulator) {
    if (!nest.program) return std::nullopt;
    const Kernel::Place& result = out.places[static_cast<std::size_t>(accumulator < 0 ? buffer_of(statement(i).out) : accumulator)];
    auto made = compile_fold(p, l.region, nest, positions(l, {i})[0], stored(false), Stored{result.dtype, result.stride}, l.tiled, l.full, accumulator);
    return made ? std::optional(std::move(*made)) : std::nullopt;
  }
  void maps_alone(std::vector<Kernel::Step>& to, const std::vector<int>& group) {
    std::vector<FoldLeaf> made;
    for (int i : group)
      if (auto leaf_of = fold(i, points({i}), -1)) made.push_back(std::move(*leaf_of));
    if (made.size() != group.size()) return lanes(to, {group, Group::Part::whole, -1});
    for (std::size_t n = 0; n < group.size(); ++n) {
      Kernel::Place& result = out.places[static_cast<std::size_t>(made[n].y)];
      if (result.scratch && result.offset < 0) result.offset = reserve(elements(result), result.dtype);
      add_leaf<Kernel::Fold>(to, std::move(made[n]), points({group[n]}));
    }
  }
  // Whether one factor of a contraction has no axis of its own in a tile: then nothing is used twice, and packing would cost as much.
  bool matrix_by_vector(int i) const {
    const auto c = contraction(p, statement(i));
    if (!c || !nest.program) return false;
    std::int64_t m = 1, n = 1;
    const Compute& compute = compute_of(nest, r.statements[static_cast<std::size_t>(i)]);
    const auto extent = [&](AxisId a) { return std::min(full_extent(nest, compute.ranges[static_cast<std::size_t>(a)]), statement(i).axes[static_cast<std::size_t>(a)].constant()); };
    for (AxisId a : c->m) m *= extent(a);
    for (AxisId a : c->n) n *= extent(a);
    return m == 1 || n == 1;
  }
  bool fold_whole(std::vector<Kernel::Step>& to, int i, const std::vector<int>& maps) {
    const BufferId acc = buffer_of(statement(i).out);
    const Points l = points({i});
    auto made = fold(i, l, acc);
    if (!made) return false;
    Kernel::Place& result = out.places[static_cast<std::size_t>(acc)];
    if (result.scratch && result.offset < 0) result.offset = reserve(elements(result), result.dtype);
    lanes(to, {{i}, Group::Part::init, acc});
    add_leaf<Kernel::Fold>(to, std::move(*made), l);
    if (!maps.empty()) maps_alone(to, maps);
    return true;
  }
  // A map and the reduction behind it, which reads it: one pass, where the leaf takes both.
  bool map_and_share(std::vector<Kernel::Step>& to, int map, int sum, BufferId accumulator) {
    const Access* a = statement(sum).body->op == Op::read ? &std::get<Access>(statement(sum).body->leaf) : nullptr;
    if (!nest.program || !a || a->otherwise || a->tensor != statement(map).out || statement(sum).guard) return false;
    const auto l = common_points(p, nest, {r.statements[static_cast<std::size_t>(map)], r.statements[static_cast<std::size_t>(sum)]});
    if (!l) return false;
    Kernel::Place &made = out.places[static_cast<std::size_t>(buffer_of(statement(map).out))], &state = out.places[static_cast<std::size_t>(accumulator)];
    const std::vector<int> at = positions(*l, {map, sum});
    auto first = compile_fold(p, l->region, nest, at[0], stored(false), Stored{made.dtype, made.stride}, l->tiled, l->full);
    auto second = compile_fold(p, l->region, nest, at[1], stored(false), Stored{state.dtype, state.stride}, l->tiled, l->full, accumulator);
    if (!first || !second || first->turned || first->column != second->column || second->rows.size() > 1 || (second->rows.size() == 1 && second->rows[0].size() > 1) || !second->steps.empty()) return false;
    FoldLeaf both = std::move(*first);
    both.rows = second->rows, both.far = second->far, both.down = second->down, both.reduce = second->reduce;
    both.acc = second->acc, both.acc_strides = second->acc_strides, both.row_limit = second->row_limit;
    if (made.scratch && made.offset < 0) made.offset = reserve(elements(made), made.dtype);
    add_leaf<Kernel::Fold>(to, std::move(both), *l);
    return true;
  }

  bool streamed_fold(std::vector<Kernel::Step>& to, int i, BufferId accumulator) {
    const Points l = points({i});
    auto made = fold(i, l, accumulator);
    if (made) add_leaf<Kernel::Fold>(to, std::move(*made), l);
    return made.has_value();
  }

  // A contraction in a turn of a stream over its reduced axes: the leaf adds to the accumulator.
  bool streamed_contraction(std::vector<Kernel::Step>& to, const Compute& c, BufferId accumulator) {
    if (c.kind != Compute::Kind::contract) return false;
    const int i = position(c);
    if (!prepare_copy(i)) return false;
    const Points l = points({i});
    const Kernel::Place& sum = out.places[static_cast<std::size_t>(accumulator)];
    auto made = compile_contract(leaf, p, l.region, nest, positions(l, {i})[0], {}, stored(false), stored(true),
                                 Stored{sum.dtype, sum.stride}, l.tiled, l.full, accumulator);
    if (!made || hangs_over(i, made->a)) return false;
    pad(made->a, made_access(i, made->a));
    add_leaf<Kernel::Contract>(to, std::move(*made), l);
    return true;
  }

  bool hangs_over(int i, BufferId a) const { return made_access(i, a).otherwise && out.places[static_cast<std::size_t>(a)].scratch; }

  // Whether the leaf itself leaves out what lies outside the tensor.
  static bool covers_edges(const ContractLeaf&) { return false; }
  static bool covers_edges(const WindowLeaf& l) { return !l.slides.empty() || l.image; }

  static std::string describe(const ContractLeaf& l) {
    static constexpr const char* forms[] = {"columns of row blocks", "whole rows", "pieces of rows", "rows by key", "panels"};
    std::string form = l.gathered ? forms[static_cast<int>(l.gathered->form)] : "";
    if (l.gathered && l.gathered->a.there() && l.gathered->b.there()) form += ", panels";
    if (l.gathered && !l.gathered->a.there() && !l.gathered->b.there()) form = "where the result is wanted";
    else if (l.gathered && l.gathered->c.there()) form += ", where the result is wanted";
    const std::string gathered = l.gathered ? fmt::format(" gathered ({})", form)
                                 : l.not_gathered.empty() ? "" : fmt::format(" not gathered ({})", l.not_gathered);
    return fmt::format("contract n {} k {}{}{}{}{}{}{}", l.n_extent, l.k_extent, l.split ? " in bf16" : "", l.taps > 1 ? fmt::format(" taps {}", l.taps) : "", gathered,
                       l.packed ? "" : l.gathered ? " packed before the tiles" : l.b_in_place ? " as it is made" : l.kept >= 0 ? " packed once a tile" : " packed in each tile",
                       l.accumulate ? " streamed" : "", l.steps.empty() ? "" : ": " + step_names(l.steps));
  }
  static std::string describe(const FoldLeaf& l) {
    static constexpr const char* reduced[] = {"", "sum", "max", "min"};
    std::string text = fmt::format("fold {} columns{}", l.column_limit, l.turned ? ", turned" : l.bounds.empty() ? "" : ", within bounds");
    if (!l.steps.empty()) text += ": " + step_names(l.steps);
    return l.acc < 0 ? text : fmt::format("{}; {} of {}", text, reduced[static_cast<int>(l.reduce)], l.down ? "rows" : "columns");
  }
  static std::string describe(const WindowLeaf& l) {
    return fmt::format("{} lanes {} taps {}{}", l.image ? "slide" : "window", l.lane_extent, l.taps, l.steps.empty() ? "" : ": " + step_names(l.steps));
  }

  Access made_access(int i, BufferId b) const {
    Access found;
    for_each_access(statement(i), [&](const Access& a) {
      if (buffer_of(a.tensor) == b && (found.tensor < 0 || a.otherwise)) found = a;
    });
    return found;
  }

  void reduction(std::vector<Kernel::Step>& to, const Compute& c, const std::vector<int>& maps) {
    const int i = position(c);
    if (matrix_by_vector(i) && fold_whole(to, i, maps)) return;
    std::string why;
    const bool may_copy = prepare_copy(i);
    const auto in_place = stored(false), copied = stored(true);
    if (may_copy && (c.kind == Compute::Kind::contract || keyed_product(p, statement(i))) &&
        fast<Kernel::Contract>(to, i, maps, [&](const Points& l, const std::vector<int>& group, const Stored& st) {
          const std::vector<int> at = positions(l, group);
          return compile_contract(leaf, p, l.region, nest, at[0], {at.begin() + 1, at.end()}, in_place, copied, st, l.tiled, l.full);
        }, &why))
      return;
    if (may_copy && (c.kind == Compute::Kind::window || c.kind == Compute::Kind::contract) &&
        fast<Kernel::Window>(to, i, maps, [&](const Points& l, const std::vector<int>& group, const Stored& st) {
          const std::vector<int> at = positions(l, group);
          return compile_window(leaf, p, l.region, nest, at[0], {at.begin() + 1, at.end()}, in_place, copied, st, l.tiled, l.full);
        }, &why))
      return;
    std::vector<int> group = maps;
    group.insert(group.begin(), i);
    lanes(to, {group, Group::Part::whole, -1});
  }

  std::vector<int> group_at(const Block& nodes, std::size_t& n, int first) const {
    std::vector<int> group;
    for (StatementId id : with_maps(p, nest, nodes, n, r.statements[static_cast<std::size_t>(first)])) group.push_back(r.position(id));
    return group;
  }

  // Reductions that begin in this block and are computed in a loop inside it: their accumulator is set before the loop, added to
  // inside, and read behind it.
  void block(std::vector<Kernel::Step>& to, const Block& nodes) {
    std::vector<int> begun;
    for (std::size_t n = 0; n < nodes.size(); ++n) {
      if (const Load* l = std::get_if<Load>(&nodes[n].op)) {
        if (!nest.buffers[static_cast<std::size_t>(l->buffer)].through.empty()) to.push_back({Kernel::Moved{l->buffer, false}, {}});
      } else if (const Store* s = std::get_if<Store>(&nodes[n].op)) {
        if (!nest.buffers[static_cast<std::size_t>(s->buffer)].through.empty()) to.push_back({Kernel::Moved{s->buffer, true}, {}});
      } else if (const For* f = std::get_if<For>(&nodes[n].op)) {
        Kernel::Stream st{{f->extent, f->size, f->step, f->slots}, {}, f->turns, mask_of_turns(p, r, nest, nodes[n].body)};
        if (st.turns.asks_data()) out.leaves.push_back("turns beyond what its integers hold are left out");
        if (st.mask >= 0) out.leaves.push_back(fmt::format("turns without {} are left out", p.tensor(out.places[static_cast<std::size_t>(st.mask)].tensor).name));
        const int around = std::exchange(streaming, f->step);
        block(st.body, nest.program ? brought_together(nodes[n].body) : nodes[n].body);
        streaming = around;
        to.push_back({std::move(st), {}});
        std::erase_if(begun, [&](int i) { return lives_in_place(i); });
        for (std::size_t b = 0; b < begun.size(); ++b) {
          const int i = begun[b];
          lanes(to, {b + 1 < begun.size() ? std::vector<int>{i} : group_at(nodes, n, i), Group::Part::finish, accumulators.at(i)});
        }
        begun.clear();
      } else if (const Init* init = std::get_if<Init>(&nodes[n].op)) {
        const int i = writer(init->buffer);
        if (n + 1 < nodes.size())
          if (const Compute* c = std::get_if<Compute>(&nodes[n + 1].op); c && position(*c) == i) continue;
        lanes(to, {{i}, Group::Part::init, accumulators[i] = accumulator(i)});
        begun.push_back(i);
      } else if (const Compute* c = std::get_if<Compute>(&nodes[n].op)) {
        const int i = position(*c);
        if (accumulators.count(i)) {
          const BufferId acc = accumulators.at(i);
          if (matrix_by_vector(i) && streamed_fold(to, i, acc)) continue;
          if (!streamed_contraction(to, *c, acc) && !streamed_fold(to, i, acc)) lanes(to, {{i}, Group::Part::accumulate, acc});
          continue;
        }
        const Compute* next = n + 1 < nodes.size() ? std::get_if<Compute>(&nodes[n + 1].op) : nullptr;
        if (c->kind == Compute::Kind::map && next && accumulators.count(position(*next)) && next->kind != Compute::Kind::contract &&
            map_and_share(to, i, position(*next), accumulators.at(position(*next)))) {
          ++n;
          continue;
        }
        const std::vector<int> group = group_at(nodes, n, i);
        if (c->kind == Compute::Kind::map) maps_alone(to, group);
        else reduction(to, *c, {group.begin() + 1, group.end()});
      }
    }
  }

  int writer(BufferId b) const {
    for (std::size_t i = 0; i < r.statements.size(); ++i)
      if (statement(static_cast<int>(i)).out == nest.buffers[static_cast<std::size_t>(b)].tensor) return static_cast<int>(i);
    return -1;
  }

  void run() {
    out.name = nest.name, out.slots = nest.slots;
    for (const Buffer& b : nest.buffers) out.places.push_back(place(b));
    const Block* body = &nest.body;
    while (body->size() == 1 && std::holds_alternative<For>((*body)[0].op)) {
      const For& f = std::get<For>((*body)[0].op);
      if (f.kind != For::Kind::grid) break;
      out.grid.push_back({f.extent, f.size, f.step, f.slots});
      out.tiles *= f.slots < 0 ? ceil_div_i64(f.extent, f.size) : nest.slots[static_cast<std::size_t>(f.slots)].tiles;
      body = &(*body)[0].body;
    }
    block(out.steps, *body);
    // Inner values that some step reads from memory get their scratch.
    for (Kernel::Place& at : out.places)
      if (at.scratch && at.offset < 0) at.offset = reserve(elements(at), at.dtype);
    out.leaf_scratch = align(out.scratch);
    out.scratch = out.leaf_scratch + leaf_scratch + 64;
  }
};

}  // namespace

Kernel compile_kernel(const k::Kernels& leaf, const Program& planned, const Region& r, const Nest& nest, const std::vector<DimOrder>& layouts,
                      const RowLengths& rows) {
  const Program& p = program_of(planned, nest);
  std::vector<DimOrder> all = layouts;
  for (std::size_t t = all.size(); t < p.tensors.size(); ++t) all.push_back(row_major(p.tensors[t].dims.size()));
  lay_lanes_inside(p, region_of(r, nest), nest, leaf.lanes, all);
  KernelCompiler c{leaf, p, region_of(r, nest), nest, all, rows, {}, {}, 0, -1};
  c.run();
  return std::move(c.out);
}

}  // namespace tilewright::cpu
