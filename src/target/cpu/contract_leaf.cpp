#include "target/cpu/contract_leaf.h"

#include <algorithm>
#include <fmt/format.h>

#include "cost/split_products.h"
#include "support/memory.h"
#include "target/cpu/gathered_leaf.h"
#include "target/cpu/leaf_loops.h"

namespace tilewright::cpu {

namespace k = kernels;

Aligned::Aligned(std::size_t size) : bytes(size) {
  owner = zeroed_bytes((size + 127) / 64 * 64, Pages::large);
  data = owner.get();
}

namespace {

// Elements of packed_type from a panel to the next.
std::int64_t panel(const k::Kernels& leaf, const ContractLeaf& l) {
  const std::int64_t depth = l.taps * l.k_extent;
  return l.split ? leaf.split_panel(depth, l.b_type) : l.integers ? leaf.integer_panel(depth, l.b_type) : depth * leaf.nr;
}
// Bytes of what `panel` counts.
std::int64_t unit(const ContractLeaf& l) { return l.split ? 1 : static_cast<std::int64_t>(bytes_of(l.packed_type)); }
auto packer(const k::Kernels& leaf, const ContractLeaf& l) { return l.split ? leaf.pack_split : l.integers ? leaf.pack_integers : leaf.pack_b; }

struct Compiler {
  const k::Kernels& leaf;
  const Program& p;
  const Region& r;
  const Nest& nest;
  int statement;
  const std::vector<bool>& tiled;
  const std::vector<std::int64_t>& full_tile;
  ContractLeaf out;

  std::int64_t extent(RegionAxis a) const { return r.axes[static_cast<std::size_t>(a)].constant(); }
  RegionAxis axis(AxisId a) const {
    const auto plain = plain_axis(r.image[static_cast<std::size_t>(statement)][static_cast<std::size_t>(a)]);
    TW_ASSERT(plain.has_value());
    return *plain;
  }
  BufferId buffer_of(TensorId t) const {
    for (std::size_t b = 0; b < nest.buffers.size(); ++b)
      if (nest.buffers[b].tensor == t) return static_cast<BufferId>(b);
    return -1;
  }

  // Whether the result's inner dim belongs to the rows.
  bool rows_inner(const Contraction& c, int last, const Stored& stored) const {
    const auto lies = strides_of(p, r, last, p.statement(r.statements[static_cast<std::size_t>(last)])->at, stored);
    return lies && std::any_of(c.m.begin(), c.m.end(), [&](AxisId a) { return (*lies)[axis(a)] == 1 && extent(axis(a)) > 1; });
  }

  // The inner k: the longest axis along which a is contiguous, else the longest at all. The others become taps; of a stream,
  // whose turns see a part of them, loops around the call, each of which adds to c.
  void choose_k(const Contraction& c) {
    std::vector<RegionAxis> axes;
    for (AxisId a : c.k)
      if (extent(axis(a)) != 1) axes.push_back(axis(a));
    auto groups = merge_axes(r, axes, tiled, {&out.in_place.strides, &out.copied.strides, &out.b_strides});
    std::size_t best = 0;
    auto score = [&](const std::vector<RegionAxis>& g) {
      std::int64_t n = 1;
      for (RegionAxis a : g) n *= extent(a);
      return std::pair(out.in_place.strides[g.back()] == 1, n);
    };
    for (std::size_t i = 1; i < groups.size(); ++i)
      if (score(groups[i]) > score(groups[best])) best = i;
    std::vector<Run> a_runs, b_runs, copied_runs;
    for (std::size_t i = 0; i < groups.size(); ++i) {
      const std::int64_t n = score(groups[i]).second;
      if (i == best) {
        out.k = {groups[i].back()};
        out.k_extent = n;
        out.k_outer = groups[i].front();
        out.k_inner = n / extent(out.k_outer);
        continue;
      }
      if (out.accumulate) {
        out.far.insert(out.far.end(), groups[i].begin(), groups[i].end());
        continue;
      }
      out.tap_groups.push_back(groups[i]);
      a_runs.push_back({n, out.in_place.strides[groups[i].back()]});
      copied_runs.push_back({n, out.copied.strides[groups[i].back()]});
      b_runs.push_back({n, out.b_strides[groups[i].back()]});
      out.taps *= n;
    }
    auto table = [&](const std::vector<Run>& runs) {
      std::vector<std::int64_t> t(static_cast<std::size_t>(std::max<std::int64_t>(out.taps, 1)));
      if (out.taps > 0) offsets(runs.data(), runs.size(), t.data());
      return t;
    };
    out.in_place.taps = table(a_runs);
    out.copied.taps = table(copied_runs);
    out.b_taps = table(b_runs);
  }

