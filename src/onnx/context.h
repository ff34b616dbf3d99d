// What a converter of one ONNX node works with: its inputs, its attributes, and the program that it adds statements to.
//
//   void convert_transpose(Context& c) {                     // X[2 3 4], perm = 2 0 1  ->  Y[i j k] = X[j k i]
//     TensorId x = c.input(0);
//     auto perm = c.ints_attr("perm", reversed(c.rank(x)));
//     ...
//     c.output(0, c.map(c.name(), c.dtype(x), dims, c.read(x, at)));
//   }
//
// A value is a tensor of the program. Of some tensors the elements are known (context: known.h): constants, shapes, and
// what is computed from them. A statement all of whose reads are known is not added to the program; its elements are.
// Whoever then needs the tensor gets it as a weight, or as statements that write its sizes, once the whole graph is
// imported. So a converter never asks whether it folds: it says what the operator means, and asks for `sizes(t)` where
// the meaning needs them.
//
// Every attribute and input must be asked for; one that nobody reads is an error. Errors carry the node's name.
#pragma once
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "expr/scalar.h"
#include "onnx/counted.h"
#include "onnx/known.h"
#include "onnx/model.h"
#include "support/error.h"

namespace tilewright::onnx {

// The program under construction and what is known of it; one for an import.
struct Importing {
  Program program;
  Builder builder{program};
  KnownTensors known;
  std::unordered_map<TensorId, std::vector<std::optional<Element>>>
      partial;                                      // of tensors whose pieces are not all known (yet)
  std::unordered_map<std::string, TensorId> values; // by ONNX name, in the scope of the current graph
  std::string prefix;                               // of tensor names: "choice/" inside a branch of that node
  CountedTensors counted;                           // tensors whose extents are known only when the model has run

  TensorId weight(const Tensor&,
                  const std::string& name); // an initializer or a constant attribute; small ones become known
};

class Context {
public:
  Context(Importing&, const Node&, std::string label, int opset);

  // ---- the node
  const Node& node() const { return node_; }
  int opset() const { return opset_; }                // of the node's domain
  const std::string& label() const { return label_; } // its name, or "type of output" where it has none
  Program& program() { return importing_.program; }
  Builder& builder() { return importing_.builder; }
  [[noreturn]] void unsupported(const std::string& what,
                                const std::string& hint = {}) const; // collected with those of other nodes
  [[noreturn]] void fail(Code, const std::string& message, const std::string& hint = {}) const;

  // ---- inputs
  int inputs() const;          // absent ones counted, trailing ones not
  bool has(int i) const;       // given, and not under the empty name
  TensorId input(int i) const; // Error(model) where it is absent
  std::vector<Size> dims(TensorId) const;
  DType dtype(TensorId) const;
  int rank(TensorId) const;
  int axis(std::int64_t given, int rank) const; // negative ones counted from the end; Error(shape) outside
  std::vector<int> axes(const std::vector<std::int64_t>& given, int rank) const; // none twice

  // ---- what is known of a tensor's elements
  const Elements* known(TensorId) const;              // null: not known
  std::vector<Size> sizes(TensorId) const;            // integers, or refused: "depends on the values of input ..."
  std::vector<std::int64_t> integers(TensorId) const; // the same, and constant
  std::vector<double> reals(TensorId) const;          // constant elements of any dtype
  Size size(TensorId) const;                          // of tensors of one element
  std::int64_t integer_of(TensorId) const;
  double real_of(TensorId) const;
  TensorId constant(const std::string& hint, DType, std::vector<Size> dims, Elements); // a tensor with these elements
  TensorId weight(const Tensor& t, const std::string& hint) { return importing_.weight(t, hint); }
  std::int64_t fixed(const Size&, std::string_view what) const; // Error(shape) where it depends on a free size
  Interval range(const Size&) const;                            // over the ranges of the program's sizes
  // Whether a <= b holds for all sizes; where it does not, but would if one size had a tighter range, the size gets
  // that range: a model that reads x[:, :seq] of 512 columns is one whose seq is at most 512.
  bool assume_at_most(const Size& a, const Size& b);

  // ---- attributes (reading one marks it as understood)
  bool has_attr(std::string_view name) const;
  std::int64_t int_attr(std::string_view name, std::optional<std::int64_t> otherwise = {}) const; // none: required
  double real_attr(std::string_view name, std::optional<double> otherwise = {}) const;
  std::string text_attr(std::string_view name, std::optional<std::string> otherwise = {}) const;
  std::vector<std::int64_t> ints_attr(std::string_view name,
                                      std::optional<std::vector<std::int64_t>> otherwise = {}) const;
  std::vector<double> reals_attr(std::string_view name, std::optional<std::vector<double>> otherwise = {}) const;
  std::vector<std::string> texts_attr(std::string_view name,
                                      std::optional<std::vector<std::string>> otherwise = {}) const;
  const Tensor* tensor_attr(std::string_view name) const; // null: absent
  void ignore_attr(std::string_view name) const;          // has no effect on the result
  void ignore_input(int i) const { has(i); }
  std::vector<std::string> unread_attributes() const;
  std::vector<int> unread_inputs() const; // given, and neither asked for nor asked about

