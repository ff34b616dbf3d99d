// Scalar bodies as CUDA C++: one temporary a node, so that a subterm is computed once.
//
//   max(Y + b[f], 0)      ->      const float v0 = acc; const float v1 = b[f]; const float v2 = v0 + v1; ...
#pragma once
#include <map>
#include <unordered_map>

#include "loop/points.h"

namespace tilewright::cuda {

// Where a tensor's elements are read or written inside the kernel: pointer[sum (index - low) * stride].
struct Where {
  std::string pointer;
  std::vector<std::int64_t> stride;      // elements, one a dim
  std::vector<std::string> low;          // C expressions, one a dim; empty: the tensor itself, from index 0
  bool filled = false;                   // elements outside the tensor are there too, with the value that readers want
  std::vector<std::string> through = {}; // one a dim that is looked up in a list: C with {} for the index, or empty; no entries: none is
  int inner = -1;                        // this dim lies in panels of swizzled rows; -1: none does
  std::int64_t row = 0, rows = 0;        // elements of such a row, rows of a panel
};

std::string type_of(DType);              // how it is computed: "float"
std::string stored_type_of(DType);       // how it lies in memory: "f16"
std::string literal(double, DType);
std::string literal(std::int64_t, DType);

class ScalarSource {
 public:
  // axes: a C expression for each axis of the points' region.
  ScalarSource(const Program& p, const Points& points, const std::map<TensorId, Where>& where, std::vector<std::string> axes, std::string indent)
      : p_(p), points_(points), where_(where), axes_(std::move(axes)), indent_(std::move(indent)) {}

  std::string value(const ScalarRef&, StatementId);                 // the name of a temporary, in the compute type
  std::string rounded(const std::string& v, DType from, DType declared);   // to a declared dtype, and back in its compute type
  void know(TensorId t, std::string name) { inner_[t] = std::move(name); } // a value of an earlier statement at this point
  void fetched(std::string address, std::string name) { fetched_[std::move(address)] = std::move(name); }   // an element already in a register
  std::string address(TensorId, const std::vector<Index>&);         // of indices over the points' axes
  std::string index(const Index&);
  bool conditional(const Access&);                                  // whether an element outside of the tensor may be asked for
  bool approximate = false;                                         // as it always is for what has 16 bits: exponentials by the special unit (their relative error is 1e-7 of the largest term in the exponent), products for quotients
  // Of the axes, where they are sums of what all of a thread's points share and what is a constant of each: then integers of them become
  // floats once a thread.
  struct Place { std::string base, offset; };
  std::vector<Place> places{};
  std::string lines;                                                // what was printed so far

 private:
  std::string node(const ScalarRef&);
  std::string fast_form(const Scalar&);                             // empty: none
  std::string fast_exponential(const ScalarRef& exponent);
  std::string float_of_places(const ScalarRef&);                    // empty: it is no sum of axes
  struct Spread { Place place; std::int64_t largest = 0; };
  std::optional<Spread> spread(const ScalarRef&);
  std::string operation(const Scalar&, const std::vector<std::string>& args, DType operand);
  std::string read(const Access&);
  std::string inside(const Access&);
  static bool has_elements(const Index&);
  std::string temporary(const std::string& type, const std::string& expression);

  const Program& p_;
  const Points& points_;
  const std::map<TensorId, Where>& where_;
  std::vector<std::string> axes_;
  std::string indent_;
  std::map<TensorId, std::string> inner_;
  std::map<std::string, std::string> fetched_;
  std::unordered_map<const Scalar*, std::string> known_;
  std::vector<ScalarRef> alive_;                                    // keeps the addresses that are keys
  int next_ = 0;
  int unsure_ = 0;                                                  // parts around this one that may not count at this point
};

}  // namespace tilewright::cuda