  // The columns: the n axis along which c is contiguous, else the longest.
  void choose_n(const Contraction& c) {
    std::size_t best = 0;
    auto score = [&](AxisId a) { return std::pair(out.c_strides[axis(a)] == 1 && extent(axis(a)) > 1, extent(axis(a))); };
    for (std::size_t i = 1; i < c.n.size(); ++i)
      if (score(c.n[i]) > score(c.n[best])) best = i;
    out.n = axis(c.n[best]);
    out.n_extent = extent(out.n);
    for (std::size_t i = 0; i < c.n.size(); ++i)
      if (i != best) out.far.push_back(axis(c.n[i]));
    for (AxisId a : c.batch) out.far.push_back(axis(a));
  }

  void choose_rows(const Contraction& c) {
    std::vector<RegionAxis> axes;
    for (AxisId a : c.m)
      if (extent(axis(a)) != 1) axes.push_back(axis(a));
    // Outermost first by where c lies, so that rows are written in order.
    std::stable_sort(axes.begin(), axes.end(), [&](RegionAxis x, RegionAxis y) { return out.c_strides[x] > out.c_strides[y]; });
    std::vector<const Strides*> all = {&out.in_place.strides, &out.copied.strides, &out.c_strides};
    for (const StepOf& s : out.steps) all.push_back(&s.strides);
    out.rows = merge_axes(r, axes, tiled, all);
    out.row_limit = 1;
    for (const auto& g : out.rows)
      for (RegionAxis a : g) out.row_limit *= full_tile[static_cast<std::size_t>(a)];
  }

  // The dims that taps leave, if each moves with one axis of the rows that may be cut alone.
  void find_edges(const Contraction& c) {
    const Access& a = *c.a;
    const Statement& s = *p.statement(r.statements[static_cast<std::size_t>(statement)]);
    std::vector<Edge> found;
    for (std::size_t d = 0; a.otherwise && d < a.at.size(); ++d) {
      const std::int64_t dim = p.tensor(a.tensor).dims[d].constant();
      const Interval all = bounds(a.at[d], s.axes);
      if (all.low >= 0 && all.high < dim) continue;
      Edge e{-1, d, 1, a.at[d].offset.constant(), a.at[d].offset.constant(), dim};
      for (const Index::Term& t : a.at[d].terms) {
        const AxisId x = std::get<AxisId>(t.of);
        const std::int64_t step = t.coefficient.constant(), far = step * (s.axes[static_cast<std::size_t>(x)].constant() - 1);
        if (std::count(c.k.begin(), c.k.end(), x)) {
          (step < 0 ? e.first : e.last) += far;
          continue;
        }
        if (e.row >= 0 || step <= 0) return;
        e.row = axis(x), e.step = step;
      }
      const bool alone = std::any_of(out.rows.begin(), out.rows.end(), [&](const auto& g) { return g.front() == e.row; });
      if (!alone || std::any_of(found.begin(), found.end(), [&](const Edge& other) { return other.row == e.row; })) return;
      found.push_back(e);
    }
    out.edges = std::move(found);
  }

  // Where the copies of b for the far axes lie, when all of it is packed.
  std::int64_t place_copies(std::int64_t each) {
    std::int64_t copies = 1;
    out.packed_far.clear(), out.far_extent.clear();
    for (RegionAxis a : out.far) {
      const bool has = out.b_strides[a] != 0;
      out.packed_far.push_back(has ? each * copies : 0);
      out.far_extent.push_back(extent(a));
      if (has) copies *= extent(a);
    }
    return copies;
  }

