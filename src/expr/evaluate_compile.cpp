#include "expr/evaluate_compile.h"

#include "expr/scalar.h"
#include "support/error.h"

#include <algorithm>
#include <cstring>
#include <unordered_map>

namespace tilewright::evaluator {

namespace {

std::optional<Affine> divide(const Scope&, const Affine&, std::int64_t div);
std::optional<Affine> modulo(const Scope&, const Affine&, std::int64_t mod);

std::int64_t divisor_of(const Index& index, const Binding& binding) {
  std::int64_t div = index.div.at(binding);
  if (div == 0) throw Error(Code::size, {}, "an index is divided by " + index.div.text() + ", which is 0");
  return div;
}

// What the terms that `div` does not divide can add up to; the others go to `exact`.
Interval rest_of(const Scope& scope, const Affine& form, std::int64_t div, Affine& exact, Affine& rest) {
  exact.coefficient.assign(form.coefficient.size(), 0);
  rest.coefficient = exact.coefficient;
  for (std::size_t a = 0; a < form.coefficient.size(); ++a)
    (form.coefficient[a] % div == 0 ? exact : rest).coefficient[a] = form.coefficient[a];
  rest.offset = floor_mod_i64(form.offset, div);
  exact.offset = form.offset - rest.offset;
  return hull(scope, rest);
}

// (d*A + r) // d is A where 0 <= r < d; (d*A + r) % d is r.
std::optional<Affine> divide(const Scope& scope, const Affine& form, std::int64_t div) {
  if (div == 1) return form;
  if (div < 0) return std::nullopt;
  Affine exact, rest;
  Interval r = rest_of(scope, form, div, exact, rest);
  if (r.low < 0 || r.high >= div) return std::nullopt;
  for (std::int64_t& c : exact.coefficient) c /= div;
  exact.offset /= div;
  return exact;
}

std::optional<Affine> modulo(const Scope& scope, const Affine& form, std::int64_t mod) {
  if (mod == 0) return form;
  if (mod < 0) return std::nullopt;
  Affine exact, rest;
  Interval r = rest_of(scope, form, mod, exact, rest);
  if (r.low < 0 || r.high >= mod) return std::nullopt;
  return rest;
}

// A value during compilation: its register, what it holds (bool, i32, i64, f32 or f64), and the register of its
// failure.
struct Value {
  int step = -1;
  DType dtype = DType::i32;
  int failure = -1;
};

class Compiler {
public:
  explicit Compiler(const Scope& scope) : scope_(scope) {}
  Body finish();

private:
  Value value(const ScalarRef&);
  Value made(const Scalar&);
  Value literal(const Scalar&);
  Value operation(const Scalar&);
  Value logical(const Scalar&, Value a, Value b);
  Value selection(const Scalar&);
  Value access(const Access&);
  Value guarded_read(const Access&, Load, std::vector<Test>, int failure);
  bool padded_read(const Access&, Load&) const;
  Value index(const Index&);
  Value gathered(const Index&);
  Value constant(std::int64_t);

  Value cast(Value, DType);
  Value arithmetic(Op, DType, Value, Value);
  bool surely_defined(Op, Value b) const;
  int either(int a, int b);
  int failed_choice(int condition, int yes, int no);
  int emit(Step);
  int affine(const Affine&);
  template <class T> int detail(std::vector<T>& list, const T& item);

  DType target(DType type) const { return scope_.mode == Evaluation::fp64 && is_float(type) ? DType::f64 : type; }
  DType computed(DType type) const { return type == DType::boolean ? type : compute_type(target(type)); }

