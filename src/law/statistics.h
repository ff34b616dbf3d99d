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

namespace tilewright {

// Who writes what: the statements given, or all. A tensor in pieces, or written outside of them, has no writer.
class Lineage {
 public:
  explicit Lineage(const Program&);
  Lineage(const Program&, const std::vector<StatementId>&, std::set<TensorId> statistics);        // of all that they reduce
  const Statement* writer(TensorId) const;
  bool over_the_same(const Statement& reduction, const Statement& statistic) const;     // both reduce along one dim of one tensor
  bool is_statistic(const Statement& reduction, TensorId) const;                        // itself, not through maps
  bool carries(const Statement& reduction, TensorId) const;                             // a statistic, or a map that reads one
  std::set<TensorId> elements(const Statement& reduction) const;                        // tensors that it reads along a reduced axis itself
  const Program& program() const { return p_; }

 private:
  using Dims = std::set<std::pair<TensorId, std::size_t>>;
  const Dims& reach(const Statement&) const;
  void reach(TensorId, std::size_t dim, Dims&) const;
  const Program& p_;
  void note(StatementId);
  std::map<TensorId, StatementId> writers_;                       // -1: several
  std::optional<std::set<TensorId>> statistics_;
  mutable std::map<const Statement*, Dims> known_;
  mutable std::map<std::pair<const Statement*, TensorId>, bool> carried_;
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
