#include "support/threads.h"

#include "support/error.h"

#include <algorithm>
#include <fstream>
#include <set>
#include <string>
#include <thread>
#include <utility>

#if defined(__linux__)
#include <sched.h>
#endif
#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace tilewright {
namespace {

void pause_processor() {
#if defined(__x86_64__)
  _mm_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

// Some spinning, then a sleep in the kernel until the word changes from `seen`: being woken takes up to 100 us. When there
// are fewer processors than threads, spinning only keeps the others from coming, so it is short.
void wait_while_equal(const std::atomic<std::uint32_t>& word, std::uint32_t seen, int spins) {
  for (int i = 0; i < spins; ++i) {
    if (word.load(std::memory_order_acquire) != seen) return;
    pause_processor();
  }
  while (word.load(std::memory_order_acquire) == seen) word.wait(seen, std::memory_order_acquire);
}

// Processors that this process may use, or an empty list where the system does not say.
std::vector<int> usable_processors() {
  std::vector<int> usable;
#if defined(__linux__)
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) == 0)
    for (int i = 0; i < CPU_SETSIZE; ++i)
      if (CPU_ISSET(i, &set)) usable.push_back(i);
#endif
  return usable;
}

int read_int(const std::string& path, int otherwise) {
  std::ifstream file(path);
  int value;
  return file >> value ? value : otherwise;
}

// A turn of it takes 10 to 40 ns. Between regions a caller may do anything; at a barrier the others are about to come.
constexpr int spins_between_regions = 2000, spins_at_barrier = 10000;

int spins_for(int threads, int most) {
  const std::vector<int> usable = usable_processors();
  const int processors =
      usable.empty() ? static_cast<int>(std::thread::hardware_concurrency()) : static_cast<int>(usable.size());
  return threads <= processors ? most : 10;
}

} // namespace

int default_threads() {
  const std::vector<int> usable = usable_processors();
  if (usable.empty()) return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  std::set<std::pair<int, int>> cores;
  for (int cpu : usable) {
    const std::string topology = "/sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/topology/";
    cores.emplace(read_int(topology + "physical_package_id", 0), read_int(topology + "core_id", cpu));
  }
  return static_cast<int>(cores.size());
}

// A region is announced by a new generation. Workers count down `running` as they leave, the caller waits for 0.
struct Pool::State {
  std::mutex turn; // one region at a time
  const int size, spins;
  const FunctionRef<void(int)>* region = nullptr;
  bool stopping = false;
  alignas(64) std::atomic<std::uint32_t> generation = 0;
  alignas(64) std::atomic<std::uint32_t> running = 0;
  std::mutex failing;
  std::exception_ptr failure;
  std::vector<std::thread> threads;

  explicit State(int n) : size(n), spins(spins_for(n, spins_between_regions)) {}

  void enter(int worker) {
    try {
      (*region)(worker);
    } catch (...) {
      const std::lock_guard lock(failing);
      if (!failure) failure = std::current_exception();
    }
  }

  void work(int worker) {
    for (std::uint32_t seen = 0;; ++seen) {
      wait_while_equal(generation, seen, spins);
      if (stopping) return;
      enter(worker);
      if (running.fetch_sub(1, std::memory_order_acq_rel) == 1) running.notify_one();
    }
  }

  void announce() {
    generation.fetch_add(1, std::memory_order_acq_rel);
    generation.notify_all();
  }

  void stop() {
    stopping = true;
    announce();
    for (std::thread& t : threads) t.join();
  }
};

Pool::Pool(int threads) : state_(std::make_unique<State>(std::max(1, threads))) {
  try {
    for (int worker = 1; worker < state_->size; ++worker)
      state_->threads.emplace_back([s = state_.get(), worker] { s->work(worker); });
  } catch (const std::exception& e) {
    state_->stop();
    throw Error(Code::memory, "", "cannot start " + std::to_string(threads) + " threads: " + e.what(),
                "ask for fewer with --threads");
  }
}

Pool::~Pool() { state_->stop(); }

void run_both(int threads, FunctionRef<void()> first, FunctionRef<void()> second) {
  if (threads < 2) return first(), second();
  Pool(2).run([&](int worker) { worker == 0 ? first() : second(); });
}

int Pool::size() const { return state_->size; }

void Pool::run(FunctionRef<void(int worker)> region) {
  State& s = *state_;
  const std::lock_guard lock(s.turn);
  s.region = &region;
  s.failure = nullptr;
  if (s.size > 1) {
    s.running.store(static_cast<std::uint32_t>(s.size - 1), std::memory_order_relaxed);
    s.announce();
  }
  s.enter(0);
  for (std::uint32_t left; (left = s.running.load(std::memory_order_acquire)) != 0;)
    wait_while_equal(s.running, left, s.spins);
  s.region = nullptr;
  if (s.failure) std::rethrow_exception(std::exchange(s.failure, nullptr));
}

// ---- the barrier: the last to come opens the next phase. Members that left count as having come, for ever.

Barrier::Barrier(int threads)
    : missing_(static_cast<std::uint32_t>(threads)), phase_(0), members_(static_cast<std::uint32_t>(threads)),
      spins_(spins_for(threads, spins_at_barrier)) {}

void Barrier::wait(int) {
  const std::uint32_t phase = phase_.load(std::memory_order_acquire);
  if (missing_.fetch_sub(1, std::memory_order_acq_rel) == 1) return open();
  wait_while_equal(phase_, phase, spins_);
}

void Barrier::leave() {
  members_.fetch_sub(1, std::memory_order_acq_rel);
  if (missing_.fetch_sub(1, std::memory_order_acq_rel) == 1) open();
}

void Barrier::open() {
  missing_.store(members_.load(std::memory_order_acquire), std::memory_order_relaxed);
  phase_.fetch_add(1, std::memory_order_acq_rel);
  phase_.notify_all();
}

} // namespace tilewright
