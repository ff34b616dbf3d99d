// Random sizes, tensors, indices and scalars, of which random programs are made (random_program.h). A bound of every value is carried
// along, and whether rounding errors are in it.
#pragma once
#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "expr/random_values.h"
#include "expr/scalar.h"

namespace tilewright::testing {

struct RandomOptions {
  int statements = 0;        // 0: 1 to 6
  int max_extent = 7;
  bool smooth = false;
  bool narrow = true;        // f16, bf16, f8, i8, u8 beside f32, f64, i32, i64, bool
  bool doubles = true;       // f64
  bool free_sizes = true;    // some sizes are symbols with a default; else all are fixed numbers
  bool gathers = true, windows = true, pieces = true, guards = true;
  bool definitions = true;   // softmax, norms and the like: several statements each
  bool infinite = false;     // softmax under a guard: where no point is live, its maximum (not its result) is -inf
};

class RandomScalars {
 protected:
  RandomScalars(Random& random, RandomOptions options) : random_(random), o_(options) {}

  struct Extent { std::string name; Size value; std::int64_t number; };
  struct Fact { double bound = 1; bool exact = true; };                 // of a tensor; exact: no rounding error in it
  struct Value { ScalarRef s; double bound; bool exact; };
  struct Point { std::vector<int> which; std::vector<Size> extents; };   // the axes of a statement: positions in extents_

  Random& random_;
  RandomOptions o_;
  Program p_;
  std::vector<Extent> extents_;
  std::vector<Fact> facts_;                                              // by tensor
  Point here_;

  static std::size_t at(int i) { return static_cast<std::size_t>(i); }
  int below(int n) { return static_cast<int>(random_() % static_cast<std::uint64_t>(n)); }
  bool chance(int percent) { return below(100) < percent; }
  template <class T> const T& pick(const std::vector<T>& from) { return from[at(below(static_cast<int>(from.size())))]; }

  // ---- sizes and tensors

  void declare_size() {
    const std::string name = "n" + std::to_string(extents_.size());
    const std::int64_t number = 1 + below(o_.max_extent);
    if (o_.free_sizes && chance(30)) {
      add_size(name, number);
      extents_.push_back({name, Size::symbol(name), number});
    } else {
      add_size(name, number, Interval{number, number});
      extents_.push_back({name, number, number});
    }
  }

  void add_size(const std::string& name, const Size& value, std::optional<Interval> fixed = {}) {
    SizeDecl size;
    size.name = name;
    size.value = value;
    if (fixed) size.range = *fixed;
    size.ranged = fixed.has_value();
    p_.sizes.push_back(std::move(size));
  }

  // The extent of that value, declared (derived from others) if there is none.
  int extent_of(const Size& value) {
    for (std::size_t i = 0; i < extents_.size(); ++i)
      if (extents_[i].value == value) return static_cast<int>(i);
    const std::string name = "n" + std::to_string(extents_.size());
    const std::int64_t number = value.at(defaults());
    add_size(name, value, value.is_constant() ? std::optional(Interval{number, number}) : std::nullopt);
    extents_.push_back({name, value, number});
    return static_cast<int>(extents_.size()) - 1;
  }

  Binding defaults() const {
    Binding binding;
    for (const Extent& e : extents_)
      if (!e.value.is_constant() && e.value == Size::symbol(e.name)) binding[e.name] = e.number;
    return binding;
  }

  TensorId declare_tensor(DType dtype, const std::vector<Size>& dims, Kind kind, Fact fact) {
    Tensor t;
    t.name = (kind == Kind::intermediate ? "T" : "X") + std::to_string(p_.tensors.size());
    t.dtype = dtype;
    t.dims = dims;
    t.kind = kind;
    p_.tensors.push_back(std::move(t));
    facts_.push_back(fact);
    const TensorId id = static_cast<TensorId>(p_.tensors.size()) - 1;
    if (kind == Kind::input) p_.inputs.push_back(id);
    return id;
  }

  enum class Class { real, whole, truth };
  static Class class_of(DType t) { return is_float(t) ? Class::real : t == DType::boolean ? Class::truth : Class::whole; }

