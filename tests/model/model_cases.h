// Programs with schedules for the tests of models: an axis is cut by its name.
#pragma once
#include <gtest/gtest.h>

#include "cost/cost.h"
#include "expr/text.h"
#include "law/cascades.h"
#include "law/stream_forms.h"
#include "model/flow.h"
#include "model/optimum.h"
#include "normal/normal.h"

namespace tilewright {

inline constexpr const char* attention =
    "program attention(q, x, d)\ninput Q[q d], K[x d], V[x d] : f32\nS[q x] = sum[d] Q[q d] * K[x d] / sqrt(d)\n"
    "P[q x] = softmax[x] S[q x]\nO[q d] = sum[x] P[q x] * V[x d]\noutput O\n";

inline constexpr const char* causal =
    "program causal(q, x, d)\ninput Q[q d], K[x d], V[x d] : f32\nS[q x] = sum[d] Q[q d] * K[x d] / sqrt(d)\n"
    "P[q x] = softmax[x] S[q x] where index(x) <= index(q)\nO[q d] = sum[x] P[q x] * V[x d]\noutput O\n";
inline constexpr const char* heads =
    "program heads(h, q, x, d)\ninput Q[h q d], K[h x d], V[h x d] : f32\nS[h q x] = sum[d] Q[h q d] * K[h x d] / "
    "sqrt(d)\n"
    "P[h q x] = softmax[x] S[h q x]\nO[h q d] = sum[x] P[h q x] * V[h x d]\noutput O\n";
inline constexpr const char* grouped =
    "program grouped(h, r, q, x, d)\ninput Q[h r q d], K[h x d], V[h x d] : f32\nS[h r q x] = sum[d] Q[h r q d] * K[h "
    "x d] / sqrt(d)\n"
    "P[h r q x] = softmax[x] S[h r q x]\nO[h r q d] = sum[x] P[h r q x] * V[h x d]\noutput O\n";
inline constexpr const char* matmul =
    "program mm(a, b, c)\ninput A[a b], B[b c] : f32\nC[a c] = sum[b] A[a b] * B[b c]\noutput C\n";

using Cuts = std::vector<std::pair<std::string, std::int64_t>>;

struct Case {
  Program p;
  Region r;
  Schedule s;

  std::vector<TileSize> tiles() const {
    const Names n = names_of(r, s);
    std::vector<TileSize> out;
    for (std::size_t i = 0; i < s.steps.size(); ++i)
      if (s.steps[i].how == AxisStep::How::tile)
        out.push_back({n.steps[i], n.axes[static_cast<std::size_t>(s.steps[i].axis)],
                       static_cast<double>(r.axes[static_cast<std::size_t>(s.steps[i].axis)].constant())});
    return out;
  }
  Or<ClosedForm> closed() const {
    const Flow f = flow(p, r, s);
    return closed_form(f.run(Count::values), resident_part(f.operands(Count::values), f.stream_symbols(), tiles()),
                       tiles(), f.point);
  }
  std::int64_t exact() const { // values in the whole run, ragged ends and all
    std::int64_t total = 0;
    for (const Moved& m : cost(p, r, s, machine_named("generic-avx2")).moved)
      total += m.bytes / static_cast<std::int64_t>(bytes_of(p.tensor(m.tensor).dtype));
    return total;
  }
};

// The whole program as one region, in the form in which its reductions stream. A tile of an axis of extent 1 is left
// out.
inline Case case_of(const std::string& text, const Cuts& tiles, const Cuts& streams, const Binding& sizes = {}) {
  Case c{stream_forms(normalise(fix_sizes(parse(text, "case.tw"), sizes))), {}, {}};
  std::vector<StatementId> all;
  for (std::size_t n = 0; n < c.p.nodes.size(); ++n) all.push_back(static_cast<StatementId>(n));
  const auto whole = unify(c.p, all);
  EXPECT_TRUE(whole) << whole.reason();
  c.r = *whole;
  for (const auto& [cuts, how] : {std::pair{tiles, AxisStep::How::tile}, std::pair{streams, AxisStep::How::stream}})
    for (const auto& [name, size] : cuts) {
      const auto roles_of = roles(c.p, c.r);
      bool found_axis = size == 1 && std::none_of(c.r.names.begin(), c.r.names.end(),
                                                  [&, n = name](const std::string& x) { return x == n; });
      // Of several axes of that name the one along which statements follow each other.
      auto named = [&, n = name](std::size_t a) {
        return c.r.names[a].substr(0, c.r.names[a].find_last_not_of('\'') + 1) == n;
      };
      bool follows = false;
      for (std::size_t a = 0; a < c.r.axes.size(); ++a)
        follows |= named(a) && needs_stream(c.p, c.r, static_cast<RegionAxis>(a));
      for (std::size_t a = 0; a < c.r.axes.size() && !found_axis; ++a)
        if (named(a) &&
            (!follows || how == AxisStep::How::tile || needs_stream(c.p, c.r, static_cast<RegionAxis>(a))) &&
            (roles_of[a].reducer == Reducer::none) == (how == AxisStep::How::tile)) {
          c.s.steps.push_back({how, static_cast<RegionAxis>(a), size});
          found_axis = true;
        }
      EXPECT_TRUE(found_axis) << name;
    }
  return c;
}

} // namespace tilewright
