#include "cli/progress.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>

namespace tilewright {

namespace {

std::size_t columns() {
  winsize size{};
  return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

} // namespace

std::string progress_text(const std::string& what, int done, int total, double seconds, std::size_t width) {
  constexpr int bar = 20;
  std::string text = what;
  if (total > 0) {
    const int full = std::clamp(bar * done / total, 0, bar);
    text += fmt::format(" [{:#<{}}{:-<{}}] {} of {},", "", full, "", bar - full, std::min(done, total), total);
  }
  text += fmt::format(" {:.0f} s", seconds);
  return text.substr(0, width);
}

Progress::Progress(const Common& c, std::string what, int total) : what_(std::move(what)), total_(total) {
  if (c.quiet || !isatty(STDERR_FILENO)) return;
  // Signals are for the main thread.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  watcher_ = std::thread([this] { watch(); });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

Progress::~Progress() {
  if (!watcher_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    over_ = true;
  }
  end_.notify_one();
  watcher_.join();
}

void Progress::watch() {
  const auto begin = std::chrono::steady_clock::now();
  bool written = false;
  std::unique_lock lock(mutex_);
  for (auto wait = std::chrono::milliseconds(1000); !end_.wait_for(lock, wait, [&] { return over_; });
       wait = std::chrono::milliseconds(200)) {
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    fmt::print(stderr, "\r{}\x1b[K", progress_text(what_, done_, total_, seconds, columns() - 1));
    std::fflush(stderr);
    written = true;
  }
  if (written) fmt::print(stderr, "\r\x1b[K");
  std::fflush(stderr);
}

} // namespace tilewright
