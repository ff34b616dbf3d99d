// Tensor programs: the one form that everything in the house speaks of.
//
//   out[ index, ... ] : dtype = reduce[axes] body   where guard
//
// Matmul, convolution, pooling, softmax, norms, masks and transposes are all statements of this form. An axis belongs to one
// statement: it is a position in Statement::axes. Tensors have dims; an access says, for each dim, which index is read.
// Example: a 3x3 depthwise convolution, stride 2, padding 1 (axes n c y x i j are 0..5, i and j reduced with sum):
//
//   Y[n c y x] = sum[i j] X[n, c, 2*y+i-1, 2*x+j-1 else 0] * W[c i j]
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "support/dtype.h"
#include "support/size.h"

namespace tilewright {

using TensorId = int;
using StatementId = int;   // a position in Program::nodes
using AxisId = int;        // a position in Statement::axes

enum class Kind { input, weight, intermediate };   // weight: constant for the life of a session; its bytes may be packed

struct Scalar;
using ScalarRef = std::shared_ptr<const Scalar>;   // immutable, shared freely
struct Access;

// ((sum of coefficient * term + offset) // div) % mod, with floor division; mod 0 means none. A term is an axis, an element of
// an integer tensor (a gather), or an index of its own (what views of views leave behind).
struct Index {
  struct Term {
    Size coefficient;
    std::variant<AxisId, std::shared_ptr<const Access>, std::shared_ptr<const Index>> of;
  };
  std::vector<Term> terms;
  Size offset = 0, div = 1, mod = 0;
};

struct Access {
  TensorId tensor = -1;
  std::vector<Index> at;      // one a dim
  ScalarRef otherwise;        // `else`: the value where any index leaves its dim; null: it never does
};

enum class Op : std::uint8_t {
  constant, axis, size, read,                                                          // leaves
  add, sub, mul, div, floor_div, mod, min, max, pow,                                   // div of integers truncates (C), floor_div and mod floor
  neg, abs, sign, floor, ceil, round, trunc, exp, log, sqrt, tanh, erf,                // round is half to even
  sin, cos, tan, asin, acos, atan, sinh, cosh, asinh, acosh, atanh,
  eq, ne, lt, le, gt, ge, logical_and, logical_or, logical_not,                        // give boolean
  bit_and, bit_or, bit_xor, bit_not, shift_left, shift_right,
  is_nan, is_inf, select, cast                                                         // select(condition, a, b); cast to Scalar::dtype: a rounding point
};

// A node of a scalar body. dtype is the type of the value: the stored dtype for `read` and `cast`, a compute type elsewhere.
struct Scalar {
  Op op;
  DType dtype;
  std::vector<ScalarRef> args;
  std::variant<std::monostate, double, std::int64_t, AxisId, Size, Access> leaf;      // constant: double or int64; axis; size; read
};

enum class Reducer : std::uint8_t { none, sum, prod, max, min, any, all, argmax, argmin };
// argmax, argmin: over one axis; the index of the first winner, NaN wins. max and min propagate NaN. Empty: sum 0, prod 1, any
// false, all true, max -inf or the lowest integer, min likewise; argmax of nothing is an error.

struct Place { int line = 0, column = 0; std::string node; };                          // where a statement came from

struct Statement {
  TensorId out = -1;
  std::vector<Index> at;                // one a dim of out: stride * axis + offset; several statements of one tensor are its pieces
  std::vector<Size> axes;               // extents
  std::vector<std::string> names;       // of the axes, for people
  std::vector<AxisId> reduced;          // in the order of reduction, outermost first
  Reducer reducer = Reducer::none;      // none: a map
  ScalarRef body, guard;                // guard (`where`) null: every point exists; a map writes 0 where it fails
  std::string label;                    // the definition this came from ("softmax"), for reports only
  Place place;
};

// One dense row-major array outside the calculus: inputs, outputs, weights, and what opaque references work on.
struct Array {
  DType dtype = DType::f32;
  std::vector<std::int64_t> dims;
  std::shared_ptr<std::byte[]> owner;   // null where the bytes belong to someone else
  std::byte* data = nullptr;
  std::int64_t count() const;           // product of dims
  std::size_t bytes() const;
  static Array make(DType, std::vector<std::int64_t> dims);                            // zeroed; Error(memory) when it cannot be had
  template <class T> T* as() { return reinterpret_cast<T*>(data); }
  template <class T> const T* as() const { return reinterpret_cast<const T*>(data); }
};

// What cannot be said as statements: typed inputs and outputs, and a function that computes it.
using Reference = std::function<void(std::span<const Array> in, std::span<Array> out)>;
struct Opaque {
  std::string op;
  std::vector<TensorId> in, out;
  std::shared_ptr<const Reference> reference;
  Place place;
};

struct Sparse { enum Form { zeros, mask, lengths } form; std::string of; std::int64_t tile_rows = 1, tile_columns = 1; };

struct Tensor {
  std::string name;
  DType dtype = DType::f32;
  std::vector<Size> dims;
  Kind kind = Kind::intermediate;
  std::span<const std::byte> data;                    // of a weight, row-major, at any address; empty until bound
  std::shared_ptr<const void> owner;                  // keeps data alive
  std::optional<Size> index_of;                       // `index(x)`: an integer tensor whose elements lie in [0, x)
  std::string index_axis;                             // the name x, for printing
  std::optional<TensorId> stored_in;                  // state: an output that lives in this input's buffer
  // Of an output whose extents are known only when the program has run: of dim d, the first so many rows are results as the
  // i64 tensor counted_by[d], which has no dims, says in the end; -1: all of them; no entries: all of each dim.
  std::vector<TensorId> counted_by;
  std::optional<Sparse> sparse;
};

struct SizeDecl {
  std::string name;
  std::optional<Size> value;                          // default (constant) or derived from earlier sizes
  Interval range{0, std::int64_t{1} << 31};
  bool ranged = false;                                // `in low..high` was written
};

struct Program {
  std::string name;
  std::vector<SizeDecl> sizes;
  std::vector<Tensor> tensors;
  std::vector<std::variant<Statement, Opaque>> nodes; // topological: a tensor is written, by all of its pieces, before it is read
  std::vector<TensorId> inputs, outputs;              // inputs: those a caller gives, in order; outputs may repeat an input

  const Tensor& tensor(TensorId id) const { return tensors[static_cast<std::size_t>(id)]; }
  Tensor& tensor(TensorId id) { return tensors[static_cast<std::size_t>(id)]; }
  std::set<TensorId> results() const;                 // whose values are wanted in the end: outputs, and what counts their rows
  bool is_result(TensorId) const;
  const Statement* statement(StatementId id) const { return std::get_if<Statement>(&nodes[static_cast<std::size_t>(id)]); }
};

}  // namespace tilewright
