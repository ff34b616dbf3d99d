// Either a value, or the reason why there is none, for a person to read.
#pragma once
#include <optional>
#include <string>
#include <utility>

#include "support/error.h"

namespace tilewright {

struct Refused { std::string reason; };

template <class T> class Or {
 public:
  Or(T value) : value_(std::move(value)) {}                            // NOLINT: implicit on purpose
  Or(Refused r) : reason_(std::move(r.reason)) {}                      // NOLINT
  explicit operator bool() const { return value_.has_value(); }
  const T& operator*() const { TW_ASSERT(value_.has_value()); return *value_; }
  T& operator*() { TW_ASSERT(value_.has_value()); return *value_; }
  const T* operator->() const { return &**this; }
  const std::string& reason() const { return reason_; }

 private:
  std::optional<T> value_;
  std::string reason_;
};

}  // namespace tilewright
