#include "law/permute.h"

#include <algorithm>

#include <fmt/format.h>

namespace tilewright {

namespace {

// Why an axis of a statement has no slices of its own; empty: it has.
class Slices {
public:
  Slices(const Program& p, StatementId id, AxisId axis)
      : p_(p), s_(*p.statement(id)), axis_(axis), windowed_(roles(p, id)[static_cast<std::size_t>(axis)].windowed) {}

  std::string reason() const {
    std::string why = access(s_.out, s_.at, false);
    for_each_access(s_, [&](const Access& a) {
      if (why.empty()) why = access(a.tensor, a.at, a.otherwise != nullptr);
    });
    return why;
  }

private:
  const Program& p_;
  const Statement& s_;
  AxisId axis_;
  bool windowed_;

  // Accesses inside an index are visited on their own: what counts here are the axis terms of the index itself.
  bool direct(const Index& i) const {
    return std::any_of(i.terms.begin(), i.terms.end(), [&](const Index::Term& t) {
      if (const AxisId* a = std::get_if<AxisId>(&t.of)) return *a == axis_;
      const auto* inner = std::get_if<std::shared_ptr<const Index>>(&t.of);
      return inner && direct(**inner);
    });
  }

  // Points beyond the edge of a tensor have no slice to move.
  bool leaves(const Size& dim) const {
    const Size& extent = s_.axes[static_cast<std::size_t>(axis_)];
    return !(dim == extent) && !(dim.is_constant() && extent.is_constant() && extent.constant() <= dim.constant());
  }

  std::string access(TensorId tensor, const std::vector<Index>& at, bool may_leave) const {
    const std::string& name = p_.tensor(tensor).name;
    int dims = 0;
    for (std::size_t d = 0; d < at.size(); ++d) {
      const Index& i = at[d];
      if (!direct(i)) continue;
      ++dims;
      if (plain_axis(i) == axis_ && may_leave && leaves(p_.tensor(tensor).dims[d]))
        return fmt::format("it runs past the edge of {}", name);
      if (plain_axis(i) == axis_) continue;
      if (windowed_) return "it slides in a window";
      if (i.div != Size(1) || i.mod != Size(0)) return fmt::format("an index of {} takes it apart", name);
      if (i.terms.size() > 1) return fmt::format("it is a digit of an index of {}", name);
      if (!std::holds_alternative<AxisId>(i.terms[0].of)) return fmt::format("an index of {} takes it apart", name);
      return fmt::format("an index of {} scales or shifts it", name);
    }
    return dims > 1 ? fmt::format("it stands in {} dims of {} at once", dims, name) : "";
  }
};

bool in_any_order(Reducer r) { return r != Reducer::argmax && r != Reducer::argmin; }

bool rounds(const Program& p, const Statement& s) {
  return (s.reducer == Reducer::sum || s.reducer == Reducer::prod) && is_float(held_as(p, s));
}

Refused not_plain(const std::string& name, const std::string& why) {
  return Refused{fmt::format("{} is not plain: {}", name, why)};
}

} // namespace

Or<Permutation> permutable(const Program& p, const Region& r, RegionAxis axis) {
  const std::string& name = r.names[static_cast<std::size_t>(axis)];
  Permutation out;
  for (std::size_t i = 0; i < r.statements.size(); ++i) {
    const Statement& s = *p.statement(r.statements[i]);
    for (AxisId a = 0; a < static_cast<AxisId>(s.axes.size()); ++a) {
      const Index& image = r.image[i][static_cast<std::size_t>(a)];
      if (!mentions_axis(image, static_cast<AxisId>(axis))) continue;
      if (plain_axis(image) != axis)
        return not_plain(name, image.terms.size() > 1
                                   ? "it slides in a window"
                                   : fmt::format("{} is read at an index over it", p.tensor(s.out).name));
      if (const std::string why = Slices(p, r.statements[i], a).reason(); !why.empty()) return not_plain(name, why);
      out.carried |= uses_axis_value(s.body, a) || uses_axis_value(s.guard, a);
      if (std::find(s.reduced.begin(), s.reduced.end(), a) == s.reduced.end()) continue;
      if (!in_any_order(s.reducer))
        return Refused{
            fmt::format("{} is reduced with {}, whose first winner depends on the order", name, name_of(s.reducer))};
      out.exact &= !rounds(p, s);
    }
  }
  return out;
}

std::vector<std::vector<RegionAxis>> permutable_together(const Program& p, const Region& r) {
  std::vector<std::vector<RegionAxis>> groups;
  for (const std::vector<RegionAxis>& g : travelling(p, r))
    if (std::all_of(g.begin(), g.end(), [&](RegionAxis x) { return static_cast<bool>(permutable(p, r, x)); }))
      groups.push_back(g);
  return groups;
}

Or<bool> bucketable(const Program& p, const Region& r, RegionAxis axis) {
  const std::string& name = r.names[static_cast<std::size_t>(axis)];
  const Or<Permutation> permuted = permutable(p, r, axis);
  const Role role = roles(p, r)[static_cast<std::size_t>(axis)];
  if (permuted && role.reducer != Reducer::none)
    return Refused{fmt::format("{} is reduced with {}", name, name_of(role.reducer))};
  if (!permuted) return Refused{permuted.reason()};
  if (permuted->carried) return not_plain(name, "a body or guard uses its value");
  return true;
}

namespace {

struct KeyFinder {
  const Program& p;
  const Region& r;
  std::vector<Bucket> found;

