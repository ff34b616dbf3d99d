#include "sparse/pattern.h"

#include <algorithm>
#include <numeric>

#include <fmt/format.h>

namespace tilewright {

std::int64_t Cells::along(std::size_t dim) const { return ceil_div_i64(dims[dim], unit[dim]); }

bool Cells::is_packed(std::size_t dim) const { return std::find(packed.begin(), packed.end(), dim) != packed.end(); }

std::int64_t Cells::groups() const {
  std::int64_t n = 1;
  for (std::size_t d = 0; d < dims.size(); ++d)
    if (!is_packed(d)) n = checked_mul(n, along(d));
  return n;
}

std::int64_t Cells::length() const {
  std::int64_t n = 1;
  for (std::size_t d : packed) n = checked_mul(n, along(d));
  return n;
}

std::int64_t Cells::table_bytes() const {
  return checked_mul(checked_mul(groups(), checked_add(length(), 1)), static_cast<std::int64_t>(sizeof(std::uint32_t)));
}

Cells cells(std::vector<std::int64_t> dims, std::vector<std::int64_t> unit, std::vector<std::size_t> packed) {
  Cells c{std::move(dims), std::move(unit), std::move(packed)};
  if (c.unit.size() != c.dims.size())
    throw Error(Code::option, "tile", fmt::format("{} extents for {} dims", c.unit.size(), c.dims.size()));
  for (std::size_t d = 0; d < c.dims.size(); ++d)
    if (c.unit[d] < 1 || c.dims[d] < 0)
      throw Error(Code::option, "tile", fmt::format("{} elements of dim {} ({})", c.unit[d], d, c.dims[d]));
  std::sort(c.packed.begin(), c.packed.end());
  if (c.packed.empty() || c.packed.back() >= c.dims.size() ||
      std::adjacent_find(c.packed.begin(), c.packed.end()) != c.packed.end())
    throw Error(Code::option, "tile", "the packed dims are not dims of the tensor");
  if (c.length() > UINT32_MAX)
    throw Error(Code::option, "tile", fmt::format("a group has {} micro-tiles, 2^32 - 1 can be counted", c.length()),
                "use a larger micro-tile");
  (void)c.table_bytes();
  return c;
}

std::int64_t Pattern::live() const { return std::accumulate(count.begin(), count.end(), std::int64_t{0}); }

namespace {

// Where the cell of each coordinate of a dim stands: row-major among the dims of its kind.
struct Strides {
  std::vector<std::int64_t> group, slot; // one a dim; 0 for dims of the other kind

