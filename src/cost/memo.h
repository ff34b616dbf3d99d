// Sums over tiles depend on the sizes of a few steps only: a lattice of sizes asks for each of them many times.
//
//   a lattice of 8 x 8 x 6 sizes, a tensor cut by the first step only:   8 sums instead of 384
#pragma once
#include <cstdint>
#include <vector>

namespace tilewright {

// Where each step's size stands among those seen before.
class Places {
 public:
  static constexpr std::size_t most = 32;
  void find(const std::vector<std::int64_t>& sizes) {
    seen_.resize(sizes.size());
    at_.resize(sizes.size());
    for (std::size_t s = 0; s < sizes.size(); ++s) {
      std::vector<std::int64_t>& seen = seen_[s];
      std::size_t n = 0;
      while (n < seen.size() && seen[n] != sizes[s]) ++n;
      if (n == seen.size() && n < most) seen.push_back(sizes[s]);
      at_[s] = n;
    }
  }
  std::size_t operator[](std::size_t step) const { return at_[step]; }      // `most`: too many to remember

 private:
  std::vector<std::vector<std::int64_t>> seen_;
  std::vector<std::size_t> at_;
};

// A value for each combination of the sizes of up to two steps.
class Memo {
 public:
  template <class F> std::int64_t at(const Places& places, const std::vector<std::size_t>& steps, F&& compute) const {
    std::size_t place = 0;
    for (std::size_t s : steps) {
      if (steps.size() > 2 || places[s] >= Places::most) return compute();
      place = place * Places::most + places[s];
    }
    if (values_.size() <= place) values_.resize(place + 1, -1);
    if (values_[place] < 0) values_[place] = compute();
    return values_[place];
  }

 private:
  mutable std::vector<std::int64_t> values_;                                // -1: not known; values are never negative
};

}  // namespace tilewright