  // Whether floats are split: their products then fill tiles. Turns of a stream must begin where a tile of packed weights does.
  bool splits(const std::vector<int>& maps, bool known) const {
    if (!leaf.contract_split || out.integers || gathers(maps) || !in_runs()) return false;
    std::int64_t products = out.taps;
    if (out.k_outer >= 0) products *= (out.accumulate ? full_tile[static_cast<std::size_t>(out.k_outer)] : extent(out.k_outer)) * out.k_inner;
    if (known && out.accumulate && products % 32 != 0) return false;
    return split_share({static_cast<double>(out.row_limit), static_cast<double>(full_tile[static_cast<std::size_t>(out.n)]), static_cast<double>(products),
                        split_pairs(out.a_type, out.b_type), known}) < 1;
  }
  // Whether rows of a are split as they lie: a tile's products side by side, or a tile's rows.
  bool in_runs() const {
    if (out.k.empty() || out.k_extent < 32) return false;
    const auto lies = [&](const Placement& a) {
      return a.strides[out.k[0]] == 1 || (out.taps == 1 && out.rows.size() == 1 && a.strides[out.rows[0].back()] == 1);
    };
    return lies(out.in_place) && lies(out.copied);
  }
  bool gathers(const std::vector<int>& maps) const {
    for (BufferId b : {out.a, out.b})
      if (nest.buffers[static_cast<std::size_t>(b)].gathered) return true;
    bool any = false;
    for (int m : maps)
      for_each_access(p.statement(r.statements[static_cast<std::size_t>(m)])->body, [&](const Access& x) { any |= view_of(x.tensor) != nullptr; });
    return any;
  }

  // The operands that the schedule reads through slots, unless this leaf cannot.
  const OperandAt* view_of(TensorId t) const {
    const auto& at = nest.buffers[static_cast<std::size_t>(buffer_of(t))];
    return at.gathered ? &*at.gathered : nullptr;
  }
  void gather(const Contraction& c, const std::vector<int>& maps, bool aligned) {
    GatheredView a{view_of(c.a->tensor), *c.a, statement}, b{view_of(c.b->tensor), *c.b, statement}, of;
    for (int m : maps)
      for_each_access(p.statement(r.statements[static_cast<std::size_t>(m)])->body, [&](const Access& x) {
        if (const OperandAt* v = view_of(x.tensor); v && !of.view) of = {v, x, m};
      });
    if (!a.view && !b.view && !of.view) return;
    const Buffer &a_at = nest.buffers[static_cast<std::size_t>(out.a)], &b_at = nest.buffers[static_cast<std::size_t>(out.b)];
    if (!aligned) out.not_gathered = "tiles end inside a panel";
    else if (a_at.inner || b_at.inner) out.not_gathered = "the kernel makes an operand itself";
    else out.gathered = compile_gathered(leaf, p, r, out, a, b, of, &out.not_gathered);
    if (!out.gathered) return;
    if (!out.packed) place_copies((out.n_extent + leaf.nr - 1) / leaf.nr * out.taps * out.k_extent * leaf.nr);
    out.gathered->tiles_of_rows = tiles_of_rows();
    const Cells& cells = out.gathered->a.detector.cells;
    const int d = out.gathered->a.reduced;
    if (out.gathered->lies_as_panels && d >= 0)
      out.gathered->piece_bytes = packed_elements(leaf, full_tile[static_cast<std::size_t>(out.n)], std::max<std::int64_t>(64, cells.unit[static_cast<std::size_t>(d)])) * 4;
    out.gather_bytes = gathered_scratch(out, full_tile);
  }
  // Slices of what is no weight are packed by those who read them, while they are in a cache; split where a key's rows make up for it.
  void place_slices(Gathered& g) const {
    const std::int64_t wide = full_tile[static_cast<std::size_t>(out.n)];
    double all = 1;
    for (const auto& merged : out.rows)
      for (RegionAxis a : merged) all *= static_cast<double>(extent(a));
    const SplitProduct each{std::min(static_cast<double>(out.row_limit), all / static_cast<double>(g.keys)), static_cast<double>(wide), static_cast<double>(out.k_extent),
                            split_pairs(out.a_type, out.b_type), false};
    g.slices_split = leaf.contract_split && in_runs() && split_share(each) < 1;
    const std::int64_t panel_bytes = g.slices_split ? leaf.split_panel(out.k_extent, out.b_type) : out.k_extent * leaf.nr * static_cast<std::int64_t>(bytes_of(out.packed_type));
    g.wild_at = ((wide + leaf.nr - 1) / leaf.nr * panel_bytes + 63) / 64 * 64;
    g.slice_bytes = g.wild_at + 64;
    g.packs = false;
  }
  std::int64_t tiles_of_rows() const {
    std::int64_t n = 1;
    for (const auto& merged : out.rows)
      for (RegionAxis a : merged) n *= ceil_div_i64(extent(a), full_tile[static_cast<std::size_t>(a)]);
    return n;
  }

