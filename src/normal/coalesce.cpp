#include <algorithm>
#include <map>
#include <set>

#include "normal/passes.h"

namespace tilewright {

namespace {

using AxisPair = std::pair<AxisId, AxisId>;                    // outer, inner: they become one axis, extent * outer + inner
using DimPlace = std::pair<TensorId, int>;                     // dims k and k + 1 of a tensor become one

bool has(const Index& i, const AxisPair& pair) { return mentions_axis(i, pair.first) || mentions_axis(i, pair.second); }

// Which axes would have to be merged, and which dims, if two dims of one tensor are: all statements that see a dim follow, and all
// tensors that such a statement sees. Refused as soon as one cannot.
struct Closure {
  const Program& p;
  const std::vector<std::vector<StatementId>>& users;          // by tensor: statements that read or write it
  const std::set<TensorId>& fixed;
  std::map<StatementId, std::set<AxisPair>> axes{};
  std::set<DimPlace> dims{};
  std::vector<DimPlace> open{};

  bool grow(DimPlace from) {
    open.push_back(from);
    while (!open.empty()) {
      const DimPlace place = open.back();
      open.pop_back();
      if (dims.insert(place).second && !dim(place)) return false;
    }
    return true;
  }

  const Size& extent(const Statement& s, AxisId a) const { return s.axes[static_cast<std::size_t>(a)]; }

  bool dim(DimPlace place) {
    const auto [t, k] = place;
    if (fixed.count(t) || dims.count({t, k - 1}) || dims.count({t, k + 1})) return false;
    for (StatementId id : users[static_cast<std::size_t>(t)]) {
      const Statement& s = *p.statement(id);
      bool fits = true;
      auto access = [&](const std::vector<Index>& at) {
        const auto a = plain_axis(at[static_cast<std::size_t>(k)]), b = plain_axis(at[static_cast<std::size_t>(k) + 1]);
        const auto& of = p.tensor(t).dims;
        fits = fits && a && b && *a != *b && extent(s, *a) == of[static_cast<std::size_t>(k)] && extent(s, *b) == of[static_cast<std::size_t>(k) + 1] &&
               statement(id, {*a, *b});
      };
      for_each_access(s, [&](const Access& a) {
        if (a.tensor == t && fits) access(a.at);
      });
      if (fits && s.out == t) access(s.at);
      if (!fits) return false;
    }
    return true;
  }

  bool statement(StatementId id, AxisPair pair) {
    const Statement& s = *p.statement(id);
    auto& mine = axes[id];
    if (mine.count(pair)) return true;
    for (const AxisPair& other : mine)
      for (AxisId x : {pair.first, pair.second})
        if (other.first == x || other.second == x) return false;
    mine.insert(pair);
    // Reductions keep their order: the inner axis follows the outer one.
    const auto a = std::find(s.reduced.begin(), s.reduced.end(), pair.first), b = std::find(s.reduced.begin(), s.reduced.end(), pair.second);
    if ((a == s.reduced.end()) != (b == s.reduced.end()) || (a != s.reduced.end() && b != a + 1)) return false;
    for (AxisId x : {pair.first, pair.second})
      if (uses_axis_value(s.body, x) || uses_axis_value(s.guard, x)) return false;
    bool fits = indices(s, s.out, s.at, pair);
    for_each_access(s, [&](const Access& access) { fits = fits && indices(s, access.tensor, access.at, pair); });
    return fits;
  }

  // Each index has neither axis, both as digits of one number, or is the outer one with the inner one next to it.
  bool indices(const Statement& s, TensorId t, const std::vector<Index>& at, const AxisPair& pair) {
    for (std::size_t d = 0; d < at.size(); ++d) {
      if (!has(at[d], pair)) continue;
      if (!is_affine(at[d])) return false;
      const Size outer = coefficient_of(at[d], pair.first), inner = coefficient_of(at[d], pair.second);
      if (inner != Size(0) && outer == inner * extent(s, pair.second)) continue;
      if (plain_axis(at[d]) == pair.second && d > 0 && plain_axis(at[d - 1]) == pair.first) continue;
      if (plain_axis(at[d]) != pair.first || d + 1 == at.size() || plain_axis(at[d + 1]) != pair.second) return false;
      open.push_back({t, static_cast<int>(d)});
    }
    return true;
  }
};

// One statement with its pairs merged, and with the dims of what it reads and writes.
struct Merging {
  const Statement& s;
  const std::set<AxisPair>& pairs;
  const std::set<DimPlace>& dims;

  bool inner(AxisId x) const {
    return std::any_of(pairs.begin(), pairs.end(), [&](const AxisPair& pair) { return pair.second == x; });
  }
  AxisId renamed(AxisId x) const {
    AxisId gone = 0;
    for (const AxisPair& pair : pairs) gone += pair.second < x;
    return x - gone;
  }

  Index index(const Index& i) const {
    Index out = i;
    out.terms.clear();
    for (Index::Term t : i.terms) {
      const AxisId* x = std::get_if<AxisId>(&t.of);
      if (x) {
        if (inner(*x)) continue;                             // stands in the term of its outer axis
        for (const AxisPair& pair : pairs)
          if (pair.first == *x && coefficient_of(i, pair.second) != Size(0)) t.coefficient = coefficient_of(i, pair.second);
        t.of = renamed(*x);
      } else if (const auto* nested = std::get_if<std::shared_ptr<const Index>>(&t.of)) {
        t.of = std::make_shared<const Index>(index(**nested));
      } else {
        const Access& a = *std::get<std::shared_ptr<const Access>>(t.of);
        t.of = std::make_shared<const Access>(Access{a.tensor, indices(a.tensor, a.at), scalar(a.otherwise)});
      }
      out.terms.push_back(std::move(t));
    }
    return out;
  }