  DType random_dtype(Class c) {
    if (c == Class::truth) return DType::boolean;
    const int k = below(20);
    if (c == Class::real) {
      if (o_.narrow && k < 3) return DType::f16;
      if (o_.narrow && k < 6) return DType::bf16;
      if (o_.narrow && k == 6) return chance(50) ? DType::f8e4m3 : DType::f8e5m2;
      return o_.doubles && k == 7 ? DType::f64 : DType::f32;
    }
    if (o_.narrow && k < 5) return k < 3 ? DType::i8 : DType::u8;
    return k < 9 ? DType::i64 : DType::i32;
  }

  // ---- indices

  Ranges ranges() const {
    Ranges r;
    for (const auto& [name, value] : defaults()) r[name] = {0, std::int64_t{1} << 31};
    return r;
  }

  bool inside(const Index& i, const Size& dim) const { return in_bounds(i, dim, here_.extents, ranges(), &p_); }
  AxisId random_axis() { return below(static_cast<int>(here_.extents.size())); }

  Index affine_index() {
    auto term = [&] {
      const Index axis = axis_index(random_axis());   // one draw a statement: the order of arguments is not defined
      return Size(1 + below(2)) * axis;
    };
    Index i = term();
    if (chance(60)) i = i + term();
    if (chance(15)) i = Size(-1) * i + constant_index(here_.extents[at(random_axis())]);
    return i + constant_index(below(4) - 2);
  }

  // Something that need not stay inside a dim.
  Index wild_index(const Size& dim, int depth) {
    switch (below(6)) {
    case 0: return floor_div(affine_index(), 1 + below(3));
    case 1: return dim.is_constant() && dim.constant() > 0 ? floor_mod(affine_index(), dim) : floor_mod(affine_index(), 1 + below(4));
    case 2: return floor_mod(floor_div(affine_index(), 1 + below(3)), 2 + below(3));
    case 3:
      if (o_.gathers && depth > 0) return gather(dim, depth);
      return affine_index();
    default: return o_.windows ? affine_index() : axis_index(random_axis());
    }
  }

  Index gather(const Size& dim, int depth) {
    TensorId index = -1;
    for (std::size_t t = 0; t < p_.tensors.size(); ++t)
      if (p_.tensors[t].index_of && *p_.tensors[t].index_of == dim && chance(60)) index = static_cast<TensorId>(t);
    if (index < 0) {
      std::vector<Size> dims;
      for (int n = below(3); n > 0; --n) dims.push_back(here_.extents[at(random_axis())]);
      for (const Size& d : dims) extent_of(d);
      index = declare_tensor(DType::i32, dims, Kind::input, {7, true});
      p_.tensor(index).index_of = dim;
      p_.tensor(index).index_axis = extents_[at(extent_of(dim))].name;
    }
    auto access = std::make_shared<Access>(access_to(index, depth - 1));
    Index i;
    i.terms.push_back({1, std::shared_ptr<const Access>(std::move(access))});
    return chance(10) ? i + affine_index() : i;
  }

  Index index_for(const Size& dim, int depth) {
    if (!here_.extents.empty()) {
      for (int tries = 0; tries < 4; ++tries)
        if (const Index i = axis_index(random_axis()); inside(i, dim) && chance(80)) return i;
      if (chance(70)) return wild_index(dim, depth);
      return axis_index(random_axis());
    }
    return constant_index(dim.is_constant() ? below(static_cast<int>(dim.constant())) : 0);
  }

  Access access_to(TensorId t, int depth) {
    Access a{t, {}, nullptr};
    bool safe = true;
    for (std::size_t d = 0; d < p_.tensor(t).dims.size(); ++d) {
      const Size dim = p_.tensor(t).dims[d];   // a gather may declare tensors
      a.at.push_back(index_for(dim, depth));
      safe = safe && inside(a.at.back(), dim);
    }
    if (!safe) a.otherwise = else_value(t, depth);
    return a;
  }

  ScalarRef else_value(TensorId t, int depth) {
    const DType type = compute_type(p_.tensor(t).dtype);
    const double bound = facts_[at(t)].bound;
    if (class_of(p_.tensor(t).dtype) == Class::truth) return boolean(chance(50));
    if (depth > 0 && chance(20))
      for (std::size_t other = 0; other < p_.tensors.size(); ++other)
        if (compute_type(p_.tensors[other].dtype) == type && facts_[other].bound <= bound && is_readable(static_cast<TensorId>(other)) && chance(50)) {
          const Access a = access_to(static_cast<TensorId>(other), 0);
          facts_[at(t)].exact = facts_[at(t)].exact && facts_[other].exact;
          return read(p_, a.tensor, a.at, a.otherwise);
        }
    if (is_float(type)) return number(chance(60) ? 0 : -0.5, type);
    return integer(chance(60) ? 0 : 1, type);
  }

