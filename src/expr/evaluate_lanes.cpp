#include "expr/evaluate_lanes.h"

#include "expr/fold.h"
#include "support/error.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>

namespace tilewright::evaluator {

namespace {

// Calls f with a null pointer of the lane's type: f([](auto* tag) { using T = ...; }).
template <class F> void with_type(Lane lane, F f) {
  switch (lane) {
  case Lane::i32: return f(static_cast<std::int32_t*>(nullptr));
  case Lane::i64: return f(static_cast<std::int64_t*>(nullptr));
  case Lane::f32: return f(static_cast<float*>(nullptr));
  case Lane::f64: return f(static_cast<double*>(nullptr));
  }
}
template <class Tag> using type_of = std::remove_pointer_t<Tag>;

template <class T, class F> void each(int n, const void* a, void* out, F f) {
  const T* x = static_cast<const T*>(a);
  auto* y = static_cast<decltype(f(T()))*>(out);
  for (int l = 0; l < n; ++l) y[l] = f(x[l]);
}

template <class T, class F> void each(int n, const void* a, const void* b, void* out, F f) {
  const T *x = static_cast<const T*>(a), *y = static_cast<const T*>(b);
  auto* z = static_cast<decltype(f(T(), T()))*>(out);
  for (int l = 0; l < n; ++l) z[l] = f(x[l], y[l]);
}

// Integers wrap around, floats are IEEE.
template <class T> struct Ring {
  static T add(T a, T b) { return a + b; }
  static T sub(T a, T b) { return a - b; }
  static T mul(T a, T b) { return a * b; }
};
template <class T>
requires std::is_integral_v<T>
struct Ring<T> {
  using U = std::make_unsigned_t<T>;
  static T add(T a, T b) { return static_cast<T>(static_cast<U>(a) + static_cast<U>(b)); }
  static T sub(T a, T b) { return static_cast<T>(static_cast<U>(a) - static_cast<U>(b)); }
  static T mul(T a, T b) { return static_cast<T>(static_cast<U>(a) * static_cast<U>(b)); }
};

template <class T> bool not_a_number(T a) {
  if constexpr (std::is_floating_point_v<T>) return a != a;
  return false;
}
template <class T> T larger(T a, T b) { return b > a || not_a_number(b) ? b : a; }
template <class T> T smaller(T a, T b) { return b < a || not_a_number(b) ? b : a; }

template <class T> T divided(T a, T b) {
  if constexpr (std::is_integral_v<T>) return b == 0 ? T(0) : b == -1 ? Ring<T>::sub(0, a) : T(a / b);
  return a / b;
}

template <class T> T floor_divided(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    if (b == 0 || b == -1) return divided(a, b);
    return static_cast<T>(a / b - ((a % b != 0) && ((a < 0) != (b < 0))));
  } else {
    return std::floor(a / b);
  }
}

template <class T> T remainder(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    if (b == 0 || b == -1) return 0;
    T r = static_cast<T>(a % b);
    return r != 0 && ((r < 0) != (b < 0)) ? static_cast<T>(r + b) : r;
  } else {
    T r = std::fmod(a, b);
    if (r == 0) return std::copysign(r, b);
    return (r < 0) != (b < 0) ? r + b : r;
  }
}

template <class T> T power(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    if (b < 0) return a == 1 ? T(1) : a == -1 ? (b % 2 == 0 ? T(1) : T(-1)) : T(0);
    T result = 1;
    for (; b > 0; b >>= 1, a = Ring<T>::mul(a, a))
      if (b & 1) result = Ring<T>::mul(result, a);
    return result;
  } else {
    return real_power(a, b);
  }
}

template <class T> T shifted_left(T a, T b) {
  using U = std::make_unsigned_t<T>;
  return b < 0 || b >= T(8 * sizeof(T)) ? T(0) : static_cast<T>(static_cast<U>(a) << b);
}
template <class T> T shifted_right(T a, T b) {
  constexpr T last = 8 * sizeof(T) - 1;
  return static_cast<T>(a >> (b < 0 || b > last ? last : b));
}

template <class T> void bits(Op op, int n, const void* a, const void* b, void* out) {
  switch (op) {
  case Op::bit_and:
  case Op::logical_and: return each<T>(n, a, b, out, [](T x, T y) -> T { return x & y; });
  case Op::bit_or:
  case Op::logical_or: return each<T>(n, a, b, out, [](T x, T y) -> T { return x | y; });
  case Op::bit_xor: return each<T>(n, a, b, out, [](T x, T y) -> T { return x ^ y; });
  case Op::shift_left: return each<T>(n, a, b, out, shifted_left<T>);
  case Op::shift_right: return each<T>(n, a, b, out, shifted_right<T>);
  default: TW_ASSERT(!"an operator of two integers");
  }
}

