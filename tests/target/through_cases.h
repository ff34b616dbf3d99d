// Random programs with loops through slots, schedules of them, and values.
#pragma once
#include <random>

#include <fmt/format.h>

#include "target/cpu/execute.h"
#include "target/through.h"

namespace tilewright::testing::through {

struct Random {
  std::mt19937_64 engine;
  std::int64_t below(std::int64_t n) { return static_cast<std::int64_t>(engine() % static_cast<std::uint64_t>(n)); }
  bool chance(std::int64_t percent) { return below(100) < percent; }
  float value() { return static_cast<float>(below(2001) - 1000) / 1000; }
  template <class T> T pick(std::initializer_list<T> list) { return list.begin()[below(static_cast<std::int64_t>(list.size()))]; }
};

inline float get(const Array& a, std::int64_t i) {
  if (a.dtype == DType::f64) return static_cast<float>(a.as<double>()[i]);
  return a.dtype == DType::f32 ? a.as<float>()[i] : a.dtype == DType::f16 ? f16_to_f32(a.as<std::uint16_t>()[i]) : bf16_to_f32(a.as<std::uint16_t>()[i]);
}
inline void set(Array& a, std::int64_t i, float v) {
  if (a.dtype == DType::f32) a.as<float>()[i] = v;
  else a.as<std::uint16_t>()[i] = a.dtype == DType::f16 ? f32_to_f16(v) : f32_to_bf16(v);
}

struct Shape { std::string text, source; std::vector<NamedStep> steps; };

inline constexpr auto tile = AxisStep::How::tile;
inline constexpr auto stream = AxisStep::How::stream;

inline Shape columns(Random& random) {
  const std::int64_t unit = random.pick<std::int64_t>({1, 4, 16}), height = unit / random.pick<std::int64_t>({1, 2, 1}), wide = random.pick<std::int64_t>({1, 1, 4});
  const std::int64_t m = 1 + random.below(60), n = 1 + random.below(70), k = wide * (3 + random.below(20)), batch = random.chance(30) ? 3 : 0;
  const bool turned = random.chance(50), behind = random.chance(50), map = random.chance(40);
  const std::string b = batch ? "b " : "", type = random.pick<const char*>({"f32", "f32", "f16"});
  std::string text = fmt::format("program p(m={}, k={}, n={}{})\n", m, k, n, batch ? ", b=3" : "");
  const bool mask = wide == 1 && unit == 1 && random.chance(60) && m != k && (!batch || (m != 3 && k != 3));
  text += fmt::format("input A[{}{}] : {} sparse({}, tile {}, {})\ninput B[{}k n] : {}\n", b, turned ? "k m" : "m k", type, mask ? "mask M" : "zeros", turned ? wide : unit, turned ? unit : wide,
                      batch && random.chance(50) ? "b " : "", type);
  if (mask) text += fmt::format("input M[{}] : bool\n", turned ? "k m" : "m k");
  text += "input bias[n] : f32\n";
  text += fmt::format("C[{0}m n] = sum[k] A[{0}{1}] * B[{2}k n]\n", b, turned ? "k m" : "m k", text.find("B[b") != std::string::npos ? "b " : "");
  if (map) text += fmt::format("D[{0}m n] = max(C[{0}m n] + bias[n], 0)\n", b);
  text += map ? "output D\n" : "output C\n";
  std::vector<NamedStep> steps;
  if (batch) steps.push_back({tile, "b", 1});
  if (height < m) steps.push_back({tile, "m", std::max<std::int64_t>(height, 1)});
  if (behind && n > 9) steps.push_back({tile, "n", 9});
  steps.push_back({stream, "k", wide * (1 + random.below(4))});
  return {text, mask ? "M" : "A", steps};
}

inline Shape rows(Random& random) {
  const std::int64_t m = 2 + random.below(60), n = 1 + random.below(40), other = 1 + random.below(30), k = other == m || other == 4 ? other + 31 : other, size = 1 + random.below(m - 1);
  const auto form = random.below(3);
  const std::string b = form == 2 ? "b " : "";
  std::string text = fmt::format("program p(m={}, k={}, n={}{})\n", m, k, n, form == 2 ? ", b=4" : "");
  text += form == 0 ? fmt::format("input A[m k] : f32 sparse(zeros, tile 1, {})\n", k) : form == 1 ? "input A[m k] : f32 sparse(mask M, tile 1, 1)\ninput M[m] : bool\n" : "input A[b m k] : f32 sparse(lengths L)\ninput L[b] : i32\n";
  text += fmt::format("input B[k n] : f32\ninput bias[n] : f32\nC[{0}m n] = sum[k] A[{0}m k] * B[k n]\nD[{0}m n] = C[{0}m n] + bias[n]\noutput D\n", b);
  std::vector<NamedStep> steps = {{tile, "m", size}};
  if (random.chance(50) && n > 7) steps.push_back({tile, "n", 7});
  if (random.chance(60) && k > 5) steps.push_back({stream, "k", 5});
  return {text, form == 0 ? "A" : form == 1 ? "M" : "L", steps};
}

inline Shape keyed(Random& random) {
  const std::int64_t t = 2 + random.below(60), n = 1 + random.below(30), k = 1 + random.below(20), keys = 1 + random.below(7), size = 1 + random.below(t - 1);
  const int each = random.pick({1, 1, 2});
  const std::string at = each == 1 ? "t" : "t j";
  std::string text = fmt::format("program p(t={}, e={}, k={}, n={}{})\ninput X[t k] : f32\ninput W[e k n] : f32\ninput key[{}] : index(e)\ninput P[{}] : f32\ninput bias[e n] : f32\n", t, keys, k, n,
                                 each == 1 ? "" : fmt::format(", j={}", each), at, at);
  text += fmt::format("U[{0} n] = sum[k] X[t k] * W[key[{1}], k, n]\n", at, each == 1 ? "t" : "t, j");
  text += fmt::format("V[{0} n] = max(U[{0} n] + bias[key[{1}], n], 0) * P[{0}]\noutput V\n", at, each == 1 ? "t" : "t, j");
  std::vector<NamedStep> steps = {{tile, "t", size}};
  if (random.chance(50) && n > 7) steps.push_back({tile, "n", 7});
  if (random.chance(60) && k > 5) steps.push_back({stream, "k", 5});
  return {text, "key", steps};
}

// Random values, and a pattern of `live` per cent: of zeros, a mask, lengths or keys.
inline Values values(const Program& p, const Shape& shape, const OperandAt& o, Random& random, int live) {
  Values given;
  for (std::size_t t = 0; t < p.tensors.size(); ++t) {
    const Tensor& tensor = p.tensors[t];
    if (tensor.kind == Kind::intermediate) continue;
    Array a = empty_of(p, static_cast<TensorId>(t));
    for (std::int64_t i = 0; i < a.count(); ++i) {
      if (a.dtype == DType::boolean) a.data[i] = std::byte{random.chance(live)};
      else if (tensor.name == "L") a.as<std::int32_t>()[i] = static_cast<std::int32_t>(random.chance(20) ? 0 : random.chance(live) ? 99 : random.below(12));
      else if (tensor.name == "key" && a.dtype == DType::i64) a.as<std::int64_t>()[i] = live == 100 ? 0 : random.below(tensor.index_of->constant());
      else if (tensor.name == "key") a.as<std::int32_t>()[i] = static_cast<std::int32_t>(live == 100 ? 0 : random.below(tensor.index_of->constant()));
      else set(a, i, random.value());
    }
    given[static_cast<TensorId>(t)] = std::move(a);
  }
  if (shape.source == "key") return given;
  // What does not live is zero in the operand itself; lengths are believed.
  const Cells c = cells_of(p, o);
  std::vector<std::uint8_t> marks;
  if (shape.source == "A") for (std::int64_t i = 0; i < c.count(); ++i) marks.push_back(random.chance(live));
  else marks = live_cells(p, o, c, given.at(o.source));
  Pattern kept = pattern_of(c, marks);
  Array& a = given.at(o.tensor);
  std::vector<std::int64_t> at(a.dims.size(), 0);
  for (std::int64_t i = 0; i < a.count(); ++i) {
    std::int64_t rest = i, group = 0, slot = 0;
    for (std::size_t d = a.dims.size(); d-- > 0;) at[d] = rest % a.dims[d], rest /= a.dims[d];
    for (std::size_t d = 0; d < o.dims.size(); ++d) {
      std::int64_t& number = c.is_packed(d) ? slot : group;
      number = number * c.along(d) + at[o.dims[d]] / c.unit[d];
    }
    if (!marks[static_cast<std::size_t>(group * c.length() + slot)]) set(a, i, 0);
  }
  return given;
}

}  // namespace tilewright::testing::through
