#include "sparse/spread.h"

#include <algorithm>
#include <optional>

#include <fmt/format.h>

#include "law/skip.h"

namespace tilewright {

namespace {

bool is_zero(const ScalarRef& s) {
  double v = 1;
  return is_literal(s, &v) && v == 0;
}

// A reading behind casts.
const Access* read_of(const ScalarRef& s) {
  if (s->op == Op::cast) return read_of(s->args[0]);
  return s->op == Op::read ? &std::get<Access>(s->leaf) : nullptr;
}

struct Spreader {
  Program& p;
  const SpreadOptions& o;
  std::vector<std::string> found{};

  TensorId named(const std::string& name) const {
    for (std::size_t t = 0; t < p.tensors.size(); ++t)
      if (p.tensors[t].name == name) return static_cast<TensorId>(t);
    return -1;
  }

  // The dims of a tensor that its pattern speaks of; none where that is not clear.
  std::vector<std::size_t> dims_of_pattern(const Tensor& t) const {
    std::vector<std::size_t> dims;
    if (t.sparse->form == Sparse::zeros) {
      for (std::size_t d = 0; d < t.dims.size(); ++d) dims.push_back(d);
      return dims;
    }
    const TensorId source = named(t.sparse->of);
    if (source < 0) return {};
    const std::vector<Size>& of = p.tensor(source).dims;
    if (t.sparse->form == Sparse::lengths) {
      for (std::size_t d = 0; d <= of.size() && d < t.dims.size(); ++d) dims.push_back(d);
      return dims;
    }
    return embedding(of, t.dims);
  }

  // Where some dims stand among others, by their extents, if there is one way.
  static std::vector<std::size_t> embedding(const std::vector<Size>& of, const std::vector<Size>& in) {
    std::vector<int> ways(of.size() + 1, 0);
    ways[0] = 1;
    for (const Size& d : in)
      for (std::size_t i = of.size(); i-- > 0;)
        if (of[i] == d) ways[i + 1] += ways[i];
    std::vector<std::size_t> dims;
    if (ways[of.size()] != 1) return dims;
    std::size_t next = 0;
    for (const Size& d : of) {
      while (!(in[next] == d)) ++next;
      dims.push_back(next++);
    }
    return dims;
  }

  // ---- what is kept

  // The dims of the result where the pattern's dims of an operand arrive, in order; none where one does not.
  std::vector<std::size_t> arrive(const Statement& s, const Access& a, const std::vector<std::size_t>& dims) const {
    std::vector<std::size_t> out;
    for (std::size_t d : dims) {
      const auto x = plain_axis(a.at[d]);
      if (!x || !(s.axes[static_cast<std::size_t>(*x)] == p.tensor(a.tensor).dims[d])) return {};
      std::size_t to = 0;
      while (to < s.at.size() && plain_axis(s.at[to]) != x) ++to;
      if (to == s.at.size() || (!out.empty() && to <= out.back())) return {};
      out.push_back(to);
    }
    return out;
  }

  bool zero_there(const Statement& s, const Access& a, const std::vector<std::size_t>& dims,
                  const Backgrounds& known) const {
    return std::all_of(dims.begin(), dims.end(), [&](std::size_t d) {
      const auto law = skipped(p, s, *plain_axis(a.at[d]), known, o.strict);
      return law && law->constant == 0.0;
    });
  }

  std::optional<Sparse> kept(const Statement& s, const Access& a, const Backgrounds& known) const {
    const Tensor& t = p.tensor(a.tensor);
    if (a.otherwise) return std::nullopt;
    const auto dims = dims_of_pattern(t), to = arrive(s, a, dims);
    if (dims.empty() || to.empty() || !zero_there(s, a, dims, known)) return std::nullopt;
    const Tensor& out = p.tensor(s.out);
    Sparse made = *t.sparse;
    if (made.form == Sparse::zeros) return to.size() == out.dims.size() ? std::optional(made) : std::nullopt;
    if (made.form == Sparse::lengths) return to.back() + 1 == to.size() ? std::optional(made) : std::nullopt;
    return embedding(p.tensor(named(made.of)).dims, out.dims) == to ? std::optional(made) : std::nullopt;
  }

  // One sparse operand decides; or all of them together, where zeros of one alone leave something.
  std::optional<Sparse> keeps(const Statement& s) const {
    std::vector<const Access*> sparse;
    Backgrounds all;
    for_each_access(s.body, [&](const Access& a) {
      if (p.tensor(a.tensor).sparse) sparse.push_back(&a), all[a.tensor] = 0;
    });
    for (const Access* a : sparse)
      if (auto made = kept(s, *a, {{a->tensor, 0}})) return made;
    if (sparse.size() < 2) return std::nullopt;
    std::optional<Sparse> made;
    for (const Access* a : sparse) {
      const auto one = kept(s, *a, all);
      if (!one || (made && (made->form != one->form || made->of != one->of))) return std::nullopt;
      if (made)
        made->tile_rows = std::min(made->tile_rows, one->tile_rows),
        made->tile_columns = std::min(made->tile_columns, one->tile_columns);
      else
        made = one;
    }
    return made;
  }