  // ---- scalars

  bool is_readable(TensorId t) const { return t != writing_; }
  TensorId writing_ = -1;

  Value read_of(Class c, int depth) {
    TensorId t = -1;
    if (chance(65))
      for (std::size_t i = 0; i < p_.tensors.size(); ++i)
        if (class_of(p_.tensors[i].dtype) == c && is_readable(static_cast<TensorId>(i)) && (t < 0 || chance(50))) t = static_cast<TensorId>(i);
    if (t < 0) {
      std::vector<Size> dims;
      for (AxisId a = 0; a < static_cast<AxisId>(here_.extents.size()); ++a)
        if (chance(65)) dims.push_back(here_.extents[at(a)]);
      std::shuffle(dims.begin(), dims.end(), random_);
      if (dims.size() > 3) dims.resize(3);
      if (o_.windows && !dims.empty() && chance(15)) dims.back() = dims.back() + 2;
      for (const Size& d : dims) extent_of(d);
      const DType dtype = random_dtype(c);
      t = declare_tensor(dtype, dims, chance(70) ? Kind::input : Kind::weight, {c == Class::real ? 2.0 : dtype == DType::u8 ? 7.0 : 4.0, true});
    }
    Access a = access_to(t, depth);
    const Fact f = facts_[at(t)];
    return {read(p_, t, std::move(a.at), std::move(a.otherwise)), f.bound, f.exact};
  }

  // Keeps values small, so that nothing overflows however long the program is.
  Value damped(Value v) {
    if (v.bound <= 16) return v;
    if (is_float(v.s->dtype)) {
      if (chance(50)) return {unary(Op::tanh, v.s), 1, false};
      const double factor = std::exp2(-std::ceil(std::log2(v.bound / 4)));
      return {binary(Op::mul, v.s, number(factor)), v.bound * factor, false};
    }
    return {binary(Op::sub, binary(Op::mod, v.s, integer(13)), integer(6)), 6, v.exact};
  }

  Value real(int depth) {
    if (depth <= 0 || chance(20)) {
      const int k = below(10);
      if (k == 0) return {number((below(9) - 4) / 2.0), 2, true};
      if (k == 1) {
        const Value w = whole(0);
        return {cast(w.s, DType::f32), w.bound, w.exact};
      }
      return read_of(Class::real, depth);
    }
    const Value a = damped(real(depth - 1));
    const int k = below(16);
    if (k < 8) return real_binary(k, a, damped(real(depth - 1)));
    if (k == 8) {
      const Value c = truth(depth - 1), b = damped(real(depth - 1));
      return {select(c.s, a.s, b.s), std::max(a.bound, b.bound), false};
    }
    if (k == 9 && o_.narrow) return {cast(a.s, chance(50) ? DType::f16 : DType::bf16), a.bound * 1.01, false};
    return real_unary(a);
  }

  Value real_binary(int k, const Value& a, const Value& b) {
    switch (k) {
    case 0:
    case 1: return {binary(Op::add, a.s, b.s), a.bound + b.bound, false};
    case 2: return {binary(Op::sub, a.s, b.s), a.bound + b.bound, false};
    case 3:
    case 4: return {binary(Op::mul, a.s, b.s), a.bound * b.bound, false};
    case 5: return {binary(Op::min, a.s, b.s), std::max(a.bound, b.bound), false};
    case 6: return {binary(Op::max, a.s, b.s), std::max(a.bound, b.bound), false};
    default: return {binary(Op::div, a.s, binary(Op::add, unary(Op::abs, b.s), number(1))), a.bound, false};
    }
  }

