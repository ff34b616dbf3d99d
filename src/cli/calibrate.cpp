#include "cli/calibrate.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <ctime>
#include <memory>
#include <new>
#include <thread>

#include "support/error.h"
#include "support/threads.h"
#include "target/cpu/kernels/kernels.h"

namespace tilewright {
namespace {

using Clock = std::chrono::steady_clock;

double since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

// Keeps a value alive without storing it: the loops below are otherwise dead code.
template <class T> void keep(const T& value) { __asm__ volatile("" : : "r"(&value) : "memory"); }

// ---- loops. The bodies are always inlined into one function an ISA, which lends them its instructions.

typedef std::uint64_t Words __attribute__((vector_size(64))); // 64 bytes, by as many instructions as it takes
struct alignas(64) Line {
  Words words;
};

__attribute__((always_inline)) inline void read_lines(const Line* lines, std::int64_t count) {
  Words a{}, b{}, c{}, d{};
  for (std::int64_t i = 0; i + 4 <= count; i += 4) {
    a |= lines[i].words;
    b |= lines[i + 1].words;
    c |= lines[i + 2].words;
    d |= lines[i + 3].words;
  }
  a |= b | c | d;
  keep(a);
}

__attribute__((always_inline)) inline void copy_lines(Line* to, const Line* from, std::int64_t count) {
  for (std::int64_t i = 0; i < count; i++) to[i].words = from[i].words;
  keep(*to);
}

struct Loops {
  void (*read)(const Line*, std::int64_t count);
  void (*copy)(Line* to, const Line* from, std::int64_t count);
};

#if defined(__x86_64__)
#define TW_AVX2 __attribute__((target("avx2,fma")))
#define TW_AVX512 __attribute__((target("avx2,fma,avx512f,avx512vl,avx512bw,avx512dq")))
TW_AVX2 void read_avx2(const Line* lines, std::int64_t count) { read_lines(lines, count); }
TW_AVX2 void copy_avx2(Line* to, const Line* from, std::int64_t count) { copy_lines(to, from, count); }
TW_AVX512 void read_avx512(const Line* lines, std::int64_t count) { read_lines(lines, count); }
TW_AVX512 void copy_avx512(Line* to, const Line* from, std::int64_t count) { copy_lines(to, from, count); }
#undef TW_AVX2
#undef TW_AVX512
#endif

void read_base(const Line* lines, std::int64_t count) { read_lines(lines, count); }
void copy_base(Line* to, const Line* from, std::int64_t count) { copy_lines(to, from, count); }

Loops loops_of(Isa isa) {
#if defined(__x86_64__)
  if (isa == Isa::avx512) return {read_avx512, copy_avx512};
  if (isa == Isa::avx2) return {read_avx2, copy_avx2};
#endif
  static_cast<void>(isa);
  return {read_base, copy_base};
}

// ---- rates

// The best of many short repetitions of `work(worker)`, run by all workers of the pool at once: amount a second of all
// of them. Short, so that on a busy system some of them find the cores free.
double best_rate(Pool& pool, double amount, double seconds, FunctionRef<void(int worker, std::int64_t rounds)> work) {
  const auto time = [&](std::int64_t rounds) {
    Barrier barrier(pool.size());
    Clock::time_point start;
    pool.run([&](int worker) {
      BarrierGuard guard(barrier);
      barrier.wait(worker);
      if (worker == 0) start = Clock::now();
      work(worker, rounds);
      barrier.wait(worker);
    });
    return since(start);
  };
  const Clock::time_point begin = Clock::now();
  std::int64_t rounds = 1;
  double best = 0;
  for (int i = 0; i < 3 || since(begin) < seconds; i++) {
    const double taken = time(rounds);
    if (i > 0) best = std::max(best, amount * static_cast<double>(rounds) / taken); // the first one warms the caches
    if (taken < 1e-3 && rounds < (1ll << 40)) rounds *= 2;
  }
  return best * pool.size();
}

struct Bench {
  const Host& host;
  Loops loops;
  double seconds;
  Pool one, all;

