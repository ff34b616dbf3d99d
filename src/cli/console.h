// Standard output for results, standard error for notes, and Ctrl-C.
//
// Results that cannot be written are Error(file), except into a pipe that was closed: its reader has seen enough.
// Ctrl-C ends the process at once, with code 130, unless it is in a Cancellable region, where it sets a flag; a second
// Ctrl-C ends it there too.
#pragma once
#include <atomic>
#include <string>
#include <string_view>

#include "cli/arguments.h"

namespace tilewright {

struct ClosedPipe {}; // thrown by write_result; the tool then ends as if all was written

void write_result(std::string_view text);
void note(const Common&, const std::string& text);            // a line on standard error, unless --quiet
void suggest(const Common&, const std::string& command_line); // "next: ...", unless --quiet or --json

void catch_signals();
class Cancellable {
public:
  Cancellable();
  ~Cancellable();
  Cancellable(const Cancellable&) = delete;
  Cancellable& operator=(const Cancellable&) = delete;
  const std::atomic<bool>* flag() const;
};

} // namespace tilewright
