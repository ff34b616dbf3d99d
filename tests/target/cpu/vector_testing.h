// One instruction at a time, from memory to memory, through a program made for it.
#pragma once
#include "target/cpu/kernels_testing.h"
#include <limits>

namespace tilewright::kernels {

inline DType storage_of(Type type) {
  switch (type) {
  case Type::f32: return DType::f32;
  case Type::f64: return DType::f64;
  case Type::i32: return DType::i32;
  case Type::i64: return DType::i64;
  case Type::b8: return DType::boolean;
  }
  return DType::f32;
}
template <class T> constexpr Type type_of() {
  if constexpr (std::is_same_v<T, float>)
    return Type::f32;
  else if constexpr (std::is_same_v<T, double>)
    return Type::f64;
  else if constexpr (std::is_same_v<T, std::int32_t>)
    return Type::i32;
  else if constexpr (std::is_same_v<T, std::int64_t>)
    return Type::i64;
  else
    return Type::b8;
}

inline void execute(const Kernels& leaf, const VectorProgram& program, Frame frame) {
  const VectorCode code = prepare(program);
  std::unique_ptr<void, void (*)(void*)> scratch(
      std::aligned_alloc(64, static_cast<std::size_t>(code.scratch_bytes + 63) / 64 * 64 + 64), std::free);
  frame.scratch = scratch.get();
  run(leaf, code, frame);
}

// out[i] = op(a[i], b[i], c[i]); arguments that the operation has not are not read.
template <class Out, class A, class B = A, class C = A>
std::vector<Out> apply(const Kernels& leaf, Instruction i, const std::vector<A>& a, const std::vector<B>& b = {},
                       const std::vector<C>& c = {}) {
  VectorProgram p;
  p.registers = {type_of<A>(), type_of<B>(), type_of<C>(), type_of<Out>()};
  p.body = {load(0, storage_of(type_of<A>()), 0)};
  i.a = 0, i.dst = 3;
  if (!b.empty()) i.b = 1, p.body.push_back(load(1, storage_of(type_of<B>()), 1));
  if (!c.empty()) i.c = 2, p.body.push_back(load(2, storage_of(type_of<C>()), 2));
  p.body.push_back(i);
  p.body.push_back(store(3, storage_of(type_of<Out>()), 3));
  std::vector<Out> out(a.size());
  const Pointer at[] = {
      {const_cast<A*>(a.data())}, {const_cast<B*>(b.data())}, {const_cast<C*>(c.data())}, {out.data()}};
  execute(leaf, p, {.pointers = at, .lanes = static_cast<std::int64_t>(a.size())});
  return out;
}

template <class T> std::vector<T> interesting() {
  using L = std::numeric_limits<T>;
  if constexpr (std::is_same_v<T, std::uint8_t>)
    return {0, 1};
  else if constexpr (std::is_integral_v<T>)
    return {0,
            1,
            -1,
            2,
            -2,
            3,
            7,
            -7,
            10,
            -10,
            31,
            32,
            63,
            64,
            1000003,
            -1000003,
            L::max(),
            L::min(),
            T(L::max() - 1),
            T(L::min() + 1)};
  else
    return {T(0),     T(-0.0),     T(1),     T(-1),           T(0.5),        T(-0.5),        T(1.5),
            T(2.5),   T(-2.5),     T(3.7),   T(-3.7),         T(1e10),       T(-1e10),       T(1e-30),
            L::max(), L::lowest(), L::min(), L::denorm_min(), L::infinity(), -L::infinity(), L::quiet_NaN()};
}
template <class T> T random_value(Random& random) {
  if constexpr (std::is_same_v<T, std::uint8_t>)
    return static_cast<T>(random.in(0, 1));
  else if constexpr (std::is_integral_v<T>)
    return static_cast<T>(random.chance(0.5) ? random.in(-50, 50) : random.in(INT32_MIN, INT32_MAX));
  else
    return static_cast<T>(random.real(-20, 20));
}
// All pairs of interesting values, then random ones: an odd number, so that blocks end within vectors.
template <class T> void pairs_of(Random& random, std::vector<T>& a, std::vector<T>& b) {
  for (T x : interesting<T>())
    for (T y : interesting<T>()) a.push_back(x), b.push_back(y);
  for (int i = 0; i < 501; ++i) a.push_back(random_value<T>(random)), b.push_back(random_value<T>(random));
}

// Same bits, or both NaN.
template <class T> bool same(T a, T b) {
  if constexpr (std::is_floating_point_v<T>)
    return std::isnan(a) ? std::isnan(b) : a == b;
  else
    return a == b;
}

} // namespace tilewright::kernels