  explicit Strides(const Cells& c) : group(c.dims.size(), 0), slot(c.dims.size(), 0) {
    std::int64_t g = 1, s = 1;
    for (std::size_t d = c.dims.size(); d-- > 0;) {
      std::int64_t& n = c.is_packed(d) ? s : g;
      (c.is_packed(d) ? slot : group)[d] = n;
      n *= c.along(d);
    }
  }
};

bool zero(const std::byte* p, DType t) {
  std::uint64_t bits = 0;
  const std::size_t width = bytes_of(t);
  for (std::size_t i = 0; i < width; ++i) bits |= std::uint64_t{std::to_integer<std::uint8_t>(p[i])} << (8 * i);
  const std::uint64_t sign = is_float(t) ? std::uint64_t{1} << (8 * width - 1) : 0;
  return (bits & ~sign) == 0;
}

// Calls f(point) at every point of a box, the last dim fastest.
template <class F> void each_point(const std::vector<std::int64_t>& extent, F&& f) {
  if (std::any_of(extent.begin(), extent.end(), [](std::int64_t n) { return n == 0; })) return;
  std::vector<std::int64_t> at(extent.size(), 0);
  for (bool more = true; more;) {
    f(at);
    more = false;
    for (std::size_t d = at.size(); d-- > 0 && !more;) {
      if (++at[d] < extent[d])
        more = true;
      else
        at[d] = 0;
    }
  }
}

} // namespace

std::vector<std::uint8_t> cover(const Array& a, const Cells& c) {
  TW_ASSERT(a.dims == c.dims);
  std::vector<std::uint8_t> marks(static_cast<std::size_t>(c.count()), 0);
  const Strides strides(c);
  const std::int64_t length = c.length(), width = static_cast<std::int64_t>(bytes_of(a.dtype));
  const std::byte* p = a.data;
  each_point(c.dims, [&](const std::vector<std::int64_t>& at) {
    if (!zero(p, a.dtype)) {
      std::int64_t group = 0, slot = 0;
      for (std::size_t d = 0; d < at.size(); ++d) {
        group += at[d] / c.unit[d] * strides.group[d];
        slot += at[d] / c.unit[d] * strides.slot[d];
      }
      marks[static_cast<std::size_t>(group * length + slot)] = 1;
    }
    p += width;
  });
  return marks;
}

Pattern pattern_of(const Cells& c, std::span<const std::uint8_t> marks) {
  const std::int64_t groups = c.groups(), length = c.length();
  TW_ASSERT(static_cast<std::int64_t>(marks.size()) == groups * length);
  Pattern p{c, std::vector<std::uint32_t>(static_cast<std::size_t>(groups), 0),
            std::vector<std::uint32_t>(marks.size(), 0)};
  for (std::int64_t g = 0; g < groups; ++g) {
    std::uint32_t n = 0;
    for (std::int64_t s = 0; s < length; ++s)
      if (marks[static_cast<std::size_t>(g * length + s)])
        p.slot[static_cast<std::size_t>(g * length) + n++] = static_cast<std::uint32_t>(s);
    p.count[static_cast<std::size_t>(g)] = n;
  }
  return p;
}

std::vector<std::uint8_t> marks_of(const Pattern& p) {
  std::vector<std::uint8_t> marks(static_cast<std::size_t>(p.cells.count()), 0);
  const std::int64_t length = p.cells.length();
  for (std::int64_t g = 0; g < p.cells.groups(); ++g)
    for (std::uint32_t s : p.group(g)) marks[static_cast<std::size_t>(g * length + s)] = 1;
  return marks;
}

std::vector<std::uint8_t> coarser(std::span<const std::uint8_t> marks, const Cells& from, const Cells& to) {
  TW_ASSERT(from.dims == to.dims && static_cast<std::int64_t>(marks.size()) == from.count());
  std::vector<std::int64_t> extent;
  for (std::size_t d = 0; d < from.dims.size(); ++d) {
    TW_ASSERT(to.unit[d] % from.unit[d] == 0);
    extent.push_back(from.along(d));
  }
  std::vector<std::uint8_t> out(static_cast<std::size_t>(to.count()), 0);
  const Strides a(from), b(to);
  const std::int64_t from_length = from.length(), to_length = to.length();
  // Along the last dim runs of cells fall into one.
  const std::size_t last = extent.size() - 1;
  const std::int64_t n = extent[last], ratio = to.unit[last] / from.unit[last];
  const std::int64_t a_step = a.group[last] * from_length + a.slot[last],
                     b_step = b.group[last] * to_length + b.slot[last];
  std::vector<std::int64_t> rows = extent;
  rows[last] = n > 0 ? 1 : 0;
  each_point(rows, [&](const std::vector<std::int64_t>& at) {
    std::int64_t i = 0, o = 0;
    for (std::size_t d = 0; d < last; ++d) {
      const std::int64_t cell = at[d] / (to.unit[d] / from.unit[d]);
      i += at[d] * (a.group[d] * from_length + a.slot[d]);
      o += cell * (b.group[d] * to_length + b.slot[d]);
    }
    if (ratio == 1 && a_step == 1 && b_step == 1) {
      for (std::int64_t x = 0; x < n; ++x)
        out[static_cast<std::size_t>(o + x)] |= marks[static_cast<std::size_t>(i + x)];
      return;
    }
    for (std::int64_t x = 0; x < n; ++x)
      out[static_cast<std::size_t>(o + x / ratio * b_step)] |= marks[static_cast<std::size_t>(i + x * a_step)];
  });
  return out;
}

std::vector<std::uint32_t> intersection(std::span<const std::uint32_t> a, std::span<const std::uint32_t> b) {
  std::vector<std::uint32_t> out;
  std::set_intersection(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(out));
  return out;
}

} // namespace tilewright
