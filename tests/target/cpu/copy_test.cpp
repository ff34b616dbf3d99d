#include "target/cpu/kernels_testing.h"

namespace tilewright::kernels {
namespace {

using CopyTest = OnEveryIsa;
TW_ON_EVERY_ISA(CopyTest);

// Strides under which no two elements meet: one dimension inside the other, or interleaved.
void choose_strides(Random& random, std::int64_t rows, std::int64_t columns, std::int64_t& row, std::int64_t& column) {
  const std::int64_t inner = random.chance(0.7) ? 1 : random.in(1, 3), gap = random.in(0, 2);
  if (random.chance(0.5))
    column = inner, row = columns * inner + gap;
  else
    row = inner, column = rows * inner + gap;
}

void check_case(const Kernels& leaf, unsigned seed) {
  SCOPED_TRACE("seed " + std::to_string(seed));
  Random random(seed);
  Copy c = {.rows = random.in(0, 70), .columns = random.in(0, 70), .bytes = random.of({1, 2, 4, 8})};
  const DType type = c.bytes == 1 ? DType::u8 : c.bytes == 2 ? DType::f16 : c.bytes == 4 ? DType::i32 : DType::i64;
  choose_strides(random, c.rows, c.columns, c.src_row, c.src_column);
  choose_strides(random, c.rows, c.columns, c.dst_row, c.dst_column);
  const auto span = [&](std::int64_t row, std::int64_t column) {
    return c.rows * c.columns == 0 ? 0 : (c.rows - 1) * row + (c.columns - 1) * column + 1;
  };
  Stored src(type, span(c.src_row, c.src_column)), dst(type, span(c.dst_row, c.dst_column));
  auto* bytes = src.as<unsigned char>();
  for (std::int64_t i = 0; i < src.count() * c.bytes; ++i) bytes[i] = static_cast<unsigned char>(random.in(0, 0x39));
  c.src = src.data(), c.dst = dst.data();
  leaf.copy(c);
  std::vector<bool> written(static_cast<std::size_t>(dst.count()), false);
  for (std::int64_t r = 0; r < c.rows; ++r)
    for (std::int64_t k = 0; k < c.columns; ++k) {
      const std::int64_t from = r * c.src_row + k * c.src_column, to = r * c.dst_row + k * c.dst_column;
      written[static_cast<std::size_t>(to)] = true;
      ASSERT_EQ(std::memcmp(src.as<char>() + from * c.bytes, dst.as<char>() + to * c.bytes,
                            static_cast<std::size_t>(c.bytes)),
                0)
          << r << ", " << k;
    }
  for (std::int64_t i = 0; i < dst.count(); ++i)
    ASSERT_TRUE(written[static_cast<std::size_t>(i)] || dst.untouched(i)) << i;
  const std::uint64_t value = 0x0102030405060708;
  leaf.fill({.rows = c.rows,
             .columns = c.columns,
             .bytes = c.bytes,
             .value = value,
             .dst = c.dst,
             .dst_row = c.dst_row,
             .dst_column = c.dst_column});
  for (std::int64_t i = 0; i < dst.count(); ++i)
    ASSERT_TRUE(written[static_cast<std::size_t>(i)]
                    ? std::memcmp(dst.as<char>() + i * c.bytes, &value, static_cast<std::size_t>(c.bytes)) == 0
                    : dst.untouched(i));
}

TEST_P(CopyTest, MovesEveryElementAndNoOther) {
  for (int i = 0; i < cases(500); ++i) check_case(leaf(), static_cast<unsigned>(i));
}

TEST_P(CopyTest, ConvertsEveryHalfBothWays) {
  for (DType half : {DType::f16, DType::bf16}) {
    std::vector<std::uint16_t> all(65536), back(65536);
    std::vector<float> wide(65536);
    for (std::size_t i = 0; i < 65536; ++i) all[i] = static_cast<std::uint16_t>(i);
    leaf().convert({.count = 65536, .src = all.data(), .src_type = half, .dst = wide.data(), .dst_type = DType::f32});
    leaf().convert({.count = 65536, .src = wide.data(), .src_type = DType::f32, .dst = back.data(), .dst_type = half});
    for (std::size_t i = 0; i < 65536; ++i) {
      const float want = half == DType::f16 ? f16_to_f32(all[i]) : bf16_to_f32(all[i]);
      if (std::isnan(want)) {
        ASSERT_TRUE(std::isnan(wide[i]));
        continue;
      }
      ASSERT_EQ(std::memcmp(&wide[i], &want, 4), 0) << i;
      ASSERT_EQ(back[i], all[i]);
    }
  }
}

TEST_P(CopyTest, RoundsToNearestEven) {
  Random random(1);
  std::vector<float> values;
  for (int i = 0; i < 200000; ++i) {
    std::uint32_t bits = random.engine()();
    if (i % 2) bits = (bits & 0x80ffffffu) | (0x33u + bits % 0x16u) << 24; // around the range of f16
    if (i % 8 == 1) bits &= 0xfffff000u;                                   // halfway cases
    values.push_back(std::bit_cast<float>(bits));
  }
  std::vector<std::uint16_t> half(values.size());
  for (DType type : {DType::f16, DType::bf16}) {
    leaf().convert({.count = static_cast<std::int64_t>(values.size()),
                    .src = values.data(),
                    .dst = half.data(),
                    .dst_type = type});
    for (std::size_t i = 0; i < values.size(); ++i)
      if (!std::isnan(values[i])) {
        ASSERT_EQ(half[i], type == DType::f16 ? f32_to_f16(values[i]) : f32_to_bf16(values[i])) << values[i];
      }
  }
}

TEST_P(CopyTest, ConvertsAnyCountWithoutTouchingMore) {
  for (std::int64_t n = 0; n < 70; ++n)
    for (DType from : {DType::f32, DType::f16, DType::bf16})
      for (DType to : {DType::f32, DType::f16, DType::bf16}) {
        Stored src(from, n), dst(to, n);
        for (std::int64_t i = 0; i < n; ++i) src.set(i, double(i) - 20);
        leaf().convert({.count = n, .src = src.data(), .src_type = from, .dst = dst.data(), .dst_type = to});
        for (std::int64_t i = 0; i < n; ++i) ASSERT_EQ(dst.get(i), double(i) - 20);
      }
}

} // namespace
} // namespace tilewright::kernels
