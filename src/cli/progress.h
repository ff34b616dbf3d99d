// A line on the terminal while something takes longer than a second: what, how far, how long.
//
//   verifying with the reference   3 s              benchmarking [#######------------] 12 of 60, 4 s
//
// Nothing is written where standard error is no terminal, or with --quiet. The line is wiped at the end.
#pragma once
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

#include "cli/arguments.h"

namespace tilewright {

class Progress {
public:
  Progress(const Common&, std::string what, int total = 0); // total 0: nobody knows how far
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  void step() { ++done_; }

private:
  void watch();

  std::string what_;
  int total_;
  std::atomic<int> done_{0};
  bool over_ = false;
  std::mutex mutex_;
  std::condition_variable end_;
  std::thread watcher_;
};

// The text of the line, `width` columns at most.
std::string progress_text(const std::string& what, int done, int total, double seconds, std::size_t width);

} // namespace tilewright