  Bench(const Host& h, double s) : host(h), loops(loops_of(h.features.isa)), seconds(s), one(1), all(h.cores) {}

  // What planning counts on is what the contraction's leaf reaches where nothing is waited for: a product in the first caches.
  double multiply() {
    const kernels::Kernels& leaf = kernels::kernels_for(kernels::available(host.features.isa) ? host.features.isa : Isa::base);
    const std::int64_t m = 4 * leaf.mr, n = 2 * leaf.nr, k = 256;
    std::vector<float> a(static_cast<std::size_t>(m * k), 1.0f), b(static_cast<std::size_t>(k * n), 1.0f), c(static_cast<std::size_t>(m * n));
    std::vector<float> packed(static_cast<std::size_t>(kernels::packed_elements(leaf, n, k)));
    leaf.pack_b({.n = n, .k = k, .src = b.data(), .b_k = n, .b_n = 1, .dst = packed.data()});
    const kernels::Contract call{.m = m, .n = n, .k = k, .a = a.data(), .a_rows = {k}, .b = packed.data(), .c = c.data(), .c_rows = {n}};
    return best_rate(one, 2.0 * static_cast<double>(m * n * k), seconds, [&](int, std::int64_t rounds) {
      for (std::int64_t i = 0; i < rounds; i++) leaf.contract(call);
    });
  }

  // Each worker has its own buffer, touched first by itself so that it lies in its own memory.
  double stream(Pool& pool, std::int64_t bytes, bool copy) {
    const std::int64_t count = std::max<std::int64_t>(8, bytes / static_cast<std::int64_t>(sizeof(Line))) / 8 * 8;
    std::vector<std::unique_ptr<Line[]>> buffers(static_cast<std::size_t>(pool.size()));
    for (auto& buffer : buffers) buffer.reset(new Line[static_cast<std::size_t>(count)]);
    pool.run([&](int worker) {
      Line* lines = buffers[static_cast<std::size_t>(worker)].get();
      for (std::int64_t i = 0; i < count; i++) lines[i].words = Words{} + static_cast<std::uint64_t>(i);
    });
    return best_rate(pool, static_cast<double>(count) * sizeof(Line), seconds, [&](int worker, std::int64_t rounds) {
      Line* lines = buffers[static_cast<std::size_t>(worker)].get();
      for (std::int64_t r = 0; r < rounds; r++)
        if (copy)
          loops.copy(lines + count / 2, lines, count / 2);
        else
          loops.read(lines, count);
    });
  }

  // Sizes of buffers: one worker alone, and each of all workers. Well inside the level, well outside the one before.
  Rate level(std::int64_t alone, std::int64_t each, bool copy = false) {
    Rate rate;
    rate.one = stream(one, alone, copy);
    rate.all = host.cores == 1 ? rate.one : std::max(rate.one, stream(all, each, copy));
    return rate;
  }

  double barrier() {
    constexpr int waits = 20;
    Barrier meeting(all.size());
    double best = 1;
    for (const Clock::time_point begin = Clock::now(); since(begin) < seconds;)
      all.run([&](int worker) {
        meeting.wait(worker);
        const Clock::time_point start = Clock::now();
        for (int w = 0; w < waits; w++) meeting.wait(worker);
        if (worker == 0) best = std::min(best, since(start) / waits);
      });
    return best;
  }

  double fork_join() {
    std::vector<double> taken;
    for (int i = 0; i < 51; i++) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1)); // until the workers sleep
      const Clock::time_point start = Clock::now();
      all.run([](int) {});
      taken.push_back(since(start));
    }
    std::nth_element(taken.begin(), taken.begin() + 5, taken.end()); // of the quick ones, but no lucky one
    return taken[5];
  }
};

std::string today() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  char text[32];
  return {text, std::strftime(text, sizeof text, "%Y-%m-%d", &parts)};
}

