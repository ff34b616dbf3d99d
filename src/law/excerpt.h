// A region as a program of its own: its statements, and the tensors that they mention. What is asked about a region - its roles,
// its laws, its streams, its boxes and their cost - has the same answer there, and whatever walks or copies the program then takes
// no longer than the region is large.
//
//   a network of 300 statements, the region of statements 40 and 42      a program of 2 statements and 5 tensors
//
// Two regions with equal signatures differ in names and in the tensors they stand at only: what holds of one holds of the other.
#pragma once
#include "law/region.h"

namespace tilewright {

struct Excerpt {
  std::shared_ptr<const Program> program;
  Region region;                                     // its boundary is fixed: what others read is still an output
};
Excerpt excerpt_of(const Program&, const Region&);

// Of a set of statements that need not be a region, with what of it others read: of two with equal signatures both are regions, equal
// ones, or none is, where no path leaves the sets and comes back.
std::string signature(const Program&, const std::vector<StatementId>&, const Readers&, const std::vector<std::vector<int>>* orders = nullptr);
// orders: how the tensors lie, where that matters too: the order of the dims of each.
std::string signature(const Program&, const Region&, const std::vector<std::vector<int>>* orders = nullptr);

}  // namespace tilewright
