// Streams: a region run along one axis, a chunk of it a turn, where statements read statistics that are not complete yet.
//
//   m[q] = max[x] S[q x];  E[q x] = exp(S - m);  Z[q] = sum[x] E;  O[q d] = sum[x] E * V[x d]        along x
//
//   a turn      m_was = m;  m = max(m, S of the chunk);  E of the chunk;  scale = exp(m_was - m)
//               Z = Z * scale, then plus E of the chunk;  O likewise
//
// A sum whose body is c(m) * f(x) is corrected by c(m) / c(m_was) when m moves. One whose body is a polynomial in a mean, like
// (X - M)^2, is corrected by the sums of its derivatives, which run beside it: the Taylor series of a polynomial is finite. A mean is
// the sum so far, scaled to all elements by how many were seen: at the end the scale is 1. The state is empty where a maximum is
// still -inf or nothing was counted: what was summed until then counts for nothing.
#pragma once
#include "law/region.h"

namespace tilewright {

struct Stream {
  enum class Anchor { none, running, chunk };               // how the sum follows its statistics
  struct State {
    TensorId tensor = -1;
    StatementId reduction = -1;                             // adds a chunk's share
    StatementId corrected = -1;                             // a map onto the same tensor, before the share is added; -1: nothing moves it
    ScalarRef moved;                                        // what it does, but for the empty state; over the reduction's parallel axes, in their order
    Anchor anchor = Anchor::none;
    std::vector<TensorId> statistics;                       // that it follows
  };
  struct Kept { TensorId statistic, was; StatementId copy; };

  // The given program with what the loop needs beside it: tensors for the anchors of the turn before, the maps that keep and
  // correct, further sums. Statements of the region keep their ids; their bodies read statistics themselves and no maps of them.
  Program program;
  Region region;
  RegionAxis axis = -1;
  std::vector<StatementId> ahead;                           // of the loop: what needs nothing of it
  std::vector<StatementId> turn;                            // in order
  std::vector<StatementId> finish;                          // behind the loop, in order
  std::vector<State> state;                                 // in the order of their reductions
  std::vector<Kept> kept;
  std::vector<StatementId> scales;                          // of the turn: maps of statistics alone, by which sums are multiplied
  const State* state_of(TensorId) const;
};

// Refused with the term that blocks it. Also of a region in which nothing is read before it is complete: then nothing is corrected.
Or<Stream> derive_stream(const Program&, const Region&, RegionAxis);
// Whether some statement along the axis reads what is reduced over it: then only a derived stream may run along it.
bool needs_stream(const Program&, const Region&, RegionAxis);

// {state, init, step, finish, merge}, a line a statement.
struct StreamText { std::string axis; std::vector<std::string> state, init, step, finish, merge; };
StreamText text_of(const Stream&);
std::string print(const Stream&);

}  // namespace tilewright
