// Simplification of indices: quotients and remainders that the extents of the axes decide.
//
//   (6*a + b) // 6            ->  a              b in [0, 6)
//   ((6*a + b) // 3) % 2      ->  b // 3
//   (4*a + b) // 8            ->  a // 2         b in [0, 4)
//   4*(x // 4) + x % 4        ->  x
//   (n*w + x) % w             ->  x              x in [0, w)
#include <algorithm>

#include "expr/scalar.h"
#include "support/error.h"

namespace tilewright {

namespace {

using IndexRef = std::shared_ptr<const Index>;

class Simplifier {
public:
  Simplifier(const std::vector<Size>& extents, const Ranges& ranges, const Program* program)
      : extents_(extents), ranges_(ranges), program_(program) {
    for (const Size& e : extents) // where an extent is 0 there is no point, and anything may be said
      if (std::vector<std::string> names; e.collect_symbols(names), names.size() == 1 && e == Size::symbol(names[0])) {
        Interval& range = ranges_.try_emplace(names[0], Interval{0, std::int64_t{1} << 31}).first->second;
        range.low = std::max<std::int64_t>(range.low, 1);
      }
  }

  Index run(const Index& i) const {
    Index sum = constant_index(i.offset);
    for (const Index::Term& term : i.terms) sum = sum + term.coefficient * factor(term);
    sum = recomposed(sum);
    if (i.div != Size(1)) sum = quotient(sum, i.div);
    if (i.mod != Size(0)) sum = remainder(sum, i.mod);
    return without_single_points(sum);
  }

private:
  const std::vector<Size>& extents_;
  Ranges ranges_;
  const Program* program_;

  Index factor(const Index::Term& term) const {
    if (auto* axis = std::get_if<AxisId>(&term.of)) return axis_index(*axis);
    if (auto* inner = std::get_if<IndexRef>(&term.of)) return run(**inner);
    auto access = std::make_shared<Access>(*std::get<std::shared_ptr<const Access>>(term.of));
    for (Index& at : access->at) at = run(at);
    Index i;
    i.terms.push_back({1, std::shared_ptr<const Access>(std::move(access))});
    return i;
  }

  // An axis of extent 1 adds nothing to a sum; alone it stays, to say which axis goes with this dim.
  Index without_single_points(Index sum) const {
    if (plain_axis(sum)) return sum;
    std::erase_if(sum.terms, [&](const Index::Term& term) {
      auto* axis = std::get_if<AxisId>(&term.of);
      return axis && extents_[static_cast<std::size_t>(*axis)] == Size(1);
    });
    return sum.div == Size(1) && sum.mod == Size(0) ? normal(sum) : sum;
  }

  // c*m*(y//(d*m)) + c*((x//d)%m) -> c*(y//d), where y is x up to multiples of d*m: the inverse of what a split does.
  Index recomposed(const Index& sum) const {
    if (sum.div != Size(1) || sum.mod != Size(0)) return sum;
    for (const Index::Term& low : sum.terms) {
      auto* l = std::get_if<IndexRef>(&low.of);
      if (!l || (*l)->mod == Size(0)) continue;
      const Size period = (*l)->div * (*l)->mod;
      for (const Index::Term& high : sum.terms) {
        auto* h = std::get_if<IndexRef>(&high.of);
        if (!h || high.coefficient != low.coefficient * (*l)->mod || (*h)->div != period) continue;
        Index y = **h;
        if (!differ_by_multiples(**l, y, period)) continue;
        y.div = (*l)->div;
        if (y.mod != Size(0)) y.mod = y.mod * (*l)->mod;
        Index rest = sum;
        std::erase_if(rest.terms, [&](const Index::Term& t) { return same(t, low) || same(t, high); });
        return recomposed(normal(rest) + low.coefficient * run(y));
      }
    }
    return sum;
  }