template <class T> void arithmetic(Op op, int n, const void* a, const void* b, void* out) {
  switch (op) {
  case Op::add: return each<T>(n, a, b, out, [](T x, T y) { return Ring<T>::add(x, y); });
  case Op::sub: return each<T>(n, a, b, out, [](T x, T y) { return Ring<T>::sub(x, y); });
  case Op::mul: return each<T>(n, a, b, out, [](T x, T y) { return Ring<T>::mul(x, y); });
  case Op::div: return each<T>(n, a, b, out, [](T x, T y) { return divided(x, y); });
  case Op::floor_div: return each<T>(n, a, b, out, [](T x, T y) { return floor_divided(x, y); });
  case Op::mod: return each<T>(n, a, b, out, [](T x, T y) { return remainder(x, y); });
  case Op::min: return each<T>(n, a, b, out, [](T x, T y) { return smaller(x, y); });
  case Op::max: return each<T>(n, a, b, out, [](T x, T y) { return larger(x, y); });
  case Op::pow: return each<T>(n, a, b, out, [](T x, T y) { return power(x, y); });
  default:
    if constexpr (std::is_integral_v<T>) return bits<T>(op, n, a, b, out);
    TW_ASSERT(!"an operator of two numbers");
  }
}

template <class T> void transcendental(Op op, int n, const void* a, void* out) {
  const RealFunction function = real_function(op);
  TW_ASSERT(function != nullptr);
  each<T>(n, a, out, [function](T x) { return static_cast<T>(function(static_cast<double>(x))); });
}

template <class T> void unary_float(Op op, int n, const void* a, void* out) {
  switch (op) {
  case Op::neg: return each<T>(n, a, out, [](T x) { return -x; });
  case Op::abs: return each<T>(n, a, out, [](T x) { return std::fabs(x); });
  case Op::sign: return each<T>(n, a, out, [](T x) { return x > 0 ? T(1) : x < 0 ? T(-1) : x; });
  case Op::floor: return each<T>(n, a, out, [](T x) { return std::floor(x); });
  case Op::ceil: return each<T>(n, a, out, [](T x) { return std::ceil(x); });
  case Op::round: return each<T>(n, a, out, [](T x) { return std::nearbyint(x); });
  case Op::trunc: return each<T>(n, a, out, [](T x) { return std::trunc(x); });
  case Op::sqrt: return each<T>(n, a, out, [](T x) { return std::sqrt(x); });
  default: return transcendental<T>(op, n, a, out);
  }
}

template <class T> void unary_integer(Op op, int n, const void* a, void* out) {
  switch (op) {
  case Op::neg: return each<T>(n, a, out, [](T x) { return Ring<T>::sub(0, x); });
  case Op::abs: return each<T>(n, a, out, [](T x) { return x < 0 ? Ring<T>::sub(0, x) : x; });
  case Op::sign: return each<T>(n, a, out, [](T x) -> T { return T(x > 0) - T(x < 0); });
  case Op::floor:
  case Op::ceil:
  case Op::round:
  case Op::trunc: return each<T>(n, a, out, [](T x) { return x; });
  case Op::bit_not: return each<T>(n, a, out, [](T x) -> T { return ~x; });
  case Op::logical_not: return each<T>(n, a, out, [](T x) -> T { return x == 0; });
  default: TW_ASSERT(!"a function of one integer");
  }
}

template <class T, class F> void fold(int n, void* acc, const void* value, const std::int32_t* live, F f) {
  T* a = static_cast<T*>(acc);
  const T* v = static_cast<const T*>(value);
  if (!live) {
    for (int l = 0; l < n; ++l) a[l] = f(a[l], v[l]);
  } else {
    for (int l = 0; l < n; ++l) {
      T next = f(a[l], v[l]);
      a[l] = live[l] ? next : a[l];
    }
  }
}

} // namespace

Lane lane_of(DType type) {
  switch (compute_type(type)) {
  case DType::f64: return Lane::f64;
  case DType::i64: return Lane::i64;
  case DType::i32: return Lane::i32;
  default: return Lane::f32;
  }
}

std::size_t bytes_of(Lane lane) { return lane == Lane::i32 || lane == Lane::f32 ? 4 : 8; }

DType stored_as(Lane lane) {
  switch (lane) {
  case Lane::i32: return DType::i32;
  case Lane::i64: return DType::i64;
  case Lane::f32: return DType::f32;
  case Lane::f64: break;
  }
  return DType::f64;
}

void unary(Op op, Lane lane, int n, const void* a, void* out) {
  with_type(lane, [&](auto* tag) {
    using T = type_of<decltype(tag)>;
    if constexpr (std::is_integral_v<T>)
      unary_integer<T>(op, n, a, out);
    else
      unary_float<T>(op, n, a, out);
  });
}

void binary(Op op, Lane lane, int n, const void* a, const void* b, void* out) {
  with_type(lane, [&](auto* tag) { arithmetic<type_of<decltype(tag)>>(op, n, a, b, out); });
}

