// Standard output for results, standard error for notes, and Ctrl-C.
//
// Results that cannot be written are Error(file), except into a pipe that was closed: its reader has seen enough.
// Ctrl-C ends the process at once, with code 130, unless it is in a Cancellable region, where it sets a flag. A region that does
// not look at its flag within 0.3 s (a kernel of one large tile) is not waited for, nor is one that gets a second Ctrl-C.
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
bool is_cancelled();

class Cancellable {
public:
  Cancellable();
  ~Cancellable();
  Cancellable(const Cancellable&) = delete;
  Cancellable& operator=(const Cancellable&) = delete;
  const std::atomic<bool>* flag() const;
};

// A folder of ours, removed with all that is in it; also where Ctrl-C does not wait for its owner.
class ScratchFolder {
public:
  explicit ScratchFolder(std::string path);
  ~ScratchFolder();
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  const std::string& path() const { return path_; }

private:
  std::string path_;
};

} // namespace tilewright
