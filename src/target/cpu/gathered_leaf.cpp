#include "target/cpu/gathered_leaf.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "target/cpu/gathered_rows.h"
#include "target/cpu/kernels/lists.h"

namespace tilewright::cpu {

namespace k = kernels;

namespace {

// Panels of B that are read again and again, row block after row block, stay in an L2 cache.
constexpr std::int64_t resident_bytes = 512 * 1024;
constexpr std::int64_t short_rows = 3; // a group of so few does not fill the registers of a call

std::int64_t row_entries(const ContractLeaf& l) {
  return (static_cast<std::int64_t>(l.steps.size()) + 2) * l.row_limit;
}

std::int64_t words(const ContractLeaf& l) {
  return 2 * row_entries(l) + RowTables::words_a_row * l.row_limit + 2 * l.taps * l.k_extent;
}

} // namespace

std::int64_t gathered_scratch(const ContractLeaf& l, const std::vector<std::int64_t>& full_tile) {
  if (!l.gathered) return 0;
  const std::int64_t sums =
      l.c_type != DType::f32 ? l.row_limit * full_tile[static_cast<std::size_t>(l.n)] * 4 + 64 : 0;
  const std::int64_t panels = std::max({l.gathered->b_copy_bytes, l.gathered->piece_bytes, l.gathered->slice_bytes});
  return (words(l) + 7) / 8 * 64 + (sums + 63) / 64 * 64 + panels + 128;
}

namespace {

struct Tile {
  const k::Kernels& leaf;
  const ContractLeaf& l;
  const Gathered& g;
  RowTables& rows;
  k::ListsLeaf lists;
  k::Contract call; // what all calls of the tile share
  const Placement& a_at;
  std::int64_t *a_list, *b_list;
  std::byte *wide, *copies; // sums of narrow results; copies of panels
  std::int64_t width = 0;   // of the tile

  std::int64_t element(DType t) const { return static_cast<std::int64_t>(bytes_of(t)); }
  bool by_columns() const { return g.way.form == Gathered::Form::columns; }
  bool packed() const { return l.packed || g.packs; }
  std::int64_t products() const { return l.taps * l.k_extent; }
  // From one product to the next in a panel, and from a panel to the next.
  std::int64_t b_step() const { return packed() ? leaf.nr : l.b_strides[l.k[0]]; }
  std::int64_t b_panel() const { return packed() ? products() * leaf.nr : leaf.nr; }

  // ---- windows of panels

  struct Window {
    std::int64_t first, last; // panels of the tile
    k::Contract call;
  };
  std::array<k::EpilogueStep, most_steps> steps{};

  // The tile's columns in these panels: with operands of the epilogue that stand there.
  Window window(std::int64_t first, std::int64_t last) {
    Window w{first, last, call};
    const std::int64_t column = first * leaf.nr;
    w.call.n = std::min(call.n, last * leaf.nr) - column;
    w.call.b = static_cast<const std::byte*>(call.b) + first * call.b_panel * element(l.packed_type);
    w.call.c = static_cast<std::byte*>(call.c) + column * call.c_n * element(l.c_type);
    steps = rows.loops.epilogue;
    for (std::size_t i = 0; i < l.steps.size(); ++i)
      if (l.steps[i].buffer >= 0)
        steps[i].operand =
            static_cast<const std::byte*>(steps[i].operand) + column * steps[i].column * element(steps[i].dtype);
    w.call.epilogue = {steps.data(), static_cast<int>(l.steps.size())};
    return w;
  }

  void with_rows(k::Contract& to, bool chosen, std::int64_t first, std::int64_t m) {
    to.m = m;
    to.a_rows = rows.table(chosen, 0, first), to.c_rows = rows.table(chosen, 1, first);
    for (std::size_t i = 0; i < l.steps.size(); ++i)
      if (l.steps[i].buffer >= 0) steps[i].rows = rows.table(chosen, i + 2, first);
  }

  // ---- which products

  const std::uint8_t* b_marks(std::int64_t panel) const {
    return g.b_panels.used ? reinterpret_cast<const std::uint8_t*>(g.b_panels.marks->data) +
                                 (rows.b_far * g.b_panels.panels + panel) * g.b_panels.other
                           : nullptr;
  }

  void all_products(k::Contract& part, bool chosen, std::int64_t first, std::int64_t m) {
    with_rows(part, chosen, first, m);
    part.k = l.k_extent, part.taps = l.taps, part.tap_offset = a_at.taps.data();
    leaf.contract(part);
  }

