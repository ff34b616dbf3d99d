// The evaluator's compiler: the body and guard of one statement become a flat list of steps on registers.
//
//   S[q x] = sum[d] Q[q d] * K[x d] where index(x) <= index(q)         (axes q x d are 0 1 2; d is reduced)
//
//   0: affine  x            varies, level 0      4: load Q at q d      varies, level 1
//   1: affine  q            varies, level 0      5: load K at x d      varies, level 1
//   2: compare le 0 1       varies, level 0      6: binary mul 4 5     varies, level 1      value 6, guard 2
//
// Step i writes register i. A step that does not vary is the same in every lane of a block (the lanes are points of the
// parallel axes). Its level is the innermost reduced axis that it depends on (0: none), so that a step is repeated only
// when one of its loops moves. Equal steps are made once.
//
// Reads that may leave their tensor, and integer divisions, can fail at a point; a failure is a value like any other: a
// companion register holds 0, or 1 + the step that failed, and `select`, `else`, `and` and `or` pass on only the
// failures of what they chose. Only a failure that arrives at a live point is an error.
#pragma once
#include <map>
#include <optional>
#include <vector>

#include "expr/evaluate.h"
#include "expr/evaluate_lanes.h"

namespace tilewright::evaluator {

struct Affine {
  std::vector<std::int64_t> coefficient; // one an axis of the statement; 0 where its extent is 1
  std::int64_t offset = 0;
  auto operator<=>(const Affine&) const = default;
};

// What a step does with its operands a, b, c and its detail, an index into the list of that name in Body:
//   constant, affine                       leaves; detail: constants, affines
//   unary, binary, compare, classify       op on a, b
//   choose                                 b where a holds, else c
//   cast                                   a to dtype `to`
//   in_bounds                              1 where every test holds; detail: bounds
//   load                                   an element, 0 where a (an in_bounds, or none) does not hold; detail: loads
//   undefined, out_of_bounds               failures: where op on integers a, b has no value; where a does not hold
//   either, failed_choice                  failures: a, or else b; that of b where a holds, else of c (-1: none)
enum class StepKind : std::uint8_t {
  constant,
  affine,
  unary,
  binary,
  compare,
  classify,
  choose,
  cast,
  in_bounds,
  load,
  undefined,
  out_of_bounds,
  either,
  failed_choice
};

struct Step {
  using Kind = StepKind;
  Kind kind;
  Op op = Op::constant;
  Lane lane = Lane::i32;   // of the operands
  Lane result = Lane::i32; // of the register written
  DType to = DType::i32;
  int a = -1, b = -1, c = -1, detail = -1;
  bool varies = false, spread = false; // spread: does not vary, but a step that varies reads it
  int level = 0;
};

// One index of an access that needs a test: an affine form, or a register, against [0, extent).
struct Test {
  int affine = -1, step = -1;
  std::int64_t extent = 0;
  int dim = 0;
  auto operator<=>(const Test&) const = default;
};
struct Bounds {
  TensorId tensor;
  std::vector<Test> tests;
  auto operator<=>(const Bounds&) const = default;
};

// One read. Each dim has an affine index or a register. `padded`: the affine indices leave the tensor, and what lies
// outside is `fill`; such a read is always served from a staged copy (see evaluate_run.cpp).
struct Load {
  struct Dim {
    int affine = -1, step = -1;
    auto operator<=>(const Dim&) const = default;
  };
  TensorId tensor;
  std::vector<Dim> dims;
  bool padded = false;
  std::uint64_t fill = 0; // as a register holds it
  bool all_affine() const;
  auto operator<=>(const Load&) const = default;
};

struct Body {
  std::vector<Step> steps;
  std::vector<Affine> affines;
  std::vector<std::uint64_t> constants; // as a register holds them
  std::vector<Bounds> bounds;
  std::vector<Load> loads;
  int value = -1, value_failure = -1, guard = -1, guard_failure = -1; // steps; -1: absent
  Lane lane = Lane::f32;                                              // of the value
};

struct Scope { // what a statement is compiled in
  const Program& program;
  const Statement& statement;
  const Binding& binding;
  Evaluation mode;
  const std::map<TensorId, Array>& values;
  std::vector<std::int64_t> extents; // of the axes; none is 0
  std::vector<int> level;            // of each axis: 0 parallel, else 1 + its place in the order of reduction
  double points;                     // product of the extents
};

Body compile(const Scope&); // the value is brought to the type in which it is accumulated
std::optional<Affine> affine_form(const Scope&, const Index&);
Interval hull(const Scope&, const Affine&); // inclusive
// Whether a copy of the part of the tensor that the (affine) dims touch pays: it is small, and read several times over.
bool worth_staging(const Scope&, const Load&, const std::vector<Affine>& affines);

} // namespace tilewright::evaluator
