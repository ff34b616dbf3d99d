// A set of small numbers as bits, as long as its largest. Uniting and comparing go by words.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace tilewright {

class Bits {
 public:
  void insert(std::size_t n) {
    if (n / 64 >= words_.size()) words_.resize(n / 64 + 1);
    words_[n / 64] |= std::uint64_t{1} << n % 64;
  }
  Bits& operator|=(const Bits& more) {
    if (more.words_.size() > words_.size()) words_.resize(more.words_.size());
    for (std::size_t i = 0; i < more.words_.size(); ++i) words_[i] |= more.words_[i];
    return *this;
  }
  bool meets(const Bits& other) const {
    for (std::size_t i = 0; i < std::min(words_.size(), other.words_.size()); ++i)
      if (words_[i] & other.words_[i]) return true;
    return false;
  }
  bool empty() const { return words_.empty(); }                   // nothing is ever taken out

 private:
  std::vector<std::uint64_t> words_;
};

}  // namespace tilewright
