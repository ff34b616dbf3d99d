// Statements: their axes, bodies and types, the pieces of a tensor, and definitions that stand for several statements.
#include <algorithm>

#include "expr/define.h"
#include "expr/opaque.h"
#include "expr/parse_program.h"
#include "support/error.h"

namespace tilewright {

namespace {

constexpr std::size_t max_nodes = 20000; // of one body, with every definition written out

// The nodes of a body counted as a tree: definitions that use their argument twice can double it again and again.
std::size_t tree_size(const ScalarRef& s, std::map<const Scalar*, std::size_t>& known) {
  if (!s) return 0;
  if (auto found = known.find(s.get()); found != known.end()) return found->second;
  std::size_t size = 1;
  for (const ScalarRef& arg : s->args) size = std::min(size + tree_size(arg, known), max_nodes + 1);
  return known[s.get()] = size;
}

std::optional<define::Reduction> definition_of(const StmtAst& ast) {
  return ast.reduce ? define::reduction_named(ast.reduce->op) : std::nullopt;
}

Reducer reducer_of(const StmtAst& ast) {
  if (!ast.reduce || definition_of(ast)) return Reducer::none;
  int r = static_cast<int>(Reducer::sum);
  while (name_of(static_cast<Reducer>(r)) != ast.reduce->op) ++r;
  return static_cast<Reducer>(r);
}

bool is_pair(Reducer r) { return r == Reducer::argmax || r == Reducer::argmin; }

} // namespace

void Lowering::statement(const StmtAst& ast) {
  const TensorId id = ids_.at(ast.out.name);
  check_writable(id, ast.out);
  scope_.open = id;
  scope_.axes.clear();
  Statement s;
  s.out = id;
  s.place = {ast.out.at.line, ast.out.at.column, std::string(scope_.file)};
  left_side(ast, s);
  if (ast.reduce) reduced_axes(*ast.reduce, s);
  s.reducer = reducer_of(ast);
  if (ast.guard) s.guard = lower_scalar(scope_, *ast.guard).scalar;
  if (s.guard && s.guard->dtype != DType::boolean)
    scope_.fail(Code::type, ast.guard->at, "`where` takes a condition, this is " + std::string(name_of(s.guard->dtype)),
                "compare it: `where m[x] != 0`");
  const Value body = lower_scalar(scope_, *ast.body);
  s.body = body.scalar;
  check_length(s, ast);
  piece_type(ast, s, body);
  if (definition_of(ast)) expand(*ast.reduce, s);
  state(id).pieces.push_back(static_cast<StatementId>(p_.nodes.size()));
  p_.nodes.emplace_back(std::move(s));
  scope_.open = -1;
}

void Lowering::check_writable(TensorId id, const NameAst& name) {
  const TensorState& s = state(id);
  if (s.opaque)
    scope_.fail(Code::shape, name.at, name.name + " is written by an opaque statement at " + place(s.at) + " and here");
  if (s.sealed)
    scope_.fail(Code::cycle, name.at, "a piece of " + name.name + " after " + name.name + " was read",
                "all pieces of a tensor stand before its first use");
}

// ---- axes

void Lowering::left_side(const StmtAst& ast, Statement& s) {
  for (const AstRef& index : ast.indices) left_axes(*index, s);
  for (const AstRef& index : ast.indices) {
    const Index at = lower_index(scope_, *index);
    if (!is_affine(at))
      scope_.fail(Code::shape, index->at, "a left side is stride * axis + offset in each dim",
                  "views and gathers belong to the right side");
    s.at.push_back(at);
  }
  if (state(s.out).pieces.empty()) return;
  const Statement& first = *p_.statement(state(s.out).pieces.front());
  if (first.at.size() != s.at.size())
    scope_.fail(Code::shape, ast.out.at,
                "this piece of " + ast.out.name + " has " + counted(s.at.size(), "dim", "dims") + ", the one at " +
                    place({first.place.line, first.place.column}) + " has " + std::to_string(first.at.size()));
}

void Lowering::left_axes(const Ast& ast, Statement& s) {
  if (ast.kind == Ast::name || ast.kind == Ast::index) new_axis({ast.text, ast.at}, s, false);
  if (ast.kind == Ast::access)
    scope_.fail(Code::shape, ast.at, "an element of a tensor on the left side",
                "there is no scatter; the right side may gather");
  for (const AstRef& arg : ast.args) left_axes(*arg, s);
}

// Softmax and the norms keep the axes that they run over; other reductions add axes that are gone from the result.
void Lowering::reduced_axes(const ReduceAst& ast, Statement& s) {
  const auto definition = define::reduction_named(ast.op);
  const bool eps = definition && define::takes_eps(*definition);
  for (const auto& keyword : ast.keywords)
    if (!eps || keyword.first.text != "eps")
      scope_.fail(Code::name, keyword.first.at, ast.op + " takes no " + keyword.first.text,
                  definition ? "layernorm, rmsnorm and l2norm take eps" : "");
  for (const NameAst& axis : ast.axes) {
    if (!definition || !define::keeps_axes(*definition)) {
      new_axis(axis, s, true);
    } else if (!scope_.axes.contains(axis.name)) {
      if (!scope_.sizes.contains(axis.name)) scope_.unknown(axis.name, axis.at, "an axis");
      scope_.fail(Code::shape, axis.at,
                  ast.op + "[" + axis.name + "] keeps axis " + axis.name + ", which is not on the left side");
    }
  }
}

void Lowering::new_axis(const NameAst& name, Statement& s, bool reduced) {
  const Size extent = size_named(name);
  if (!scope_.axes.emplace(name.name, static_cast<AxisId>(s.axes.size())).second)
    scope_.fail(Code::shape, name.at,
                "axis " + name.name +
                    (reduced ? " is on the left side or is reduced twice" : " stands twice on the left side"),
                reduced ? "a reduced axis is gone from the result" : "");
  if (reduced) s.reduced.push_back(static_cast<AxisId>(s.axes.size()));
  s.axes.push_back(extent);
  s.names.push_back(name.name);
}

void Lowering::check_length(const Statement& s, const StmtAst& ast) const {
  std::map<const Scalar*, std::size_t> known;
  if (tree_size(s.body, known) > max_nodes || tree_size(s.guard, known) > max_nodes)
    scope_.fail(Code::syntax, ast.body->at,
                "a body of more than " + std::to_string(max_nodes) + " operations, definitions written out",
                "name a part of it in a statement of its own");
}

// ---- types

// The declared type, or the promoted type of what the pieces are made of.
void Lowering::piece_type(const StmtAst& ast, const Statement& s, const Value& body) {
  Tensor& t = p_.tensor(s.out);
  TensorState& known = state(s.out);
  if (ast.type) {
    Tensor declared;
    set_type(declared, *ast.type);
    if (known.typed && (declared.dtype != t.dtype || declared.index_of != t.index_of))
      scope_.fail(Code::type, ast.type->at, "the pieces of " + t.name + " have different types: see " + place(known.at),
                  "declare one type");
    t.dtype = declared.dtype;
    t.index_of = declared.index_of;
    t.index_axis = declared.index_axis;
    known.typed = true;
  } else if (!known.typed) {
    DType natural = default_type(body, s.reducer);
    if (definition_of(ast) && !is_float(natural)) natural = DType::f32;
    natural_type(t, known, s, natural, !body.stored && s.reducer <= Reducer::min);
  }
}

void Lowering::natural_type(Tensor& t, TensorState& known, const Statement& s, DType natural, bool weak) const {
  const bool first = known.pieces.empty();
  if (first || (known.weak && !weak))
    t.dtype = natural;
  else if (known.weak == weak)
    t.dtype = promote(t.dtype, natural);
  known.weak = weak && (first || known.weak);
  if (is_pair(s.reducer) && s.reduced.size() == 1 && (first || t.index_of == s.axes.back())) {
    t.index_of = s.axes.back();
    t.index_axis = s.names.back();
  } else {
    t.index_of.reset();
  }
}

// ---- definitions and opaque statements

// `s` as written becomes the last of the statements that its definition stands for.
void Lowering::expand(const ReduceAst& ast, Statement& s) {
  const define::Reduction kind = *define::reduction_named(ast.op);
  define::Form form{s.axes, s.names, {}, s.body, s.guard, p_.tensor(s.out).name};
  for (const NameAst& axis : ast.axes) {
    const AxisId a = scope_.axes.at(axis.name);
    if (std::find(form.over.begin(), form.over.end(), a) != form.over.end())
      scope_.fail(Code::shape, axis.at, "axis " + axis.name + " stands twice in " + ast.op + "[...]");
    form.over.push_back(a);
  }
  build_.place = s.place;
  define::Map last = define::prepare(build_, kind, form,
                                     ast.keywords.empty() ? std::nullopt : std::optional(ast.keywords.back().second));
  tensors_.resize(p_.tensors.size(), {{s.place.line, s.place.column}, true, true});
  s.axes = std::move(last.axes);
  s.names = std::move(last.names);
  s.reduced.clear();
  s.body = std::move(last.body);
  s.guard = std::move(last.guard);
  s.label = ast.op;
}

void Lowering::opaque(const OpaqueAst& ast) {
  Opaque o;
  o.op = ast.op.name;
  o.reference = find_reference(o.op);
  o.place = {ast.op.at.line, ast.op.at.column, std::string(scope_.file)};
  for (const NameAst& in : ast.in) {
    const TensorId id = tensor_to_read(in.name, in.at);
    if (id < 0) scope_.unknown(in.name, in.at, "a tensor");
    o.in.push_back(id);
  }
  for (const auto& [out, type] : ast.out) {
    const TensorId id = ids_.at(out.name.name);
    for (const NameAst& axis : out.axes) p_.tensor(id).dims.push_back(size_named(axis));
    set_type(p_.tensor(id), type);
    state(id).sealed = state(id).opaque = true;
    o.out.push_back(id);
  }
  p_.nodes.emplace_back(std::move(o));
}

// ---- pieces

// Dims reach as far as the pieces do.
void Lowering::seal(TensorId id) {
  TensorState& s = state(id);
  if (s.sealed) return;
  s.sealed = true;
  Tensor& t = p_.tensor(id);
  for (StatementId piece : s.pieces) {
    const Statement& from = *p_.statement(piece);
    for (std::size_t d = 0; d < from.at.size(); ++d) {
      Size high = from.at[d].offset + 1;
      for (const Index::Term& term : from.at[d].terms)
        high = high + term.coefficient * (from.axes[static_cast<std::size_t>(std::get<AxisId>(term.of))] - 1);
      if (d >= t.dims.size())
        t.dims.push_back(high);
      else if (!at_least(t.dims[d], high, ranges_))
        t.dims[d] = at_least(high, t.dims[d], ranges_) ? high : max(t.dims[d], high);
    }
  }
}

// A tensor is read only when it is complete. So a piece that is read by a later one becomes a tensor of its own, and
// the piece a copy of it:
//
//   x[t, 0] = argmax[e] G[t e]                           ->  x_1[t] = argmax[e] G[t e];  x[t, 0] = x_1[t]
//   x[t, 1] = argmax[e] G[t e] where index(e) != x[t, 0]                             ...where index(e) != x_1[t]
std::optional<Access> Lowering::earlier_piece(TensorId id, const std::vector<Index>& at) {
  for (StatementId& piece : state(id).pieces) {
    const Statement& s = *p_.statement(piece);
    Access access{-1, {}, nullptr};
    bool matches = s.at.size() == at.size();
    for (std::size_t d = 0; matches && d < at.size(); ++d) {
      const Index rest = at[d] - constant_index(s.at[d].offset);
      if (s.at[d].terms.empty()) {
        matches = rest == constant_index(0);
        continue;
      }
      matches = s.at[d].terms.size() == 1 && s.at[d].terms[0].coefficient == Size(1) &&
                (!rest.terms.empty() || at_least(rest.offset, 0, ranges_));
      access.at.push_back(rest);
    }
    if (!matches) continue;
    access.tensor = split_off(piece);
    return access;
  }
  return std::nullopt;
}

TensorId Lowering::split_off(StatementId& piece) {
  if (auto known = split_.find(piece); known != split_.end()) return known->second;
  Statement& s = std::get<Statement>(p_.nodes[static_cast<std::size_t>(piece)]);
  Statement copy;
  copy.out = s.out;
  copy.at = s.at;
  copy.place = s.place;
  std::vector<Index> own_at, read_at;
  for (Index& index : copy.at) {
    if (index.terms.empty()) continue;
    AxisId& axis = std::get<AxisId>(index.terms[0].of);
    own_at.push_back(axis_index(axis));
    copy.axes.push_back(s.axes[static_cast<std::size_t>(axis)]);
    copy.names.push_back(s.names[static_cast<std::size_t>(axis)]);
    axis = static_cast<AxisId>(copy.axes.size()) - 1;
    read_at.push_back(axis_index(axis));
  }
  const Tensor whole = p_.tensor(s.out);
  s.out = build_.tensor(whole.name, whole.dtype, copy.axes);
  s.at = std::move(own_at);
  p_.tensor(s.out).index_of = whole.index_of;
  p_.tensor(s.out).index_axis = whole.index_axis;
  tensors_.push_back({state(copy.out).at, true});
  copy.body = read(p_, s.out, read_at);
  const TensorId own = s.out;
  piece = static_cast<StatementId>(p_.nodes.size());
  split_[piece] = own;
  p_.nodes.emplace_back(std::move(copy));
  return own;
}

} // namespace tilewright
