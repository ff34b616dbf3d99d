// A region as a program of its own: its statements, and the tensors that they mention. What is asked about a region - its roles,
// its laws, its streams, its boxes and their cost - has the same answer there, and whatever walks or copies the program then takes
// no longer than the region is large.
//
//   a network of 300 statements, the region of statements 40 and 42      a program of 2 statements and 5 tensors
//
// Two regions with equal signatures differ in names and in the tensors they stand at only: what holds of one holds of the other.
#pragma once
#include <map>

#include "law/region.h"

namespace tilewright {

struct Excerpt {
  std::shared_ptr<const Program> program;
  Region region;                                     // its boundary is fixed: what others read is still an output
};
Excerpt excerpt_of(const Program&, const Region&);

// orders: how the tensors lie, where that matters too: the order of the dims of each.
std::string signature(const Program&, const Region&, const std::vector<std::vector<int>>* orders = nullptr);


// Of sets of statements that need not be regions, with what of them others read: of two with equal signatures both are regions, equal
// ones, or none is, where no path leaves the sets and comes back. Each statement is written once; `known` numbers what was written, for
// several programs if they share it.
class Signatures {
 public:
  Signatures(const Program&, const Readers&, const std::vector<std::vector<int>>* orders, std::map<std::string, int>& known);
  std::string of(const std::vector<StatementId>&) const;

 private:
  struct Shape { int number = -1; std::vector<TensorId> tensors; };                 // in the order in which it names them first
  const Program& p_;
  const Readers& readers_;
  std::vector<Shape> shapes_;
};

}  // namespace tilewright
