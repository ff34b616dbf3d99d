// The state of lowering one program: names, sizes, tensors and statements, in the order of the text (parse.cpp and, for
// statements, parse_statement.cpp).
#pragma once
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "expr/parse_ast.h"
#include "expr/parse_scope.h"
#include "expr/scalar.h"
#include "expr/verify.h"

namespace tilewright {

class Lowering {
 public:
  Lowering(const ProgramAst&, std::string_view file);
  Program run();

 private:
  struct TensorState {
    Mark at;
    bool sealed = false;               // its dims are known: it may be read, and has no further pieces
    bool typed = false, weak = false;  // by a declared type; by a mere number, which takes the type of the other pieces
    bool opaque = false;
    std::vector<StatementId> pieces = {};
  };

  const ProgramAst& ast_;
  Program p_;
  Builder build_{p_};
  std::map<std::string, Size> values_;
  std::map<std::string, Mark> size_marks_;
  std::map<std::string, TensorId> ids_;
  std::vector<TensorState> tensors_;
  std::set<std::string> used_as_axis_;
  std::vector<std::pair<TensorId, const SparseAst*>> sparse_;
  std::map<StatementId, TensorId> split_;   // copies of pieces, and the tensors that they copy
  Ranges ranges_;
  Sources sources_;
  Scope scope_;

  std::string place(Mark at) const { return place_of(scope_.file, at); }
  template <class F> void placed(Mark at, F f) {
    try {
      f();
    } catch (const Error& error) {
      throw error.at(place(at));
    }
  }

  // names and sizes
  void note_axes();
  void note_axes(const Ast&);
  void note_axes(const std::vector<NameAst>&);
  void new_name(const NameAst&);
  void sizes();
  void size(const SizeAst&);
  void give_value(SizeDecl&, const SizeAst&, bool derived) const;
  void in_range(const SizeDecl&, std::int64_t value, Mark) const;
  Size size_named(const NameAst&) const;

  // tensors
  TensorState& state(TensorId id) { return tensors_[static_cast<std::size_t>(id)]; }
  TensorId new_tensor(const NameAst&, Kind);
  void declare_all();
  void declaration(const DeclAst&);
  void set_type(Tensor&, const TypeAst&) const;
  TensorId tensor_to_read(const std::string& name, Mark);
  void sparsities();
  void outputs();
  void extents(TensorId, const OutputAst&);
  void store_in(TensorId out, const NameAst& buffer);

  // statements
  void statement(const StmtAst&);
  void check_writable(TensorId, const NameAst&);
  void left_side(const StmtAst&, Statement&);
  void left_axes(const Ast&, Statement&);
  void reduced_axes(const ReduceAst&, Statement&);
  void new_axis(const NameAst&, Statement&, bool reduced);
  void check_length(const Statement&, const StmtAst&) const;
  void piece_type(const StmtAst&, const Statement&, const Value& body);
  void natural_type(Tensor&, TensorState&, const Statement&, DType natural, bool weak) const;
  void expand(const ReduceAst&, Statement&);
  void opaque(const OpaqueAst&);

  // pieces
  void seal(TensorId);
  std::optional<Access> earlier_piece(TensorId, const std::vector<Index>& at);
  TensorId split_off(StatementId& piece);
};

}  // namespace tilewright
