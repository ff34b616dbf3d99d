#include "model/units.h"

#include <algorithm>
#include <numeric>

#include <fmt/format.h>

#include "expr/scalar.h"

namespace tilewright {

std::int64_t Divisors::granule(RegionAxis a) const {
  std::int64_t n = 1;
  for (const Divisor& d : axes[static_cast<std::size_t>(a)]) n = std::lcm(n, d.of);
  return n;
}

std::string Divisors::causes(RegionAxis a) const {
  std::string text;
  for (const Divisor& d : axes[static_cast<std::size_t>(a)])
    text += fmt::format("{}{} ({})", text.empty() ? "" : ", ", d.of, d.cause);
  return text;
}

namespace {

std::vector<RegionAxis> over_region(const Region& r, int statement, const std::vector<AxisId>& axes) {
  std::vector<RegionAxis> out;
  for (AxisId a : axes)
    if (const auto plain = plain_axis(r.image[static_cast<std::size_t>(statement)][static_cast<std::size_t>(a)]))
      out.push_back(*plain);
  return out;
}

bool reduced_somewhere(const Program& p, const Region& r, RegionAxis a) {
  for (std::size_t i = 0; i < r.statements.size(); ++i)
    for (AxisId x : p.statement(r.statements[i])->reduced)
      if (plain_axis(r.image[i][static_cast<std::size_t>(x)]) == a) return true;
  return false;
}

// Either operand may be the rows. They are what is not summed later; of two such, the side of the operand that the
// region makes.
bool turned(const Program& p, const Region& r, const Contraction& c, const Placed& at) {
  auto summed = [&](const std::vector<RegionAxis>& axes) {
    return std::any_of(axes.begin(), axes.end(), [&](RegionAxis a) { return reduced_somewhere(p, r, a); });
  };
  auto made = [&](const Access* a) {
    return std::any_of(r.statements.begin(), r.statements.end(),
                       [&](StatementId id) { return p.statement(id)->out == a->tensor; });
  };
  const bool m = summed(at.m), n = summed(at.n);
  return m != n ? m : made(c.b) && !made(c.a);
}

} // namespace

std::optional<Placed> placed(const Program& p, const Region& r, int statement, const Machine& m) {
  const Statement& s = *p.statement(r.statements[static_cast<std::size_t>(statement)]);
  const auto c = contraction(p, s);
  if (!c) return std::nullopt;
  const DType a = p.tensor(c->a->tensor).dtype, b = p.tensor(c->b->tensor).dtype;
  // Where one operand is wider, as an element that was computed is, it is rounded to the other's type for the unit.
  const DType type = bytes_of(a) <= bytes_of(b) ? a : b;
  for (UnitKind kind : {UnitKind::tensor, UnitKind::dot, UnitKind::fma})
    for (UnitId id : units_of(m, kind)) {
      if (m.units[static_cast<std::size_t>(id)].rounds_operands || !rate_for(m, id, type)) continue;
      Placed at{id,
                type,
                over_region(r, statement, c->m),
                over_region(r, statement, c->n),
                over_region(r, statement, c->k),
                over_region(r, statement, c->batch)};
      if (turned(p, r, *c, at)) std::swap(at.m, at.n);
      return at;
    }
  return std::nullopt;
}

namespace {

struct Collector {
  const Program& p;
  const Region& r;
  const Machine& m;
  Divisors out;

  void add(RegionAxis a, std::int64_t of, const std::string& cause) {
    if (of <= 1) return;
    auto& list = out.axes[static_cast<std::size_t>(a)];
    for (Divisor& d : list)
      if (d.of == of && d.cause == cause) return;
    list.push_back({of, cause});
  }

  std::int64_t extent(RegionAxis a) const { return r.axes[static_cast<std::size_t>(a)].constant(); }
  // Of several axes that are an m together the longest carries the instruction's shape.
  void add_longest(const std::vector<RegionAxis>& axes, std::int64_t of, const std::string& cause) {
    if (axes.empty()) return;
    add(*std::max_element(axes.begin(), axes.end(), [&](RegionAxis a, RegionAxis b) { return extent(a) < extent(b); }),
        of, cause);
  }

  void units(int i) {
    const auto at = placed(p, r, i, m);
    if (!at) return;
    const Unit& unit = m.units[static_cast<std::size_t>(at->unit)];
    const UnitRate& rate = *rate_for(m, at->unit, at->type);
    const std::string of = fmt::format("of {} in {}", unit.name,
                                       p.tensor(p.statement(r.statements[static_cast<std::size_t>(i)])->out).name);
    if (unit.kind == UnitKind::fma) return add_longest(at->n, rate.shape[1], "lanes " + of);
    add_longest(at->m, rate.shape[0], "m " + of);
    add_longest(at->n, rate.n_step > 0 ? rate.n_step : rate.shape[1], "n " + of);
    add_longest(at->k, rate.shape[2], "k " + of);
  }

  void rows() {
    const auto scratch = find(m, LevelRole::scratch);
    if (!scratch || m.target == Target::cpu) return;
    const int row = m.levels[static_cast<std::size_t>(*scratch)].transaction;
    const Boundary b = boundary(p, r);
    for (std::size_t i = 0; i < r.statements.size(); ++i)
      for_each_access(*p.statement(r.statements[i]), [&](const Access& a) {
        if (a.at.size() < 2 || !std::count(b.inputs.begin(), b.inputs.end(), a.tensor)) return;
        const auto inner = plain_axis(substitute(p, a.at.back(), r.image[i]));
        const auto width = static_cast<std::int64_t>(bytes_of(p.tensor(a.tensor).dtype));
        if (inner && row > width)
          add(*inner, row / width, fmt::format("rows of {} bytes of {}", row, p.tensor(a.tensor).name));
      });
  }
};

} // namespace

Divisors divisors(const Program& p, const Region& r, const Machine& m, bool rows) {
  Collector c{p, r, m, {std::vector<std::vector<Divisor>>(r.axes.size())}};
  for (std::size_t i = 0; i < r.statements.size(); ++i) c.units(static_cast<int>(i));
  if (rows) c.rows();
  return c.out;
}

} // namespace tilewright
