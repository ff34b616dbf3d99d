#include "onnx/arrays.h"

namespace tilewright::onnx {
namespace {

template <class T> T get(const Array& a, std::int64_t i) {
  T v;
  std::memcpy(&v, a.data + static_cast<std::size_t>(i) * sizeof(T), sizeof(T));
  return v;
}

template <class T> void set(Array& a, std::int64_t i, T v) {
  std::memcpy(a.data + static_cast<std::size_t>(i) * sizeof(T), &v, sizeof(T));
}

} // namespace

double real_at(const Array& a, std::int64_t i) {
  switch (a.dtype) {
  case DType::f64: return get<double>(a, i);
  case DType::f32: return static_cast<double>(get<float>(a, i));
  case DType::f16: return static_cast<double>(f16_to_f32(get<std::uint16_t>(a, i)));
  case DType::bf16: return static_cast<double>(bf16_to_f32(get<std::uint16_t>(a, i)));
  case DType::f8e4m3:
  case DType::f8e5m2: return static_cast<double>(f8_to_f32(get<std::uint8_t>(a, i), a.dtype));
  default: return static_cast<double>(integer_at(a, i));
  }
}

std::int64_t integer_at(const Array& a, std::int64_t i) {
  switch (a.dtype) {
  case DType::i8: return get<std::int8_t>(a, i);
  case DType::u8:
  case DType::boolean: return get<std::uint8_t>(a, i);
  case DType::i32: return get<std::int32_t>(a, i);
  case DType::i64: return get<std::int64_t>(a, i);
  default: return static_cast<std::int64_t>(real_at(a, i));
  }
}

void put_real(Array& a, std::int64_t i, double v) {
  switch (a.dtype) {
  case DType::f64: return set(a, i, v);
  case DType::f32: return set(a, i, static_cast<float>(v));
  case DType::f16: return set(a, i, f32_to_f16(static_cast<float>(v)));
  case DType::bf16: return set(a, i, f32_to_bf16(static_cast<float>(v)));
  case DType::f8e4m3:
  case DType::f8e5m2: return set(a, i, f32_to_f8(static_cast<float>(v), a.dtype));
  default: return put_integer(a, i, static_cast<std::int64_t>(v));
  }
}

void put_integer(Array& a, std::int64_t i, std::int64_t v) {
  switch (a.dtype) {
  case DType::i8: return set(a, i, static_cast<std::int8_t>(v));
  case DType::u8: return set(a, i, static_cast<std::uint8_t>(v));
  case DType::boolean: return set(a, i, static_cast<std::uint8_t>(v != 0));
  case DType::i32: return set(a, i, static_cast<std::int32_t>(v));
  case DType::i64: return set(a, i, v);
  default: return put_real(a, i, static_cast<double>(v));
  }
}

std::vector<std::int64_t> strides_of(const std::vector<std::int64_t>& dims) {
  std::vector<std::int64_t> strides(dims.size(), 1);
  for (std::size_t i = dims.size(); i-- > 1;) strides[i - 1] = strides[i] * dims[i];
  return strides;
}

} // namespace tilewright::onnx
