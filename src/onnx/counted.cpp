#include "onnx/counted.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "expr/scalar.h"
#include "support/error.h"

namespace tilewright::onnx {
namespace {

constexpr const char* advice =
    "rows whose number is known only when the model has run can be copied, gathered by and computed "
    "with one by one; what needs all of them, or how many there are, cannot follow";

class Follower {
public:
  Follower(Program& p, CountedTensors& counted) : p_(p), counted_(counted) {}

  void run(std::size_t first) {
    for (std::size_t n = first; n < p_.nodes.size(); ++n) {
      if (const auto* o = std::get_if<Opaque>(&p_.nodes[n])) {
        for (TensorId in : o->in)
          if (counted_.contains(in)) refuse(in, "are all needed");
      } else {
        statement(std::get<Statement>(p_.nodes[n]));
      }
    }
    // A tensor's pieces come from one node. Those written before the first counted one are looked at again.
    for (std::size_t n = first; n < p_.nodes.size(); ++n)
      if (const auto* s = std::get_if<Statement>(&p_.nodes[n]))
        if (auto found = counted_.find(s->out); found != counted_.end()) agrees(*s, found->second);
  }

private:
  Program& p_;
  CountedTensors& counted_;
  using Live = std::map<AxisId, TensorId>; // axes of a statement, and what counts their points

  [[noreturn]] void refuse(TensorId t, const std::string& what) const {
    throw Error(Code::unsupported, {},
                fmt::format("how many rows '{}' has is known only when the model has run, and they {}",
                            p_.tensor(t).name, what),
                advice);
  }

  void statement(Statement& s) {
    const Live live = axes_of(s);
    if (live.empty()) return;
    for_each_access(s, [&](const Access& a) { apart(s, a, live); });
    results(s, live);
    if (can_fail(s)) guard(s, live);
  }

  // The axes that run along counted dims, each of which must be carried whole.
  Live axes_of(const Statement& s) const {
    Live live;
    for_each_access(s, [&](const Access& a) {
      const auto found = counted_.find(a.tensor);
      if (found == counted_.end()) return;
      for (std::size_t d = 0; d < found->second.size(); ++d) {
        const TensorId count = found->second[d];
        if (count < 0) continue;
        const auto axis = plain_axis(a.at[d]);
        if (!axis || s.axes[static_cast<std::size_t>(*axis)] != p_.tensor(a.tensor).dims[d])
          refuse(a.tensor, "are taken in part, or joined with others");
        if (std::find(s.reduced.begin(), s.reduced.end(), *axis) != s.reduced.end())
          refuse(a.tensor, "are reduced to one");
        const auto [known, fresh] = live.emplace(*axis, count);
        if (known->second != count) refuse(a.tensor, "meet rows that are counted otherwise");
      }
    });
    return live;
  }

  // Where a counted axis indexes another dim, that one has all its rows.
  void apart(const Statement& s, const Access& a, const Live& live) const {
    const auto found = counted_.find(a.tensor);
    for (std::size_t d = 0; d < a.at.size(); ++d) {
      if (found != counted_.end() && found->second[d] >= 0) continue;
      for (const auto& [axis, count] : live)
        if (runs_along(a.at[d], axis))
          refuse(counted_tensor(s, count),
                 fmt::format("meet the {} of '{}'", p_.tensor(a.tensor).dims[d].text(), p_.tensor(a.tensor).name));
    }
  }

  TensorId counted_tensor(const Statement& s, TensorId count) const {
    TensorId t = s.out;
    for_each_access(s, [&](const Access& a) {
      const auto found = counted_.find(a.tensor);
      if (found != counted_.end() &&
          std::find(found->second.begin(), found->second.end(), count) != found->second.end())
        t = a.tensor;
    });
    return t;
  }

  // Not through an element of an index tensor: that is read row by row.
  static bool runs_along(const Index& i, AxisId axis) {
    return std::any_of(i.terms.begin(), i.terms.end(), [&](const Index::Term& t) {
      if (const auto* nested = std::get_if<std::shared_ptr<const Index>>(&t.of)) return runs_along(**nested, axis);
      const auto* own = std::get_if<AxisId>(&t.of);
      return own && *own == axis;
    });
  }

  void results(const Statement& s, const Live& live) {
    for (const auto& [axis, count] : live) {
      std::size_t dim = 0;
      while (dim < s.at.size() && !mentions_axis(s.at[dim], axis)) ++dim;
      TW_ASSERT(dim < s.at.size());
      const bool whole = plain_axis(s.at[dim]) && s.axes[static_cast<std::size_t>(axis)] == p_.tensor(s.out).dims[dim];
      if (!whole) refuse(counted_tensor(s, count), "are joined with others");
      auto& counts = counted_.try_emplace(s.out, s.at.size(), -1).first->second;
      if (counts[dim] >= 0 && counts[dim] != count) refuse(s.out, "are counted in two ways");
      counts[dim] = count;
    }
  }

  // Every piece of a counted tensor runs along the counted dims; one that reads nothing there (a padding) fits any
  // count.
  void agrees(const Statement& s, const std::vector<TensorId>& counts) const {
    const Live live = axes_of(s);
    for (std::size_t d = 0; d < counts.size(); ++d) {
      if (counts[d] < 0) continue;
      const auto axis = plain_axis(s.at[d]);
      if (!axis || s.axes[static_cast<std::size_t>(*axis)] != p_.tensor(s.out).dims[d])
        refuse(s.out, "are joined with others");
      if (live.contains(*axis)) continue;
      for_each_access(s, [&](const Access& a) {
        for (const Index& i : a.at)
          if (runs_along(i, *axis)) refuse(s.out, fmt::format("meet those of '{}'", p_.tensor(a.tensor).name));
      });
    }
  }

  // Reads through an element, and divisions of integers: what lies past a count must not be an error.
  bool can_fail(const Statement& s) const {
    bool gathers = false, divides = false;
    for_each_access(s, [&](const Access& a) {
      for (const Index& i : a.at) for_each_access(i, [&](const Access&) { gathers = true; });
    });
    auto look = [&](const ScalarRef& node) {
      const bool division =
          node->op == Op::div || node->op == Op::floor_div || node->op == Op::mod || node->op == Op::pow;
      divides |= division && !is_float(node->dtype);
      return node;
    };
    rewrite(s.body, look);
    if (s.guard) rewrite(s.guard, look);
    return gathers || divides;
  }

  void guard(Statement& s, const Live& live) const {
    if (s.reducer == Reducer::argmax || s.reducer == Reducer::argmin)
      refuse(s.out, "would have to be left out of an argmax");
    for (const auto& [axis, count] : live) {
      const ScalarRef below = binary(Op::lt, axis_value(axis, DType::i64), read(p_, count, {}));
      s.guard = s.guard ? binary(Op::logical_and, below, s.guard) : below;
    }
  }
};

} // namespace

void follow_counts(Program& p, std::size_t first, CountedTensors& counted) {
  if (!counted.empty()) Follower(p, counted).run(first);
}

bool reads_counts(const Program& p, std::size_t first, const CountedTensors& counted) {
  std::set<TensorId> counts;
  for (const auto& [tensor, list] : counted) counts.insert(list.begin(), list.end());
  bool found = false;
  for (std::size_t n = first; n < p.nodes.size(); ++n)
    if (const auto* s = std::get_if<Statement>(&p.nodes[n]))
      for_each_access(s->body, [&](const Access& a) { found |= counts.contains(a.tensor); });
  return found;
}

} // namespace tilewright::onnx
