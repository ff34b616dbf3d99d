#include "cli/console.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>

namespace tilewright {

namespace {

std::atomic<bool> cancelled{false};
std::atomic<int> regions{0};
static_assert(std::atomic<bool>::is_always_lock_free && std::atomic<int>::is_always_lock_free);

extern "C" void interrupted(int) {
  if (regions.load() > 0 && !cancelled.exchange(true)) return;
  constexpr char text[] = "interrupted\n";
  if (write(STDERR_FILENO, text, sizeof text - 1) < 0) _exit(130);
  _exit(130);
}

} // namespace

void write_result(std::string_view text) {
  while (!text.empty()) {
    const ssize_t put = ::write(STDOUT_FILENO, text.data(), text.size());
    if (put < 0 && errno == EINTR) continue;
    if (put < 0 && errno == EPIPE) throw ClosedPipe();
    if (put < 0) throw Error(Code::file, "standard output", fmt::format("cannot be written: {}", std::strerror(errno)));
    text.remove_prefix(static_cast<std::size_t>(put));
  }
}

void note(const Common& c, const std::string& text) {
  if (!c.quiet) fmt::print(stderr, "{}\n", text);
}

void suggest(const Common& c, const std::string& command_line) {
  if (!c.json) note(c, "next: " + command_line);
}

void catch_signals() {
  struct sigaction ignore {};
  ignore.sa_handler = SIG_IGN;
  sigaction(SIGPIPE, &ignore, nullptr); // a write that fails tells so itself
  struct sigaction stop {};
  stop.sa_handler = interrupted;
  sigaction(SIGINT, &stop, nullptr);
}

Cancellable::Cancellable() { ++regions; }
Cancellable::~Cancellable() { --regions; }
const std::atomic<bool>* Cancellable::flag() const { return &cancelled; }

} // namespace tilewright
