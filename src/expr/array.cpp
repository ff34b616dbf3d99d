#include <cstdlib>
#include <cstring>

#include "expr/program.h"
#include "support/error.h"

namespace tilewright {

std::int64_t Array::count() const {
  std::int64_t product = 1;
  for (std::int64_t d : dims) {
    if (d < 0) throw Error(Code::shape, "", "an array has a negative dim " + std::to_string(d));
    product = checked_mul(product, d);
  }
  return product;
}

std::size_t Array::bytes() const {
  return static_cast<std::size_t>(checked_mul(count(), static_cast<std::int64_t>(bytes_of(dtype))));
}

Array Array::make(DType dtype, std::vector<std::int64_t> dims) {
  Array a{dtype, std::move(dims), nullptr, nullptr};
  constexpr std::size_t line = 64; // one cache line, and the widest vector
  const std::size_t bytes = a.bytes();
  if (bytes > SIZE_MAX / 4)
    throw Error(Code::memory, "", "an array of " + std::to_string(bytes) + " bytes cannot be had");
  void* memory = std::aligned_alloc(line, (bytes + line) / line * line);
  if (!memory) throw Error(Code::memory, "", "an array of " + std::to_string(bytes) + " bytes cannot be had");
  std::memset(memory, 0, bytes);
  a.data = static_cast<std::byte*>(memory);
  a.owner = std::shared_ptr<std::byte[]>(a.data, [](std::byte* p) { std::free(p); });
  return a;
}

} // namespace tilewright