  void listed(k::Contract& part, bool chosen, std::int64_t first, std::int64_t m, std::int64_t count) {
    with_rows(part, chosen, first, m);
    part.k = 1, part.taps = count, part.tap_offset = a_list, part.b_offset = b_list;
    leaf.contract(part);
  }

  // Products q whose cells live in A (null: all do) and in this panel of B.
  std::int64_t list_products(const std::uint8_t* a, std::int64_t a_stride, const std::uint8_t* b) {
    std::int64_t n = 0, q = 0;
    const auto at = [](const Side& s, std::int64_t tap, std::int64_t k) {
      return s.tap_at.empty() ? k : s.tap_at[static_cast<std::size_t>(tap)];
    };
    const std::int64_t a_unit = a ? g.merged.cells.unit[static_cast<std::size_t>(g.a.reduced)] : 1;
    for (std::int64_t t = 0; t < l.taps; ++t)
      for (std::int64_t x = 0; x < l.k_extent; ++x, ++q) {
        a_list[n] = a_at.taps[static_cast<std::size_t>(t)] + x * call.a_k, b_list[n] = q * b_step();
        n += (!a || a[at(g.a, t, x) / a_unit * a_stride]) && (!b || b[at(g.b, t, x) / g.b_unit]);
      }
    return n;
  }

  // Live columns, whose values lie side by side: [row of the group][live k].
  void compact(const Window& w, bool chosen, std::int64_t first, std::int64_t m, std::int64_t group) {
    const std::int64_t begin = begins()[group], live = begins()[group + 1] - begin;
    const auto* const taps = reinterpret_cast<const std::int64_t*>(g.taps->data) + begin;
    k::Contract part = w.call;
    part.a = g.values->data + begin * g.rows * element(l.a_type);
    with_rows(part, chosen, first, m);
    for (std::int64_t r = 0; r < m; ++r) rows.spare[r] = rows.in_group(chosen, first + r) * live;
    part.a_rows = {live, rows.spare};
    if (const std::uint8_t* b = b_marks(w.first + rows.panel0)) {
      std::int64_t n = 0;
      for (std::int64_t t = 0; t < live; ++t) {
        a_list[n] = t, b_list[n] = taps[t];
        n += b[taps[t] / b_step() / g.b_unit];
      }
      part.k = 1, part.taps = n, part.tap_offset = a_list, part.b_offset = b_list;
      leaf.contract(part);
      return;
    }
    part.a_k = 1;
    if (m > leaf.mr) return copied(w, part, taps, live);
    part.k = 1, part.taps = live, part.tap_offset = g.counting.data(), part.b_offset = taps;
    leaf.contract(part);
  }

  const std::int64_t* begins() const { return reinterpret_cast<const std::int64_t*>(g.begin->data); }

  // Short lists of single rows, all rows of the tables in one call.
  void short_lists(const Window& w, bool chosen, std::int64_t m) {
    std::int64_t *const count = rows.spare, *const tap = rows.spare2, *const value = rows.spare3;
    for (std::int64_t r = 0; r < m; ++r) {
      const std::int64_t group = rows.group_base + rows.group(chosen, r), begin = begins()[group];
      tap[r] = begin, count[r] = begins()[group + 1] - begin;
      value[r] = begin * g.rows + rows.in_group(chosen, r) * count[r];
    }
    lists({m, w.call.n, count, tap, value, reinterpret_cast<const std::int64_t*>(g.taps->data),
           reinterpret_cast<const float*>(g.values->data), static_cast<const float*>(w.call.b), call.b_panel,
           static_cast<float*>(w.call.c), rows.list(chosen, 1)});
    if (l.steps.empty()) return;
    k::Contract end = w.call;
    with_rows(end, chosen, 0, m);
    end.k = 0, end.taps = 1, end.tap_offset = nullptr, end.accumulate = true;
    leaf.contract(end);
  }

