// Any bytes as a program text. It is read or refused with an Error of the user's kind; what is read prints as a text that is
// read as the same program, also with its sizes fixed. Anything else aborts.
//
//   clang++-16 -std=c++20 -g -O1 -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=all -Isrc \
//     tests/fuzz/text_fuzz.cpp src/expr/*.cpp src/support/*.cpp -o text_fuzz
//   ./text_fuzz -max_total_time=120 -dict=tests/fuzz/text.dict new_inputs tests/fuzz/corpus/text examples
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "expr/text.h"
#include "support/error.h"

namespace {

using namespace tilewright;

[[noreturn]] void give_up(const char* what, const std::string& text) {
  std::fprintf(stderr, "%s\n%s\n", what, text.c_str());
  std::abort();
}

void expect_round_trip(const Program& p) {
  const std::string text = print(p);
  try {
    const Program again = parse(text, "printed.tw");
    if (!same(p, again)) give_up("the printed text is another program", text + "\n" + print(again));
    if (print(again) != text) give_up("printing is not stable", text + "\n" + print(again));
  } catch (const Error& error) {
    give_up(error.what(), text);
  }
}

Binding small_sizes(const Program& p) {
  Binding sizes;
  std::int64_t next = 2;
  for (const SizeDecl& s : p.sizes)
    if (!s.value) sizes[s.name] = std::min(std::max(s.range.low, next++), s.range.high);
  return sizes;
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    for (const Program& p : parse_all({reinterpret_cast<const char*>(data), size}, "fuzz.tw")) {
      expect_round_trip(p);
      expect_round_trip(fix_sizes(p, small_sizes(p)));
    }
  } catch (const Error& error) {
    if (error.code == Code::internal) give_up(error.what(), std::string(reinterpret_cast<const char*>(data), size));
    return 0; // kept: what is refused, and why, is behaviour too
  }
  return 0;
}
