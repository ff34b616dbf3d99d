// Random statements without mercy, for the evaluator alone: NaNs, infinities and the ends of the integers in the
// inputs, divisions by zero, reads out of range, every operator on every type, and shapes that cross the evaluator's
// blocks. They do not verify, and many of them fail; what must agree is whether they fail, and every bit if they do
// not.
#pragma once
#include <limits>
#include <random>

#include "expr/evaluate.h"
#include "expr/random_program.h"
#include "expr/scalar.h"

namespace tilewright::testing {

class RoughProgram {
public:
  explicit RoughProgram(Random& random) : random_(random), build_(p_) {}

  Program make() {
    p_.name = "rough";
    const DType types[] = {DType::f64, DType::f32, DType::f16, DType::bf16, DType::f8e4m3, DType::f8e5m2,
                           DType::i8,  DType::u8,  DType::i32, DType::i64,  DType::boolean};
    for (DType t : types) add_input(t);
    add_input(DType::f32);
    add_input(DType::i32);
    for (int n = 1 + below(3); n > 0; --n) add_statement();
    return std::move(p_);
  }

  Values inputs(const Program& p) {
    Values values;
    for (TensorId id : p.inputs) {
      std::vector<std::int64_t> dims;
      for (const Size& d : p.tensor(id).dims) dims.push_back(d.constant());
      Array a = Array::make(p.tensor(id).dtype, dims);
      bool wild = chance(40);
      for (std::int64_t i = 0; i < a.count(); ++i) fill(a, i, wild);
      values[id] = a;
    }
    return values;
  }

private:
  Random& random_;
  Program p_;
  Builder build_;
  std::vector<std::int64_t> extents_;
  bool risky_ = false; // may fail

  int below(int n) { return static_cast<int>(random_() % static_cast<std::uint64_t>(n)); }
  bool chance(int percent) { return below(100) < percent; }

  void fill(Array& a, std::int64_t i, bool wild) {
    double v = (below(4001) - 2000) / 500.0;
    if (!is_float(a.dtype)) v = below(13) - (a.dtype == DType::u8 ? 0 : 6);
    if (!wild || !chance(15)) return put(a, i, v);
    const double specials[] = {std::numeric_limits<double>::quiet_NaN(),
                               std::numeric_limits<double>::infinity(),
                               -std::numeric_limits<double>::infinity(),
                               -0.0,
                               1e30,
                               -3e9,
                               65520};
    if (is_float(a.dtype)) return put(a, i, specials[below(7)]);
    std::byte* to = a.data + i * static_cast<std::int64_t>(bytes_of(a.dtype));
    std::int64_t limits[] = {INT64_MIN, INT64_MAX, INT32_MIN, INT32_MAX, -128, 127, 255, -1};
    std::int64_t chosen = a.dtype == DType::boolean ? below(3) : limits[below(8)];
    std::memcpy(to, &chosen, bytes_of(a.dtype));
    if (a.dtype == DType::i32 && chance(50)) std::memcpy(to, std::array<std::int32_t, 1>{INT32_MIN}.data(), 4);
  }

  void add_input(DType t) {
    std::vector<Size> dims;
    for (int n = below(4); n > 0; --n) dims.push_back(1 + below(9));
    p_.inputs.push_back(build_.tensor("X", t, dims, Kind::input));
  }

  AxisId axis() { return below(static_cast<int>(extents_.size())); }

  Index affine() {
    Index i = constant_index(below(5) - 2);
    if (extents_.empty()) return i;
    for (int n = 1 + below(2); n > 0; --n) {
      const Index a = axis_index(axis());
      i = i + Size(chance(60) ? 1 : below(5) - 2) * a;
    }
    return i;
  }

  // An index that mostly stays inside where an operand without `else` needs it.
  Index index(std::int64_t dim, bool safe, int depth) {
    Index i = affine();
    if (depth > 0 && chance(15)) {
      Index gather;
      ScalarRef element = read_of(p_.inputs[static_cast<std::size_t>(6 + below(4))], depth - 1);
      gather.terms.push_back({1, std::make_shared<const Access>(std::get<Access>(element->leaf))});
      i = chance(50) ? gather : gather + i;
    }
    if (chance(20)) i = floor_div(i, 1 + below(4));
    if (dim > 0 && (safe || chance(10))) i = floor_mod(i, dim);
    return i;
  }

  ScalarRef read_of(TensorId t, int depth) {
    std::vector<Index> at;
    bool padded = chance(50), safe = !padded && !(risky_ && chance(20));
    std::vector<Size> dims = p_.tensor(t).dims;
    for (const Size& d : dims) at.push_back(index(d.constant(), safe, depth));
    ScalarRef otherwise;
    if (padded) otherwise = chance(70) ? literal() : cast(any(depth - 1), compute_type(p_.tensor(t).dtype));
    return build_.read(t, at, otherwise);
  }