  // Panels that several tiles of rows read: their live products side by side first.
  void copied(const Window& w, k::Contract& part, const std::int64_t* taps, std::int64_t live) {
    const std::int64_t bytes = element(l.packed_type), each = live * leaf.nr * bytes;
    const std::int64_t fitting = each == 0 ? w.last - w.first : std::max<std::int64_t>(1, g.b_copy_bytes / each);
    const auto shared = steps;
    part.k = live, part.taps = 1, part.tap_offset = nullptr, part.b = copies, part.b_panel = 0;
    for (std::int64_t first = w.first; first < w.last; first += fitting) {
      const std::int64_t last = std::min(w.last, first + fitting), column = (first - w.first) * leaf.nr;
      for (std::int64_t j = first; j < last; ++j)
        leaf.pack_b({.n = leaf.nr,
                     .k = 1,
                     .taps = live,
                     .src = static_cast<const std::byte*>(w.call.b) + (j - w.first) * call.b_panel * bytes,
                     .src_type = l.packed_type,
                     .b_k = 0,
                     .b_n = 1,
                     .tap_offset = taps,
                     .dst = copies + (j - first) * each,
                     .dst_type = l.packed_type});
      part.n = std::min(w.call.n - column, (last - first) * leaf.nr);
      part.c = static_cast<std::byte*>(w.call.c) + column * call.c_n * element(l.c_type);
      for (std::size_t i = 0; i < l.steps.size(); ++i)
        if (l.steps[i].buffer >= 0)
          steps[i].operand =
              static_cast<const std::byte*>(shared[i].operand) + column * steps[i].column * element(steps[i].dtype);
      leaf.contract(part);
    }
    for (std::size_t i = 0; i < l.steps.size(); ++i) steps[i].operand = shared[i].operand;
  }

  // ---- forms

  // Rows of the tables [first, first + m), which all have one list.
  void live_rows(const Window& w, bool chosen, std::int64_t first, std::int64_t m, std::int64_t group) {
    if (by_columns() && g.compact) return compact(w, chosen, first, m, group);
    k::Contract part = w.call;
    const std::uint8_t* const b = b_marks(w.first + rows.panel0);
    if (!by_columns() && !b) return all_products(part, chosen, first, m);
    const auto d = static_cast<std::size_t>(std::max(g.a.reduced, 0));
    const std::int64_t step = by_columns() ? g.merged.group_stride[d] + g.merged.slot_stride[d] : 0;
    const std::uint8_t* const a = by_columns() ? g.marks() + rows.mark_base + rows.mark(chosen, first) : nullptr;
    listed(part, chosen, first, m, list_products(a, step, b));
  }

  // Panels in windows; rows that hold nothing or are not wanted there take no products.
  void in_windows() {
    const std::int64_t panels = (call.n + leaf.nr - 1) / leaf.nr;
    const std::int64_t each = std::max<std::int64_t>(1, products() * leaf.nr * element(l.packed_type));
    const bool blocks = by_columns() || g.b_panels.used || g.c_panels.used;
    const std::int64_t some = g.b_panels.used ? 1 : blocks ? std::max<std::int64_t>(1, resident_bytes / each) : panels;
    for (std::int64_t first = 0; first < panels; first += some) {
      const Window w = window(first, std::min(panels, first + some));
      const std::int64_t live = choose(w);
      const bool chosen = live < rows.count;
      const bool together = by_columns() && g.compact && g.plain_sums && g.rows <= short_rows && !g.b_panels.used;
      if (together && live > 0) short_lists(w, chosen, live);
      for (std::int64_t r = together ? live : 0; r < live;) {
        std::int64_t end = r + 1;
        while (end < live && rows.group(chosen, end) == rows.group(chosen, r)) ++end;
        live_rows(w, chosen, r, end - r, rows.group_base + rows.group(chosen, r));
        r = end;
      }
      if (live == rows.count) continue;
      k::Contract none = w.call;
      none.k = 0, none.taps = 1, none.tap_offset = nullptr;
      with_rows(none, true, live, rows.count - live);
      leaf.contract(none);
    }
  }

  bool wanted(std::int64_t r, const Window& w) const {
    if (g.way.form == Gathered::Form::rows && !g.marks()[rows.mark_base + rows.mark(false, r)]) return false;
    if (!g.c_panels.used) return true;
    const auto* const marks = reinterpret_cast<const std::uint8_t*>(g.c_panels.marks->data) +
                              (rows.c_far + rows.c_cells[r]) * g.c_panels.panels + rows.panel0;
    return std::any_of(marks + w.first, marks + w.last, [](std::uint8_t m) { return m != 0; });
  }
  // The chosen tables: live rows, then the others. How many live.
  std::int64_t choose(const Window& w) {
    if (g.way.form != Gathered::Form::rows && !g.c_panels.used) return rows.count;
    std::int64_t live = 0, dead = 0;
    for (std::int64_t r = 0; r < rows.count; ++r) live += wanted(r, w);
    if (live == rows.count) return live;
    for (std::int64_t r = 0, n = 0; r < rows.count; ++r) rows.choose(r, wanted(r, w) ? n++ : live + dead++);
    return live;
  }

