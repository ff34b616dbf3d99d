// Random small programs for property tests, and inputs for them.
//
//   std::mt19937_64 random(seed);
//   Program p = random_program(random);                    // verifies; 1 to 6 statements, extents 1 to 7
//   Values given = random_inputs(p, random);               // of every input and weight, at the default sizes
//   evaluate(p, given, default_sizes(p), Evaluation::typed);
//
// They hold maps, all reducers, contractions, softmax and norms, windows with `else`, strides, quotients and remainders, gathers, guards, selects, casts,
// pieces and several dtypes. Values stay moderate (a bound is carried along and values are damped), nothing is divided by
// zero, no logarithm or root leaves its domain, and an argmax always has a candidate: results are finite and defined.
// `smooth` leaves out what turns a rounding error into another answer (comparisons, rounding, integer casts and argmax of
// computed floats): then two correct evaluations agree up to small multiples of the rounding errors of the dtypes involved.
#pragma once
#include "expr/define.h"
#include "expr/random_scalars.h"

namespace tilewright::testing {

class RandomProgram : RandomScalars {
 public:
  RandomProgram(Random& random, RandomOptions options) : RandomScalars(random, options) {}

  Program make() {
    p_.name = "random";
    for (int i = below(3) + 4; i > 0; --i) declare_size();
    for (int n = o_.statements > 0 ? o_.statements : 1 + below(6); n > 0; --n) {
      const int kind = below(12);
      if (o_.pieces && kind == 0) make_pieces();
      else if (kind == 1 && o_.definitions) make_definition();
      else if (kind < 4) make_contraction();
      else make_statement(kind < 8);
    }
    std::vector<bool> read(p_.tensors.size(), false);
    for (const auto& node : p_.nodes)
      for_each_access(std::get<Statement>(node), [&](const Access& a) { read[at(a.tensor)] = true; });
    for (std::size_t t = 0; t < p_.tensors.size(); ++t)
      if (p_.tensors[t].kind == Kind::intermediate && !read[t]) p_.outputs.push_back(static_cast<TensorId>(t));
    return std::move(p_);
  }

 private:
  void choose_axes(int count) {
    std::vector<int> all(extents_.size());
    for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<int>(i);
    std::shuffle(all.begin(), all.end(), random_);
    here_ = {};
    for (int i : all) {
      if (static_cast<int>(here_.which.size()) == count) break;
      if (extents_[at(i)].number < 1 || extents_[at(i)].number > 3 * o_.max_extent) continue;
      here_.which.push_back(i);
      here_.extents.push_back(extents_[at(i)].value);
    }
  }

  // What a statement may be stored as; the class of readers stays that of the body.
  DType stored_type(const Value& v, Class c) {
    if (c == Class::real) {
      const DType t = random_dtype(c);
      return t == DType::f8e4m3 || t == DType::f8e5m2 ? DType::f32 : t;   // too coarse for anything downstream
    }
    if (c == Class::truth) return DType::boolean;
    if (chance(10) && v.bound < 1000) return DType::f32;
    if (o_.narrow && v.bound < 100 && chance(20)) return DType::i8;
    return chance(70) ? DType::i32 : DType::i64;
  }

  double points_of(const std::vector<AxisId>& axes) const {
    double n = 1;
    for (AxisId a : axes) n *= static_cast<double>(extents_[at(here_.which[at(a)])].number);
    return n;
  }

  // Chooses a reducer that the value allows; the bound of the result goes into v.
  Reducer reducer_for(Value& v, Class c, const std::vector<AxisId>& reduced) {
    if (c == Class::truth) return chance(50) ? Reducer::any : Reducer::all;
    const int k = below(10);
    const double n = points_of(reduced);
    const bool may_choose = (!o_.smooth || v.exact) && reduced.size() == 1;
    if (k < 2) return Reducer::max;
    if (k == 2) return Reducer::min;
    if (k == 3 && may_choose) return chance(50) ? Reducer::argmax : Reducer::argmin;
    if (k == 4 && std::pow(std::max(v.bound, 1.0), n) < 1e4) {
      v.bound = std::pow(std::max(v.bound, 1.0), n);
      v.exact = v.exact && c == Class::whole;
      return Reducer::prod;
    }
    v.bound *= n;
    v.exact = v.exact && c == Class::whole;
    return Reducer::sum;
  }