// Virtual machines see a last cache that many share: how much of it one core reads at the full rate.
std::int64_t usable(Bench& bench, std::int64_t from, std::int64_t bytes, double rate) {
  const std::int64_t limit = bench.host.memory > 0 ? bench.host.memory / 8 : std::int64_t{256} << 20;
  std::int64_t found = std::min(from, bytes);
  for (std::int64_t next = 2 * found; next <= std::min(bytes, limit); next *= 2) {
    if (bench.stream(bench.one, next, false) < 0.8 * rate) return found;
    found = next;
  }
  return bytes;
}

void measure_levels(Bench& bench, Calibration& result, const std::function<void(const std::string&)>& progress) {
  const std::int64_t cores = bench.host.cores;
  std::int64_t inner = 16 << 10; // reach of the caches before
  const auto note = [&](const std::string& name, const Rate& rate) {
    progress(fmt::format("{:<6}{:8.1f} GB/s one core, {:8.1f} GB/s all", name, rate.one * 1e-9, rate.all * 1e-9));
  };
  for (const HostCache& cache : bench.host.caches) {
    if (cache.level > 3) continue;
    const std::int64_t sharing = (cores + cache.instances - 1) / cache.instances;
    // Less than half, since virtual machines hide that two CPUs are threads of one core, and 32 MiB of a last cache,
    // since they also hide who else uses it; but clearly more than the cache before.
    const std::int64_t alone = std::max(std::min(cache.bytes * 4 / 10, std::int64_t{32} << 20),
                                        cache.level == 1 ? 0 : std::min(cache.bytes, 2 * inner));
    const std::int64_t each = std::max(alone / sharing, std::min(alone, 2 * inner));
    const std::string name = fmt::format("l{}", cache.level);
    const Rate& rate = result.read[name] = bench.level(alone, each);
    note(name, rate);
    if (cache.level == 3) {
      result.usable = usable(bench, alone, cache.bytes, rate.one);
      if (result.usable < cache.bytes) progress(fmt::format("      as fast up to {} MiB: others use it too", result.usable >> 20));
    }
    if (cache.instances >= cores && rate.all < 0.7 * rate.one * static_cast<double>(cores))
      progress(
          "      together they are slow: other work is running (measure again), or they are threads of fewer cores");
    inner = cache.bytes;
  }
  // Beyond the last cache: four times its size in all, but never more than an eighth of the memory.
  const std::int64_t limit = bench.host.memory > 0 ? bench.host.memory / 8 : std::int64_t{256} << 20;
  const std::int64_t beyond =
      std::min(std::max(4 * inner, std::int64_t{128} << 20), std::min(limit, std::int64_t{2} << 30));
  note("dram", result.read["dram"] = bench.level(beyond, beyond / cores));
  note("copy", result.copy = bench.level(beyond, beyond / cores, true));
}

} // namespace

Calibration calibrate(const Host& host, const std::function<void(const std::string&)>& progress, double seconds) {
#if !defined(__OPTIMIZE__)
  throw Error(Code::device, "", "this build is not optimised: it would measure itself, not the CPU",
              "build with CMAKE_BUILD_TYPE=Release");
#endif
  try {
    Bench bench(host, seconds);
    Calibration result;
    result.model = host.model;
    result.date = today();
    result.isa = host.features.isa;
    result.cores = host.cores;
    result.fma = bench.multiply();
    progress(fmt::format("{:<6}{:8.1f} GFLOP/s one core, f32, {}", "fma", result.fma * 1e-9, name_of(result.isa)));
    measure_levels(bench, result, progress);
    if (host.cores > 1) {
      result.barrier = bench.barrier();
      result.fork_join = bench.fork_join();
      progress(fmt::format("{:<6}{:8.2f} us a barrier of {} threads, {:.2f} us to enter and leave a parallel region",
                           "wait", result.barrier * 1e6, host.cores, result.fork_join * 1e6));
      if (result.barrier > 2e-5) progress("      that is no time of a barrier: other work is running, measure again");
    }
    return result;
  } catch (const std::bad_alloc&) {
    throw Error(Code::memory, "", "too little memory is free to measure beyond the caches");
  }
}

} // namespace tilewright
