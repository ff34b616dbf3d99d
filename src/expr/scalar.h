// Building and walking scalar bodies and indices: typed constructors with constant folding, traversal, substitution.
//
//   Index y = 2 * axis_index(2) + axis_index(4) - 1;                       2*y + i - 1
//   ScalarRef b = binary(Op::mul, read(p, x, {n, c, y}), read(p, w, {c, i}));
//
// Types: an arithmetic node has the compute type of its promoted arguments (bool < i32 < i64 < f32 < f64); a numeric literal
// takes the type of the other side. A `read` of f16 has dtype f16 and is computed as f32: the arguments of a node may be
// stored types, but all have the node's operand type as compute type (mixed ones get a cast; sqrt of an integer is of f32).
// Constructors fold constants as the compute type computes them, and drop what changes no bit: x*1, x-0, 0+n, --x, select of
// constants; never x+0.0 or x*0.0 of floats, nor a division by zero or a NaN. They throw Error(type) on what has no meaning.
#pragma once
#include <unordered_set>

#include "expr/program.h"

namespace tilewright {

// ---- indices
Index axis_index(AxisId);
Index constant_index(Size);
Index operator+(const Index&, const Index&);                      // flattens where neither has div or mod
Index operator-(const Index&, const Index&);
Index operator*(const Size&, const Index&);
Index floor_div(const Index&, const Size&);
Index floor_mod(const Index&, const Size&);
bool operator==(const Index&, const Index&);                      // structural, up to the order of terms
std::optional<AxisId> plain_axis(const Index&);                   // the axis, if the index is that axis alone, coefficient 1, offset 0
bool is_affine(const Index&);                                     // only axes: no gather, no div, no mod, no nested index
Size coefficient_of(const Index& affine, AxisId);                 // 0 if it does not occur
std::size_t hash(const Index&);                                   // equal indices have equal hashes
Interval bounds(const Index&, const std::vector<Size>& extents, const Ranges& = {});   // inclusive hull; gathers are unbounded
// The inclusive hull as sizes, where the signs of the coefficients are provable: 2*y + i - 1 -> [-1, 2*(h-1) + 2 - 1].
// With a program, elements of tensors of type index(x) lie in [0, x). Extents are taken as positive: else there is no point.
struct Hull { Size low, high; };
std::optional<Hull> hull(const Index&, const std::vector<Size>& extents, const Ranges& = {}, const Program* = nullptr);
// 0 <= index < dim, provably, at every point.
bool in_bounds(const Index&, const Size& dim, const std::vector<Size>& extents, const Ranges& = {}, const Program* = nullptr);
// An affine index whose axes are the digits of a number without gaps (64*h + d, d < 64; one axis is one digit; none: a
// constant): the arithmetic progression low, low + stride, ... of `count` elements that it runs through, each once.
struct Digits { Size low = 0, stride = 1, count = 1; };
std::optional<Digits> digits_of(const Index&, const std::vector<Size>& extents);
// (6*a + b) // 6 -> a and (6*a + b) % 6 -> b where 0 <= b < 6 is provable; nested indices flattened where exact;
// d*(x//d) + x%d -> x. Exact at every point of the axes; divisors and moduli are positive.
Index simplify(const Index&, const std::vector<Size>& extents, const Ranges& = {}, const Program* = nullptr);

// ---- scalars
ScalarRef number(double, DType = DType::f32);                     // a float literal
ScalarRef integer(std::int64_t, DType = DType::i32);
ScalarRef boolean(bool);
ScalarRef axis_value(AxisId, DType = DType::i32);                 // `index(x)`
ScalarRef size_value(Size, DType = DType::i32);
ScalarRef read(const Program&, TensorId, std::vector<Index> at, ScalarRef otherwise = nullptr);
ScalarRef unary(Op, ScalarRef);
ScalarRef binary(Op, ScalarRef, ScalarRef);
ScalarRef select(ScalarRef condition, ScalarRef a, ScalarRef b);
ScalarRef cast(ScalarRef, DType);                                 // nothing where the dtype is already that
ScalarRef index_value(const Program&, const Index&);              // the value of an index expression as a scalar (i64)
bool is_literal(const ScalarRef&, double* value = nullptr);       // a constant leaf
bool zero_outside(const Access&);                                 // what is read beyond the bounds, if anything is, is 0
DType promote(DType, DType);

bool equal(const ScalarRef&, const ScalarRef&);                   // structural; null equals null
bool equal(const Access&, const Access&);
std::size_t hash(const ScalarRef&);

// ---- traversal. Every access is visited, those inside indices and `else` values too, innermost first.
void for_each_access(const ScalarRef&, const std::function<void(const Access&)>&);
void for_each_access(const Index&, const std::function<void(const Access&)>&);
void for_each_access(const Statement&, const std::function<void(const Access&)>&);    // body, guard, and the indices of `at`
bool uses_axis_value(const ScalarRef&, AxisId);                   // through index(axis), not through an access
std::vector<AxisId> used_axis_values(const Statement&);           // all such axes of its body and guard, ascending
bool mentions_axis(const Index&, AxisId);
bool mentions_axis(const ScalarRef&, AxisId);                     // its value, or in an index

// Rewrites bottom-up: f gets a node whose arguments are already rewritten and returns it or another.
ScalarRef rewrite(const ScalarRef&, const std::function<ScalarRef(const ScalarRef&)>&);
// Replaces each axis by an index (in accesses) or by its value (in index(axis)); with[a] is the new index of axis a.
ScalarRef substitute(const Program&, const ScalarRef&, const std::vector<Index>& with);
Index substitute(const Program&, const Index&, const std::vector<Index>& with);

// ---- facts about operators
int arity(Op);
bool is_comparison(Op);
bool is_logical(Op);
std::string_view name_of(Op);                                     // "exp", "+", ...
std::string_view name_of(Reducer);
double identity_of(Reducer);                                      // of sum, prod, max, min, any, all

// ---- statements
std::vector<AxisId> parallel_axes(const Statement&);              // the axes that are not reduced, ascending
bool is_map(const Statement&);
DType held_as(const Program&, const Statement&);                  // what a reduction accumulates in (evaluate.h): i8 sums in i32

// A builder of statements: names are made unique, axis names come from hints.
class Builder {
 public:
  explicit Builder(Program& p) : p_(p) {}
  TensorId tensor(std::string hint, DType, std::vector<Size> dims, Kind = Kind::intermediate);
  TensorId weight(std::string hint, DType, std::vector<std::int64_t> dims, std::vector<std::byte> bytes);
  // out[all parallel axes in order] = reducer[reduced] body; dims are the extents of the parallel axes. Returns the tensor.
  TensorId statement(std::string hint, DType, std::vector<Size> axes, ScalarRef body, Reducer = Reducer::none,
                     std::vector<AxisId> reduced = {}, ScalarRef guard = nullptr, std::string label = {});
  void piece(TensorId out, std::vector<Index> at, std::vector<Size> axes, ScalarRef body, Reducer = Reducer::none,
             std::vector<AxisId> reduced = {}, ScalarRef guard = nullptr, std::string label = {});
  ScalarRef read(TensorId t, std::vector<Index> at, ScalarRef otherwise = nullptr) { return tilewright::read(p_, t, std::move(at), std::move(otherwise)); }
  Place place;                                                     // given to each statement made
  Program& program() { return p_; }
  std::string unique(const std::string& hint);                     // the hint, or hint_1, ...: a name that no size or tensor has

 private:
  Program& p_;
  std::unordered_set<std::string> used_;
  std::size_t known_sizes_ = 0, known_tensors_ = 0;
};

}  // namespace tilewright