  // Pieces: onto sums, a block of k after the other. A row's first piece begins its sum, and what has none is 0. Sums
  // stand in the result itself where that is wide enough, else in scratch.
  void pieces() {
    const auto d = static_cast<std::size_t>(g.a.reduced);
    const std::int64_t blocks = g.merged.cells.along(d), block = g.merged.cells.unit[d];
    const std::int64_t step = g.merged.group_stride[d] + g.merged.slot_stride[d];
    const bool direct = l.c_type == DType::f32;
    const Window w = window(0, (call.n + leaf.nr - 1) / leaf.nr);
    k::Contract part = w.call;
    part.epilogue = {}, part.taps = 1, part.tap_offset = nullptr;
    if (!direct) part.c = wide, part.c_type = DType::f32, part.c_n = 1;
    std::int64_t* const begun = rows.spare;
    std::fill_n(begun, rows.count, 0);
    for (std::int64_t j = 0; j < blocks; ++j) {
      const std::uint8_t* const marks = g.marks() + rows.mark_base + j * step;
      bool packed_here = false;
      for (const bool first : {true, false}) {
        std::int64_t n = 0;
        for (std::int64_t r = 0; r < rows.count; ++r)
          if (marks[rows.mark(false, r)] && begun[r] == (first ? 0 : 1)) pick(r, n++, direct);
        if (!first)
          for (std::int64_t r = 0; r < rows.count; ++r) begun[r] = begun[r] == 2 ? 1 : begun[r];
        if (n == 0) continue;
        if (first)
          for (std::int64_t i = 0; i < n; ++i) begun[rows.spare2[i]] = 2;
        part.accumulate = !first;
        piece(part, j * block, std::min(block, l.k_extent - j * block), n, packed_here);
        packed_here = true;
      }
    }
    std::int64_t none = 0;
    for (std::int64_t r = 0; r < rows.count; ++r)
      if (begun[r] == 0) pick(r, none++, direct);
    part.accumulate = false, part.k = 0, part.m = none;
    part.a_rows = {0, rows.list(true, 0)}, part.c_rows = {0, rows.list(true, 1)};
    if (none > 0) leaf.contract(part);
    finish(w, direct);
  }
  void pick(std::int64_t r, std::int64_t place, bool direct) const {
    rows.list(true, 0)[place] = rows.list(false, 0)[r];
    rows.list(true, 1)[place] = direct ? rows.list(false, 1)[r] : r * width;
    rows.spare2[place] = r;
  }

  void piece(k::Contract part, std::int64_t first, std::int64_t n_k, std::int64_t m, bool packed_here) {
    part.m = m, part.a_rows = {0, rows.list(true, 0)}, part.c_rows = {0, rows.list(true, 1)};
    part.k = n_k;
    part.a = static_cast<const std::byte*>(call.a) + first * call.a_k * element(l.a_type);
    if (packed()) {
      part.b = static_cast<const std::byte*>(call.b) + first * leaf.nr * element(l.packed_type);
    } else {
      if (!packed_here)
        leaf.pack_b({.n = call.n,
                     .k = n_k,
                     .src = static_cast<const std::byte*>(call.b) + first * b_step() * element(l.packed_type),
                     .src_type = l.packed_type,
                     .b_k = b_step(),
                     .b_n = 1,
                     .dst = copies,
                     .dst_type = l.packed_type});
      part.b = copies, part.b_panel = 0;
    }
    leaf.contract(part);
  }

  // What is left is the end: nothing but the sums, and the steps behind.
  void finish(const Window& w, bool direct) {
    if (direct && l.steps.empty()) return;
    k::Contract end = w.call;
    with_rows(end, false, 0, rows.count);
    end.k = 0, end.taps = 1, end.accumulate = direct;
    std::array<k::EpilogueStep, most_steps + 1> behind;
    if (!direct) {
      behind[0] = {k::StepOp::add, wide, DType::f32, {width, nullptr}, 1, 0, 0};
      std::copy_n(steps.begin(), l.steps.size(), behind.begin() + 1);
      end.epilogue = {behind.data(), static_cast<int>(l.steps.size()) + 1};
    }
    leaf.contract(end);
  }

