// copy and fill of two-dimensional strided blocks, and conversion among the storage types of floats.
//
// A copy is normalised first: if the columns are adjacent on both sides, rows are moved whole; if they are adjacent on
// one side and the rows on the other, it is a transpose, done in blocks of 16 x 16 so that both sides use whole cache
// lines, with 4 x 4 transposes in registers for elements of 4 bytes; else element by element.
#pragma once
#include "target/cpu/kernels/transpose_inl.h"

namespace tilewright::kernels {
namespace TW_ISA {
namespace {

template <class T> struct Matrix {
  T* data;
  std::int64_t row, column;
};

template <class T> void copy_elements(Matrix<const T> src, Matrix<T> dst, std::int64_t rows, std::int64_t columns) {
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t c = 0; c < columns; ++c)
      dst.data[r * dst.row + c * dst.column] = src.data[r * src.row + c * src.column];
}

template <class T> void copy_rows(Matrix<const T> src, Matrix<T> dst, std::int64_t rows, std::int64_t columns) {
  if (src.row == columns && dst.row == columns) columns *= rows, rows = rows ? 1 : 0;
  for (std::int64_t r = 0; r < rows; ++r)
    memcpy(dst.data + r * dst.row, src.data + r * src.row, static_cast<std::size_t>(columns) * sizeof(T));
}

template <class T> void copy_transposed(Matrix<const T> src, Matrix<T> dst, std::int64_t rows, std::int64_t columns) {
  constexpr std::int64_t block = 16;
  for (std::int64_t r0 = 0; r0 < rows; r0 += block) {
    const std::int64_t r_end = least(rows, r0 + block), r_four = r0 + (r_end - r0) / 4 * 4;
    for (std::int64_t c0 = 0; c0 < columns; c0 += block) {
      const std::int64_t c_end = least(columns, c0 + block), c_four = c0 + (c_end - c0) / 4 * 4;
      for (std::int64_t r = r0; r < r_four; r += 4)
        for (std::int64_t c = c0; c < c_four; c += 4)
          transpose_4x4(src.data + r * src.row + c, src.row, dst.data + c * dst.column + r, dst.column);
      for (std::int64_t c = c_four; c < c_end; ++c)
        for (std::int64_t r = r0; r < r_four; ++r) dst.data[c * dst.column + r] = src.data[r * src.row + c];
      for (std::int64_t c = c0; c < c_end; ++c)
        for (std::int64_t r = r_four; r < r_end; ++r) dst.data[c * dst.column + r] = src.data[r * src.row + c];
    }
  }
}

template <class T> void copy_of(const Copy& c) {
  const Matrix<const T> src{static_cast<const T*>(c.src), c.src_row, c.src_column};
  const Matrix<T> dst{static_cast<T*>(c.dst), c.dst_row, c.dst_column};
  const Matrix<const T> src_t{src.data, src.column, src.row};
  const Matrix<T> dst_t{dst.data, dst.column, dst.row};
  if (src.column == 1 && dst.column == 1)
    copy_rows(src, dst, c.rows, c.columns);
  else if (src.row == 1 && dst.row == 1)
    copy_rows(src_t, dst_t, c.columns, c.rows);
  else if (src.column == 1 && dst.row == 1)
    copy_transposed(src, dst, c.rows, c.columns);
  else if (src.row == 1 && dst.column == 1)
    copy_transposed(src_t, dst_t, c.columns, c.rows);
  else if (c.columns >= c.rows)
    copy_elements(src, dst, c.rows, c.columns);
  else
    copy_elements(src_t, dst_t, c.columns, c.rows);
}

inline void copy_block(const Copy& c) {
  switch (c.bytes) {
  case 1: return copy_of<std::uint8_t>(c);
  case 2: return copy_of<std::uint16_t>(c);
  case 4: return copy_of<std::uint32_t>(c);
  default: return copy_of<std::uint64_t>(c);
  }
}

template <class T> void fill_of(const Fill& f) {
  const T value = static_cast<T>(f.value);
  for (std::int64_t r = 0; r < f.rows; ++r) {
    T* const p = static_cast<T*>(f.dst) + r * f.dst_row;
    if (f.dst_column == 1)
      for (std::int64_t c = 0; c < f.columns; ++c) p[c] = value;
    else
      for (std::int64_t c = 0; c < f.columns; ++c) p[c * f.dst_column] = value;
  }
}

inline void fill_block(const Fill& f) {
  switch (f.bytes) {
  case 1: return fill_of<std::uint8_t>(f);
  case 2: return fill_of<std::uint16_t>(f);
  case 4: return fill_of<std::uint32_t>(f);
  default: return fill_of<std::uint64_t>(f);
  }
}

inline void convert_block(const Convert& c) {
  for_storage(c.src_type, [&](auto* from) {
    for_storage(c.dst_type, [&](auto* to) {
      const auto* src = static_cast<decltype(from)>(const_cast<void*>(c.src));
      auto* dst = static_cast<decltype(to)>(c.dst);
      by_vectors(
          c.count, [&](std::int64_t i, auto whole) __attribute__((always_inline)) {
            constexpr bool all = decltype(whole)::value;
            store_if<all>(load_if<all>(src + i, c.count - i), dst + i, c.count - i);
          });
    });
  });
}

} // namespace
} // namespace TW_ISA
} // namespace tilewright::kernels