  Statement finish(Statement s, Value v) {
    s.axes = here_.extents;
    for (int i : here_.which) s.names.push_back(extents_[at(i)].name);
    s.body = v.s;
    const bool extreme = s.reducer == Reducer::max || s.reducer == Reducer::min || s.reducer == Reducer::argmax || s.reducer == Reducer::argmin;
    if (o_.guards && !extreme && chance(25)) s.guard = truth(1).s;
    if (s.guard && s.guard->op == Op::constant) s.guard = nullptr;
    return s;
  }

  void make_statement(bool reduces) {
    const int parallel = below(4), reduced = reduces ? 1 + below(2) : 0;
    choose_axes(parallel + reduced);
    Statement s;
    std::vector<AxisId> order(here_.which.size());
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = static_cast<AxisId>(i);
    std::shuffle(order.begin(), order.end(), random_);
    s.reduced.assign(order.begin(), order.begin() + std::min<std::ptrdiff_t>(reduced, static_cast<std::ptrdiff_t>(order.size())));
    const Class c = chance(65) ? Class::real : chance(70) ? Class::whole : Class::truth;
    Value v = damped(value(c, 1 + below(3)));
    const bool indexes = !s.reduced.empty() && (s.reducer = reducer_for(v, c, s.reduced), s.reducer == Reducer::argmax || s.reducer == Reducer::argmin);
    store(std::move(s), v, c, indexes);
  }

  // Adds the statement, writing a tensor of its own.
  void store(Statement s, const Value& v, Class c, bool indexes = false) {
    s = finish(std::move(s), v);
    std::vector<Size> dims;
    for (AxisId a : parallel_axes(s)) {
      dims.push_back(s.axes[at(a)]);
      s.at.push_back(axis_index(a));
    }
    const DType type = indexes ? DType::i32 : stored_type(v, c);
    s.out = declare_tensor(type, dims, Kind::intermediate, {indexes ? 7.0 * 3 : v.bound * 1.01, v.exact && c != Class::real});
    if (indexes && chance(70)) {
      p_.tensor(s.out).index_of = s.axes[at(s.reduced[0])];
      p_.tensor(s.out).index_axis = s.names[at(s.reduced[0])];
    }
    p_.nodes.emplace_back(std::move(s));
  }

  // A new tensor read by some of the axes, with a window over two of them.
  Value operand(Class c, bool window) {
    std::vector<std::pair<Size, Index>> dims;
    for (AxisId a = 0; a < static_cast<AxisId>(here_.extents.size()); ++a)
      if (chance(60) && dims.size() < 3) dims.emplace_back(here_.extents[at(a)], axis_index(a));
    if (window) {
      const AxisId a = random_axis(), b = random_axis();
      const int stride = 1 + below(2), dilation = 1 + below(2), padding = below(3);
      const Index i = Size(stride) * axis_index(a) + Size(dilation) * axis_index(b) - constant_index(padding);
      dims.emplace_back(here_.extents[at(a)] + below(3), i);
    }
    std::shuffle(dims.begin(), dims.end(), random_);
    std::vector<Size> shape;
    Access access{-1, {}, nullptr};
    bool safe = true;
    for (const auto& [dim, index] : dims) {
      extent_of(dim);
      shape.push_back(dim);
      access.at.push_back(index);
      safe = safe && inside(index, dim);
    }
    const DType dtype = random_dtype(c);
    const Fact f{c == Class::real ? 2.0 : dtype == DType::u8 ? 7.0 : 4.0, true};
    const TensorId t = declare_tensor(dtype, shape, chance(60) ? Kind::input : Kind::weight, f);
    if (!safe) access.otherwise = is_float(dtype) ? number(0, compute_type(dtype)) : integer(0, compute_type(dtype));
    return {read(p_, t, std::move(access.at), std::move(access.otherwise)), f.bound, true};
  }

