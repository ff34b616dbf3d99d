#include "sparse/decide.h"

#include <chrono>
#include <cmath>
#include <cstdlib>

namespace tilewright {

namespace {

constexpr int none_live = 127;
constexpr double rim = 0.1; // of a share, by which it may lie outside of its bucket

int bucket_of_share(double share) {
  return share <= 0 ? none_live : std::min(none_live - 1, static_cast<int>(std::lround(-2 * std::log2(share))));
}

} // namespace

int bucket_of(std::int64_t live, std::int64_t cells) {
  return cells <= 0 ? none_live : bucket_of_share(static_cast<double>(live) / static_cast<double>(cells));
}

const Selection& Decisions::at(std::int64_t live, std::int64_t cells, const std::function<Selection()>& search) {
  share_ = cells <= 0 ? 0 : static_cast<double>(live) / static_cast<double>(cells);
  const int now = bucket_of(live, cells);
  const bool inside = now == bucket_ || bucket_of_share(share_ * (1 - rim)) == bucket_ ||
                      bucket_of_share(share_ * (1 + rim)) == bucket_;
  outside_ = inside ? 0 : outside_ + 1;
  if (bucket_ < 0 || outside_ >= patience || (!inside && std::abs(now - bucket_) > 1)) bucket_ = now, outside_ = 0;
  Kept& kept = kept_[bucket_];
  if (kept.runs++ % trust == 0) {
    const auto then = std::chrono::steady_clock::now();
    kept.selection = search();
    seconds_ = std::chrono::duration<double>(std::chrono::steady_clock::now() - then).count();
    ++searches_;
  }
  last_ = &kept.selection;
  return kept.selection;
}

} // namespace tilewright