  static bool differ_by_multiples(Index x, Index y, const Size& period) {
    x.div = y.div = 1;
    x.mod = y.mod = 0;
    const Index difference = y - x;
    return difference.div == Size(1) && difference.mod == Size(0) && divides(period, difference.offset) &&
           std::all_of(difference.terms.begin(), difference.terms.end(),
                       [&](const Index::Term& t) { return divides(period, t.coefficient); });
  }

  // A sum whose terms were put together by hand: nested sums flattened, and a nested index alone is that index.
  static Index normal(const Index& sum) {
    Index result = constant_index(sum.offset);
    for (const Index::Term& term : sum.terms) {
      auto* inner = std::get_if<IndexRef>(&term.of);
      Index one;
      one.terms.push_back({1, term.of});
      result = result + term.coefficient * (inner ? **inner : one);
    }
    return result;
  }

  static bool same(const Index::Term& a, const Index::Term& b) {
    auto *x = std::get_if<IndexRef>(&a.of), *y = std::get_if<IndexRef>(&b.of);
    return x && y && *x == *y;
  }

  // The k with k*d <= i < (k+1)*d at every point.
  std::optional<Size> period(const Index& i, const Size& d) const {
    const auto reach = hull(i, extents_, ranges_, program_);
    if (!reach) return std::nullopt;
    const Size low = floor_div(reach->low, d), high = floor_div(reach->high, d);
    if (low == high) return low;
    for (std::int64_t k : {0, -1, 1})
      if (at_least(reach->low, k * d, ranges_) && at_least((k + 1) * d - 1, reach->high, ranges_)) return Size(k);
    return std::nullopt;
  }

  // i = g*multiple + rest with 0 <= rest < g, if there is such a split.
  bool split(const Index& i, const Size& g, Index& multiple, Index& rest) const {
    multiple = rest = Index{};
    for (const Index::Term& term : i.terms) {
      if (Size q; divides(g, term.coefficient, &q))
        multiple.terms.push_back({q, term.of});
      else
        rest.terms.push_back(term);
    }
    split_terms(i.offset, g, multiple.offset, rest.offset);
    const auto k = period(rest, g);
    if (!k) return false;
    multiple.offset = multiple.offset + *k;
    rest.offset = rest.offset - *k * g;
    multiple = normal(multiple);
    rest = normal(rest);
    return true;
  }

  // Divisors of d (but 1 and d) under which a split may exist: from the coefficients.
  static std::vector<Size> parts_of(const Size& d, const Index& i) {
    std::vector<Size> parts;
    for (const Index::Term& term : i.terms) {
      Size g = term.coefficient;
      if (g.is_constant() && d.is_constant()) {
        std::int64_t a = g.constant() < 0 ? -g.constant() : g.constant(), b = d.constant();
        while (b != 0) std::swap(a %= b, b);
        g = a;
      }
      if (g != Size(1) && g != d && divides(g, d) && std::find(parts.begin(), parts.end(), g) == parts.end())
        parts.push_back(g);
    }
    return parts;
  }

  // i // d for a sum or a quotient i.
  Index quotient(const Index& i, const Size& d) const {
    const Index merged = floor_div(i, d);
    if (merged.mod != Size(0)) {
      Index inner = merged;
      inner.mod = 0;
      return remainder(quotient_of_sum(inner), merged.mod);
    }
    return quotient_of_sum(merged);
  }

  Index quotient_of_sum(const Index& merged) const {
    if (merged.div == Size(1)) return merged;
    Index multiple, rest, sum = merged;
    const Size d = merged.div;
    sum.div = 1;
    if (split(sum, d, multiple, rest)) return multiple;
    for (const Size& g : parts_of(d, sum)) {
      Size left;
      if (Index coarse; split(sum, g, coarse, rest) && divides(g, d, &left)) return quotient(coarse, left);
    }
    if (auto flat = flattened(sum)) return quotient(*flat, d);
    return take_multiples(sum, d);
  }

