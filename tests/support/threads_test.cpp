#include "support/threads.h"

#include <chrono>
#include <gtest/gtest.h>
#include <stdexcept>
#include <string>
#include <thread>

namespace tilewright {
namespace {

TEST(PoolTest, EveryWorkerEntersOnce) {
  for (int threads : {1, 2, 3, 7}) {
    Pool pool(threads);
    EXPECT_EQ(pool.size(), threads);
    for (int repeat = 0; repeat < 50; ++repeat) {
      std::vector<int> entered(static_cast<std::size_t>(threads), 0);
      pool.run([&](int worker) { ++entered[static_cast<std::size_t>(worker)]; });
      EXPECT_EQ(entered, std::vector<int>(static_cast<std::size_t>(threads), 1));
    }
  }
}

TEST(PoolTest, TheCallerIsWorkerZero) {
  Pool pool(3);
  std::thread::id zero;
  pool.run([&](int worker) {
    if (worker == 0) zero = std::this_thread::get_id();
  });
  EXPECT_EQ(zero, std::this_thread::get_id());
}

TEST(PoolTest, FewerThanOneThreadIsOne) { EXPECT_EQ(Pool(0).size(), 1); }

TEST(PoolTest, WorkersWakeAfterALongSleep) {
  Pool pool(2);
  for (int i = 0; i < 3; ++i) {
    std::atomic<int> sum = 0;
    pool.run([&](int worker) { sum += worker + 1; });
    EXPECT_EQ(sum, 3);
    std::this_thread::sleep_for(std::chrono::milliseconds(20)); // far longer than they spin
  }
}

TEST(PoolTest, ExceptionsReachTheCallerAndThePoolGoesOn) {
  Pool pool(4);
  for (int thrower = 0; thrower < 4; ++thrower) {
    std::atomic<int> left = 0;
    try {
      pool.run([&](int worker) {
        ++left;
        if (worker == thrower) throw std::runtime_error("worker " + std::to_string(worker));
      });
      FAIL();
    } catch (const std::runtime_error& e) {
      EXPECT_EQ(e.what(), "worker " + std::to_string(thrower));
    }
    EXPECT_EQ(left, 4);
  }
  std::atomic<int> entered = 0;
  pool.run([&](int) { ++entered; });
  EXPECT_EQ(entered, 4);
}

TEST(PoolTest, ManyThreadsTakeTurns) {
  Pool pool(2);
  int inside = 0; // written by worker 0 only: a race if two regions overlap
  std::vector<std::thread> callers;
  for (int i = 0; i < 4; ++i)
    callers.emplace_back([&] {
      for (int repeat = 0; repeat < 100; ++repeat)
        pool.run([&](int worker) {
          if (worker == 0) ++inside;
        });
    });
  for (std::thread& t : callers) t.join();
  EXPECT_EQ(inside, 400);
}

TEST(BarrierTest, WritesBeforeAreSeenBehind) {
  for (int threads : {1, 2, 5}) {
    Pool pool(threads);
    Barrier barrier(threads);
    std::vector<int> cell(static_cast<std::size_t>(threads), 0);
    std::atomic<int> wrong = 0;
    pool.run([&](int worker) {
      for (int step = 1; step <= 200; ++step) {
        cell[static_cast<std::size_t>(worker)] = step;
        barrier.wait(worker);
        for (int value : cell) wrong += value != step;
        barrier.wait(worker);
      }
    });
    EXPECT_EQ(wrong, 0);
  }
}

TEST(BarrierTest, AWorkerThatThrowsLeavesAndTheOthersGoOn) {
  Pool pool(4);
  for (int at : {0, 3, 9}) {
    Barrier barrier(4);
    std::atomic<int> steps = 0;
    EXPECT_THROW(pool.run([&](int worker) {
      const BarrierGuard guard(barrier);
      for (int step = 0; step < 10; ++step) {
        if (worker == 2 && step == at) throw std::runtime_error("halfway");
        ++steps;
        barrier.wait(worker);
      }
    }),
                 std::runtime_error);
    EXPECT_EQ(steps, 30 + at);
  }
}

TEST(ThreadsTest, TheDefaultIsAtLeastOneAndAtMostTheProcessors) {
  EXPECT_GE(default_threads(), 1);
  EXPECT_LE(default_threads(), static_cast<int>(std::thread::hardware_concurrency()));
}

} // namespace
} // namespace tilewright
