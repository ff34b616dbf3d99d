// Errors that a user can cause carry a stable code, a place, a message and a way out; mistakes of ours are assertions.
//
//   throw Error(Code::shape, "model.tw:4:17", "extent of k is 3 in A and 4 in B", "rename one of the axes");
//
// The kind decides the exit code of the tool and the status of the C ABI (see docs/errors.md).
#pragma once
#include <exception>
#include <string>
#include <string_view>

namespace tilewright {

enum class ErrorKind { check_failed = 1, usage = 2, unsupported = 3, no_device = 4, internal = 5, interrupted = 130 };

enum class Code {
  syntax,        // E0101 text that does not parse
  name,          // E0102 unknown, repeated or reserved name
  type,          // E0103 dtypes that do not go together
  shape,         // E0104 extents that disagree, or an axis without an extent
  bounds,        // E0105 an access that can leave its tensor
  size,          // E0106 a size that is negative, too large or undefined
  cycle,         // E0107 a statement that reads what is written after it
  file,          // E0201 missing, unreadable or unwritable file
  model,         // E0202 malformed model file
  external,      // E0203 external data missing, short or outside the model's folder
  input,         // E0301 missing, extra or wrongly shaped input
  option,        // E0302 bad command-line option or value
  unsupported,   // E0401 operator, attribute or dtype that is not claimed
  check,         // E0501 a comparison that failed
  device,        // E0601 device or toolchain missing
  memory,        // E0602 not enough memory
  interrupted,   // E0701 Ctrl-C
  internal,      // E0901 our own fault
};

std::string_view id_of(Code);            // "E0104"
ErrorKind kind_of(Code);

class Error : public std::exception {
 public:
  Error(Code code, std::string where, std::string message, std::string hint = {});
  Code code;
  std::string where;    // "file:line:column", a node's name, or empty
  std::string message;  // what is wrong, with shapes and names
  std::string hint;     // a way out, or empty
  const char* what() const noexcept override { return text_.c_str(); }  // "E0104 where: message (hint)"
  Error at(std::string place) const;     // the same error with a place, if it has none yet

 private:
  std::string text_;
};

[[noreturn]] void assertion_failed(const char* condition, const char* file, int line);

}  // namespace tilewright

// Our own mistakes. Always on: the checks are cheap where they stand, and a wrong answer is worse than a stop.
#define TW_ASSERT(condition) \
  ((condition) ? static_cast<void>(0) : ::tilewright::assertion_failed(#condition, __FILE__, __LINE__))