  // Weights with bytes are packed now; the far axes that b does not have share one packing.
  void pack_weights(const Tensor& t) {
    const std::int64_t panels = (out.n_extent + leaf.nr - 1) / leaf.nr;
    const std::int64_t each = panels * panel(leaf, out);
    const std::int64_t copies = place_copies(each);
    out.wild_at = copies * each * unit(out);
    const auto packed = std::make_shared<Aligned>(static_cast<std::size_t>(out.wild_at + 64));
    auto* const wild = reinterpret_cast<std::uint32_t*>(packed->data + out.wild_at);
    bool any_wild = false;
    std::vector<std::int64_t> at(out.far.size(), 0);
    for (std::int64_t n = 0; n < copies; ++n) {
      std::int64_t rest = n, from = out.b_strides.offset;
      for (std::size_t i = 0; i < out.far.size(); ++i) {
        if (out.packed_far[i] == 0) continue;
        from += rest % extent(out.far[i]) * out.b_strides[out.far[i]];
        rest /= extent(out.far[i]);
      }
      packer(leaf, out)({.n = out.n_extent,
                   .k = out.k_extent,
                   .taps = out.taps,
                   .src = t.data.data() + from * static_cast<std::int64_t>(bytes_of(out.b_type)),
                   .src_type = out.b_type,
                   .b_k = out.k.empty() ? 0 : out.b_strides[out.k[0]],
                   .b_n = out.b_strides[out.n],
                   .tap_offset = out.b_taps.data(),
                   .dst = packed->data + n * each * unit(out),
                   .dst_type = out.packed_type,
                   .wild = wild});
      any_wild |= *wild != 0;
    }
    *wild = any_wild;
    out.packed = packed;
  }
};

bool read_in(const Block& block, BufferId b) {
  return std::any_of(block.begin(), block.end(), [&](const Node& n) {
    const Compute* c = std::get_if<Compute>(&n.op);
    return (c && std::count(c->reads.begin(), c->reads.end(), b) > 0) || read_in(n.body, b);
  });
}

}  // namespace

Or<ContractLeaf> compile_contract(const k::Kernels& leaf, const Program& p, const Region& r, const Nest& nest, int statement,
                                  const std::vector<int>& maps, const std::vector<Stored>& in_place, const std::vector<Stored>& copied,
                                  const Stored& stored, const std::vector<bool>& tiled, const std::vector<std::int64_t>& full_tile,
                                  BufferId accumulator) {
  const Statement& original = *p.statement(r.statements[static_cast<std::size_t>(statement)]);
  const Or<KeyedProduct> keyed = keyed_product(p, original);
  const Statement& s = keyed ? keyed->statement : original;
  Or<Contraction> c = contraction(p, s);
  if (!c) return Refused{c.reason()};
  for (const Size& e : r.axes)
    if (e.constant() == 0) return Refused{"an axis is empty"};
  for (const Index& i : r.image[static_cast<std::size_t>(statement)])
    if (!plain_axis(i)) return Refused{"an axis of the contraction is no axis of the region"};
  for (AxisId x : c->k)
    if (accumulator < 0 && tiled[static_cast<std::size_t>(*plain_axis(r.image[static_cast<std::size_t>(statement)][static_cast<std::size_t>(x)]))])
      return Refused{"the contraction is streamed"};
  Compiler comp{leaf, p, r, nest, statement, tiled, full_tile, {}};
  ContractLeaf& out = comp.out;
  // An operand that is read through slots is the one with the rows, if it is the only one.
  const auto gathered = [&](const Access* x) { return nest.buffers[static_cast<std::size_t>(comp.buffer_of(x->tensor))].gathered; };
  const bool turned = keyed ? c->a->tensor == keyed->operand : gathered(c->b) && !gathered(c->a) && !c->a->otherwise;
  const auto turn = [&] { std::swap((*c).a, (*c).b), std::swap((*c).m, (*c).n); };
  if (turned && !c->m.empty()) turn();
  // Along a stream what the kernel makes may lie so that the rows' axis is the inner one: then the other operand has the rows.
  else if (!keyed && nest.program && !c->m.empty() && !c->a->otherwise && p.tensor(c->b->tensor).kind != Kind::weight && comp.rows_inner(*c, maps.empty() ? statement : maps.back(), stored))
    turn();
  out.a = comp.buffer_of(c->a->tensor);
  out.b = comp.buffer_of(c->b->tensor);
  const int last = maps.empty() ? statement : maps.back();
  const Statement& final = *p.statement(r.statements[static_cast<std::size_t>(last)]);
  out.accumulate = accumulator >= 0;
  out.c = out.accumulate ? accumulator : comp.buffer_of(final.out);
  out.a_type = in_place[static_cast<std::size_t>(out.a)].dtype;
  out.b_type = in_place[static_cast<std::size_t>(out.b)].dtype;
  out.c_type = stored.dtype;
  out.integers = byte_type(out.a_type) && byte_type(out.b_type) && p.tensor(s.out).dtype == DType::i32;
  if (out.integers && out.accumulate) return Refused{"the contract leaf does not stream sums of integers"};
  for (DType t : {out.a_type, out.b_type, out.c_type})
    if (!out.integers && !leaf_type(t)) return Refused{fmt::format("the contract leaf does not compute {}", name_of(t))};
  auto steps = epilogue_steps(p, r, nest, statement, maps, in_place);
  if (!steps) return Refused{steps.reason()};
  out.steps = std::move(*steps);
  if (out.steps.size() > most_steps) return Refused{"more than 16 steps behind the contraction"};
  if (out.integers && !ends_well(out.c_type, out.steps)) return Refused{fmt::format("a sum of integers does not end in {}", name_of(out.c_type))};
  auto strides = [&](const std::vector<Index>& at, int of, const Stored& where) { return strides_of(p, r, of, at, where); };
  const auto a = strides(c->a->at, statement, in_place[static_cast<std::size_t>(out.a)]);
  const auto a2 = strides(c->a->at, statement, copied[static_cast<std::size_t>(out.a)]);
  const auto b = strides(c->b->at, statement, in_place[static_cast<std::size_t>(out.b)]);
  const auto cc = strides(final.at, last, stored);
  if (!a || !a2 || !b || !cc) return Refused{"an index is not affine"};
  out.in_place.strides = *a, out.copied.strides = *a2, out.b_strides = *b, out.c_strides = *cc;
  comp.choose_k(*c);
  comp.choose_n(*c);
  comp.choose_rows(*c);
  if (!out.accumulate && !keyed) comp.find_edges(*c);
  out.packed_type = out.b_type, out.panel = leaf.nr;
  const Tensor& weights = p.tensor(c->b->tensor);
  out.split = !keyed && comp.splits(maps, weights.kind == Kind::weight && !weights.data.empty());
  const bool aligned = !tiled[static_cast<std::size_t>(out.n)] || full_tile[static_cast<std::size_t>(out.n)] % leaf.nr == 0;
  if (weights.kind == Kind::weight && !weights.data.empty() && aligned && !keyed) comp.pack_weights(weights);
  if (keyed) {
    if (!aligned) return Refused{"tiles end inside a panel"};
    if (nest.buffers[static_cast<std::size_t>(out.b)].inner || c->a->otherwise || c->b->tensor != keyed->operand) return Refused{"the operand that is read at a key"};
    std::string why;
    out.gathered = compile_buckets(leaf, p, r, statement, *keyed, in_place[static_cast<std::size_t>(out.b)], out, &why);
    if (!out.gathered) return Refused{why};
    // Rows of other tiles are not there where the kernel makes an operand, or reads the result again.
    auto inner = [&](BufferId of) { return of >= 0 && nest.buffers[static_cast<std::size_t>(of)].inner; };
    bool& within = out.gathered->within_tiles = inner(out.a) || inner(out.c) || read_in(nest.body, out.c);
    for (const StepOf& step : out.steps) within |= inner(step.buffer);
    comp.place_copies((out.n_extent + leaf.nr - 1) / leaf.nr * out.k_extent * leaf.nr);
    const bool constant = weights.kind == Kind::weight && !weights.data.empty();
    if (constant) out.packed = pack_slices(leaf, out, weights.data.data());
    else comp.place_slices(*out.gathered);
    out.gather_bytes = gathered_scratch(out, full_tile);
  } else comp.gather(*c, maps, aligned);
  out.b_in_place = nest.program && !out.split && !out.packed && !out.gathered && nest.buffers[static_cast<std::size_t>(out.b)].inner && out.b_type == DType::f32 &&
                   out.taps == 1 && !out.integers && out.b_strides[out.n] == 1 && !out.k.empty();
  if (!out.packed && !out.gathered && !out.b_in_place)
    out.pack_bytes = (full_tile[static_cast<std::size_t>(out.n)] + leaf.nr - 1) / leaf.nr * panel(leaf, out) * unit(out);
  if (out.split && !out.packed) out.wild_at = out.pack_bytes, out.pack_bytes += 64;
  return std::move(out);
}

std::int64_t scratch_bytes(const ContractLeaf& l) {
  const auto tables = static_cast<std::int64_t>(2 + l.steps.size()) * l.row_limit * 8;
  return l.gathered ? l.gather_bytes : (l.pack_bytes + 63) / 64 * 64 + (l.rows.size() > 1 ? tables : 0);
}

void run_contract(const k::Kernels& leaf, const ContractLeaf& l, const std::vector<View>& views, const std::byte* a_copy, const std::int64_t* low,
                  const std::int64_t* high, std::byte* scratch, std::byte* kept, bool fresh) {
  if (l.gathered) return run_gathered(leaf, l, views, a_copy, low, high, scratch);
  const Placement& a = a_copy ? l.copied : l.in_place;
  const std::byte* a_origin = a_copy ? a_copy : views[static_cast<std::size_t>(l.a)].origin;
  std::byte* pack_to = kept ? kept : scratch;
  LeafLoops loops{views, l.rows, l.far, l.steps, low, high, reinterpret_cast<std::int64_t*>(scratch + (l.pack_bytes + 63) / 64 * 64)};
  k::Contract call;
  call.m = loops.row_count(), call.n = loops.extent(l.n), call.taps = l.taps;
  call.k = l.k_outer < 0 ? 1 : loops.extent(l.k_outer) * l.k_inner;
  call.accumulate = l.accumulate;
  // A turn of a stream reads some rows of each packed panel.
  const std::int64_t before = l.packed && l.accumulate && l.k_outer >= 0 ? low[l.k_outer] * l.k_inner : 0;
  const std::int64_t first_k = l.split ? leaf.split_panel(before, l.b_type) : before * leaf.nr;
  if (l.packed) call.b_panel = panel(leaf, l);
  if (l.b_in_place) call.b_k = l.b_strides[l.k[0]], call.b_panel = leaf.nr;
  if (call.m == 0 || call.n == 0) return;
  call.a_rows = loops.rows(a.strides);
  call.c_rows = loops.rows(l.c_strides);
  call.a_type = l.a_type, call.b_type = l.packed_type, call.c_type = l.c_type;
  call.a_k = l.k.empty() ? 0 : a.strides[l.k[0]];
  call.tap_offset = a.taps.data();
  call.c_n = l.c_strides[l.n];
  call.epilogue = loops.set_steps(l.n);
  loops.each(l.c_strides.axis.size(), [&](const std::int64_t* point) {
    call.a = a_origin + a.strides.at(point) * static_cast<std::int64_t>(bytes_of(l.a_type));
    call.c = loops.address(l.c, l.c_strides, l.c_type, point);
    if (l.packed) {
      std::int64_t from = first_k + low[l.n] / leaf.nr * call.b_panel;
      for (std::size_t i = 0; i < l.far.size(); ++i) from += point[l.far[i]] * l.packed_far[i];
      call.b = l.packed->data + from * unit(l);
    } else if (l.b_in_place) {
      call.b = loops.address(l.b, l.b_strides, l.b_type, point);
    } else {
      if (!kept || fresh) packer(leaf, l)({.n = call.n,
                   .k = call.k,
                   .taps = l.taps,
                   .src = loops.address(l.b, l.b_strides, l.b_type, point),
                   .src_type = l.b_type,
                   .b_k = l.k.empty() ? 0 : l.b_strides[l.k[0]],
                   .b_n = l.b_strides[l.n],
                   .tap_offset = l.b_taps.data(),
                   .dst = pack_to,
                   .dst_type = l.packed_type,
                   .wild = reinterpret_cast<std::uint32_t*>(pack_to + l.wild_at)});
      call.b = pack_to;
    }
    if (l.split) call.b_wild = reinterpret_cast<const std::uint32_t*>((l.packed ? l.packed->data : pack_to) + l.wild_at);
    (l.split ? leaf.contract_split : l.integers ? leaf.contract_integers : leaf.contract)(call);
  });
}

}  // namespace tilewright::cpu
