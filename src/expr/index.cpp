// Indices as values: sums, products, quotients and remainders, and what they can reach.
#include <algorithm>

#include "expr/scalar.h"
#include "support/error.h"

namespace tilewright {

namespace {

bool is_linear(const Index& i) { return i.div == Size(1) && i.mod == Size(0); }

bool same_factor(const Index::Term& a, const Index::Term& b) {
  if (a.of.index() != b.of.index()) return false;
  if (auto* axis = std::get_if<AxisId>(&a.of)) return *axis == std::get<AxisId>(b.of);
  if (auto* access = std::get_if<std::shared_ptr<const Access>>(&a.of)) {
    const auto& other = std::get<std::shared_ptr<const Access>>(b.of);
    return *access == other || equal(**access, *other);
  }
  const auto &x = std::get<std::shared_ptr<const Index>>(a.of), &y = std::get<std::shared_ptr<const Index>>(b.of);
  return x == y || *x == *y;
}

// Axes first, ascending; then the others in order of arrival.
void add_term(std::vector<Index::Term>& terms, const Index::Term& term) {
  if (term.coefficient == Size(0)) return;
  for (auto it = terms.begin(); it != terms.end(); ++it)
    if (same_factor(*it, term)) {
      it->coefficient = it->coefficient + term.coefficient;
      if (it->coefficient == Size(0)) terms.erase(it);
      return;
    }
  auto place = terms.end();
  if (auto* axis = std::get_if<AxisId>(&term.of))
    place = std::find_if(terms.begin(), terms.end(), [&](const Index::Term& t) {
      auto* other = std::get_if<AxisId>(&t.of);
      return !other || *other > *axis;
    });
  terms.insert(place, term);
}

// A sum of terms; a quotient or remainder becomes the only term.
Index as_linear(const Index& i) {
  if (is_linear(i)) return i;
  Index outer;
  outer.terms.push_back({1, std::make_shared<const Index>(i)});
  return outer;
}

// A nested index alone is that index.
Index unwrapped(Index i) {
  while (is_linear(i) && i.offset == Size(0) && i.terms.size() == 1 && i.terms[0].coefficient == Size(1)) {
    auto* inner = std::get_if<std::shared_ptr<const Index>>(&i.terms[0].of);
    if (!inner) break;
    Index next = **inner;
    i = std::move(next);
  }
  return i;
}

bool is_zero(const Index& i) { return i.terms.empty() && is_linear(i) && i.offset == Size(0); }

} // namespace

Index axis_index(AxisId axis) {
  Index i;
  i.terms.push_back({1, axis});
  return i;
}

Index constant_index(Size value) {
  Index i;
  i.offset = std::move(value);
  return i;
}

Index operator+(const Index& a, const Index& b) {
  if (is_zero(b)) return a;
  if (is_zero(a)) return b;
  Index sum;
  const Index x = as_linear(a), y = as_linear(b);
  for (const Index* part : {&x, &y})
    for (const Index::Term& term : part->terms) {
      auto* inner = std::get_if<std::shared_ptr<const Index>>(&term.of);
      if (inner && is_linear(**inner)) {
        for (const Index::Term& t : (*inner)->terms) add_term(sum.terms, {term.coefficient * t.coefficient, t.of});
        sum.offset = sum.offset + term.coefficient * (*inner)->offset;
      } else {
        add_term(sum.terms, term);
      }
    }
  sum.offset = sum.offset + x.offset + y.offset;
  return unwrapped(std::move(sum));
}

Index operator-(const Index& a, const Index& b) { return a + Size(-1) * b; }

Index operator*(const Size& factor, const Index& i) {
  if (factor == Size(1)) return i;
  if (factor == Size(0)) return constant_index(0);
  Index product = as_linear(i);
  for (Index::Term& term : product.terms) term.coefficient = factor * term.coefficient;
  product.offset = factor * product.offset;
  return product;
}

Index floor_div(const Index& i, const Size& d) {
  if (d == Size(1)) return i;
  if (i.mod != Size(0)) {
    if (Size m; divides(d, i.mod, &m)) { // (x % (d*m)) // d is (x // d) % m
      Index quotient = i;
      quotient.mod = 0;
      return floor_mod(floor_div(quotient, d), m);
    }
    return floor_div(as_linear(i), d);
  }
  Index quotient = i;
  quotient.div = i.div * d;
  bool exact = true;
  for (Index::Term& term : quotient.terms) exact = exact && divides(quotient.div, term.coefficient, &term.coefficient);
  if (exact) { // (d*q + c) // d is q + c // d
    quotient.offset = floor_div(quotient.offset, quotient.div);
    quotient.div = 1;
  } else {
    quotient.terms = i.terms;
  }
  return unwrapped(std::move(quotient));
}

Index floor_mod(const Index& i, const Size& m) {
  if (m == Size(1)) return constant_index(0);
  if (i.mod != Size(0)) {
    if (at_least(m, i.mod)) return i;
    if (!divides(m, i.mod)) return floor_mod(as_linear(i), m);
  }
  Index rest;
  rest.div = i.div;
  const Size period = i.div * m;
  for (const Index::Term& term : i.terms)
    if (!divides(period, term.coefficient)) rest.terms.push_back(term);
  rest.offset = i.offset;
  if (period.is_constant() && i.offset.is_constant()) rest.offset = floor_mod(i.offset, period);
  if (rest.terms.empty()) return constant_index(floor_mod(floor_div(rest.offset, rest.div), m));
  rest.mod = m;
  return rest;
}

bool operator==(const Index& a, const Index& b) {
  if (a.offset != b.offset || a.div != b.div || a.mod != b.mod || a.terms.size() != b.terms.size()) return false;
  std::vector<bool> used(b.terms.size());
  return std::all_of(a.terms.begin(), a.terms.end(), [&](const Index::Term& term) {
    for (std::size_t j = 0; j < b.terms.size(); ++j)
      if (!used[j] && term.coefficient == b.terms[j].coefficient && same_factor(term, b.terms[j]))
        return used[j] = true, true;
    return false;
  });
}

std::size_t hash(const Index& i) {
  std::size_t h = i.offset.hash() * 31 + i.div.hash() * 37 + i.mod.hash() * 41;
  for (const Index::Term& term : i.terms) { // a sum: the order of terms does not matter
    std::size_t of = term.of.index();
    if (auto* axis = std::get_if<AxisId>(&term.of)) of += 3 * static_cast<std::size_t>(*axis) + 17;
    if (auto* access = std::get_if<std::shared_ptr<const Access>>(&term.of))
      of += 5 * static_cast<std::size_t>((*access)->tensor) + 101;
    if (auto* inner = std::get_if<std::shared_ptr<const Index>>(&term.of)) of += hash(**inner);
    h += (of * 0x9e3779b97f4a7c15ULL) ^ (term.coefficient.hash() * 0xff51afd7ed558ccdULL);
  }
  return h;
}

std::optional<AxisId> plain_axis(const Index& i) {
  if (!is_linear(i) || i.offset != Size(0) || i.terms.size() != 1 || i.terms[0].coefficient != Size(1))
    return std::nullopt;
  auto* axis = std::get_if<AxisId>(&i.terms[0].of);
  return axis ? std::optional(*axis) : std::nullopt;
}

bool is_affine(const Index& i) {
  return is_linear(i) &&
         std::all_of(i.terms.begin(), i.terms.end(), [](const Index::Term& t) { return t.of.index() == 0; });
}

Size coefficient_of(const Index& affine, AxisId axis) {
  Size sum = 0;
  for (const Index::Term& term : affine.terms)
    if (auto* a = std::get_if<AxisId>(&term.of); a && *a == axis) sum = sum + term.coefficient;
  return sum;
}

// ---- what an index can reach

Interval bounds(const Index& i, const std::vector<Size>& extents, const Ranges& ranges) {
  Interval sum = i.offset.range(ranges);
  for (const Index::Term& term : i.terms) {
    Interval of{INT64_MIN, INT64_MAX};
    if (auto* axis = std::get_if<AxisId>(&term.of)) {
      const std::int64_t high = extents.at(static_cast<std::size_t>(*axis)).range(ranges).high;
      of = {0, high == INT64_MAX ? high : std::max<std::int64_t>(high - 1, 0)};
    } else if (auto* inner = std::get_if<std::shared_ptr<const Index>>(&term.of)) {
      of = bounds(**inner, extents, ranges);
    }
    sum = sum + term.coefficient.range(ranges) * of;
  }
  if (i.div != Size(1)) sum = floor_div(sum, i.div.range(ranges));
  if (i.mod != Size(0)) sum = floor_mod(sum, i.mod.range(ranges));
  return sum;
}

namespace {

// An extent that is a symbol is at least 1 where there is a point at all.
Ranges with_points(const std::vector<Size>& extents, Ranges ranges) {
  for (const Size& e : extents)
    if (e.offset() == 0 && e.terms().size() == 1 && e.terms()[0].coefficient > 0) {
      std::vector<std::string> names;
      e.collect_symbols(names);
      if (names.size() != 1 || e != Size(e.terms()[0].coefficient) * Size::symbol(names[0])) continue;
      Interval& range = ranges.try_emplace(names[0], Interval{0, std::int64_t{1} << 31}).first->second;
      range.low = std::max<std::int64_t>(range.low, 1);
    }
  return ranges;
}

std::optional<Hull> hull_of_elements(const Access& access, const Program* program) {
  if (!program) return std::nullopt;
  const Tensor& t = program->tensor(access.tensor);
  if (access.otherwise) return std::nullopt;
  if (t.index_of) return Hull{0, *t.index_of - 1};
  if (t.dtype == DType::boolean) return Hull{0, 1};
  if (t.dtype == DType::u8) return Hull{0, 255};
  if (t.dtype == DType::i8) return Hull{-128, 127};
  return std::nullopt;
}

std::optional<Hull> hull_in(const Index&, const std::vector<Size>&, const Ranges&, const Program*);

std::optional<Hull> hull_of_term(const Index::Term& term, const std::vector<Size>& extents, const Ranges& ranges,
                                 const Program* program) {
  std::optional<Hull> of;
  if (auto* axis = std::get_if<AxisId>(&term.of)) of = Hull{0, extents.at(static_cast<std::size_t>(*axis)) - 1};
  if (auto* access = std::get_if<std::shared_ptr<const Access>>(&term.of)) of = hull_of_elements(**access, program);
  if (auto* inner = std::get_if<std::shared_ptr<const Index>>(&term.of))
    of = hull_in(**inner, extents, ranges, program);
  if (!of) return of;
  if (at_least(term.coefficient, 0, ranges)) return Hull{term.coefficient * of->low, term.coefficient * of->high};
  if (at_least(0, term.coefficient, ranges)) return Hull{term.coefficient * of->high, term.coefficient * of->low};
  return std::nullopt;
}

std::optional<Hull> hull_in(const Index& i, const std::vector<Size>& extents, const Ranges& ranges,
                            const Program* program) {
  std::optional<Hull> sum = Hull{i.offset, i.offset};
  for (const Index::Term& term : i.terms) {
    auto part = hull_of_term(term, extents, ranges, program);
    if (!part) {
      sum.reset();
      break;
    }
    sum = Hull{sum->low + part->low, sum->high + part->high};
  }
  if (sum && i.div != Size(1)) sum = Hull{floor_div(sum->low, i.div), floor_div(sum->high, i.div)};
  if (i.mod == Size(0)) return sum;
  if (sum && at_least(sum->low, 0, ranges) && at_least(i.mod - 1, sum->high, ranges)) return sum;
  return Hull{0, i.mod - 1};
}

} // namespace

std::optional<Hull> hull(const Index& i, const std::vector<Size>& extents, const Ranges& ranges,
                         const Program* program) {
  return hull_in(i, extents, with_points(extents, ranges), program);
}

bool in_bounds(const Index& i, const Size& dim, const std::vector<Size>& extents, const Ranges& ranges,
               const Program* program) {
  const Ranges points = with_points(extents, ranges);
  const auto reach = hull_in(i, extents, points, program);
  return reach && at_least(reach->low, 0, points) && at_least(dim - 1, reach->high, points);
}

std::optional<Digits> digits_of(const Index& index, const std::vector<Size>& extents) {
  if (!is_affine(index)) return std::nullopt;
  Digits d;
  d.low = index.offset;
  auto extent = [&](const Index::Term& t) { return extents[static_cast<std::size_t>(std::get<AxisId>(t.of))]; };
  // An axis of extent 1 is no digit: its value is 0.
  std::vector<Index::Term> terms;
  for (const Index::Term& t : index.terms)
    if (extent(t) != Size(1)) terms.push_back(t);
  // From each possible last digit upwards: the next one counts in units of all before it.
  for (std::size_t first = 0; first < terms.size(); ++first) {
    std::vector<bool> used(terms.size(), false);
    used[first] = true;
    Size stride = terms[first].coefficient, count = extent(terms[first]);
    std::size_t done = 1;
    for (bool found = true; found;) {
      found = false;
      for (std::size_t i = 0; i < terms.size() && !found; ++i) {
        if (used[i] || terms[i].coefficient != stride * count) continue;
        used[i] = found = true;
        count = count * extent(terms[i]);
        ++done;
      }
    }
    if (done == terms.size()) return Digits{d.low, stride, count};
  }
  return terms.empty() ? std::optional(d) : std::nullopt;
}

} // namespace tilewright
