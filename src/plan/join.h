// Which groups become one kernel: every connected, convex set of a few neighbouring groups whose axes unify is priced
// with its best tiles, and dynamic programming finds the partition of the whole program that costs least.
//
//   groups A -> B -> C -> D, apart 10 each;  A+B 14, B+C 12, C+D 15        A, B+C, D 32; A+B, C+D 29: the second
//
// A state is a set of groups that are done: closed under "needs". A step adds one kernel all of whose sources are done.
// In a chain the states are its prefixes; beside a branch there are a few more. Steps that only reorder kernels are
// left out, and where there are still too many states the cheapest are kept, which the report then says.
#pragma once
#include <map>
#include <set>

#include "law/cascades.h"
#include "plan/choose.h"

namespace tilewright {

struct Joined {
  Grouping grouping;
  std::vector<Choice> choices; // one a group, as the next three
  std::vector<int> groups;
  std::vector<std::int64_t> apart;
  std::vector<std::vector<Alternative>> alternatives;
  Search search;
};
// What was found out about regions, by signature: it holds in other programs too, for one machine and the same options.
struct Prices {
  std::map<std::string, Choice> known; // with what they cost apart
  std::map<const Choice*, Standing> stands; // where each was found
  std::set<std::string> none;          // sets that are no region
  std::map<std::string, int> statements;    // numbers of their own signatures
  KnownStreams streams;
};
int planning_threads(const Machine&, const PlanOptions&);
Joined join(const Program&, const Machine&, const PlanOptions&, const std::vector<DimOrder>&, const Grouping&, Prices&);

// Who reads each tensor, and how many statements write it: found once where many sets are asked about.
struct Ends {
  Readers readers;
  std::vector<int> writers;
};
Ends ends_of(const Program&);
// The region that groups would be together, or the first reason against it.
Or<Region> joined_region(const Program&, const Machine&, const std::vector<StatementId>&, const Ends* = nullptr);

} // namespace tilewright
