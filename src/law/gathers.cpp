#include "law/gathers.h"

#include <algorithm>

#include <fmt/format.h>

#include "expr/scalar.h"

namespace tilewright {

namespace {

// An element picked by a tensor along an axis that other statements reduce is the sum of the one element whose index is
// that.
struct Gathers {
  Program& p;
  Builder& build;

  std::optional<std::size_t> gathered(const Access& a) const {
    std::optional<std::size_t> dim;
    for (std::size_t d = 0; d < a.at.size(); ++d) {
      if (plain_axis(a.at[d])) continue;
      const bool one = a.at[d].terms.size() == 1 && a.at[d].offset == Size(0) && a.at[d].div == Size(1) &&
                       a.at[d].mod == Size(0) && a.at[d].terms[0].coefficient == Size(1) &&
                       std::holds_alternative<std::shared_ptr<const Access>>(a.at[d].terms[0].of);
      if (!one || dim) return std::nullopt;
      dim = d;
    }
    return dim;
  }

  bool reduced_elsewhere(TensorId t, std::size_t dim) const {
    bool found = false;
    for (const auto& node : p.nodes) {
      const Statement* s = std::get_if<Statement>(&node);
      if (!s || s->reduced.empty()) continue;
      for_each_access(*s, [&](const Access& a) {
        const auto axis = a.tensor == t && dim < a.at.size() ? plain_axis(a.at[dim]) : std::nullopt;
        found = found || (axis && std::find(s->reduced.begin(), s->reduced.end(), *axis) != s->reduced.end());
      });
    }
    return found;
  }

  std::optional<Statement> replaced(Statement& s) {
    std::optional<Statement> pick;
    s.body = rewrite(s.body, [&](const ScalarRef& node) -> ScalarRef {
      if (node->op != Op::read || pick) return node;
      const Access& a = std::get<Access>(node->leaf);
      const Tensor& t = p.tensor(a.tensor);
      const auto dim = gathered(a);
      if (!dim || a.otherwise || t.kind != Kind::intermediate || !is_float(t.dtype) ||
          !reduced_elsewhere(a.tensor, *dim))
        return node;
      if (std::find(p.outputs.begin(), p.outputs.end(), a.tensor) != p.outputs.end()) return node;
      Statement sum;
      std::vector<Index> at, read_at;
      std::vector<Size> dims;
      std::vector<Index> with(s.axes.size(), constant_index(0));
      for (AxisId x = 0; x < static_cast<AxisId>(s.axes.size()); ++x) {
        if (!mentions_axis(node, x)) continue;
        with[static_cast<std::size_t>(x)] = axis_index(static_cast<AxisId>(sum.axes.size()));
        sum.at.push_back(with[static_cast<std::size_t>(x)]);
        read_at.push_back(axis_index(x));
        sum.axes.push_back(s.axes[static_cast<std::size_t>(x)]);
        dims.push_back(sum.axes.back());
        sum.names.push_back(s.names.empty() ? fmt::format("a{}", x) : s.names[static_cast<std::size_t>(x)]);
      }
      const AxisId v = static_cast<AxisId>(sum.axes.size());
      sum.axes.push_back(t.dims[*dim]), sum.names.push_back("v"), sum.reduced = {v}, sum.reducer = Reducer::sum;
      for (std::size_t d = 0; d < a.at.size(); ++d)
        at.push_back(d == *dim ? axis_index(v) : substitute(p, a.at[d], with));
      const auto& which = std::get<std::shared_ptr<const Access>>(a.at[*dim].terms[0].of);
      const ScalarRef wanted = substitute(p, read(p, which->tensor, which->at, which->otherwise), with);
      sum.body = read(p, a.tensor, at);
      sum.guard = binary(Op::eq, axis_value(v, DType::i64), cast(wanted, DType::i64));
      sum.out = build.tensor(p.tensor(s.out).name + "_picked", compute_type(t.dtype), dims);
      sum.label = s.label, sum.place = s.place;
      const ScalarRef value = read(p, sum.out, read_at);
      pick = std::move(sum);
      return compute_type(t.dtype) == t.dtype ? value : cast(value, t.dtype);
    });
    return pick;
  }
};

} // namespace

void gathers_as_sums(Program& p) {
  Builder build(p);
  Gathers g{p, build};
  for (std::size_t n = 0; n < p.nodes.size(); ++n)
    if (Statement* s = std::get_if<Statement>(&p.nodes[n])) {
      Statement copy = *s;
      while (auto pick = g.replaced(copy)) {
        p.nodes[n] = copy;
        p.nodes.insert(p.nodes.begin() + static_cast<std::ptrdiff_t>(n++), std::move(*pick));
      }
    }
}

} // namespace tilewright
