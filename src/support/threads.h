// A fork-join pool: one parallel region at a time, entered by every worker; the caller is worker 0.
//
//   Pool pool(default_threads());
//   Barrier barrier(pool.size());
//   pool.run([&](int worker) {
//     first_half(worker);
//     barrier.wait(worker);      // nobody goes on before everybody has come
//     second_half(worker);
//   });
//
// Regions are short (some 20 us and more), so waiting threads spin for some microseconds before they sleep. A pool may
// be used from any thread; regions of one pool take turns. A region must not enter its own pool.
//
// Exceptions: the first one that leaves a worker is thrown again by run, after all workers have left. A worker that
// throws never reaches the barriers behind, so a region that uses a barrier must not throw between its first wait and
// its last, unless it calls barrier.leave() on its way out: the others then no longer wait for it. BarrierGuard does
// that.
#pragma once
#include <atomic>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <type_traits>
#include <vector>

namespace tilewright {

template <class Signature> class FunctionRef;

// A reference to something callable, which must outlive the call. No allocation, unlike std::function.
template <class R, class... Args> class FunctionRef<R(Args...)> {
public:
  template <class F, class = std::enable_if_t<!std::is_same_v<std::remove_cvref_t<F>, FunctionRef>>>
  FunctionRef(F&& f) // NOLINT: implicit on purpose, as a parameter
      : object_(const_cast<void*>(static_cast<const void*>(std::addressof(f)))),
        call_([](void* object, Args... args) -> R {
          return (*static_cast<std::remove_reference_t<F>*>(object))(static_cast<Args>(args)...);
        }) {}
  R operator()(Args... args) const { return call_(object_, static_cast<Args>(args)...); }

private:
  void* object_;
  R (*call_)(void*, Args...);
};

int default_threads(); // physical cores among the processors that this process may use, at least 1

class Pool {
public:
  explicit Pool(int threads); // threads - 1 are started; at least one
  ~Pool();
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;
  int size() const;
  void run(FunctionRef<void(int worker)> region);

private:
  struct State;
  std::unique_ptr<State> state_;
};

// Two functions that do not need each other: on two threads, or one after the other where there is only one.
void run_both(int threads, FunctionRef<void()> first, FunctionRef<void()> second);

class Barrier {
public:
  explicit Barrier(int threads);
  void wait(int worker); // what was written before by any worker is seen after by all
  void leave();          // this worker waits no more: the others need not wait for it

private:
  alignas(64) std::atomic<std::uint32_t> missing_;
  alignas(64) std::atomic<std::uint32_t> phase_;
  std::atomic<std::uint32_t> members_;
  int spins_;
  void open();
};

// Leaves the barrier when a worker is unwound by an exception.
class BarrierGuard {
public:
  explicit BarrierGuard(Barrier& barrier) : barrier_(barrier), pending_(std::uncaught_exceptions()) {}
  ~BarrierGuard() {
    if (std::uncaught_exceptions() > pending_) barrier_.leave();
  }
  BarrierGuard(const BarrierGuard&) = delete;
  BarrierGuard& operator=(const BarrierGuard&) = delete;

private:
  Barrier& barrier_;
  int pending_;
};

} // namespace tilewright
