// Instructions that touch memory: load, gather, store, scatter, and index.
//
// Adjacent lanes of f32, f16 and bf16 go as vectors, other adjacent ones through loops that the compiler vectorises; a
// stride of 0 is one load; anything else goes lane by lane. Lanes whose mask is off are never touched.
#pragma once
#include "target/cpu/kernels/vector_storage_inl.h"

namespace tilewright::kernels {
namespace TW_ISA {
namespace {

// First lane of a pointer at this step. Elements behind it are `lane` apart.
template <class S> TW_INLINE S* address(const Pointer& p, const Block& b) {
  return static_cast<S*>(p.base) + p.outer * b.outer + p.inner * b.inner + p.lane * b.lane;
}

template <class S> TW_INLINE ElementFor<S> immediate(const Instruction& i) {
  return is_float_element<ElementFor<S>> ? static_cast<ElementFor<S>>(i.real) : static_cast<ElementFor<S>>(i.integer);
}

template <class S> void load_adjacent(const S* from, ElementFor<S>* to, int count) {
  if constexpr (is_vector_storage<S>)
    by_vectors(
        count, [&](std::int64_t k, auto whole) __attribute__((always_inline)) {
          constexpr bool all = decltype(whole)::value;
          store_if<all>(load_if<all>(from + k, count - k), to + k, count - k);
        });
  else
    each_lane(
        to, count, [&](int k) __attribute__((always_inline)) { return widen(from[k]); });
}

template <class S>
void load_masked(const S* from, std::int64_t lane, const std::uint8_t* mask, ElementFor<S> off, ElementFor<S>* to,
                 int count) {
  if constexpr (masked_memory && sizeof(S) == 4 && is_float_element<S>)
    if (lane == 1)
      return by_vectors(
          count, [&](std::int64_t k, auto whole) __attribute__((always_inline)) {
            constexpr bool all = decltype(whole)::value;
            Mask on = load_mask(mask + k);
            if constexpr (!all) on = hn::And(on, hn::FirstN(D(), static_cast<std::size_t>(count - k)));
            const V read = hn::MaskedLoad(on, D(), from + k);
            store_if<all>(hn::IfThenElse(on, read, hn::Set(D(), off)), to + k, count - k);
          });
  for (int k = 0; k < count; ++k) to[k] = mask[k] ? widen(from[k * lane]) : off;
}

template <class S> void load_lanes(const Instruction& i, const Block& b) {
  const Pointer& p = b.frame->pointers[i.slot];
  const S* const from = address<const S>(p, b);
  auto* const to = reg<ElementFor<S>>(b, i.dst);
  if (i.mask >= 0) return load_masked(from, p.lane, reg<std::uint8_t>(b, i.mask), immediate<S>(i), to, b.count);
  if (p.lane == 1) return load_adjacent(from, to, b.count);
  if (p.lane == 0) {
    const auto value = widen(*from);
    return each_lane(
        to, b.count, [&](int) __attribute__((always_inline)) { return value; });
  }
  for (int k = 0; k < b.count; ++k) to[k] = widen(from[k * p.lane]);
}

template <class S> void gather_lanes(const Instruction& i, const Block& b) {
  const Pointer& p = b.frame->pointers[i.slot];
  const S* const from = static_cast<const S*>(p.base) + p.outer * b.outer + p.inner * b.inner;
  const std::int64_t* const offset = reg<std::int64_t>(b, i.a);
  auto* const to = reg<ElementFor<S>>(b, i.dst);
  if (i.mask < 0) {
    for (int k = 0; k < b.count; ++k) to[k] = widen(from[offset[k]]);
    return;
  }
  const std::uint8_t* const mask = reg<std::uint8_t>(b, i.mask);
  const auto off = immediate<S>(i);
  for (int k = 0; k < b.count; ++k) to[k] = mask[k] ? widen(from[offset[k]]) : off;
}

template <class S> void store_adjacent(const ElementFor<S>* from, S* to, int count) {
  if constexpr (is_vector_storage<S>)
    by_vectors(
        count, [&](std::int64_t k, auto whole) __attribute__((always_inline)) {
          store_if<decltype(whole)::value>(load(from + k), to + k, count - k);
        });
  else
    for (int k = 0; k < count; ++k) narrow_to(from[k], to + k);
}

template <class S> void store_lanes(const Instruction& i, const Block& b) {
  const Pointer& p = b.frame->pointers[i.slot];
  S* const to = address<S>(p, b);
  const auto* const from = reg<ElementFor<S>>(b, i.a);
  if (i.mask < 0 && p.lane == 1) return store_adjacent(from, to, b.count);
  const std::uint8_t* const mask = i.mask < 0 ? nullptr : reg<std::uint8_t>(b, i.mask);
  for (int k = 0; k < b.count; ++k)
    if (!mask || mask[k]) narrow_to(from[k], to + k * p.lane);
}

template <class S> void scatter_lanes(const Instruction& i, const Block& b) {
  const Pointer& p = b.frame->pointers[i.slot];
  S* const to = static_cast<S*>(p.base) + p.outer * b.outer + p.inner * b.inner;
  const auto* const from = reg<ElementFor<S>>(b, i.a);
  const std::int64_t* const offset = reg<std::int64_t>(b, i.b);
  const std::uint8_t* const mask = i.mask < 0 ? nullptr : reg<std::uint8_t>(b, i.mask);
  for (int k = 0; k < b.count; ++k)
    if (!mask || mask[k]) narrow_to(from[k], to + offset[k]);
}

// The storage type is looked up once a block.
inline void load_any(const Instruction& i, const Block& b) {
  for_dtype(i.dtype, [&](auto* type) { load_lanes<std::remove_pointer_t<decltype(type)>>(i, b); });
}
inline void gather_any(const Instruction& i, const Block& b) {
  for_dtype(i.dtype, [&](auto* type) { gather_lanes<std::remove_pointer_t<decltype(type)>>(i, b); });
}
inline void store_any(const Instruction& i, const Block& b) {
  for_dtype(i.dtype, [&](auto* type) { store_lanes<std::remove_pointer_t<decltype(type)>>(i, b); });
}
inline void scatter_any(const Instruction& i, const Block& b) {
  for_dtype(i.dtype, [&](auto* type) { scatter_lanes<std::remove_pointer_t<decltype(type)>>(i, b); });
}

inline void index_lanes(const Instruction& i, const Block& b) {
  const IndexValue& v = b.frame->indices[i.slot];
  const std::int64_t first = v.start + v.outer * b.outer + v.inner * b.inner + v.lane * b.lane;
  each_lane(
      reg<std::int64_t>(b, i.dst), b.count, [&](int k) __attribute__((always_inline)) { return first + k * v.lane; });
}

} // namespace
} // namespace TW_ISA
} // namespace tilewright::kernels