  // ---- where zeros are made

  static bool clips(const ScalarRef& b) { return b->op == Op::max && (is_zero(b->args[0]) || is_zero(b->args[1])); }

  // A boolean tensor, read at axes of the result alone.
  std::optional<Sparse> masked_by(const Statement& s, const ScalarRef& condition) const {
    const Access* m = read_of(condition);
    if (!m || m->otherwise || p.tensor(m->tensor).dtype != DType::boolean ||
        p.tensor(m->tensor).kind == Kind::intermediate)
      return std::nullopt;
    std::vector<std::size_t> dims(m->at.size());
    for (std::size_t d = 0; d < dims.size(); ++d) dims[d] = d;
    const auto to = arrive(s, *m, dims);
    const Tensor& mask = p.tensor(m->tensor);
    if (to.empty() || embedding(mask.dims, p.tensor(s.out).dims) != to) return std::nullopt;
    return Sparse{Sparse::mask, mask.name, 1, 1};
  }

  // x < n[leading axes]
  std::optional<Sparse> bounded_by(const Statement& s, const ScalarRef& g) const {
    if (g->op != Op::lt || g->args[0]->op != Op::axis) return std::nullopt;
    const Access* n = read_of(g->args[1]);
    if (!n || n->otherwise || !is_integer(p.tensor(n->tensor).dtype) || p.tensor(n->tensor).kind == Kind::intermediate)
      return std::nullopt;
    std::vector<std::size_t> dims(n->at.size());
    for (std::size_t d = 0; d < dims.size(); ++d) dims[d] = d;
    const auto to = arrive(s, *n, dims);
    if (to.size() != dims.size() || (!to.empty() && to.back() + 1 != to.size()) || to.size() >= s.at.size())
      return std::nullopt;
    if (plain_axis(s.at[to.size()]) != std::get<AxisId>(g->args[0]->leaf)) return std::nullopt;
    return Sparse{Sparse::lengths, p.tensor(n->tensor).name, 1, 1};
  }

  std::optional<Sparse> makes(const Statement& s) const {
    if (s.guard)
      if (auto made = masked_by(s, s.guard); made || (made = bounded_by(s, s.guard))) return made;
    if (!s.reduced.empty()) return std::nullopt;
    if (s.body->op == Op::select && is_zero(s.body->args[2]))
      if (auto made = masked_by(s, s.body->args[0])) return made;
    if (s.body->op == Op::mul)
      for (const ScalarRef& factor : s.body->args)
        if (auto made = masked_by(s, factor)) return made;
    if (clips(s.body) && is_float(p.tensor(s.out).dtype)) return Sparse{Sparse::zeros, "", 1, 1};
    return std::nullopt;
  }

  void run() {
    std::vector<int> pieces(p.tensors.size(), 0);
    for (const auto& node : p.nodes)
      if (const Statement* s = std::get_if<Statement>(&node)) ++pieces[static_cast<std::size_t>(s->out)];
    for (std::size_t n = 0; n < p.nodes.size(); ++n) {
      const Statement* s = p.statement(static_cast<StatementId>(n));
      if (!s || p.tensor(s->out).sparse || pieces[static_cast<std::size_t>(s->out)] != 1 ||
          p.tensor(s->out).dims.empty())
        continue;
      std::optional<Sparse> made = keeps(*s);
      const bool kept = made.has_value();
      if (!made && o.recognise) made = makes(*s);
      if (!made) continue;
      static constexpr const char* forms[] = {"zeros", "a mask", "lengths"};
      found.push_back(fmt::format("{} has {}{}{}", p.tensor(s->out).name, forms[made->form],
                                  made->of.empty() ? "" : " " + made->of,
                                  kept ? ", as what it is made of" : ", which are made there"));
      p.tensor(s->out).sparse = std::move(made);
    }
  }
};

} // namespace

std::vector<std::string> spread_patterns(Program& p, const SpreadOptions& o) {
  Spreader spreader{p, o};
  spreader.run();
  return std::move(spreader.found);
}

LiveProduct live_product(std::int64_t m, std::int64_t k, std::int64_t n, std::vector<std::uint8_t> a,
                         std::vector<std::uint8_t> b) {
  LiveProduct l{m, k, n, std::move(a), std::move(b), {}};
  for (bool changed = true; changed;) {
    std::vector<std::uint8_t> c(static_cast<std::size_t>(m * n), 0), a_used(l.a.size(), 0), b_used(l.b.size(), 0);
    for (std::int64_t i = 0; i < m; ++i)
      for (std::int64_t x = 0; x < k; ++x)
        for (std::int64_t j = 0; j < n && l.a[static_cast<std::size_t>(i * k + x)]; ++j)
          if (l.b[static_cast<std::size_t>(x * n + j)])
            c[static_cast<std::size_t>(i * n + j)] = a_used[static_cast<std::size_t>(i * k + x)] =
                b_used[static_cast<std::size_t>(x * n + j)] = 1;
    changed = a_used != l.a || b_used != l.b;
    l.a = std::move(a_used), l.b = std::move(b_used), l.c = std::move(c);
  }
  return l;
}

} // namespace tilewright
