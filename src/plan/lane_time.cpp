// What the interpreter of block vectors takes for a statement, on a CPU: instructions on vectors of what lies
// contiguously, and a start for each row of it. Fitted to some 900 kernels of maps and reductions in rows of 64 to 768:
//
//   mean of rows        ns an element 0.27 + 66 / row;   variance 0.51 + 88 / row
//   (x - m) / sqrt(v + e) * s + b     0.88;              exp(x - m) 0.53;              a copy 0.24
#include <algorithm>

#include "plan/cpu_time.h"

namespace tilewright {

namespace {

// Operations of the arithmetic unit that take as long.
constexpr double instruction = 4, start_of_map = 600, start_of_sum = 3300;
constexpr double far_apart = 7; // instructions: each element of the vector is brought by itself

double instructions_of(Op op) {
  switch (op) {
  case Op::div:
  case Op::sqrt:
  case Op::floor_div:
  case Op::mod: return 2;
  case Op::exp:
  case Op::log:
  case Op::tanh:
  case Op::erf:
  case Op::sin:
  case Op::cos:
  case Op::pow: return 3;
  default: return 1;
  }
}

double instructions_of(const ScalarRef& s, std::set<const Scalar*>& seen) {
  if (!s || s->args.empty() || !seen.insert(s.get()).second) return 0;
  double sum = s->op == Op::cast ? 0 : instructions_of(s->op);
  for (const ScalarRef& a : s->args) sum += instructions_of(a, seen);
  return sum;
}

} // namespace

// The axis of the statement along which the interpreter's vectors run: what is reduced along lanes, else what lies
// contiguously in the result; -1: none.
AxisId CpuTime::vector_axis(std::size_t i) const {
  const Statement& s = statement(i);
  AxisId found = -1;
  if (!s.reduced.empty() && along_lanes(i))
    for_each_access(s, [&](const Access& a) {
      const DimOrder& order = layouts[static_cast<std::size_t>(a.tensor)];
      if (order.empty()) return;
      const auto inner = plain_axis(a.at[static_cast<std::size_t>(order.back())]);
      if (inner && std::count(s.reduced.begin(), s.reduced.end(), *inner)) found = *inner;
    });
  const DimOrder& order = layouts[static_cast<std::size_t>(s.out)];
  if (found < 0 && !order.empty())
    if (const auto inner = plain_axis(s.at[static_cast<std::size_t>(order.back())])) found = *inner;
  return found;
}

const CpuTime::Interpreted& CpuTime::interpreted(std::size_t i) const {
  for (std::size_t n = interpreted_.size(); n < r.statements.size(); ++n) {
    const Statement& s = statement(n);
    Interpreted x{vector_axis(n), 1, !s.reduced.empty() && along_lanes(n)};
    std::set<const Scalar*> seen;
    x.instructions += instructions_of(s.body, seen) + instructions_of(s.guard, seen);
    std::set<TensorId> loaded;
    for_each_access(s, [&](const Access& a) {
      const DimOrder& order = layouts[static_cast<std::size_t>(a.tensor)];
      const bool varies = x.axis >= 0 && std::any_of(a.at.begin(), a.at.end(),
                                                     [&](const Index& d) { return mentions_axis(d, x.axis); });
      if (!varies || order.empty() || !loaded.insert(a.tensor).second) return;
      const bool beside = mentions_axis(a.at[static_cast<std::size_t>(order.back())], x.axis);
      x.instructions += beside ? 1 : far_apart;
    });
    interpreted_.push_back(x);
  }
  return interpreted_[i];
}

// Seconds of one core for so many points. ideal: rows are as long as they can be, and start for nothing.
double CpuTime::interpreted_seconds(std::size_t i, std::int64_t points, const std::vector<AxisStep>& steps,
                                    const std::vector<std::int64_t>& size, bool ideal) const {
  const auto unit = unit_for(m, UnitKind::alu, DType::f32);
  if (!unit) return 0;
  const Interpreted& x = interpreted(i);
  std::int64_t row = x.axis < 0 ? 1 : statement(i).axes[static_cast<std::size_t>(x.axis)].constant();
  const auto axis = x.axis < 0 ? std::nullopt : plain_axis(r.image[i][static_cast<std::size_t>(x.axis)]);
  for (std::size_t k = 0; k < steps.size(); ++k)
    if (axis && steps[k].axis == *axis) row = std::min(row, size[k]);
  const double scale = o.interpreted / 20; // of what was measured
  double operations = std::max(1.0, instruction * scale) * x.instructions * static_cast<double>(points);
  if (!ideal)
    operations += scale * (x.sums ? start_of_sum : start_of_map) * static_cast<double>(points) /
                  static_cast<double>(std::max<std::int64_t>(row, 1));
  return operations * std::max(m.core.count, 1) / operations_per_second(m, *unit, DType::f32);
}

} // namespace tilewright
