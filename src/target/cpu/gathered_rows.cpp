#include "target/cpu/gathered_rows.h"

#include <algorithm>

namespace tilewright::cpu {

std::int64_t cell_of(const Side& s, const Cells& cells, RegionAxis x, std::int64_t at,
                     const std::vector<std::int64_t>& stride) {
  std::int64_t sum = 0;
  for (std::size_t i = 0; i < s.axis.size(); ++i)
    if (s.axis[i] == x && static_cast<int>(i) != s.reduced) sum += at / cells.unit[i] * stride[i];
  return sum;
}

RowTables::RowTables(const ContractLeaf& l, const Gathered& g, LeafLoops& in, const Placement& a, std::int64_t* lists,
                     std::int64_t* chosen)
    : loops(in), count(in.row_count()), l_(l), g_(g), a_(a), all_(lists), chosen_(chosen), limit_(l.row_limit) {
  std::int64_t* next = chosen + static_cast<std::int64_t>(l.steps.size() + 2) * limit_;
  for (std::int64_t** of : {&mark_, &group_, &in_group_, &order_, &c_cells, &spare, &spare2, &spare3})
    *of = next, next += limit_;
  const Cells& c = g.merged.cells;
  group_numbers_.assign(c.dims.size(), 0);
  std::int64_t n = 1;
  for (std::size_t d = c.dims.size(); d-- > 0;)
    if (!c.is_packed(d)) group_numbers_[d] = n, n *= c.along(d);
}

void RowTables::number(std::int64_t first_panel) {
  panel0 = first_panel;
  std::vector<RegionAxis> axes;
  for (const auto& merged : l_.rows) axes.insert(axes.end(), merged.begin(), merged.end());
  std::int64_t at[32];
  for (std::size_t i = 0; i < axes.size(); ++i) at[i] = loops.low[axes[i]];
  const RegionAxis tall = g_.tall_dim < 0 ? -1 : g_.a.axis[static_cast<std::size_t>(g_.tall_dim)];
  const bool by_key = g_.form == Gathered::Form::buckets;
  for (std::int64_t r = 0; r < count; ++r) {
    mark_[r] = group_[r] = in_group_[r] = c_cells[r] = 0, order_[r] = r;
    if (by_key) number_by_key(axes, at, r);
    for (std::size_t of = 0; of < l_.steps.size() + 2 && !by_key; ++of) {
      if (!used(of)) continue;
      std::int64_t offset = 0;
      for (std::size_t i = 0; i < axes.size(); ++i) offset += (at[i] - loops.low[axes[i]]) * strides(of)[axes[i]];
      list(false, of)[r] = offset;
    }
    for (std::size_t i = 0; i < axes.size() && !by_key; ++i) {
      if (g_.a.there()) {
        mark_[r] += cell_of(g_.a, g_.merged.cells, axes[i], at[i], g_.merged.group_stride) +
                    cell_of(g_.a, g_.merged.cells, axes[i], at[i], g_.merged.slot_stride);
        group_[r] += cell_of(g_.a, g_.merged.cells, axes[i], at[i], group_numbers_);
        if (axes[i] == tall) in_group_[r] = at[i] % g_.rows;
      }
      if (g_.c.there()) c_cells[r] += cell_of(g_.c, g_.c.detector.cells, axes[i], at[i], g_.c_panels.stride);
    }
    for (std::size_t i = axes.size(); i-- > 0;) {
      if (++at[i] < loops.high[axes[i]]) break;
      at[i] = loops.low[axes[i]];
    }
  }
}

// The row that stands at this place in the order of keys: its coordinates along the key's axes are another row's.
void RowTables::number_by_key(const std::vector<RegionAxis>& axes, const std::int64_t* at, std::int64_t r) {
  const std::vector<std::int64_t>& dims = g_.a.detector.cells.dims;
  std::int64_t place = 0, row[32];
  for (std::size_t d = 0; d < dims.size(); ++d) {
    const auto x = std::find(axes.begin(), axes.end(), g_.a.axis[d]);
    place = place * dims[d] + (x == axes.end() ? 0 : at[x - axes.begin()]);
  }
  std::int64_t other = g_.within_tiles ? place : g_.sorted.order[static_cast<std::size_t>(place)];
  group_[r] = g_.key_of[static_cast<std::size_t>(other)];
  std::copy_n(at, axes.size(), row);
  for (std::size_t d = dims.size(); d-- > 0; other /= dims[d]) {
    const auto x = std::find(axes.begin(), axes.end(), g_.a.axis[d]);
    if (x != axes.end()) row[x - axes.begin()] = other % dims[d];
  }
  for (std::size_t of = 0; of < l_.steps.size() + 2; ++of) {
    if (!used(of)) continue;
    list(false, of)[r] = 0;
    for (std::size_t i = 0; i < axes.size(); ++i)
      list(false, of)[r] += (row[i] - loops.low[axes[i]]) * strides(of)[axes[i]];
  }
}

void RowTables::stand_at(const std::int64_t* point) {
  mark_base = group_base = b_far = c_far = 0;
  for (RegionAxis x : l_.far) {
    if (g_.a.there() && g_.form != Gathered::Form::buckets) {
      mark_base += cell_of(g_.a, g_.merged.cells, x, point[x], g_.merged.group_stride) +
                   cell_of(g_.a, g_.merged.cells, x, point[x], g_.merged.slot_stride);
      group_base += cell_of(g_.a, g_.merged.cells, x, point[x], group_numbers_);
    }
    if (g_.b.there()) b_far += cell_of(g_.b, g_.b.detector.cells, x, point[x], g_.b_panels.stride);
    if (g_.c.there()) c_far += cell_of(g_.c, g_.c.detector.cells, x, point[x], g_.c_panels.stride);
  }
}

void RowTables::choose(std::int64_t row, std::int64_t place) {
  for (std::size_t of = 0; of < l_.steps.size() + 2; ++of)
    if (used(of)) list(true, of)[place] = list(false, of)[row];
  order_[place] = row;
}

void RowTables::sort() {
  if (sorted_) return;
  sorted_ = true;
  for (std::int64_t r = 0; r < count; ++r) spare[r] = r;
  std::sort(spare, spare + count,
            [&](std::int64_t x, std::int64_t y) { return std::pair(group_[x], x) < std::pair(group_[y], y); });
  for (std::int64_t r = 0; r < count; ++r) choose(spare[r], r);
}

} // namespace tilewright::cpu
