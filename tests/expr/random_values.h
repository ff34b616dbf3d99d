// Values for programs: moderate ones, for every input and weight.
//
//   std::mt19937_64 random(seed);
//   Values given = random_inputs(p, random);               // at the default sizes
#pragma once
#include <cstring>
#include <random>
#include <vector>

#include "expr/evaluate.h"
#include "expr/program.h"

namespace tilewright::testing {

using Random = std::mt19937_64;

// The free sizes at their defaults.
inline Binding default_sizes(const Program& p) {
  Binding binding;
  for (const SizeDecl& s : p.sizes)
    if (s.value && s.value->is_constant() && s.range.low != s.range.high) binding[s.name] = s.value->constant();
  return binding;
}

// Stores a number as an element, rounded to the dtype.
inline void put(Array& a, std::int64_t i, double value) {
  const auto store = [&](auto element) { std::memcpy(a.data + i * static_cast<std::int64_t>(sizeof element), &element, sizeof element); };
  switch (a.dtype) {
  case DType::f64: return store(value);
  case DType::f32: return store(static_cast<float>(value));
  case DType::f16: return store(f32_to_f16(static_cast<float>(value)));
  case DType::bf16: return store(f32_to_bf16(static_cast<float>(value)));
  case DType::f8e4m3:
  case DType::f8e5m2: return store(f32_to_f8(static_cast<float>(value), a.dtype));
  case DType::i8: return store(static_cast<std::int8_t>(value));
  case DType::u8: return store(static_cast<std::uint8_t>(value));
  case DType::i32: return store(static_cast<std::int32_t>(value));
  case DType::i64: return store(static_cast<std::int64_t>(value));
  case DType::boolean: return store(static_cast<std::uint8_t>(value != 0));
  }
}

// Moderate values: floats in [-2, 2], integers in [-4, 4] (u8: [0, 7]), elements of index(x) in [0, x).
inline Array random_array(Random& random, const Tensor& t, const Binding& sizes) {
  std::vector<std::int64_t> dims;
  for (const Size& d : t.dims) dims.push_back(d.at(sizes));
  Array a = Array::make(t.dtype, std::move(dims));
  const std::int64_t limit = t.index_of ? t.index_of->at(sizes) : 0;
  for (std::int64_t i = 0; i < a.count(); ++i) {
    const auto r = static_cast<std::int64_t>(random() >> 16);
    double value = static_cast<double>(r % 9 - 4);
    if (t.index_of) value = limit > 0 ? static_cast<double>(r % limit) : 0;
    else if (is_float(t.dtype)) value = static_cast<double>(r % 4001 - 2000) / 1000;
    else if (t.dtype == DType::u8) value = static_cast<double>(r % 8);
    else if (t.dtype == DType::boolean) value = static_cast<double>(r % 2);
    put(a, i, value);
  }
  return a;
}

inline Values random_inputs(const Program& p, Random& random, const Binding& sizes) {
  Values values;
  for (std::size_t t = 0; t < p.tensors.size(); ++t)
    if (p.tensors[t].kind != Kind::intermediate && p.tensors[t].data.empty())
      values[static_cast<TensorId>(t)] = random_array(random, p.tensors[t], sizes);
  return values;
}

inline Values random_inputs(const Program& p, Random& random) { return random_inputs(p, random, default_sizes(p)); }

}  // namespace tilewright::testing