  // x//a + rest -> (x + a*rest)//a, if x//a is the only quotient of the sum and its coefficient is 1.
  static std::optional<Index> flattened(const Index& sum) {
    if (sum.div != Size(1) || sum.mod != Size(0)) return std::nullopt;
    const Index::Term* lone = nullptr;
    for (const Index::Term& term : sum.terms)
      if (term.of.index() == 2) {
        if (lone) return std::nullopt;
        lone = &term;
      }
    if (!lone || lone->coefficient != Size(1)) return std::nullopt;
    const Index& inner = *std::get<IndexRef>(lone->of);
    if (inner.mod != Size(0)) return std::nullopt;
    Index rest = sum, x = inner;
    std::erase_if(rest.terms, [](const Index::Term& t) { return t.of.index() == 2; });
    x.div = 1;
    return floor_div(x + inner.div * rest, inner.div);
  }

  // (d*q + r) // d -> q + r//d, term by term; nothing is known of r.
  static Index take_multiples(const Index& sum, const Size& d) {
    Index multiple, rest;
    for (const Index::Term& term : sum.terms) {
      if (Size q; divides(d, term.coefficient, &q))
        multiple.terms.push_back({q, term.of});
      else
        rest.terms.push_back(term);
    }
    split_terms(sum.offset, d, multiple.offset, rest.offset);
    return normal(multiple) + floor_div(rest, d);
  }

  Index remainder(const Index& i, const Size& m) const {
    if (const auto k = period(i, m)) return i - constant_index(*k * m);
    if (i.mod != Size(0)) {
      if (!divides(m, i.mod)) return floor_mod(i, m);
      Index inner = i;
      inner.mod = 0;
      return remainder(inner, m);
    }
    return i.div == Size(1) ? remainder_of_sum(i, m) : remainder_of_quotient(i, m);
  }

  Index remainder_of_sum(const Index& i, const Size& m) const {
    const Index sum = without_periods(i, m);
    if (const auto k = period(sum, m)) return sum - constant_index(*k * m);
    for (const Size& g : parts_of(m, sum)) {
      Size left;
      if (Index coarse, rest; split(sum, g, coarse, rest) && divides(g, m, &left))
        return g * remainder(coarse, left) + rest;
    }
    if (auto flat = flattened(sum)) return remainder(*flat, m);
    return floor_mod(sum, m);
  }

  // Multiples of m do not matter to i % m.
  static Index without_periods(const Index& i, const Size& m) {
    Index sum;
    for (const Index::Term& term : i.terms) {
      if (divides(m, term.coefficient)) continue;
      const bool numbers = term.coefficient.is_constant() && m.is_constant();
      sum.terms.push_back({numbers ? Size(term.coefficient.constant() % m.constant()) : term.coefficient, term.of});
    }
    Size q;
    split_terms(i.offset, m, q, sum.offset);
    return normal(sum);
  }

  // (x // d) % m: multiples of d*m in x do not matter.
  Index remainder_of_quotient(const Index& i, const Size& m) const {
    const Index reduced = floor_mod(i, m);
    if (reduced.mod == Size(0) || (reduced.terms.size() == i.terms.size() && reduced.offset == i.offset))
      return reduced;
    Index inner = reduced;
    inner.mod = 0;
    return remainder(quotient_of_sum(inner), m);
  }
};

} // namespace

Index simplify(const Index& i, const std::vector<Size>& extents, const Ranges& ranges, const Program* program) {
  if (i.terms.empty() && i.div == Size(1) && i.mod == Size(0)) return i;
  if (plain_axis(i)) return i;
  const Simplifier simplifier(extents, ranges, program);
  Index simple = simplifier.run(i);
  for (int again = 0; again < 4 && !is_affine(simple); ++again) { // what one rule leaves, another may take up
    Index next = simplifier.run(simple);
    if (next == simple) break;
    simple = std::move(next);
  }
  return simple;
}

} // namespace tilewright
