#include "plan/in_parts.h"

#include <algorithm>

#include "law/parts.h"
#include "plan/block_price.h"

namespace tilewright {

namespace {

constexpr std::int64_t least_part = 128, granule = 64; // elements of a stream

std::int64_t tiles_of(const Region& r, const Schedule& s) {
  std::int64_t n = 1;
  for (const AxisStep& step : s.steps)
    if (step.how == AxisStep::How::tile) n = checked_mul(n, ceil_div_i64(r.axes[static_cast<std::size_t>(step.axis)].constant(), step.size));
  return n;
}

// As many equal parts as there are cores for, two for each at most; 1: there are none.
std::int64_t parts_for(std::int64_t extent, std::int64_t tiles, std::int64_t cores) {
  for (std::int64_t n = 2 * cores / tiles; n > 1; --n)
    if (extent % (n * granule) == 0 && extent / n >= least_part) return n;
  return 1;
}

// Rows of an extreme, each with a state of its own: a CPU's threads share those. 0: it is none.
std::int64_t rows_of(const Statement& s) {
  if (s.reducer != Reducer::max && s.reducer != Reducer::min) return 0;
  std::int64_t n = 1;
  for (AxisId a : parallel_axes(s)) n = checked_mul(n, s.axes[static_cast<std::size_t>(a)].constant());
  return n;
}
std::int64_t rows_of(const Program& p, const Cascade& c) {
  std::int64_t rows = 1;
  for (StatementId id : c.statements) rows = std::max(rows, rows_of(*p.statement(id)));
  return rows;
}
// Whether any has fewer rows than would be shared out: to look for streams takes a while.
bool any_of_few_rows(const Program& p, int threads) {
  for (std::size_t n = 0; n < p.nodes.size(); ++n)
    if (const Statement* s = p.statement(static_cast<StatementId>(n)))
      if (const std::int64_t rows = rows_of(*s); rows > 0 && 2 * rows <= threads) return true;
  return false;
}

// A stream whose elements are a contraction's results: where its products do not fit into scratch, rows of elements are made whole instead,
// as many as registers hold. 1: it is none.
std::int64_t parts_in_registers(const Program& p, const Cascade& c, std::int64_t extent) {
  constexpr std::int64_t longest = 256, least_parts = 8;
  const bool made = std::any_of(c.statements.begin(), c.statements.end(), [&](StatementId id) { return static_cast<bool>(contraction(p, *p.statement(id))); });
  for (std::int64_t length = longest; made && length >= least_part; length -= granule)
    if (extent % length == 0 && extent / length >= least_parts) return extent / length;
  return 1;
}

std::optional<Program> one_more(const Program& p, const Machine& m, int threads, KnownStreams* known) {
  const auto layouts = m.target == Target::cuda ? choose_layouts(p, true) : std::vector<DimOrder>{};
  for (const Cascade& c : cascades(p, known)) {
    const Size& extent = c.region.axes[static_cast<std::size_t>(c.axis)];
    if (!c.running || !extent.is_constant()) continue;
    std::int64_t tiles = 0, cores = threads;
    if (m.target == Target::cuda) {
      const auto choices = fragment_choices(p, c.region, m, layouts);
      if (choices.empty()) {
        const std::int64_t parts = parts_in_registers(p, c, extent.constant());
        if (auto parted = stream_in_parts(p, c, parts)) return std::move(*parted);
        continue;
      }
      tiles = tiles_of(c.region, choices[0].schedule), cores = m.core.count;
    } else {
      tiles = rows_of(p, c);
    }
    const std::int64_t parts = 2 * tiles > cores ? 1 : parts_for(extent.constant(), tiles, cores);
    if (parts < 2) continue;
    if (auto parted = stream_in_parts(p, c, parts)) return std::move(*parted);
  }
  return std::nullopt;
}

}  // namespace

std::optional<Program> in_parts(const Program& p, const Machine& m, int threads, KnownStreams* known) {
  if (m.target == Target::cpu && !any_of_few_rows(p, threads)) return std::nullopt;
  std::optional<Program> all;
  while (auto more = one_more(all ? *all : p, m, threads, known)) all = std::move(more);
  return all;
}

}  // namespace tilewright
