#include "cli/console.h"

#include <fmt/format.h>
#include <pthread.h>
#include <semaphore.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <mutex>
#include <set>
#include <thread>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>

namespace tilewright {

namespace {

std::atomic<bool> cancelled{false};
std::atomic<int> regions{0};
static_assert(std::atomic<bool>::is_always_lock_free && std::atomic<int>::is_always_lock_free);

[[noreturn]] void end_interrupted() {
  constexpr char text[] = "interrupted\n";
  if (write(STDERR_FILENO, text, sizeof text - 1) < 0) _exit(130);
  _exit(130);
}

sem_t first_interrupt;

extern "C" void interrupted(int) {
  if (regions.load() == 0 || cancelled.exchange(true)) end_interrupted();
  sem_post(&first_interrupt);
}

struct Leftovers {
  std::mutex mutex;
  std::set<std::string> folders;
};
Leftovers& leftovers() {
  static Leftovers& all = *new Leftovers; // never destroyed: the watcher may outlive main
  return all;
}

// Ends the process a while after the first Ctrl-C, if it has not come to an end itself. A thread and no alarm, because folders are
// to be removed, which a signal handler must not do. It takes no signals: they interrupt what the main thread waits for.
void watch_for_interrupts() {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  sem_init(&first_interrupt, 0, 0);
  std::thread([] {
    while (sem_wait(&first_interrupt) != 0) {
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    const std::lock_guard lock(leftovers().mutex);
    std::error_code ignored;
    for (const std::string& folder : leftovers().folders) std::filesystem::remove_all(folder, ignored);
    end_interrupted();
  }).detach();
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
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
  watch_for_interrupts();
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
bool is_cancelled() { return cancelled; }

ScratchFolder::ScratchFolder(std::string path) : path_(std::move(path)) {
  const std::lock_guard lock(leftovers().mutex);
  leftovers().folders.insert(path_);
}

ScratchFolder::~ScratchFolder() {
  const std::lock_guard lock(leftovers().mutex);
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
  leftovers().folders.erase(path_);
}

} // namespace tilewright