  // Sums of products, and maxima over windows.
  void make_contraction() {
    choose_axes(2 + below(4));
    const int n = static_cast<int>(here_.which.size());
    const Class c = chance(75) ? Class::real : Class::whole;
    const bool window = o_.windows && chance(40), pool = chance(15);
    Statement s;
    for (AxisId a = std::max(1, n - 1 - below(2)); a < n; ++a) s.reduced.push_back(a);
    if (s.reduced.empty()) s.reduced.push_back(0);
    s.reducer = pool ? Reducer::max : Reducer::sum;
    Value v = operand(c, window);
    if (!pool) {
      const Value w = chance(75) ? operand(c, false) : damped(read_of(c, 1));
      v = {binary(Op::mul, v.s, w.s), v.bound * w.bound * points_of(s.reduced), v.exact && w.exact && c == Class::whole};
    }
    store(std::move(s), v, c);
  }

  // softmax, norms and the like over some of the axes; no -inf and no division by almost nothing comes out of them.
  void make_definition() {
    choose_axes(1 + below(3));
    const Value v = damped(real(1));
    define::Form form{here_.extents, {}, {}, v.s, nullptr, "T" + std::to_string(p_.tensors.size())};
    for (int i : here_.which) form.names.push_back(extents_[at(i)].name);
    for (AxisId a = 0; a < static_cast<AxisId>(here_.extents.size()); ++a)
      if (chance(50)) form.over.push_back(a);
    if (form.over.empty()) form.over.push_back(0);
    const auto kind = static_cast<define::Reduction>(below(7));
    const bool logarithm = kind == define::Reduction::log_softmax || kind == define::Reduction::logsumexp;
    const bool may_guard = !logarithm && (o_.infinite || kind != define::Reduction::softmax);
    if (o_.guards && may_guard && chance(30)) form.guard = truth(1).s;
    if (form.guard && form.guard->op == Op::constant) form.guard = nullptr;
    Builder build(p_);
    define::expand(build, kind, form, chance(80) ? DType::f32 : DType::f64, 0.5);
    const double n = points_of(form.over), bound = std::max(1.0, v.bound);
    while (facts_.size() < p_.tensors.size()) facts_.push_back({bound * bound * n * 2, false});
  }

  // A tensor of two or three boxes along one dim, or of two interleaved ones.
  void make_pieces() {
    choose_axes(1 + below(3));
    if (here_.which.empty()) return;
    const Point shape = here_;
    const AxisId along = random_axis();
    const bool interleaved = chance(30);
    std::vector<int> parts{shape.which[at(along)]};
    for (int n = interleaved ? 1 : 1 + below(2); n > 0; --n) {
      const int i = below(static_cast<int>(extents_.size()));
      const bool taken = std::find(shape.which.begin(), shape.which.end(), i) != shape.which.end();
      parts.push_back(interleaved || taken || extents_[at(i)].number < 1 ? parts[0] : i);
    }
    const Class c = chance(70) ? Class::real : Class::whole;
    std::vector<Size> dims = shape.extents;
    dims[at(along)] = 0;
    for (int i : parts) dims[at(along)] = dims[at(along)] + extents_[at(i)].value;
    const TensorId out = declare_tensor(c == Class::real ? DType::f32 : DType::i32, dims, Kind::intermediate, {1, c == Class::whole});
    writing_ = out;
    Size low = 0;
    double bound = 1;
    bool exact = c == Class::whole;
    for (std::size_t k = 0; k < parts.size(); ++k) {
      here_ = shape;
      here_.which[at(along)] = parts[k];
      here_.extents[at(along)] = extents_[at(parts[k])].value;
      const Value v = damped(value(c, 1 + below(2)));
      Statement s = finish({}, v);
      s.out = out;
      for (AxisId a = 0; a < static_cast<AxisId>(s.axes.size()); ++a) s.at.push_back(axis_index(a));
      if (interleaved) s.at[at(along)] = Size(2) * axis_index(along) + constant_index(static_cast<std::int64_t>(k));
      else s.at[at(along)] = axis_index(along) + constant_index(low);
      low = low + extents_[at(parts[k])].value;
      bound = std::max(bound, v.bound);
      exact = exact && v.exact;
      p_.nodes.emplace_back(std::move(s));
    }
    facts_[at(out)] = {bound * 1.01, exact};
    writing_ = -1;
  }
};

inline Program random_program(Random& random, const RandomOptions& options = {}) { return RandomProgram(random, options).make(); }

}  // namespace tilewright::testing
