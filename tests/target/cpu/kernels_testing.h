// Helpers for tests of the leaves: memory that faults when a leaf leaves its operand, random numbers, storage types,
// and a loop over the instruction sets that this machine runs.
#pragma once
#include "support/dtype.h"
#include "target/cpu/kernels/kernels.h"
#include <algorithm>
#include <cfloat>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <gtest/gtest.h>
#include <memory>
#include <random>
#include <string>
#include <sys/mman.h>
#include <vector>

namespace tilewright::kernels {

inline bool long_run() { return std::getenv("TILEWRIGHT_LONG") != nullptr; }
inline int cases(int n) { return long_run() ? 20 * n : n; }

// Bytes whose end is the end of a page with an unreadable page behind.
class Guarded {
public:
  explicit Guarded(std::int64_t bytes) {
    const std::int64_t page = 4096, used = (bytes + page - 1) / page * page;
    size_ = used + page;
    base_ = static_cast<std::byte*>(
        mmap(nullptr, static_cast<std::size_t>(size_), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    EXPECT_NE(base_, MAP_FAILED);
    EXPECT_EQ(mprotect(base_ + used, static_cast<std::size_t>(page), PROT_NONE), 0);
    data_ = base_ + used - bytes;
  }
  ~Guarded() { munmap(base_, static_cast<std::size_t>(size_)); }
  Guarded(const Guarded&) = delete;
  Guarded& operator=(const Guarded&) = delete;
  void* data() { return data_; }

private:
  std::byte *base_, *data_;
  std::int64_t size_;
};

// Values in a storage type, guarded. Elements that nobody set hold a pattern that a leaf must leave alone.
class Stored {
public:
  Stored(DType type, std::int64_t count)
      : type_(type), count_(count), bytes_(count * static_cast<std::int64_t>(bytes_of(type))) {
    std::memset(bytes_.data(), 0x3a, static_cast<std::size_t>(count) * bytes_of(type));
  }
  DType type() const { return type_; }
  std::int64_t count() const { return count_; }
  void* data() { return bytes_.data(); }
  template <class T> T* as() { return static_cast<T*>(bytes_.data()); }

  double get(std::int64_t i) {
    EXPECT_TRUE(i >= 0 && i < count_);
    switch (type_) {
    case DType::f64: return as<double>()[i];
    case DType::f32: return static_cast<double>(as<float>()[i]);
    case DType::f16: return static_cast<double>(f16_to_f32(as<std::uint16_t>()[i]));
    case DType::bf16: return static_cast<double>(bf16_to_f32(as<std::uint16_t>()[i]));
    case DType::f8e4m3:
    case DType::f8e5m2: return static_cast<double>(f8_to_f32(as<std::uint8_t>()[i], type_));
    case DType::i8: return as<std::int8_t>()[i];
    case DType::u8:
    case DType::boolean: return as<std::uint8_t>()[i];
    case DType::i32: return as<std::int32_t>()[i];
    case DType::i64: return static_cast<double>(as<std::int64_t>()[i]);
    }
    return 0;
  }
  void set(std::int64_t i, double v) {
    switch (type_) {
    case DType::f64: as<double>()[i] = v; break;
    case DType::f32: as<float>()[i] = static_cast<float>(v); break;
    case DType::f16: as<std::uint16_t>()[i] = f32_to_f16(static_cast<float>(v)); break;
    case DType::bf16: as<std::uint16_t>()[i] = f32_to_bf16(static_cast<float>(v)); break;
    case DType::f8e4m3:
    case DType::f8e5m2: as<std::uint8_t>()[i] = f32_to_f8(static_cast<float>(v), type_); break;
    case DType::i8: as<std::int8_t>()[i] = static_cast<std::int8_t>(v); break;
    case DType::u8: as<std::uint8_t>()[i] = static_cast<std::uint8_t>(v); break;
    case DType::boolean: as<std::uint8_t>()[i] = v != 0; break;
    case DType::i32: as<std::int32_t>()[i] = static_cast<std::int32_t>(v); break;
    case DType::i64: as<std::int64_t>()[i] = static_cast<std::int64_t>(v); break;
    }
  }
  bool untouched(std::int64_t i) {
    const auto* p = static_cast<const unsigned char*>(bytes_.data()) + static_cast<std::size_t>(i) * bytes_of(type_);
    for (std::size_t k = 0; k < bytes_of(type_); ++k)
      if (p[k] != 0x3a) return false;
    return true;
  }

private:
  DType type_;
  std::int64_t count_;
  Guarded bytes_;
};

class Random {
public:
  explicit Random(unsigned seed) : engine_(seed) {}
  std::int64_t in(std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(engine_);
  }
  double real(double low = -1, double high = 1) { return std::uniform_real_distribution<double>(low, high)(engine_); }
  bool chance(double p) { return real(0, 1) < p; }
  template <class T> T of(std::initializer_list<T> choices) {
    return choices.begin()[in(0, static_cast<std::int64_t>(choices.size()) - 1)];
  }
  std::mt19937& engine() { return engine_; }

private:
  std::mt19937 engine_;
};

// Relative step of a storage type: what one rounding may change.
inline double step_of(DType type) { return type == DType::f16 ? 0x1p-10 : type == DType::bf16 ? 0x1p-7 : 0x1p-22; }

// Runs a test once for each table that this machine has.
class OnEveryIsa : public testing::TestWithParam<Isa> {
protected:
  const Kernels& leaf() { return kernels_for(GetParam()); }
};
inline std::string isa_of(const testing::TestParamInfo<Isa>& info) { return std::string(name_of(info.param)); }
#define TW_ON_EVERY_ISA(suite) INSTANTIATE_TEST_SUITE_P(Tables, suite, testing::ValuesIn(available_isas()), isa_of)

} // namespace tilewright::kernels