  const Scope& scope_;
  Body body_;
  std::unordered_map<const Scalar*, Value> known_;
  std::map<std::vector<std::int64_t>, int> steps_;
};

template <class T> int Compiler::detail(std::vector<T>& list, const T& item) {
  auto found = std::find(list.begin(), list.end(), item);
  if (found == list.end()) found = list.insert(found, item);
  return static_cast<int>(found - list.begin());
}

int Compiler::affine(const Affine& form) { return detail(body_.affines, form); }

// Adds a step, or finds the equal one; works out its level and whether it varies.
int Compiler::emit(Step step) {
  std::vector<std::int64_t> key = {static_cast<std::int64_t>(step.kind),
                                   static_cast<std::int64_t>(step.op),
                                   static_cast<std::int64_t>(step.lane),
                                   static_cast<std::int64_t>(step.result),
                                   static_cast<std::int64_t>(step.to),
                                   step.a,
                                   step.b,
                                   step.c,
                                   step.detail};
  auto [place, is_new] = steps_.emplace(std::move(key), static_cast<int>(body_.steps.size()));
  if (!is_new) return place->second;
  auto on_step = [&](int other) {
    if (other < 0) return;
    const Step& before = body_.steps[static_cast<std::size_t>(other)];
    step.level = std::max(step.level, before.level);
    step.varies = step.varies || before.varies;
  };
  auto on_affine = [&](int form) {
    if (form < 0) return;
    const std::vector<std::int64_t>& c = body_.affines[static_cast<std::size_t>(form)].coefficient;
    for (std::size_t a = 0; a < c.size(); ++a) {
      if (c[a] == 0) continue;
      step.level = std::max(step.level, scope_.level[a]);
      step.varies = step.varies || scope_.level[a] == 0;
    }
  };
  on_step(step.a), on_step(step.b), on_step(step.c);
  if (step.kind == Step::Kind::affine) on_affine(step.detail);
  if (step.kind == Step::Kind::load)
    for (const Load::Dim& d : body_.loads[static_cast<std::size_t>(step.detail)].dims)
      on_affine(d.affine), on_step(d.step);
  if (step.kind == Step::Kind::in_bounds)
    for (const Test& t : body_.bounds[static_cast<std::size_t>(step.detail)].tests)
      on_affine(t.affine), on_step(t.step);
  body_.steps.push_back(step);
  return place->second;
}

Value Compiler::cast(Value v, DType to) {
  to = target(to);
  if (v.dtype == to) return v;
  Step step{.kind = Step::Kind::cast, .lane = lane_of(v.dtype), .result = lane_of(to), .to = to, .a = v.step};
  return {emit(step), computed(to), v.failure};
}

int Compiler::either(int a, int b) {
  if (a < 0 || b < 0 || a == b) return std::max(a, b);
  return emit({.kind = Step::Kind::either, .a = a, .b = b});
}

int Compiler::failed_choice(int condition, int yes, int no) {
  if (yes < 0 && no < 0) return -1;
  return emit({.kind = Step::Kind::failed_choice, .a = condition, .b = yes, .c = no});
}

Value Compiler::constant(std::int64_t v) {
  std::uint64_t bits = static_cast<std::uint64_t>(v);
  int at = detail(body_.constants, bits);
  return {emit({.kind = Step::Kind::constant, .result = Lane::i64, .detail = at}), DType::i64};
}

std::uint64_t literal_bits(const Scalar& s, DType to) {
  std::uint64_t bits = 0;
  if (const double* real = std::get_if<double>(&s.leaf))
    evaluator::cast(Lane::f64, real, to, 1, &bits);
  else
    evaluator::cast(Lane::i64, &std::get<std::int64_t>(s.leaf), to, 1, &bits);
  return bits;
}

Value Compiler::literal(const Scalar& s) {
  DType to = target(s.dtype);
  int at = detail(body_.constants, literal_bits(s, to));
  return {emit({.kind = Step::Kind::constant, .result = lane_of(to), .detail = at}), computed(to)};
}

Value Compiler::value(const ScalarRef& scalar) {
  TW_ASSERT(scalar);
  auto found = known_.find(scalar.get());
  if (found != known_.end()) return found->second;
  Value v = made(*scalar);
  known_.emplace(scalar.get(), v);
  return v;
}

Value Compiler::made(const Scalar& s) {
  switch (s.op) {
  case Op::constant: return literal(s);
  case Op::axis: {
    Affine form{std::vector<std::int64_t>(scope_.extents.size(), 0)};
    std::size_t axis = static_cast<std::size_t>(std::get<AxisId>(s.leaf));
    TW_ASSERT(axis < scope_.extents.size());
    form.coefficient[axis] = scope_.extents[axis] > 1;
    int step = emit({.kind = Step::Kind::affine, .result = Lane::i64, .detail = affine(form)});
    return cast({step, DType::i64}, s.dtype);
  }
  case Op::size: return cast(constant(std::get<Size>(s.leaf).at(scope_.binding)), s.dtype);
  case Op::read: {
    const Access& read = std::get<Access>(s.leaf);
    bool as_stored = scope_.program.tensor(read.tensor).dtype == s.dtype; // then every element is of that type already
    return as_stored ? access(read) : cast(access(read), s.dtype);
  }
  case Op::cast: return cast(value(s.args.at(0)), s.dtype);
  case Op::select: return selection(s);
  default: return operation(s);
  }
}

// A constant divisor other than 0, or a constant exponent that is not negative.
bool Compiler::surely_defined(Op op, Value b) const {
  const Step& step = body_.steps[static_cast<std::size_t>(b.step)];
  if (step.kind != Step::Kind::constant) return false;
  std::uint64_t bits = body_.constants[static_cast<std::size_t>(step.detail)];
  std::int64_t v = step.result == Lane::i32 ? static_cast<std::int32_t>(bits) : static_cast<std::int64_t>(bits);
  return op == Op::pow ? v >= 0 : v != 0;
}

Value Compiler::arithmetic(Op op, DType type, Value a, Value b) {
  a = cast(a, type), b = cast(b, type);
  Lane lane = lane_of(a.dtype);
  int failure = either(a.failure, b.failure);
  bool partial = op == Op::div || op == Op::floor_div || op == Op::mod || op == Op::pow;
  if (partial && !is_float(a.dtype) && !surely_defined(op, b)) {
    Step test{.kind = Step::Kind::undefined, .op = op, .lane = lane, .a = a.step, .b = b.step};
    failure = either(failure, emit(test));
  }
  Step step{.kind = Step::Kind::binary, .op = op, .lane = lane, .result = lane, .a = a.step, .b = b.step};
  return {emit(step), computed(type), failure};
}

// `and` and `or` do not look at their right side where the left side has decided.
Value Compiler::logical(const Scalar& s, Value a, Value b) {
  a = cast(a, DType::boolean), b = cast(b, DType::boolean);
  bool conjunction = s.op == Op::logical_and;
  int right = conjunction ? failed_choice(a.step, b.failure, -1) : failed_choice(a.step, -1, b.failure);
  Step step{.kind = Step::Kind::binary, .op = s.op, .a = a.step, .b = b.step};
  return {emit(step), DType::boolean, either(a.failure, right)};
}

Value Compiler::selection(const Scalar& s) {
  Value condition = cast(value(s.args.at(0)), DType::boolean);
  DType type = computed(s.dtype);
  Value yes = cast(value(s.args.at(1)), type), no = cast(value(s.args.at(2)), type);
  Lane lane = lane_of(type);
  Step step{.kind = Step::Kind::choose, .lane = lane, .result = lane, .a = condition.step, .b = yes.step, .c = no.step};
  int chosen = failed_choice(condition.step, yes.failure, no.failure);
  return {emit(step), type, either(condition.failure, chosen)};
}

Value Compiler::operation(const Scalar& s) {
  Value a = value(s.args.at(0));
  if (s.op == Op::is_nan || s.op == Op::is_inf) {
    Step step{.kind = Step::Kind::classify, .op = s.op, .lane = lane_of(a.dtype), .a = a.step};
    return {emit(step), DType::boolean, a.failure};
  }
  DType type = computed(s.dtype);
  if (arity(s.op) == 1) {
    // The negations of booleans give booleans; any other operator takes them as the integers 0 and 1.
    bool negation = s.op == Op::logical_not || (s.op == Op::bit_not && type == DType::boolean);
    a = cast(a, negation ? DType::boolean : compute_type(type));
    Lane lane = lane_of(a.dtype);
    Op op = negation ? Op::logical_not : s.op;
    int step = emit({.kind = Step::Kind::unary, .op = op, .lane = lane, .result = lane, .a = a.step});
    return negation ? Value{step, DType::boolean, a.failure} : cast({step, a.dtype, a.failure}, type);
  }
  Value b = value(s.args.at(1));
  if (s.op == Op::logical_and || s.op == Op::logical_or) return logical(s, a, b);
  if (is_comparison(s.op)) {
    DType common = compute_type(promote(a.dtype, b.dtype));
    a = cast(a, common), b = cast(b, common);
    Step step{.kind = Step::Kind::compare, .op = s.op, .lane = lane_of(common), .a = a.step, .b = b.step};
    return {emit(step), DType::boolean, either(a.failure, b.failure)};
  }
  Value result = arithmetic(s.op, compute_type(type), a, b);
  return cast(result, type);
}

// ---- indices and accesses

Value Compiler::gathered(const Index& index) {
  Affine axes{std::vector<std::int64_t>(scope_.extents.size(), 0)};
  axes.offset = index.offset.at(scope_.binding);
  Value sum;
  auto add = [&](Value v) { sum = sum.step < 0 ? v : arithmetic(Op::add, DType::i64, sum, v); };
  for (const Index::Term& term : index.terms) {
    std::int64_t c = term.coefficient.at(scope_.binding);
    if (const AxisId* axis = std::get_if<AxisId>(&term.of)) {
      std::size_t a = static_cast<std::size_t>(*axis);
      if (scope_.extents[a] > 1) axes.coefficient[a] += c;
      continue;
    }
    const auto* element = std::get_if<std::shared_ptr<const Access>>(&term.of);
    Value v = element ? cast(access(**element), DType::i64) : this->index(*std::get<2>(term.of));
    add(c == 1 ? v : arithmetic(Op::mul, DType::i64, v, constant(c)));
  }
  add({emit({.kind = Step::Kind::affine, .result = Lane::i64, .detail = affine(axes)}), DType::i64});
  return sum;
}

Value Compiler::index(const Index& index) {
  if (std::optional<Affine> form = affine_form(scope_, index))
    return {emit({.kind = Step::Kind::affine, .result = Lane::i64, .detail = affine(*form)}), DType::i64};
  Value v = gathered(index);
  std::int64_t div = divisor_of(index, scope_.binding), mod = index.mod.at(scope_.binding);
  if (div != 1) v = arithmetic(Op::floor_div, DType::i64, v, constant(div));
  if (mod != 0) v = arithmetic(Op::mod, DType::i64, v, constant(mod));
  return v;
}

// A window with a literal `else` is read from a padded copy, if that is small against the work.
bool Compiler::padded_read(const Access& access, Load& load) const {
  if (!access.otherwise || access.otherwise->op != Op::constant || !load.all_affine()) return false;
  if (!worth_staging(scope_, load, body_.affines)) return false;
  load.padded = true;
  DType type = scope_.values.at(access.tensor).dtype;
  load.fill = literal_bits(*access.otherwise, type);
  return true;
}

Value Compiler::guarded_read(const Access& access, Load load, std::vector<Test> tests, int failure) {
  Bounds bounds{access.tensor, std::move(tests)};
  int inside = emit({.kind = Step::Kind::in_bounds, .detail = detail(body_.bounds, bounds)});
  DType type = scope_.values.at(access.tensor).dtype;
  Lane lane = lane_of(type);
  int at = detail(body_.loads, load);
  int read = emit({.kind = Step::Kind::load, .result = lane, .a = inside, .detail = at});
  if (!access.otherwise) {
    int outside = emit({.kind = Step::Kind::out_of_bounds, .a = inside});
    return {read, computed(type), either(failure, outside)};
  }
  Value other = cast(value(access.otherwise), type);
  Step choose{.kind = Step::Kind::choose, .lane = lane, .result = lane, .a = inside, .b = read, .c = other.step};
  return {emit(choose), computed(type), either(failure, failed_choice(inside, -1, other.failure))};
}

Value Compiler::access(const Access& access) {
  const Array& array = scope_.values.at(access.tensor);
  TW_ASSERT(access.at.size() == array.dims.size());
  Load load;
  load.tensor = access.tensor;
  std::vector<Test> tests;
  int failure = -1;
  for (std::size_t d = 0; d < array.dims.size(); ++d) {
    Test test{.extent = array.dims[d], .dim = static_cast<int>(d)};
    if (std::optional<Affine> form = affine_form(scope_, access.at[d])) {
      test.affine = affine(*form);
      Interval range = hull(scope_, *form);
      if (range.low < 0 || range.high >= array.dims[d]) tests.push_back(test);
    } else {
      Value v = index(access.at[d]);
      test.step = v.step;
      failure = either(failure, v.failure);
      tests.push_back(test);
    }
    load.dims.push_back({test.affine, test.step});
  }
  if (!tests.empty() && !padded_read(access, load)) return guarded_read(access, load, std::move(tests), failure);
  int at = detail(body_.loads, load);
  return {emit({.kind = Step::Kind::load, .result = lane_of(array.dtype), .detail = at}), computed(array.dtype),
          failure};
}

// The type in which a reduction accumulates: that of the body, or the wider one of the same kind that is declared.
DType accumulator(DType body, DType declared) {
  DType wide = compute_type(declared), own = compute_type(body);
  return is_float(wide) == is_float(own) ? promote(wide, own) : own;
}

Body Compiler::finish() {
  const Statement& s = scope_.statement;
  if (s.guard) {
    Value guard = cast(value(s.guard), DType::boolean);
    body_.guard = guard.step, body_.guard_failure = guard.failure;
  }
  Value v = value(s.body);
  DType declared = target(scope_.program.tensor(s.out).dtype);
  bool boolean = s.reducer == Reducer::any || s.reducer == Reducer::all;
  bool pair = s.reducer == Reducer::argmax || s.reducer == Reducer::argmin;
  if (boolean)
    v = cast(v, DType::boolean);
  else if (s.reducer != Reducer::none && !pair)
    v = cast(v, accumulator(v.dtype, declared));
  body_.value = v.step, body_.value_failure = v.failure;
  body_.lane = lane_of(v.dtype);
  std::vector<Step>& steps = body_.steps;
  auto spread = [&](int step) {
    if (step >= 0) steps[static_cast<std::size_t>(step)].spread = true;
  };
  for (int root : {body_.value, body_.value_failure, body_.guard, body_.guard_failure}) spread(root);
  for (std::size_t i = 0; i < steps.size(); ++i) {
    if (!steps[i].varies) continue;
    spread(steps[i].a), spread(steps[i].b), spread(steps[i].c);
    if (steps[i].kind == Step::Kind::load)
      for (const Load::Dim& d : body_.loads[static_cast<std::size_t>(steps[i].detail)].dims) spread(d.step);
    if (steps[i].kind == Step::Kind::in_bounds)
      for (const Test& t : body_.bounds[static_cast<std::size_t>(steps[i].detail)].tests) spread(t.step);
  }
  return std::move(body_);
}

} // namespace

bool Load::all_affine() const {
  return std::all_of(dims.begin(), dims.end(), [](const Dim& d) { return d.affine >= 0; });
}

Interval hull(const Scope& scope, const Affine& form) {
  Interval range{form.offset, form.offset};
  for (std::size_t a = 0; a < form.coefficient.size(); ++a) {
    if (form.coefficient[a] == 0) continue;
    std::int64_t reach = checked_mul(form.coefficient[a], scope.extents[a] - 1);
    std::int64_t& end = reach < 0 ? range.low : range.high;
    end = checked_add(end, reach);
  }
  return range;
}

std::optional<Affine> affine_form(const Scope& scope, const Index& index) {
  Affine form{std::vector<std::int64_t>(scope.extents.size(), 0), index.offset.at(scope.binding)};
  for (const Index::Term& term : index.terms) {
    std::int64_t c = term.coefficient.at(scope.binding);
    if (const AxisId* axis = std::get_if<AxisId>(&term.of)) {
      std::size_t a = static_cast<std::size_t>(*axis);
      TW_ASSERT(a < scope.extents.size());
      if (scope.extents[a] > 1) form.coefficient[a] = checked_add(form.coefficient[a], c);
      continue;
    }
    const auto* nested = std::get_if<std::shared_ptr<const Index>>(&term.of);
    std::optional<Affine> inner = nested ? affine_form(scope, **nested) : std::nullopt;
    if (!inner) return std::nullopt;
    form.offset = checked_add(form.offset, checked_mul(c, inner->offset));
    for (std::size_t a = 0; a < scope.extents.size(); ++a)
      form.coefficient[a] = checked_add(form.coefficient[a], checked_mul(c, inner->coefficient[a]));
  }
  std::optional<Affine> divided = divide(scope, form, divisor_of(index, scope.binding));
  return divided ? modulo(scope, *divided, index.mod.at(scope.binding)) : std::nullopt;
}

bool worth_staging(const Scope& scope, const Load& load, const std::vector<Affine>& affines) {
  constexpr double most = 1 << 27, always = 1 << 16; // elements
  double touched = 1;
  for (const Load::Dim& d : load.dims) {
    Interval range = hull(scope, affines[static_cast<std::size_t>(d.affine)]);
    touched *= static_cast<double>(range.high) - static_cast<double>(range.low) + 1;
  }
  double own = static_cast<double>(scope.values.at(load.tensor).count());
  return scope.points >= 4 * touched && touched <= most && touched <= std::max(4 * own, always);
}

Body compile(const Scope& scope) { return Compiler(scope).finish(); }

} // namespace tilewright::evaluator
