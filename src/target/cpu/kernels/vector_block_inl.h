// What an instruction of the block-vector interpreter works on, and the loops that the handlers of instructions are
// made of.
//
// Floats go through Highway; f64, the integers and b8 through plain loops without branches, which the compiler turns
// into vectors with the flags of this instruction set. Either way an operation writes exactly the lanes of its block:
// an accumulator's further lanes must survive a short block. Whole vectors may be read, since registers are as long as
// the longest block.
#pragma once
#include "target/cpu/kernels/math_inl.h"

namespace tilewright::kernels {
namespace TW_ISA {
namespace {

struct Block {
  char* scratch;
  const Frame* frame;
  std::int64_t outer, inner, lane; // the step, and the first lane of this block
  int count;                       // lanes
};

using Handler = void (*)(const Instruction&, const Block&);

// Lanes are independent although registers may be the same: dst = dst + a.
#if defined(__clang__)
#define TW_LANES_LOOP _Pragma("clang loop vectorize(assume_safety)")
#else
#define TW_LANES_LOOP _Pragma("GCC ivdep")
#endif

template <class T> TW_INLINE T* reg(const Block& b, std::int32_t offset) {
  return reinterpret_cast<T*>(b.scratch + offset);
}

template <Type type> struct ElementOf;
template <> struct ElementOf<Type::f32> { using type = float; };
template <> struct ElementOf<Type::f64> { using type = double; };
template <> struct ElementOf<Type::i32> { using type = std::int32_t; };
template <> struct ElementOf<Type::i64> { using type = std::int64_t; };
template <> struct ElementOf<Type::b8> { using type = std::uint8_t; };

template <class T> struct UnsignedOf;
template <> struct UnsignedOf<std::int32_t> { using type = std::uint32_t; };
template <> struct UnsignedOf<std::int64_t> { using type = std::uint64_t; };
template <class T> using Unsigned = typename UnsignedOf<T>::type;

template <class T> constexpr bool is_float_element = false;
template <> constexpr bool is_float_element<float> = true;
template <> constexpr bool is_float_element<double> = true;

// to[i] = f(i), a vector of floats starting at lane i.
template <class F> TW_INLINE void produce(float* to, int count, F&& f) {
  by_vectors(
      count, [&](std::int64_t i, auto whole)
                 __attribute__((always_inline)) { store_if<decltype(whole)::value>(f(i), to + i, count - i); });
}

// to[i] = f(i) ? 1 : 0, where f gives a mask of floats.
template <class F> TW_INLINE void produce_mask(std::uint8_t* to, int count, F&& f) {
  const hn::RebindToUnsigned<D> wide;
  const hn::Rebind<std::uint8_t, D> bytes;
  by_vectors(
      count, [&](std::int64_t i, auto whole) __attribute__((always_inline)) {
        const auto ones = hn::IfThenElseZero(hn::RebindMask(wide, f(i)), hn::Set(wide, 1u));
        const auto narrowed = hn::TruncateTo(bytes, ones);
        if constexpr (decltype(whole)::value) {
          hn::StoreU(narrowed, bytes, to + i);
        } else {
          std::uint8_t last[lanes];
          hn::StoreU(narrowed, bytes, last);
          memcpy(to + i, last, static_cast<std::size_t>(count - i));
        }
      });
}

// Bytes that are 0 or 1 as a mask of floats.
TW_INLINE Mask load_mask(const std::uint8_t* p) {
  const hn::RebindToUnsigned<D> wide;
  const hn::Rebind<std::uint8_t, D> bytes;
  return hn::RebindMask(D(), hn::Ne(hn::PromoteTo(wide, hn::LoadU(bytes, p)), hn::Zero(wide)));
}

// to[i] = f(i), one element; f must be free of branches to become vectors.
template <class T, class F> TW_INLINE void each_lane(T* to, int count, F&& f) {
  TW_LANES_LOOP
  for (int i = 0; i < count; ++i) to[i] = f(i);
}

} // namespace
} // namespace TW_ISA
} // namespace tilewright::kernels