  // The region axes of a key's dims, if each is one that may be bucketed and no axis stands twice.
  std::vector<RegionAxis> axes_of(const Access& key, const std::vector<Index>& image) const {
    std::vector<RegionAxis> axes;
    for (const Index& i : key.at) {
      const Index here = substitute(p, i, image);
      if (here.terms.empty()) continue;
      const auto x = plain_axis(here);
      if (!x || !bucketable(p, r, *x) || std::count(axes.begin(), axes.end(), *x)) return {};
      axes.push_back(*x);
    }
    std::sort(axes.begin(), axes.end());
    return axes;
  }

  void access(const Access& a, std::size_t statement) {
    for (std::size_t d = 0; d < a.at.size(); ++d) {
      const Index& i = a.at[d];
      if (i.terms.size() != 1 || i.div != Size(1) || i.mod != Size(0)) continue;
      const auto* key = std::get_if<std::shared_ptr<const Access>>(&i.terms[0].of);
      if (!key) continue;
      const std::vector<RegionAxis> axes = axes_of(**key, r.image[statement]);
      if (!axes.empty()) found.push_back({axes, **key, r.statements[statement], a.tensor, d});
    }
  }
};

} // namespace

std::vector<Bucket> buckets(const Program& p, const Region& r) {
  KeyFinder finder{p, r, {}};
  for (std::size_t i = 0; i < r.statements.size(); ++i)
    for_each_access(*p.statement(r.statements[i]), [&](const Access& a) { finder.access(a, i); });
  return std::move(finder.found);
}

namespace {

// The position of the one dim that is read at an element of an integer tensor; -1: there is none, or more than that.
int keyed_dim(const Access& a) {
  int found = -1;
  for (std::size_t d = 0; d < a.at.size(); ++d) {
    const Index& i = a.at[d];
    if (is_affine(i)) continue;
    const bool key = i.terms.size() == 1 && i.div == Size(1) && i.mod == Size(0) && i.offset == Size(0) &&
                     i.terms[0].coefficient == Size(1) &&
                     std::holds_alternative<std::shared_ptr<const Access>>(i.terms[0].of);
    if (!key || found >= 0) return -1;
    found = static_cast<int>(d);
  }
  return found;
}

} // namespace

Or<KeyedProduct> keyed_product(const Program& p, const Statement& s) {
  KeyedProduct out{s, {}, -1, 0};
  int keys = 0;
  out.statement.body = rewrite(s.body, [&](const ScalarRef& n) {
    if (n->op != Op::read) return n;
    const Access& a = std::get<Access>(n->leaf);
    const int d = keyed_dim(a);
    if (d < 0 || a.otherwise) return n;
    ++keys;
    out.key = *std::get<std::shared_ptr<const Access>>(a.at[static_cast<std::size_t>(d)].terms[0].of);
    out.operand = a.tensor, out.dim = static_cast<std::size_t>(d);
    std::vector<Index> at = a.at;
    at[out.dim] = constant_index(0);
    return read(p, a.tensor, std::move(at));
  });
  if (keys != 1) return Refused{"not one operand is read at a key"};
  if (out.key.otherwise) return Refused{"the key has a value outside its bounds"};
  const auto c = contraction(p, out.statement);
  if (!c) return Refused{c.reason()};
  if (c->a->tensor == c->b->tensor) return Refused{"both operands are one tensor"};
  // The key's axes are rows: of the result and of the other operand, each once.
  const std::vector<AxisId>& rows = c->b->tensor == out.operand ? c->m : c->n;
  std::vector<AxisId> seen;
  for (const Index& i : out.key.at) {
    if (i.terms.empty()) continue; // one element
    const auto x = plain_axis(i);
    if (!x || std::count(rows.begin(), rows.end(), *x) == 0 || std::count(seen.begin(), seen.end(), *x))
      return Refused{"the key's axes are not rows of the product"};
    seen.push_back(*x);
  }
  return out;
}

} // namespace tilewright
