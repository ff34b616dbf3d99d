// Loops through slots, for tests: programs and schedules that have some, and the plain form of their tables.
#pragma once
#include <map>

#include "expr/evaluate.h"
#include "expr/text.h"
#include "law/permute.h"
#include "loop/through.h"
#include "plan/plan.h"
#include "sparse/packing.h"
#include "sparse/pattern.h"

namespace tilewright::testing {

using Tables = std::map<TensorId, std::vector<std::int32_t>>;

inline std::int64_t elements_of(const Program& p, TensorId t) {
  std::int64_t n = 1;
  for (const Size& d : p.tensor(t).dims) n *= d.constant();
  return n;
}

// Which of the source's cells live.
inline std::vector<std::uint8_t> live_cells(const Program& p, const OperandAt& o, const Cells& c, const Array& source) {
  if (!o.lengths) {
    Array seen = source;
    seen.dims = c.dims;
    return cover(seen, c);
  }
  std::vector<std::uint8_t> marks(static_cast<std::size_t>(c.count()), 0);
  const std::int64_t longest = c.dims.back();
  for (std::int64_t i = 0; i < c.count(); ++i) {
    const std::int64_t have = source.dtype == DType::i64 ? source.as<std::int64_t>()[i / longest] : source.as<std::int32_t>()[i / longest];
    marks[static_cast<std::size_t>(i)] = i % longest < have;
  }
  (void)p;
  return marks;
}
inline Cells cells_of(const Program& p, const OperandAt& o) {
  std::vector<std::int64_t> dims;
  for (std::size_t d : o.dims) dims.push_back(p.tensor(o.tensor).dims[d].constant());
  std::vector<std::size_t> packed = o.packed;
  if (o.lengths) {
    packed.clear();
    for (std::size_t i = 0; i < dims.size(); ++i) packed.push_back(i);
  }
  return cells(dims, o.unit, packed);
}

inline void tile_row(std::vector<std::int32_t>& to, std::int64_t at, std::int64_t key, std::int64_t low, std::int64_t high, bool live) {
  const std::int64_t row[] = {key, low, high, live};
  for (int i = 0; i < 4; ++i) to[static_cast<std::size_t>(4 * at + i)] = static_cast<std::int32_t>(row[i]);
}

inline Tables tables_of(const Program& p, const Nest& nest, const Schedule& s, const std::map<TensorId, Array>& given) {
  Tables out;
  for (const Slots& slots : nest.slots) {
    const OperandAt& o = slots.of;
    const Array& source = given.at(o.source);
    const Program& own = *nest.program;
    for (TensorId t : {slots.slot, slots.count, slots.tile})
      if (t >= 0) out[t].assign(static_cast<std::size_t>(elements_of(own, t)), slots.tile == t ? 0 : -7);
    std::vector<std::int32_t>& slot = out.at(slots.slot);
    if (slots.count >= 0) {
      const Cells c = cells_of(p, o);
      const Pattern pattern = pattern_of(c, live_cells(p, o, c, source));
      for (std::int64_t g = 0; g < c.groups(); ++g) {
        const auto list = pattern.group(g);
        out.at(slots.count)[static_cast<std::size_t>(g)] = static_cast<std::int32_t>(list.size());
        std::copy(list.begin(), list.end(), slot.begin() + g * slots.most);
      }
      continue;
    }
    const std::int64_t size = s.steps[static_cast<std::size_t>(slots.step)].size;
    std::vector<std::int64_t> part;                       // keys, or 0: live, 1: not
    if (slots.keys > 0) {
      for (std::int64_t i = 0; i < source.count(); ++i) part.push_back(source.dtype == DType::i64 ? source.as<std::int64_t>()[i] : source.as<std::int32_t>()[i]);
    } else {
      const Cells c = cells_of(p, o);
      for (std::uint8_t m : live_cells(p, o, c, source)) part.push_back(m ? 0 : 1);
    }
    const Sorted sorted = sort_by_key(part, std::max<std::int64_t>(slots.keys, 2));
    std::copy(sorted.order.begin(), sorted.order.end(), slot.begin());
    std::int64_t tile = 0;
    for (std::size_t key = 0; key + 1 < sorted.begin.size(); ++key)
      for (std::int64_t at = sorted.begin[key] * slots.unit; at < sorted.begin[key + 1] * slots.unit; at += size)
        tile_row(out.at(slots.tile), tile++, slots.keys ? static_cast<std::int64_t>(key) : 0, at, std::min(at + size, sorted.begin[key + 1] * slots.unit), slots.keys > 0 || key == 0);
  }
  return out;
}

// A program of one region, the operand of its first statement that is read through slots, and a schedule: `steps` by names of axes.
struct ThroughCase {
  std::shared_ptr<const Program> program;
  Region region;
  Schedule schedule;
};
struct NamedStep { AxisStep::How how; std::string axis; std::int64_t size; };
inline RegionAxis axis_named(const Region& r, const std::string& name) {
  for (std::size_t a = 0; a < r.names.size(); ++a)
    if (r.names[a] == name) return static_cast<RegionAxis>(a);
  throw Error(Code::internal, name, "no such axis");
}
inline ThroughCase through_case(const std::string& text, const std::vector<NamedStep>& steps) {
  ThroughCase c;
  c.program = std::make_shared<const Program>(fix_sizes(parse(text, "case.tw"), {}));
  std::vector<StatementId> all;
  for (std::size_t n = 0; n < c.program->nodes.size(); ++n) all.push_back(static_cast<StatementId>(n));
  auto region = unify(*c.program, all);
  if (!region) throw Error(Code::internal, text, region.reason());
  c.region = std::move(*region);
  for (const NamedStep& step : steps) c.schedule.steps.push_back({step.how, axis_named(c.region, step.axis), step.size});
  c.schedule.operands = choose_views(*c.program, c.region);
  // Along what is reduced where its micro-tiles end there, as a GPU's planner has it.
  for (OperandAt& o : c.schedule.operands)
    for (StatementId id : all)
      for_each_access(*c.program->statement(id), [&](const Access& a) {
        const Statement& st = *c.program->statement(id);
        for (std::size_t i = 0; i < o.dims.size() && a.tensor == o.tensor; ++i)
          if (const auto x = plain_axis(a.at[o.dims[i]]); x && std::count(st.reduced.begin(), st.reduced.end(), *x) && st.axes[static_cast<std::size_t>(*x)].constant() > o.unit[i]) o.packed = {i};
      });
  // Operands that are read at a key.
  for (StatementId id : all)
    if (const auto keyed = keyed_product(*c.program, *c.program->statement(id)))
      c.schedule.operands.push_back({keyed->operand, keyed->key.tensor, false, {keyed->dim}, {1}, {0}, {}});
  return c;
}

}  // namespace tilewright::testing
