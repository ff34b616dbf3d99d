// Many threads at once: on one session, on sessions of their own, on one set of sessions with changing sizes, and one that cancels
// the others. The same file runs under ThreadSanitizer (tests/sanitize).
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <functional>
#include <thread>

#include "expr/text.h"
#include "runtime/session.h"
#include "runtime/sessions.h"

namespace tilewright {
namespace {

// A contraction, a window, maps, a softmax, and a gather: each kind of leaf, with several kernels and barriers between them.
const char* network = "program net(n, c=6, f=8, y=9, x=9, i=3, j=3, t=5)\ninput X[n c y x] : f32\ninput id[t] : index(f)\n"
                      "A[n f y x] = sum[c] X[n c y x] * (f32(index(f)) - f32(index(c)))\n"
                      "B[n f y x] = sum[i j] A[n, f, y+i-1, x+j-1 else 0] * 0.111\n"
                      "P[n f y x] = softmax[f] B[n f y x]\nY[n f] = sum[y x] max(P[n f y x], 0.05)\nG[n t] = Y[n, id[t]]\noutput Y, G\n";

Program program() { return parse(network, "net.tw"); }

struct Arrays {
  Array x, id = Array::make(DType::i64, {5}), y, g;
  explicit Arrays(std::int64_t n, int seed) : x(Array::make(DType::f32, {n, 6, 9, 9})), y(Array::make(DType::f32, {n, 8})), g(Array::make(DType::f32, {n, 5})) {
    for (std::int64_t i = 0; i < x.count(); ++i) x.as<float>()[i] = static_cast<float>((i * 7 + seed * 13) % 11) / 11.0f - 0.5f;
    for (std::int64_t i = 0; i < 5; ++i) id.as<std::int64_t>()[i] = (i * 3 + seed) % 8;
  }
  void run(Session& s, const std::atomic<bool>* cancelled = nullptr) { s.run({dense(x), dense(id)}, {dense(y), dense(g)}, {nullptr, cancelled, nullptr}); }
  bool equals(const Arrays& other) const {
    return std::memcmp(y.data, other.y.data, y.bytes()) == 0 && std::memcmp(g.data, other.g.data, g.bytes()) == 0;
  }
};

SessionOptions options(int threads, std::int64_t n) {
  SessionOptions o;
  o.threads = threads;
  o.sizes = {{"n", n}};
  return o;
}

// What one thread alone finds.
Arrays wanted(std::int64_t n, int seed) {
  Session s(program(), options(1, n));
  Arrays a(n, seed);
  a.run(s);
  return a;
}

void in_threads(int count, const std::function<void(int)>& body) {
  std::vector<std::thread> threads;
  for (int t = 0; t < count; ++t) threads.emplace_back(body, t);
  for (std::thread& t : threads) t.join();
}

constexpr int rounds = 20;

TEST(Concurrent, CallsOnOneSessionTakeTurns) {
  Session session(program(), options(2, 3));
  std::atomic<int> wrong{0};
  in_threads(4, [&](int t) {
    const Arrays want = wanted(3, t);
    Arrays mine(3, t);
    for (int r = 0; r < rounds; ++r) {
      mine.run(session);
      wrong += !mine.equals(want);
    }
  });
  EXPECT_EQ(wrong, 0);
}

TEST(Concurrent, SessionsDoNotDisturbEachOther) {
  std::atomic<int> wrong{0};
  in_threads(3, [&](int t) {
    const Arrays want = wanted(2, t);
    for (int r = 0; r < rounds / 4; ++r) {
      Session session(program(), options(1 + (t + r) % 3, 2));
      Arrays mine(2, t);
      for (int again = 0; again < 3; ++again) {
        mine.run(session);
        wrong += !mine.equals(want);
      }
    }
  });
  EXPECT_EQ(wrong, 0);
}

TEST(Concurrent, SizesComeAndGo) {
  SessionOptions o;
  o.threads = 2;
  Sessions sessions(program(), o);
  std::atomic<int> wrong{0};
  in_threads(3, [&](int t) {
    for (int r = 0; r < rounds; ++r) {
      const std::int64_t n = 1 + (t + r) % 6;      // more bindings than are kept
      Arrays mine(n, t);
      const auto s = sessions.session(sessions.bind({{n, 6, 9, 9}, {5}}));
      mine.run(*s);
      if (r % 10 == 0) wrong += !mine.equals(wanted(n, t));
    }
  });
  EXPECT_EQ(wrong, 0);
}

TEST(Concurrent, ACancelledRunLeavesTheSessionWhole) {
  Session session(program(), options(3, 8));
  const Arrays want = wanted(8, 1);
  int stopped = 0;
  for (int r = 0; r < rounds; ++r) {
    std::atomic<bool> cancelled{false};
    std::thread other([&] {
      std::this_thread::sleep_for(std::chrono::microseconds(37 * r));
      cancelled = true;
    });
    Arrays mine(8, 1);
    try {
      for (int again = 0; again < 1000; ++again) mine.run(session, &cancelled);
    } catch (const Error& e) {
      stopped += e.code == Code::interrupted;
    }
    other.join();
    mine.run(session);
    EXPECT_TRUE(mine.equals(want));
  }
  EXPECT_EQ(stopped, rounds);
}

TEST(Concurrent, ABadIndexEndsEveryWorkersRun) {
  Session session(program(), options(3, 4));
  Arrays good(4, 2), bad(4, 2);
  bad.id.as<std::int64_t>()[3] = 8;
  for (int r = 0; r < rounds; ++r) {
    EXPECT_THROW(bad.run(session), Error);
    good.run(session);
  }
  EXPECT_TRUE(good.equals(wanted(4, 2)));
}

}  // namespace
}  // namespace tilewright
