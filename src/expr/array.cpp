#include "expr/program.h"
#include "support/error.h"
#include "support/memory.h"

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
  a.owner = zeroed_bytes(a.bytes());
  a.data = a.owner.get();
  return a;
}

} // namespace tilewright
