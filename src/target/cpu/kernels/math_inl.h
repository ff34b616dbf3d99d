// Elementary functions of f32 vectors, to 2 ulp and better (tests/target/cpu/math_test.cpp measures them): range
// reduction, a minimax polynomial whose coefficients were fitted for this file (Lawson iterations, rounded one by one),
// and the special values.
//
//   exp   x = n ln2 + r;  2^n (1 + r + r^2 q(r))       tanh  small: x + x^3 p(x^2);  else 1 - 2 / (exp(2|x|) + 1)
//   log   x = 2^n (1 + f); f - f^2/2 + f^3 p(f) + n ln2  erf  small: x + x p(x^2);    else 1 - exp(p(|x|))
//   sin, cos   x = n pi/2 + r with pi/2 in three parts; arguments past 10000 go to libm, lane by lane
#pragma once
#include "target/cpu/kernels/simd_inl.h"

namespace tilewright::kernels {
namespace TW_ISA {
namespace {

// c[0] + c[1] x + c[2] x^2 + ...
template <int n> TW_INLINE V polynomial(V x, const float (&c)[n]) {
  V sum = hn::Set(D(), c[n - 1]);
  unroll<n - 1>(TW_UNROLLED(i) { sum = hn::MulAdd(sum, x, hn::Set(D(), c[n - 2 - decltype(i)::value])); });
  return sum;
}

TW_INLINE V power_of_two(VI n) { // -127 < n < 128
  return hn::BitCast(D(), hn::ShiftLeft<23>(hn::Add(n, hn::Set(DI(), 127))));
}

constexpr float ln2_high = 0x1.62e8p-1f, ln2_low = -0x1.e8082ep-16f; // 14 bits: n * ln2_high is exact

// 2^n y for whole n <= -126, and y in (1/2, 2): bits shifted, to nearest even. A product that is subnormal or becomes 0 would cost
// a core 150 cycles each time, and of weights that are normalised many are as good as none.
HWY_NOINLINE inline V shifted_down(V y, V n) {
  const DI d;
  const VI bits = hn::BitCast(d, y), one = hn::Set(d, 1), most = hn::Set(d, 26); // beyond all is lost
  const VI exponent = hn::Add(hn::Sub(hn::ShiftRight<23>(bits), hn::Set(d, 127)), hn::ConvertTo(d, n));
  const VI shift = hn::Min(most, hn::Max(hn::Zero(d), hn::Sub(hn::Set(d, -126), exponent)));
  const VI m = hn::Or(hn::And(bits, hn::Set(d, 0x7fffff)), hn::Set(d, 0x800000));
  const VI half = hn::Shr(hn::Shl(one, shift), one), odd = hn::And(hn::Shr(m, shift), one);
  const VI up = hn::IfThenElseZero(hn::Gt(shift, hn::Zero(d)), hn::Add(hn::Sub(half, one), odd));
  return hn::BitCast(D(), hn::Shr(hn::Add(m, up), shift));
}

// 2^n y for whole n and y in (1/2, 2): down to subnormals, up to inf.
TW_INLINE V times_power_of_two(V y, V n) {
  const auto low = hn::Lt(n, hn::Set(D(), -125.0f));
#if HWY_TARGET == HWY_AVX3
  const V result{_mm512_maskz_scalef_ps(static_cast<__mmask16>(~low.raw), y.raw, n.raw)};
#else
  const VI whole = hn::ConvertTo(DI(), hn::IfThenZeroElse(low, n)), first = hn::ShiftRight<1>(whole);
  const V result = hn::Mul(hn::Mul(y, power_of_two(first)), power_of_two(hn::Sub(whole, first)));
#endif
  if (HWY_LIKELY(hn::AllFalse(D(), low))) return result;
  return hn::IfThenElse(low, shifted_down(y, n), result);
}

[[maybe_unused]] TW_INLINE V exp(V x) {
  const D d;
  x = min_limit(hn::Set(d, 89.0f), max_limit(hn::Set(d, -105.0f), x)); // beyond are infinity and zero
  const V n = hn::Round(hn::Mul(x, hn::Set(d, 1.44269504f)));
  V r = hn::NegMulAdd(n, hn::Set(d, ln2_high), x);
  r = hn::NegMulAdd(n, hn::Set(d, ln2_low), r);
  const V q = polynomial(r, {0.5f, 0.166666657f, 0.041666463f, 0.00833357126f, 0.00139350968f, 0.00019739561f});
  const V y = hn::Add(hn::MulAdd(hn::Mul(r, r), q, r), hn::Set(d, 1.0f));
  const V result = times_power_of_two(y, n);
  return HWY_TARGET == HWY_AVX3 ? result : hn::IfThenElse(hn::IsNaN(x), x, result);
}

[[maybe_unused]] TW_INLINE V log(V x) {
  const D d;
  const DI di;
  const V infinity = hn::Set(d, bits_to_float(0x7f800000u)), zero = hn::Zero(d);
  const auto tiny = hn::Lt(x, hn::Set(d, 0x1p-126f));
  const V scaled = hn::IfThenElse(tiny, hn::Mul(x, hn::Set(d, 0x1p23f)), x);
  // Subtracting the bits of sqrt(1/2) makes the exponent's field that of x = 2^n m with m in [sqrt(1/2), sqrt(2)).
  const VI half = hn::Set(di, 0x3f3504f3);
  const VI offset = hn::Sub(hn::BitCast(di, scaled), half);
  const V m = hn::BitCast(d, hn::Add(hn::And(offset, hn::Set(di, 0x007fffff)), half));
  const V exponent = hn::ConvertTo(d, hn::ShiftRight<23>(offset));
  const V n = hn::Sub(exponent, hn::IfThenElseZero(tiny, hn::Set(d, 23.0f)));
  const V f = hn::Sub(m, hn::Set(d, 1.0f)), square = hn::Mul(f, f);
  const V p = polynomial(f, {0.333333135f, -0.250000089f, 0.20002076f, -0.166680068f, 0.142202392f, -0.124056652f,
                             0.118839741f, -0.116744928f, 0.0675402135f});
  V y = hn::Mul(hn::Mul(square, f), p);
  y = hn::MulAdd(n, hn::Set(d, ln2_low), y);
  y = hn::NegMulAdd(square, hn::Set(d, 0.5f), y);
  y = hn::MulAdd(n, hn::Set(d, ln2_high), hn::Add(f, y));
  y = hn::IfThenElse(hn::Eq(x, infinity), x, y);
  y = hn::IfThenElse(hn::Eq(x, zero), hn::Neg(infinity), y);
  const V nan = hn::Set(d, bits_to_float(0x7fc00000u));
  return hn::IfThenElse(hn::Lt(x, zero), nan, hn::IfThenElse(hn::IsNaN(x), x, y));
}

[[maybe_unused]] TW_INLINE V tanh(V x) {
  const D d;
  const V one = hn::Set(d, 1.0f), size = hn::Abs(x), u = hn::Mul(x, x);
  const V p =
      polynomial(u, {-0.333333313f, 0.133332223f, -0.053948462f, 0.0217087492f, -0.00819508638f, 0.00215763575f});
  const V small = hn::MulAdd(hn::Mul(x, u), p, x);
  const V e = exp(hn::Add(size, size));
  const V large = hn::CopySign(hn::Sub(one, hn::Div(hn::Set(d, 2.0f), hn::Add(e, one))), x);
  return hn::IfThenElse(hn::Lt(size, hn::Set(d, 0.625f)), small, large);
}

[[maybe_unused]] TW_INLINE V erf(V x) {
  const D d;
  const V size = hn::Abs(x), u = hn::Mul(x, x);
  const V p = polynomial(
      u, {0.128379166f, -0.376126289f, 0.112836242f, -0.02685556f, 0.00519175315f, -0.000803975272f, 7.94310035e-05f});
  const V small = hn::MulAdd(x, p, x);
  // Anchored where 1 - erf is largest: an error of q moves the result by 1 - erf times as much, so that only the first
  // terms have to be accurate. 1 - erf(4) is below half an ulp of 1.
  const V t = hn::Sub(min_limit(hn::Set(d, 4.0f), size), hn::Set(d, 0.9f));
  const V q = polynomial(
      t, {-1.59409726f, -2.47163296f, -0.830032706f, -0.0456974246f, 0.0108885597f, -0.00196313066f, 0.000189257829f});
  const V large = hn::CopySign(hn::Sub(hn::Set(d, 1.0f), exp(q)), x);
  return hn::IfThenElse(hn::Lt(size, hn::Set(d, 0.9f)), small, large);
}

// 0.5 (1 + erf(x / sqrt 2)), to 8e-8: the smaller of it and what is left to 1 is 2^p(|x|).
[[maybe_unused]] TW_INLINE V normal_share(V x) {
  const D d;
  const V one = hn::Set(d, 1.0f);
  V p = polynomial(hn::Abs(x), {-1.0f, -1.15110576f, -0.459204912f, -0.0525050126f, 0.00707545178f, -0.000145856f,
                                -0.000182553034f, 3.86218126e-05f, -2.77213189e-06f});
  p = max_limit(hn::Set(d, -160.0f), p);
  const V n = hn::Round(p), r = hn::Sub(p, n);
  const V q =
      polynomial(r, {0.693147182f, 0.240226477f, 0.0555033237f, 0.00961843692f, 0.00133988809f, 0.000153533721f});
  const V less = times_power_of_two(hn::MulAdd(r, q, one), n);
  return hn::IfThenElse(hn::Lt(x, hn::Zero(d)), less, hn::Sub(one, less));
}

// sin(x + quarter * pi/2)
template <int quarter> TW_INLINE V sine(V x) {
  const D d;
  const DI di;
  const V n = hn::Round(hn::Mul(x, hn::Set(d, 0.636619772f)));
  V r = hn::NegMulAdd(n, hn::Set(d, 0x1.921fb6p+0f), x);
  r = hn::NegMulAdd(n, hn::Set(d, -0x1.777a5cp-25f), r);
  r = hn::NegMulAdd(n, hn::Set(d, -0x1.ee59dap-50f), r);
  const V u = hn::Mul(r, r);
  const V sin_p = polynomial(u, {-0.166666672f, 0.00833338033f, -0.000198534981f, 2.83724762e-06f});
  const V cos_p = polynomial(u, {0.0416666679f, -0.00138889824f, 2.48229699e-05f, -2.89744861e-07f});
  const V sin_r = hn::MulAdd(hn::Mul(r, u), sin_p, r);
  const V cos_r = hn::MulAdd(hn::Mul(u, u), cos_p, hn::NegMulAdd(u, hn::Set(d, 0.5f), hn::Set(d, 1.0f)));
  const VI turn = hn::Add(hn::ConvertTo(di, n), hn::Set(di, quarter));
  const auto odd = hn::RebindMask(d, hn::Eq(hn::And(turn, hn::Set(di, 1)), hn::Set(di, 1)));
  const V sign = hn::BitCast(d, hn::ShiftLeft<30>(hn::And(turn, hn::Set(di, 2))));
  return hn::Xor(hn::IfThenElse(odd, cos_r, sin_r), sign);
}

template <int quarter> TW_INLINE V sine_anywhere(V x) {
  constexpr float limit = scalar_vectors ? 0.0f : 10000.0f; // the reduction needs a fused multiply-add
  if (HWY_LIKELY(hn::AllTrue(D(), hn::Lt(hn::Abs(x), hn::Set(D(), limit))))) return sine<quarter>(x);
  alignas(64) float v[lanes];
  store(x, v);
  for (int i = 0; i < lanes; ++i) v[i] = quarter ? ::cosf(v[i]) : ::sinf(v[i]);
  return load(v);
}
[[maybe_unused]] TW_INLINE V sin(V x) { return sine_anywhere<0>(x); }
[[maybe_unused]] TW_INLINE V cos(V x) { return sine_anywhere<1>(x); }

[[maybe_unused]] TW_INLINE V sigmoid(V x) {
  const V one = hn::Set(D(), 1.0f);
  return hn::Div(one, hn::Add(one, exp(hn::Neg(x))));
}

// log(1 + exp(x)) = max(x, 0) + log(1 + exp(-|x|)), the last term by log1p(e) = log(u) e / (u - 1) with u = 1 + e.
[[maybe_unused]] TW_INLINE V softplus(V x) {
  const D d;
  const V one = hn::Set(d, 1.0f), zero = hn::Zero(d), e = exp(hn::Neg(hn::Abs(x))), u = hn::Add(one, e);
  const V rest = hn::Sub(u, one);
  const V log1p = hn::IfThenElse(hn::Eq(rest, zero), e, hn::Div(hn::Mul(log(u), e), rest));
  return hn::Add(max_limit(zero, x), log1p);
}

// exp(x) - 1. Near 0 the difference would cancel: with u = exp(x), (u - 1) x / log(u) is accurate there.
[[maybe_unused]] TW_INLINE V expm1(V x) {
  const D d;
  const V one = hn::Set(d, 1.0f), u = exp(x), rest = hn::Sub(u, one);
  const V near = hn::IfThenElse(hn::Eq(rest, hn::Zero(d)), x, hn::Div(hn::Mul(rest, x), log(u)));
  return hn::IfThenElse(hn::Lt(hn::Abs(x), hn::Set(d, 0.5f)), near, rest);
}

} // namespace
} // namespace TW_ISA
} // namespace tilewright::kernels