  Value real_unary(const Value& a) {
    static const std::vector<Op> smooth{Op::neg, Op::abs, Op::tanh, Op::erf, Op::sin, Op::cos, Op::atan, Op::asinh};
    static const std::vector<Op> steps{Op::floor, Op::ceil, Op::round, Op::trunc, Op::sign};
    switch (below(8)) {
    case 0: return {unary(Op::exp, binary(Op::min, a.s, number(2))), 7.5, false};
    case 1: return {unary(Op::log, binary(Op::add, unary(Op::abs, a.s), number(1))), a.bound + 1, false};
    case 2: return {unary(Op::sqrt, binary(Op::add, unary(Op::abs, a.s), number(0.25))), a.bound + 1, false};
    case 3: {
      static const std::vector<double> exponents{2, 0.5, 3, -1};
      const double e = pick(exponents);
      return {binary(Op::pow, binary(Op::add, unary(Op::abs, a.s), number(0.5)), number(e)), std::max(4.0, std::pow(a.bound + 0.5, e)), false};
    }
    case 4:
      if (!o_.smooth || a.exact) return {unary(pick(steps), a.s), a.bound + 1, false};
      [[fallthrough]];
    default: return {unary(pick(smooth), a.s), std::max(a.bound, 1.0), false};
    }
  }

  Value whole(int depth) {
    if (depth <= 0 || chance(25)) {
      const int k = below(10);
      if (k < 2 || (k < 5 && here_.extents.empty())) return {integer(below(7) - 3), 3, true};
      if (k < 4) return {axis_value(random_axis(), chance(80) ? DType::i32 : DType::i64), double(o_.max_extent) + 2, true};
      if (k == 4) return {size_value(here_.extents[at(random_axis())]), 3.0 * o_.max_extent, true};
      return read_of(Class::whole, depth);
    }
    const Value a = damped(whole(depth - 1)), b = damped(whole(depth - 1));
    const double wide = std::max(a.bound, b.bound);
    const bool exact = a.exact && b.exact;
    switch (below(12)) {
    case 0: return {binary(Op::sub, a.s, b.s), a.bound + b.bound, exact};
    case 1: return {binary(Op::mul, a.s, b.s), a.bound * b.bound, exact};
    case 2: return {binary(Op::min, a.s, b.s), wide, exact};
    case 3: return {binary(Op::max, a.s, b.s), wide, exact};
    case 4: return {binary(Op::floor_div, a.s, integer(chance(70) ? 1 + below(4) : -2)), a.bound + 1, exact};
    case 5: return {binary(Op::mod, a.s, integer(1 + below(5))), 5, exact};
    case 6: return {binary(Op::div, a.s, binary(Op::add, unary(Op::abs, b.s), integer(1))), a.bound, exact};
    case 7: return {select(truth(depth - 1).s, a.s, b.s), wide, exact};
    case 8: {
      static const std::vector<Op> bits{Op::bit_and, Op::bit_or, Op::bit_xor};
      return {binary(pick(bits), a.s, b.s), 2 * wide + 2, exact};
    }
    case 9: {
      static const std::vector<Op> ops{Op::neg, Op::abs, Op::sign, Op::bit_not};
      return {unary(pick(ops), a.s), a.bound + 1, exact};
    }
    case 10:
      if (!o_.smooth) {
        const Value r = damped(real(depth - 1));
        return {cast(r.s, DType::i32), r.bound, false};
      }
      [[fallthrough]];
    default: return {binary(Op::add, a.s, b.s), a.bound + b.bound, exact};
    }
  }

  Value truth(int depth) {
    static const std::vector<Op> compare{Op::lt, Op::le, Op::gt, Op::ge, Op::eq, Op::ne};
    if (depth > 0 && chance(25)) {
      const Value a = truth(depth - 1), b = truth(depth - 1);
      const int k = below(3);
      if (k == 0) return {unary(Op::logical_not, a.s), 1, a.exact};
      return {binary(k == 1 ? Op::logical_and : Op::logical_or, a.s, b.s), 1, a.exact && b.exact};
    }
    if (chance(20)) return read_of(Class::truth, depth);
    const bool reals = !o_.smooth && chance(25);
    const Value a = reals ? real(depth - 1) : whole(depth - 1), b = reals ? real(depth - 1) : whole(depth - 1);
    return {binary(pick(compare), a.s, b.s), 1, a.exact && b.exact};
  }

  Value value(Class c, int depth) { return c == Class::real ? real(depth) : c == Class::whole ? whole(depth) : truth(depth); }
};

}  // namespace tilewright::testing
