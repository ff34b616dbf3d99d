// What the grammar of the text language gives: trees of names and marks, before anything is looked up.
//
//   Y[t] : f16 = sum[c] X[t, c - 1 else 0] * 2
//       StmtAst { tensor Y, at {t}, type f16, reduce {sum, c}, body {* {access X {t, - {c, 1}} else 0} 2} }
//
// Index expressions and scalar expressions share one kind of tree; what a name means depends on where it stands.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "expr/lexer.h"
#include "support/dtype.h"

namespace tilewright {

struct Ast;
using AstRef = std::unique_ptr<Ast>;

struct Ast {
  enum Kind : std::uint8_t { integer, number, infinity, boolean, name, access, call, size, index, unary, binary } kind;
  Mark at;
  std::string text;                                       // of name, access, call, size, index: the name; of unary, binary: the operator
  double value = 0;
  std::int64_t whole = 0;                                 // of integer; of boolean: 0 or 1
  std::vector<AstRef> args;                               // operands, arguments, or the indices of an access
  AstRef otherwise;                                       // of an access with `else`
  std::vector<std::pair<Token, double>> keywords;         // of a call: name and value
  bool parenthesised = false;
  int depth = 1;                                          // of the tree, for the limit
};

struct NameAst {
  std::string name;
  Mark at;
};

struct TypeAst {
  DType dtype = DType::f32;
  std::optional<NameAst> index_of;                        // index(NAME)
  Mark at;
};

struct SizeAst {
  NameAst name;
  AstRef value;                                           // default or derived
  bool fixed = false;                                     // NAME == INT: always that value
  std::optional<std::pair<std::int64_t, std::int64_t>> range;
};

struct TensorAst {
  NameAst name;
  std::vector<NameAst> axes;
};

struct SparseAst {
  std::string form;                                       // zeros, mask, lengths
  NameAst of;
  std::optional<std::pair<std::int64_t, std::int64_t>> tile;
  Mark at;
};

struct DeclAst {
  bool weight = false;
  std::vector<TensorAst> tensors;
  TypeAst type;
  std::optional<SparseAst> sparse;
};

struct ReduceAst {
  std::string op;
  Mark at;
  std::vector<NameAst> axes;
  std::vector<std::pair<Token, double>> keywords;         // layernorm[c, eps=1e-6]
};

struct StmtAst {
  NameAst out;
  std::vector<AstRef> indices;
  std::optional<TypeAst> type;
  std::optional<ReduceAst> reduce;
  AstRef body, guard;
};

struct OpaqueAst {
  std::vector<std::pair<TensorAst, TypeAst>> out;
  NameAst op;
  std::vector<NameAst> in;
};

struct NodeAst {                                          // one line: exactly one of these
  std::optional<StmtAst> stmt;
  std::optional<OpaqueAst> opaque;
  std::optional<DeclAst> decl;
};

struct OutputAst {
  NameAst name;
  std::optional<std::vector<NameAst>> extents;            // Y[found c]: a size, or a tensor that counts
  std::optional<NameAst> state;                           // = Kp
};

struct ProgramAst {
  NameAst name;
  std::vector<SizeAst> sizes;
  std::vector<NodeAst> lines;
  std::vector<OutputAst> outputs;
};

std::vector<ProgramAst> parse_grammar(std::string_view text, std::string_view file);

}  // namespace tilewright
