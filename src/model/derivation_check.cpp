#include <algorithm>
#include <cmath>

#include "expr/evaluate.h"
#include "expr/scalar.h"
#include "expr/sizes.h"
#include "expr/text.h"
#include "model/derivation.h"
#include "model/straight.h"
#include "normal/normal.h"

namespace tilewright {

namespace {

Values inputs_of(const Program& p) {
  Values in;
  std::uint64_t state = 88172645463325252ull;
  for (TensorId t = 0; t < static_cast<TensorId>(p.tensors.size()); ++t) {
    const bool weight = p.tensor(t).kind == Kind::weight && p.tensor(t).data.empty();
    if (!weight && std::find(p.inputs.begin(), p.inputs.end(), t) == p.inputs.end()) continue;
    std::vector<std::int64_t> dims;
    for (const Size& d : p.tensor(t).dims) dims.push_back(d.constant());
    const bool floats = is_float(p.tensor(t).dtype);
    Array a = Array::make(floats ? DType::f64 : p.tensor(t).dtype, dims);
    const std::int64_t most = p.tensor(t).index_of ? p.tensor(t).index_of->constant() : 2;
    for (std::int64_t i = 0; i < a.count(); ++i) {
      state ^= state << 13, state ^= state >> 7, state ^= state << 17;
      if (floats)
        a.as<double>()[i] = static_cast<double>(state >> 11) / 4503599627370496.0 - 1;
      else if (bytes_of(a.dtype) == 8)
        a.as<std::int64_t>()[i] = static_cast<std::int64_t>(state % static_cast<std::uint64_t>(most));
      else if (bytes_of(a.dtype) == 4)
        a.as<std::int32_t>()[i] = static_cast<std::int32_t>(state % static_cast<std::uint64_t>(most));
      else
        a.as<std::uint8_t>()[i] = static_cast<std::uint8_t>(state % 2);
    }
    in.emplace(t, a);
  }
  return in;
}

double number_at(const Array& a, std::int64_t i) {
  switch (a.dtype) {
  case DType::f64: return a.as<double>()[i];
  case DType::i64: return static_cast<double>(a.as<std::int64_t>()[i]);
  case DType::i32: return a.as<std::int32_t>()[i];
  default: return static_cast<double>(a.as<std::uint8_t>()[i]);
  }
}

// What the program as written computes, to compare with; a normal form may give its tensors other numbers.
struct Referee {
  const Program& written;
  Values in, want;

  double difference(const Program& p) const {
    Values its;
    for (const auto& [t, a] : in)
      for (TensorId x = 0; x < static_cast<TensorId>(p.tensors.size()); ++x)
        if (p.tensor(x).name == written.tensor(t).name) its.emplace(x, a);
    const Values got = evaluate(p, its, {}, Evaluation::fp64);
    double most = 0, scale = 1e-30;
    TW_ASSERT(p.outputs.size() == written.outputs.size());
    for (std::size_t o = 0; o < p.outputs.size(); ++o) {
      const Array& a = want.at(written.outputs[o]);
      const Array& b = got.at(p.outputs[o]);
      if (a.count() != b.count()) return INFINITY;
      for (std::int64_t i = 0; i < a.count(); ++i) {
        const double x = number_at(a, i), y = number_at(b, i);
        if (!(std::isnan(x) && std::isnan(y)) && x != y)
          most = std::max(most, std::isfinite(x - y) ? std::abs(x - y) : INFINITY);
        if (std::isfinite(x)) scale = std::max(scale, std::abs(x));
      }
    }
    return most / scale;
  }
};

// The parts of a move, found again at other sizes: the same statements and axes, tiles of about half and chunks of 2.
std::optional<Part> again(const Part& part, const Program& p) {
  auto r = unify(p, part.region.statements);
  if (!r || r->names != part.region.names) return std::nullopt;
  Part out{*r, part.schedule, part.name, 0, "", 0};
  for (AxisStep& s : out.schedule.steps)
    s.size = s.how == AxisStep::How::stream ? 2 : ceil_div_i64(r->axes[static_cast<std::size_t>(s.axis)].constant(), 2);
  return out;
}

Checked checked(const Move& m, const Program& program, const Referee& referee) {
  Checked out{m.name, 0, ""};
  if (program.nodes.size() != m.program->nodes.size())
    return out.not_checked = "small sizes have another normal form", out;
  try {
    if (m.parts.empty()) out.difference = referee.difference(program);
    for (const Part& part : m.parts) {
      const auto small_part = again(part, program);
      if (!small_part) return out.not_checked = "small sizes have other regions", out;
      const auto line =
          straight(program, small_part->region, expand(program, small_part->region, small_part->schedule, part.name));
      if (!line) return out.not_checked = line.reason(), out;
      out.difference = std::max(out.difference, referee.difference(*line));
    }
  } catch (const Error& e) {
    out.not_checked = e.message;
  }
  return out;
}

} // namespace

// Equal sizes stay equal and larger ones larger, so that what holds of the planned sizes holds of these.
Binding small_sizes(const Program& free, const Binding& planned) {
  Binding values;
  for (const SizeDecl& s : free.sizes) {
    if (!is_free(s)) continue;
    const auto given = planned.find(s.name);
    values[s.name] = given != planned.end() ? given->second : s.value ? s.value->constant() : 1024;
  }
  std::set<std::int64_t> distinct;
  for (const auto& v : values) distinct.insert(v.second);
  std::map<std::int64_t, std::int64_t> by;
  std::int64_t next = 5;
  for (std::int64_t v : distinct) by[v] = v <= 4 ? v : std::min(v, next++);
  Binding out;
  for (const SizeDecl& s : free.sizes)
    if (is_free(s)) out[s.name] = std::clamp(by.at(values.at(s.name)), s.range.low, s.range.high);
  return out;
}

std::vector<Checked> check(const Program& free, const Binding& sizes, const Derivation& d) {
  std::vector<Checked> out;
  Program fixed, normal, formed;
  Referee referee{fixed, {}, {}};
  try {
    fixed = fix_sizes(free, sizes);
    normal = normalise(fixed), formed = stream_forms(normal);
    referee.in = inputs_of(fixed), referee.want = evaluate(fixed, referee.in, {}, Evaluation::fp64);
  } catch (const Error& e) {
    for (const Move& m : d.moves) out.push_back({m.name, 0, "it cannot be run at small sizes: " + e.message});
    return out;
  }
  for (const Move& m : d.moves) {
    const bool first = m.program == d.moves.front().program;
    out.push_back(checked(m, first ? normal : formed, referee));
  }
  return out;
}

} // namespace tilewright