void compare(Op op, Lane lane, int n, const void* a, const void* b, std::int32_t* out) {
  with_type(lane, [&](auto* tag) {
    using T = type_of<decltype(tag)>;
    switch (op) {
    case Op::eq: return each<T>(n, a, b, out, [](T x, T y) -> std::int32_t { return x == y; });
    case Op::ne: return each<T>(n, a, b, out, [](T x, T y) -> std::int32_t { return x != y; });
    case Op::lt: return each<T>(n, a, b, out, [](T x, T y) -> std::int32_t { return x < y; });
    case Op::le: return each<T>(n, a, b, out, [](T x, T y) -> std::int32_t { return x <= y; });
    case Op::gt: return each<T>(n, a, b, out, [](T x, T y) -> std::int32_t { return x > y; });
    case Op::ge: return each<T>(n, a, b, out, [](T x, T y) -> std::int32_t { return x >= y; });
    default: TW_ASSERT(!"a comparison");
    }
  });
}

void classify(Op op, Lane lane, int n, const void* a, std::int32_t* out) {
  with_type(lane, [&](auto* tag) {
    using T = type_of<decltype(tag)>;
    if constexpr (std::is_integral_v<T>)
      std::fill(out, out + n, 0);
    else if (op == Op::is_nan)
      each<T>(n, a, out, [](T x) -> std::int32_t { return x != x; });
    else
      each<T>(n, a, out, [](T x) -> std::int32_t { return std::fabs(x) == std::numeric_limits<T>::infinity(); });
  });
}

void choose(Lane lane, int n, const std::int32_t* condition, const void* a, const void* b, void* out) {
  with_type(lane, [&](auto* tag) {
    using T = type_of<decltype(tag)>;
    const T *x = static_cast<const T*>(a), *y = static_cast<const T*>(b);
    T* z = static_cast<T*>(out);
    for (int l = 0; l < n; ++l) {
      T yes = x[l], no = y[l]; // both are loaded, so that this is a blend
      z[l] = condition[l] ? yes : no;
    }
  });
}

void undefined(Op op, Lane lane, int n, const void* a, const void* b, std::int32_t found, std::int32_t* out) {
  with_type(lane, [&](auto* tag) {
    using T = type_of<decltype(tag)>;
    if (op == Op::pow)
      each<T>(n, a, b, out, [found](T x, T y) { return x == 0 && y < 0 ? found : 0; });
    else
      each<T>(n, b, out, [found](T y) { return y == 0 ? found : 0; });
  });
}

void spread(Lane lane, const void* one, int n, void* out) {
  with_type(lane, [&](auto* tag) {
    using T = type_of<decltype(tag)>;
    T value = *static_cast<const T*>(one);
    std::fill_n(static_cast<T*>(out), n, value);
  });
}

void accumulate(Reducer reducer, Lane lane, int n, void* acc, const void* value, const std::int32_t* live) {
  with_type(lane, [&](auto* tag) {
    using T = type_of<decltype(tag)>;
    switch (reducer) {
    case Reducer::sum: return fold<T>(n, acc, value, live, [](T a, T b) { return Ring<T>::add(a, b); });
    case Reducer::prod: return fold<T>(n, acc, value, live, [](T a, T b) { return Ring<T>::mul(a, b); });
    case Reducer::any: // of booleans: 0 and 1
    case Reducer::max: return fold<T>(n, acc, value, live, [](T a, T b) { return larger(a, b); });
    case Reducer::all:
    case Reducer::min: return fold<T>(n, acc, value, live, [](T a, T b) { return smaller(a, b); });
    default: TW_ASSERT(!"a reducer of one value");
    }
  });
}

void accumulate_first(Reducer reducer, Lane lane, int n, void* best, std::int64_t* at, std::int64_t position,
                      const std::int64_t* seen, const void* value, const std::int32_t* live) {
  with_type(lane, [&](auto* tag) {
    using T = type_of<decltype(tag)>;
    T* b = static_cast<T*>(best);
    const T* v = static_cast<const T*>(value);
    bool largest = reducer == Reducer::argmax;
    for (int l = 0; l < n; ++l) {
      if (live && !live[l]) continue;
      bool better = (largest ? v[l] > b[l] : v[l] < b[l]) || (not_a_number(v[l]) && !not_a_number(b[l]));
      if (seen[l] > 0 && !better) continue;
      b[l] = v[l];
      at[l] = position;
    }
  });
}

void fill_identity(Reducer reducer, Lane lane, int n, void* acc) {
  with_type(lane, [&](auto* tag) {
    using T = type_of<decltype(tag)>;
    using limits = std::numeric_limits<T>;
    T low = limits::has_infinity ? -limits::infinity() : limits::lowest();
    T high = limits::has_infinity ? limits::infinity() : limits::max();
    T value = 0;
    if (reducer == Reducer::prod || reducer == Reducer::all) value = 1;
    if (reducer == Reducer::max) value = low;
    if (reducer == Reducer::min) value = high;
    std::fill_n(static_cast<T*>(acc), n, value);
  });
}

} // namespace tilewright::evaluator