  std::vector<Index> indices(TensorId t, const std::vector<Index>& at) const {
    std::vector<Index> out;
    for (std::size_t d = 0; d < at.size(); ++d) {
      out.push_back(index(at[d]));
      if (dims.count({t, static_cast<int>(d)})) ++d;          // its inner dim
    }
    return out;
  }

  ScalarRef scalar(const ScalarRef& body) const {
    if (!body) return body;
    return rewrite(body, [&](const ScalarRef& node) -> ScalarRef {
      if (node->op == Op::axis) return axis_value(renamed(std::get<AxisId>(node->leaf)), node->dtype);
      if (node->op != Op::read) return node;
      const Access& a = std::get<Access>(node->leaf);
      auto copy = std::make_shared<Scalar>(*node);
      copy->leaf = Access{a.tensor, indices(a.tensor, a.at), a.otherwise};   // whose `else` is rewritten already
      return copy;
    });
  }

  Statement run() const {
    Statement out = s;
    out.axes.clear(), out.names.clear(), out.reduced.clear();
    for (AxisId x = 0; x < static_cast<AxisId>(s.axes.size()); ++x) {
      if (inner(x)) continue;
      Size extent = s.axes[static_cast<std::size_t>(x)];
      std::string name = s.names.empty() ? "" : s.names[static_cast<std::size_t>(x)];
      for (const AxisPair& pair : pairs)
        if (pair.first == x) {
          extent = extent * s.axes[static_cast<std::size_t>(pair.second)];
          if (!s.names.empty()) name += s.names[static_cast<std::size_t>(pair.second)];
        }
      while (std::count(out.names.begin(), out.names.end(), name) > 0) name += "_";
      out.axes.push_back(extent);
      if (!s.names.empty()) out.names.push_back(name);
    }
    for (AxisId r : s.reduced)
      if (!inner(r)) out.reduced.push_back(renamed(r));
    out.at = indices(s.out, s.at);
    out.body = scalar(s.body);
    out.guard = scalar(s.guard);
    return out;
  }
};

// Tensors whose dims others see: what the caller gives and gets, what opaque nodes work on, and what is used as an index.
std::set<TensorId> fixed_tensors(const Program& p) {
  std::set<TensorId> fixed = p.results();
  auto gathers = [&](auto&& self, const Index& i) -> void {
    for (const Index::Term& t : i.terms) {
      if (const auto* nested = std::get_if<std::shared_ptr<const Index>>(&t.of)) self(self, **nested);
      if (const auto* a = std::get_if<std::shared_ptr<const Access>>(&t.of)) {
        for_each_access(i, [&](const Access& inside) { fixed.insert(inside.tensor); });
        for (const Index& inner : (*a)->at) self(self, inner);
      }
    }
  };
  for (const auto& node : p.nodes)
    if (const Opaque* o = std::get_if<Opaque>(&node)) {
      fixed.insert(o->in.begin(), o->in.end());
      fixed.insert(o->out.begin(), o->out.end());
    } else {
      for_each_access(std::get<Statement>(node), [&](const Access& a) {
        for (const Index& i : a.at) gathers(gathers, i);
      });
    }
  for (std::size_t t = 0; t < p.tensors.size(); ++t) {
    const Tensor& tensor = p.tensors[t];
    const bool ours = tensor.kind == Kind::intermediate || (tensor.kind == Kind::weight && !tensor.data.empty());
    if (!ours || tensor.stored_in || tensor.sparse) fixed.insert(static_cast<TensorId>(t));
  }
  return fixed;
}

void apply(Program& p, const Closure& c) {
  for (const auto& [id, pairs] : c.axes) {
    auto& node = p.nodes[static_cast<std::size_t>(id)];
    node = Merging{std::get<Statement>(node), pairs, c.dims}.run();
  }
  for (auto place = c.dims.rbegin(); place != c.dims.rend(); ++place) {                // the last dims of a tensor first
    auto& dims = p.tensor(place->first).dims;
    dims[static_cast<std::size_t>(place->second)] = dims[static_cast<std::size_t>(place->second)] * dims[static_cast<std::size_t>(place->second) + 1];
    dims.erase(dims.begin() + place->second + 1);
  }
}

}  // namespace

Program coalesce(Program p) {
  const std::set<TensorId> fixed = fixed_tensors(p);
  std::vector<std::vector<StatementId>> users = readers_of(p);
  const auto writers = writers_of(p);
  for (std::size_t t = 0; t < users.size(); ++t)
    for (StatementId w : writers[t])
      if (std::find(users[t].begin(), users[t].end(), w) == users[t].end()) users[t].push_back(w);
  for (TensorId t = 0; t < static_cast<TensorId>(p.tensors.size()); ++t) {
    if (fixed.count(t) || users[static_cast<std::size_t>(t)].empty()) continue;
    for (int k = 0; k + 1 < static_cast<int>(p.tensor(t).dims.size());) {
      Closure c{p, users, fixed};
      if (c.grow({t, k})) apply(p, c);                                                  // k may go with the next one too
      else ++k;
    }
  }
  return p;
}

}  // namespace tilewright