  ScalarRef literal() {
    switch (below(6)) {
    case 0: return number(0);
    case 1: return number(-std::numeric_limits<double>::infinity());
    case 2: return number(0.1);
    case 3: return integer(below(7) - 3);
    case 4: return integer(below(3), DType::i64);
    default: return number(below(5) - 2.5, DType::f64);
    }
  }

  ScalarRef any(int depth) {
    if (depth <= 0) {
      if (chance(20)) return literal();
      if (!extents_.empty() && chance(20)) return axis_value(axis(), chance(50) ? DType::i32 : DType::i64);
      return read_of(below(static_cast<int>(p_.tensors.size())), 0);
    }
    switch (below(12)) {
    case 0:
    case 1:
    case 2: return arithmetic(depth);
    case 3: return function(depth);
    case 4: return bits(depth);
    case 5: return select(truth(depth - 1), any(depth - 1), any(depth - 1));
    case 6: {
      const DType types[] = {DType::f64, DType::f32, DType::f16, DType::bf16, DType::f8e4m3, DType::f8e5m2,
                             DType::i8,  DType::u8,  DType::i32, DType::i64,  DType::boolean};
      return cast(any(depth - 1), types[below(11)]);
    }
    case 7: return truth(depth);
    case 8: return arithmetic(depth);
    default: return read_of(below(static_cast<int>(p_.tensors.size())), depth - 1);
    }
  }

  ScalarRef arithmetic(int depth) {
    const Op ops[] = {Op::add, Op::sub, Op::mul, Op::min, Op::max, Op::div, Op::floor_div, Op::mod, Op::pow};
    const ScalarRef a = any(depth - 1), b = any(depth - 1);
    Op op = ops[below(9)];
    bool fails = op >= Op::div && op != Op::min && op != Op::max && !is_float(promote(a->dtype, b->dtype));
    if (fails && !risky_) op = Op::mul;
    return binary(op, a, b);
  }

  ScalarRef function(int depth) {
    const ScalarRef a = any(depth - 1);
    const Op ops[] = {Op::neg,  Op::abs,  Op::sign, Op::floor, Op::ceil,  Op::round, Op::trunc, Op::exp,
                      Op::log,  Op::sqrt, Op::tanh, Op::erf,   Op::sin,   Op::cos,   Op::tan,   Op::asin,
                      Op::acos, Op::atan, Op::sinh, Op::cosh,  Op::asinh, Op::acosh, Op::atanh};
    return unary(ops[below(23)], a);
  }

  ScalarRef bits(int depth) {
    ScalarRef a = any(depth - 1), b = any(depth - 1);
    if (!is_integer(a->dtype)) a = cast(a, chance(50) ? DType::i32 : DType::i64);
    if (!is_integer(b->dtype)) b = cast(b, DType::i32);
    const Op ops[] = {Op::bit_and, Op::bit_or, Op::bit_xor, Op::shift_left, Op::shift_right};
    return chance(15) ? unary(Op::bit_not, a) : binary(ops[below(5)], a, b);
  }

  ScalarRef truth(int depth) {
    const ScalarRef a = any(depth - 1);
    if (chance(15)) return unary(chance(50) ? Op::is_nan : Op::is_inf, a);
    if (chance(10)) return unary(Op::logical_not, a);
    const ScalarRef b = any(depth - 1);
    const Op ops[] = {Op::eq, Op::ne, Op::lt, Op::le, Op::gt, Op::ge, Op::logical_and, Op::logical_or};
    return binary(ops[below(8)], a, b);
  }

  void add_statement() {
    extents_.clear();
    const std::int64_t shapes[] = {1, 2, 3, 5, 8, 17};
    int parallel = below(4), reduced = chance(60) ? 1 + below(2) : 0;
    for (int a = parallel + reduced; a > 0; --a) extents_.push_back(chance(2) ? 0 : shapes[below(6)]);
    std::vector<AxisId> order(extents_.size());
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = static_cast<AxisId>(i);
    std::shuffle(order.begin(), order.end(), random_);
    const Reducer reducers[] = {Reducer::sum, Reducer::prod, Reducer::max,    Reducer::min,
                                Reducer::any, Reducer::all,  Reducer::argmax, Reducer::argmin};
    Reducer reducer = reduced ? reducers[chance(40) ? 0 : below(8)] : Reducer::none;
    if (reduced == 2 && reducer >= Reducer::argmax) reducer = Reducer::sum;
    risky_ = chance(25);
    const ScalarRef body = any(below(5)), guard = chance(30) ? truth(1 + below(3)) : nullptr;
    const DType types[] = {DType::f64, DType::f32, DType::f16, DType::bf16, DType::f8e4m3, DType::f8e5m2,
                           DType::i8,  DType::u8,  DType::i32, DType::i64,  DType::boolean};
    std::vector<Size> axes(extents_.begin(), extents_.end());
    order.resize(static_cast<std::size_t>(reduced));
    build_.statement("T", types[below(11)], axes, body, reducer, order, guard);
  }
};

} // namespace tilewright::testing
