// Which results are statistics of a reduction: made over the same elements, and read by its body.
//
//   m[q] = max[x] S[q x];  E[q x] = exp(S[q x] - m[q]);  O[q d] = sum[x] E[q x] * V[x d]
//
// O and m run over the same dim of S, so m is a statistic of O: it is complete only behind a loop over x. Maps between the two are
// read through: O's body over its own axes is exp(S[q x] - m[q]) * V[x d].
#pragma once
#include <map>
#include <set>

#include "law/form.h"
#include "support/bits.h"

namespace tilewright {

// Who writes what: the statements given, or all. A tensor in pieces, or written outside of them, has no writer.
// What is reached through maps is kept for each tensor, so that a chain of residual sums is climbed once and not for each reduction.
class Lineage {
 public:
  explicit Lineage(const Program&);
  Lineage(const Program&, const std::vector<StatementId>&, std::set<TensorId> statistics);        // of all that they reduce
  void renew(TensorId);                                           // its writer was replaced; of what comes after, nothing was asked yet
  const Statement* writer(TensorId) const;
  bool over_the_same(const Statement& reduction, const Statement& statistic) const;     // both reduce along one dim of one tensor
  bool is_statistic(const Statement& reduction, TensorId) const;                        // itself, not through maps
  bool carries(const Statement& reduction, TensorId) const;                             // a statistic, or a map that reads one
  std::set<TensorId> elements(const Statement& reduction) const;                        // tensors that it reads along a reduced axis itself
  const Program& program() const { return p_; }

 private:
  using Key = std::pair<TensorId, AxisId>;                        // of a reduction: its result and its first reduced axis
  const Bits& reach(const Statement&) const;                      // dims of tensors that it reduces along, by number
  const Bits& reach(TensorId, std::size_t dim) const;
  const std::set<TensorId>& reductions_behind(TensorId) const;    // through maps
  std::size_t number(TensorId, std::size_t dim) const;
  void note(StatementId);

  const Program& p_;
  std::vector<StatementId> writers_;                              // by tensor; -1: none or several
  std::set<TensorId> several_;
  std::optional<std::set<TensorId>> statistics_;
  mutable std::vector<std::size_t> first_;                        // the number of a tensor's first dim
  mutable std::map<Key, Bits> reached_;
  mutable std::map<std::size_t, Bits> through_;
  mutable std::map<TensorId, std::set<TensorId>> behind_;
};

// A reduction's body and guard with the maps that carry statistics read through.
struct ReadThrough {
  struct Map { ScalarRef read, value; };          // a read of such a map over the reduction's axes, and what it stands for
  ScalarRef body, guard;
  std::vector<Map> maps;
  std::set<TensorId> statistics;                  // that are left, each a reduction
  std::string refused;                            // why a map could not be read through; empty: all were
};
ReadThrough read_through(const Lineage&, const Statement& reduction);
// Of that only the statistics, or nothing where a map cannot be read through.
std::optional<std::set<TensorId>> statistics_of(const Lineage&, const Statement& reduction);

// Atoms over the axes of a reduction, and what is known of their signs.
Atoms atoms_of(const Statement& reduction, const std::set<TensorId>& statistics);
Facts facts_of(const Lineage&, const Statement& reduction);

}  // namespace tilewright