  // ---- statements
  std::string name(int output = 0) const;          // the ONNX name of an output, as a hint
  std::string name(const std::string& part) const; // of a helper tensor: "y.max"
  ScalarRef read(TensorId, std::vector<Index> at,
                 ScalarRef otherwise = nullptr);        // a literal where one element is known
  Index element_index(TensorId, std::vector<Index> at); // an element of an integer tensor, used as an index
  // The same for an index as ONNX has it: one below zero counts from the end. Out of range is an error when the program
  // runs.
  Index gather_index(TensorId, std::vector<Index> at, const Size& extent);
  ScalarRef read_broadcast(TensorId,
                           const std::vector<Size>& out); // at axes 0..rank-1 of out, aligned right, dims of 1 repeated
  TensorId map(const std::string& hint, DType, std::vector<Size> dims, ScalarRef body, ScalarRef guard = nullptr);
  TensorId reduce(const std::string& hint, DType, std::vector<Size> axes, ScalarRef body, Reducer,
                  std::vector<AxisId> reduced,
                  ScalarRef guard = nullptr);                              // dims: the extents of the other axes
  TensorId tensor(const std::string& hint, DType, std::vector<Size> dims); // to be written by pieces
  void piece(TensorId out, std::vector<Index> at, std::vector<Size> axes, ScalarRef body, Reducer = Reducer::none,
             std::vector<AxisId> reduced = {}, ScalarRef guard = nullptr);
  void opaque(const std::string& op, std::vector<TensorId> in, std::vector<TensorId> out, Reference);
  // A tensor without dims that will tell, when the model has run, how many rows others have; and that it does for dim d.
  TensorId count() { return tensor(name("count"), DType::i64, {}); }
  void counted(TensorId, int dim, TensorId count);
  std::vector<TensorId> counts(TensorId) const; // of each dim; -1: its extent is known
  // A view: out[axes] = t[at]; at is simplified. Elements that are known stay known.
  TensorId view(const std::string& hint, TensorId, std::vector<Size> dims, std::vector<Index> at,
                ScalarRef otherwise = nullptr);
  TensorId reshape(const std::string& hint, TensorId, const std::vector<Size>& dims);  // same count, row-major order
  TensorId transpose(const std::string& hint, TensorId, const std::vector<int>& perm); // out dim i is dim perm[i]
  TensorId cast_to(const std::string& hint, TensorId, DType); // the tensor itself where it has the dtype

  // ---- outputs
  int outputs() const;
  bool wants(int k) const; // asked for by the graph
  void output(int k, TensorId);

private:
  const tilewright::Tensor& program_tensor(TensorId t) const { return importing_.program.tensor(t); }
  const Attribute* find(std::string_view name) const;
  [[noreturn]] void refuse_unknown(TensorId) const;
  void check_dims(const std::vector<Size>&) const; // negative, or too many elements
  void need_one_element(TensorId) const;
  void settle(TensorId out); // folds a statement just added, if all it reads is known
  Importing& importing_;
  const Node& node_;
  std::string label_;
  int opset_;
  mutable std::set<std::string, std::less<>> read_; // attributes
  mutable std::set<int> read_inputs_;
};

// ---- small helpers of many converters
std::vector<Index> axis_indices(int count, int first = 0); // axis first, first+1, ...
ScalarRef zero_of(DType stored);                           // of its compute type
Size count_of(const std::vector<Size>& dims);              // product
Size room_for(const Size& rows); // an extent for so many counted rows: a dim of one would be taken for one that repeats
std::string text_of(const std::vector<Size>& dims);        // "[n 3 224 224]"
// Which free size to fix where a and b are not known to agree: those of one only, if there are; else all of both.
//   fix_hint({n, x.2 // 4}, {n, 12})  ->  "give the size a value: --size x.2=N"
std::string fix_hint(const std::vector<Size>& a, const std::vector<Size>& b = {});
// ONNX (NumPy) broadcasting; symbolic extents must be equal or one of them the constant 1. Error(shape) with both
// shapes.
std::vector<Size> broadcast(const Context&, const std::vector<Size>& a, const std::vector<Size>& b);
// Where dims are read when they are broadcast to `out`, whose dim i is axes[i].
std::vector<Index> broadcast_index(const std::vector<Size>& dims, const std::vector<Size>& out,
                                   const std::vector<Index>& axes);
Index linear_index(const std::vector<Index>& at, const std::vector<Size>& dims); // row-major
std::vector<Index> unravel(const Index& linear, const std::vector<Size>& dims);

} // namespace tilewright::onnx