  // The tile's columns of a slice, for the rows of one key.
  void pack_slice(k::Contract& part, std::int64_t key) const {
    auto* const wild = reinterpret_cast<std::uint32_t*>(copies + g.wild_at);
    (g.slices_split ? leaf.pack_split : leaf.pack_b)(
        {.n = call.n,
         .k = l.k_extent,
         .src = static_cast<const std::byte*>(call.b) + key * g.key_stride * element(l.b_type),
         .src_type = l.b_type,
         .b_k = l.k.empty() ? 0 : l.b_strides[l.k[0]],
         .b_n = l.b_strides[l.n],
         .tap_offset = l.b_taps.data(),
         .dst = copies,
         .dst_type = l.packed_type,
         .wild = wild});
    part.b = copies, part.b_panel = 0;
    if (g.slices_split) part.b_wild = wild;
  }

  // Runs of one key, each with its slice of B.
  void by_key() {
    const std::int64_t slice = g.copies / g.keys * ((l.n_extent + leaf.nr - 1) / leaf.nr) * l.k_extent * leaf.nr;
    Window w = window(0, (call.n + leaf.nr - 1) / leaf.nr);
    if (g.within_tiles) rows.sort();
    for (std::int64_t r = 0; r < rows.count;) {
      std::int64_t end = r + 1;
      while (end < rows.count && rows.key(end) == rows.key(r)) ++end;
      k::Contract part = w.call;
      if (g.slice_bytes > 0) pack_slice(part, rows.key(r));
      else part.b = static_cast<const std::byte*>(call.b) + rows.key(r) * slice * element(l.packed_type);
      part.k = l.k_extent, part.taps = 1, part.tap_offset = nullptr;
      with_rows(part, g.within_tiles, r, end - r);
      (g.slices_split ? leaf.contract_split : leaf.contract)(part);
      r = end;
    }
  }

  void run() {
    width = call.n;
    switch (g.way.form) {
    case Gathered::Form::buckets: return by_key();
    case Gathered::Form::pieces: return pieces();
    default: return in_windows();
    }
  }
};

} // namespace

void run_gathered(const k::Kernels& leaf, const ContractLeaf& l, const std::vector<View>& views,
                  const std::byte* a_copy, const std::int64_t* low, const std::int64_t* high, std::byte* scratch) {
  const Gathered& g = *l.gathered;
  if (g.form == Gathered::Form::buckets && g.wrong) return;
  auto* const lists = reinterpret_cast<std::int64_t*>(scratch);
  const Placement& a = a_copy ? l.copied : l.in_place;
  LeafLoops loops{views, l.rows, l.far, l.steps, low, high, lists};
  RowTables rows{l, g, loops, a, lists, lists + row_entries(l)};
  std::int64_t* const after = lists + 2 * row_entries(l) + RowTables::words_a_row * l.row_limit;
  const std::int64_t sums = l.c_type == DType::f32 ? 0 : (l.row_limit * loops.extent(l.n) * 4 + 63) / 64 * 64;
  std::byte* const wide = scratch + (words(l) + 7) / 8 * 64;
  Tile t{leaf, l, g, rows, k::lists_for(leaf), {}, a, after, after + l.taps * l.k_extent, wide, wide + sums};
  k::Contract& call = t.call;
  call.n = loops.extent(l.n);
  if (loops.row_count() == 0 || call.n == 0) return;
  call.a_type = l.a_type, call.b_type = l.packed_type, call.c_type = l.c_type;
  call.a_k = l.k.empty() ? 0 : a.strides[l.k[0]];
  call.b_panel = t.b_panel();
  call.c_n = l.c_strides[l.n];
  for (std::size_t i = 0; i < l.steps.size(); ++i) {
    const StepOf& s = l.steps[i];
    loops.epilogue[i] = {s.op, nullptr, s.dtype, {}, s.buffer < 0 ? 0 : s.strides[l.n], s.a, s.b, s.whole};
  }
  rows.number(low[l.n] / leaf.nr);
  const std::byte* const origin = a_copy ? a_copy : views[static_cast<std::size_t>(l.a)].origin;
  loops.each(l.c_strides.axis.size(), [&](const std::int64_t* point) {
    call.a = origin + a.strides.at(point) * static_cast<std::int64_t>(bytes_of(l.a_type));
    call.c = loops.address(l.c, l.c_strides, l.c_type, point);
    if (t.packed()) {
      std::int64_t from = rows.panel0 * call.b_panel;
      for (std::size_t i = 0; i < l.far.size(); ++i) from += point[l.far[i]] * l.packed_far[i];
      call.b = (l.packed ? l.packed->data : g.packed->data) + from * static_cast<std::int64_t>(bytes_of(l.packed_type));
    } else {
      call.b = loops.address(l.b, l.b_strides, l.b_type, point);
    }
    rows.stand_at(point);
    t.run();
  });
}

} // namespace tilewright::cpu
