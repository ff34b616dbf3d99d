// Decisions that are kept: a selection (select.h) is made again only when the live share has left its bucket, so that a
// run seldom waits for a search. Buckets are half octaves of the share; one is left for its neighbour only after
// several runs outside of it and its rim, so that a share at an edge does not change its mind from run to run.
//
//   live 5.0 5.1 4.8 5.2 %      one search, one decision
//   live 5.0 40 42 5.1 %        a search at 40 %; at 5.1 % the first decision is there already
#pragma once
#include <functional>
#include <map>

#include "sparse/select.h"

namespace tilewright {

int bucket_of(std::int64_t live, std::int64_t cells); // 0: all; 2 more for each half; one bucket of its own for none

class Decisions {
public:
  static constexpr int patience = 3;        // runs in a neighbouring bucket before it is entered
  static constexpr std::int64_t trust = 64; // runs after which a decision is looked for again: a pattern may change and
                                            // keep its share
  // `search` is called where the bucket has no decision yet, or an old one.
  const Selection& at(std::int64_t live, std::int64_t cells, const std::function<Selection()>& search);

  std::int64_t searches() const { return searches_; }
  double last_search_seconds() const { return seconds_; }
  const Selection* last() const { return last_; }
  double last_share() const { return share_; }

private:
  struct Kept {
    Selection selection;
    std::int64_t runs = 0;
  };
  std::map<int, Kept> kept_;
  int bucket_ = -1, outside_ = 0;
  std::int64_t searches_ = 0;
  double seconds_ = 0, share_ = 0;
  const Selection* last_ = nullptr;
};

} // namespace tilewright
