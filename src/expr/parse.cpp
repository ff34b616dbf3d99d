// From trees to programs: names are declared, sizes valued, statements lowered one by one.
#include <algorithm>
#include <set>

#include "expr/opaque.h"
#include "expr/parse_reduce.h"
#include "expr/parse_scope.h"
#include "expr/scalar.h"
#include "expr/sizes.h"
#include "expr/text.h"
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

class Lowering {
public:
  Lowering(const ProgramAst& ast, std::string_view file)
      : ast_(ast), scope_{p_, file, values_,
                          [this](const std::string& name, Mark at) { return tensor_to_read(name, at); },
                          [this](TensorId id, const std::vector<Index>& at) { return earlier_piece(id, at); }} {
    scope_.sources = &sources_;
  }

  Program run() {
    p_.name = ast_.name.name;
    note_axes();
    sizes();
    declare_results();
    for (const NodeAst& line : ast_.lines)
      if (line.decl) declaration(*line.decl);
    for (const NodeAst& line : ast_.lines) {
      if (line.stmt) placed(line.stmt->out.at, [&] { statement(*line.stmt); });
      if (line.opaque) placed(line.opaque->op.at, [&] { opaque(*line.opaque); });
    }
    for (std::size_t id = 0; id < tensors_.size(); ++id)
      if (!tensors_[id].pieces.empty()) placed(tensors_[id].at, [&] { seal(static_cast<TensorId>(id)); });
    sparsities();
    outputs();
    verify(p_, sources_);
    return std::move(p_);
  }

private:
  struct TensorState {
    Mark at;
    bool sealed = false, typed = false, opaque = false, weak = false;
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
  std::map<StatementId, TensorId> split_; // copies of pieces, and the tensors that they copy
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

  // ---- names

  void note_axes(const Ast& ast) {
    if (ast.kind == Ast::name || ast.kind == Ast::index) used_as_axis_.insert(ast.text);
    for (const AstRef& arg : ast.args) note_axes(*arg);
  }

  // A size that is an axis is at least 1; one that is only a size may be 0.
  void note_axes() {
    auto note = [&](const std::vector<NameAst>& axes) {
      for (const NameAst& axis : axes) used_as_axis_.insert(axis.name);
    };
    for (const NodeAst& line : ast_.lines) {
      if (line.decl)
        for (const TensorAst& t : line.decl->tensors) note(t.axes);
      if (line.opaque)
        for (const auto& [t, type] : line.opaque->out) note(t.axes);
      if (!line.stmt) continue;
      for (const AstRef& index : line.stmt->indices) note_axes(*index);
      if (line.stmt->reduce) note(line.stmt->reduce->axes);
    }
  }

  void new_name(const NameAst& name) {
    Mark before{};
    if (auto size = size_marks_.find(name.name); size != size_marks_.end()) before = size->second;
    if (auto tensor = ids_.find(name.name); tensor != ids_.end())
      before = tensors_[static_cast<std::size_t>(tensor->second)].at;
    if (before.line > 0)
      scope_.fail(Code::name, name.at, "the name " + name.name + " is taken: see " + place(before),
                  "tensors and sizes share one name space");
  }

  void sizes() {
    for (const SizeAst& size : ast_.sizes) {
      new_name(size.name);
      placed(size.name.at, [&] { this->size(size); });
      size_marks_[size.name.name] = size.name.at;
    }
    ranges_ = ranges_of(p_);
  }

  void size(const SizeAst& ast) {
    SizeDecl s;
    s.name = ast.name.name;
    const bool axis = used_as_axis_.contains(s.name);
    s.range.low = axis ? 1 : 0;
    bool derived = false;
    if (ast.value) {
      std::map<std::string, Size> names; // what was written: derived sizes by their names
      for (const auto& known : values_) names.emplace(known.first, Size::symbol(known.first));
      const Scope header{p_, scope_.file, names, scope_.tensor, scope_.piece};
      s.value = lower_size(header, *ast.value);
      derived = mentions_name(*ast.value);
    }
    if (ast.range) {
      if (derived)
        scope_.fail(Code::size, ast.name.at, "size " + s.name + " is derived and has a range",
                    "ranges belong to free sizes");
      s.range = {ast.range->first, ast.range->second};
      s.ranged = true;
      if (s.range.low < 0 || s.range.low > s.range.high)
        scope_.fail(Code::size, ast.name.at,
                    "size " + s.name + " in " + std::to_string(s.range.low) + ".." + std::to_string(s.range.high) +
                        ": the range is empty or negative");
    }
    if (derived && s.value->is_constant()) {
      const std::int64_t value = s.value->constant(); // h - h: derived, and always the same
      fix(s, value, ast.name.at);
    } else if (ast.fixed) {
      if (derived)
        scope_.fail(Code::size, ast.name.at, "size " + s.name + " == a size that depends on others",
                    "write " + s.name + " = ... for a derived size");
      fix(s, s.value->constant(), ast.name.at);
    } else if (is_fixed(s)) {
      fix(s, s.range.low, ast.name.at);
    } else if (s.value && s.value->is_constant()) {
      in_range(s, s.value->constant(), ast.name.at);
    }
    p_.sizes.push_back(std::move(s));
    values_[ast.name.name] = values_of(p_).back();
  }

  static bool mentions_name(const Ast& ast) {
    return ast.kind == Ast::name || ast.kind == Ast::size ||
           std::any_of(ast.args.begin(), ast.args.end(), [](const AstRef& arg) { return mentions_name(*arg); });
  }

  void in_range(const SizeDecl& s, std::int64_t value, Mark at) const {
    if (value >= s.range.low && value <= s.range.high) return;
    scope_.fail(Code::size, at,
                "size " + s.name + " is " + std::to_string(value) + ", outside " + std::to_string(s.range.low) + ".." +
                    std::to_string(s.range.high),
                s.range.low == 1 && value == 0 ? "an axis has at least one point; a name used only as a size may be 0"
                                               : "");
  }

  void fix(SizeDecl& s, std::int64_t value, Mark at) const {
    in_range(s, value, at);
    s.value = Size(value);
    s.range = {value, value};
    s.ranged = true;
  }

  TensorId new_tensor(const NameAst& name, Kind kind) {
    new_name(name);
    Tensor t;
    t.name = name.name;
    t.kind = kind;
    p_.tensors.push_back(std::move(t));
    tensors_.push_back({name.at, kind != Kind::intermediate});
    const auto id = static_cast<TensorId>(p_.tensors.size()) - 1;
    sources_.tensors[id] = place(name.at);
    return ids_[name.name] = id;
  }

  // Every name is known before the first statement, so that a use before its definition is told as that.
  void declare_results() {
    for (const NodeAst& line : ast_.lines) {
      if (line.decl)
        for (const TensorAst& t : line.decl->tensors)
          new_tensor(t.name, line.decl->weight ? Kind::weight : Kind::input);
      if (line.opaque)
        for (const auto& [t, type] : line.opaque->out) new_tensor(t.name, Kind::intermediate);
      if (!line.stmt) continue;
      const NameAst& out = line.stmt->out;
      auto known = ids_.find(out.name);
      if (known == ids_.end() || p_.tensor(known->second).kind != Kind::intermediate)
        new_tensor(out, Kind::intermediate);
    }
  }

  TensorState& state(TensorId id) { return tensors_[static_cast<std::size_t>(id)]; }

  TensorId tensor_to_read(const std::string& name, Mark at) {
    auto found = ids_.find(name);
    if (found == ids_.end()) return -1;
    const TensorId id = found->second;
    if (!state(id).sealed) {
      if (id == scope_.open) {
        if (!state(id).pieces.empty()) return id;
        scope_.fail(Code::cycle, at, name + " reads itself", "there is no recurrence; give the result another name");
      }
      if (state(id).pieces.empty())
        scope_.fail(Code::cycle, at, name + " is read before it is written at " + place(state(id).at),
                    "statements stand in the order in which they are computed");
      seal(id);
    }
    return id;
  }

  Size size_named(const NameAst& name) const {
    auto found = values_.find(name.name);
    if (found == values_.end()) scope_.unknown(name.name, name.at, "a size of the header");
    return found->second;
  }

  void set_type(Tensor& t, const TypeAst& type) const {
    t.dtype = type.dtype;
    if (!type.index_of) return;
    t.index_of = size_named(*type.index_of);
    t.index_axis = type.index_of->name;
  }

  void declaration(const DeclAst& ast) {
    for (const TensorAst& t : ast.tensors) {
      const TensorId id = ids_.at(t.name.name);
      Tensor& tensor = p_.tensor(id);
      for (const NameAst& axis : t.axes) tensor.dims.push_back(size_named(axis));
      set_type(tensor, ast.type);
      if (ast.sparse) sparse_.emplace_back(id, &*ast.sparse);
      if (!ast.weight) p_.inputs.push_back(id);
    }
  }

  void sparsities() {
    for (const auto& [id, ast] : sparse_) {
      Sparse s{Sparse::zeros, ast->of.name, 1, 1};
      if (ast->form == "mask") s.form = Sparse::mask;
      if (ast->form == "lengths") s.form = Sparse::lengths;
      if (ast->tile) {
        s.tile_rows = ast->tile->first;
        s.tile_columns = ast->tile->second;
      }
      if (s.form != Sparse::zeros && !ids_.contains(s.of)) scope_.unknown(s.of, ast->of.at, "a tensor");
      p_.tensor(id).sparse = s;
    }
  }

  // ---- statements

  // A tensor is read only when it is complete. So a piece that is read by a later one becomes a tensor of its own, and
  // the piece a copy of it.
  std::optional<Access> earlier_piece(TensorId id, const std::vector<Index>& at) {
    for (StatementId& piece : state(id).pieces) {
      const Statement& s = *p_.statement(piece);
      if (s.at.size() != at.size()) continue;
      Access access{-1, {}, nullptr};
      bool matches = true;
      for (std::size_t d = 0; d < at.size() && matches; ++d) {
        const Index rest = at[d] - constant_index(s.at[d].offset);
        if (s.at[d].terms.empty()) {
          matches = rest == constant_index(0);
          continue;
        }
        matches = s.at[d].terms[0].coefficient == Size(1) && (!rest.terms.empty() || at_least(rest.offset, 0, ranges_));
        access.at.push_back(rest);
      }
      if (!matches) continue;
      access.tensor = split_off(piece);
      return access;
    }
    return std::nullopt;
  }

  TensorId split_off(StatementId& piece) {
    Statement& s = std::get<Statement>(p_.nodes[static_cast<std::size_t>(piece)]);
    if (auto known = split_.find(piece); known != split_.end()) return known->second;
    Statement copy;
    copy.out = s.out;
    copy.at = s.at;
    copy.place = s.place;
    std::vector<Index> from;
    for (Index& index : copy.at)
      for (Index::Term& term : index.terms) {
        if (index.terms.size() > 1)
          throw Error(Code::unsupported, place_of(p_, s), "a definition over a piece whose left side holds several axes in a dim",
                      "store the piece first");
        AxisId& axis = std::get<AxisId>(term.of);
        from.push_back(axis_index(static_cast<AxisId>(copy.axes.size())));
        copy.axes.push_back(s.axes[static_cast<std::size_t>(axis)]);
        copy.names.push_back(s.names[static_cast<std::size_t>(axis)]);
        axis = static_cast<AxisId>(copy.axes.size()) - 1;
      }
    const Tensor whole = p_.tensor(s.out);
    const TensorId own = build_.tensor(whole.name, whole.dtype, copy.axes);
    tensors_.push_back({state(s.out).at, true});
    p_.tensor(own).index_of = whole.index_of;
    p_.tensor(own).index_axis = whole.index_axis;
    copy.body = read(p_, own, from);
    s.at.erase(std::remove_if(s.at.begin(), s.at.end(), [](const Index& i) { return i.terms.empty(); }), s.at.end());
    for (Index& index : s.at) {
      index.offset = 0;
      index.terms[0].coefficient = 1;
    }
    s.out = own;
    piece = static_cast<StatementId>(p_.nodes.size());
    split_[piece] = own;
    p_.nodes.emplace_back(std::move(copy));
    return own;
  }

  // Dims reach as far as the pieces do.
  void seal(TensorId id) {
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

  void left_side(const StmtAst& ast, Statement& s) {
    for (const AstRef& index : ast.indices) left_axes(*index, s);
    for (const AstRef& index : ast.indices) {
      const Index at = lower_index(scope_, *index);
      if (!is_affine(at))
        scope_.fail(Code::shape, index->at, "a left side is stride * axis + offset in each dim",
                    "views and gathers belong to the right side");
      s.at.push_back(at);
    }
  }

  void left_axes(const Ast& ast, Statement& s) {
    if (ast.kind == Ast::name || ast.kind == Ast::index) new_axis({ast.text, ast.at}, s, false);
    if (ast.kind == Ast::access)
      scope_.fail(Code::shape, ast.at, "an element of a tensor on the left side",
                  "there is no scatter; the right side may gather");
    for (const AstRef& arg : ast.args) left_axes(*arg, s);
  }

  void new_axis(const NameAst& name, Statement& s, bool reduced) {
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

  void set_statement_type(const StmtAst& ast, Tensor& t, TensorState& s, DType natural, bool weak,
                          const Statement& from) {
    if (ast.type) {
      Tensor declared;
      set_type(declared, *ast.type);
      if (s.typed && (declared.dtype != t.dtype || declared.index_of != t.index_of))
        scope_.fail(Code::type, ast.type->at, "the pieces of " + t.name + " have different types: see " + place(s.at),
                    "declare one type");
      t.dtype = declared.dtype;
      t.index_of = declared.index_of;
      t.index_axis = declared.index_axis;
      s.typed = true;
    } else if (!s.typed) {
      // A piece that is a mere number takes the type of the others.
      const bool first = s.pieces.empty();
      if (first || (s.weak && !weak))
        t.dtype = natural;
      else if (s.weak == weak)
        t.dtype = promote(t.dtype, natural);
      s.weak = weak && (first || s.weak);
      const bool pair = from.reducer == Reducer::argmax || from.reducer == Reducer::argmin;
      if (pair && (s.pieces.empty() || t.index_of == from.axes.back())) {
        t.index_of = from.axes.back();
        t.index_axis = from.names.back();
      } else {
        t.index_of.reset();
      }
    }
  }

  void statement(const StmtAst& ast) {
    const TensorId id = ids_.at(ast.out.name);
    if (p_.tensor(id).kind != Kind::intermediate)
      scope_.fail(Code::name, ast.out.at,
                  ast.out.name + " is declared at " + place(state(id).at) + " and is written here");
    if (state(id).opaque)
      scope_.fail(Code::shape, ast.out.at,
                  ast.out.name + " is written by an opaque statement at " + place(state(id).at) + " and here");
    if (state(id).sealed)
      scope_.fail(Code::cycle, ast.out.at, "a piece of " + ast.out.name + " after " + ast.out.name + " was read",
                  "all pieces of a tensor stand before its first use");
    scope_.open = id;
    scope_.axes.clear();
    Statement s;
    s.out = id;
    s.place = {ast.out.at.line, ast.out.at.column, std::string(scope_.file)};
    left_side(ast, s);
    const Definition definition = ast.reduce ? definition_named(ast.reduce->op) : Definition{};
    if (ast.reduce) {
      for (const auto& [keyword, value] : ast.reduce->keywords)
        if (!takes_keyword(definition, keyword.text))
          scope_.fail(Code::name, keyword.at, ast.reduce->op + " takes no " + keyword.text,
                      definition.kind == Definition::reducer ? "" : "layernorm, rmsnorm and l2norm take eps");
      if (definition.keeps_axes)
        check_kept(*ast.reduce);
      else
        for (const NameAst& axis : ast.reduce->axes) new_axis(axis, s, true);
    }
    s.reducer = definition.reducer_of;
    if (ast.guard) s.guard = lower_scalar(scope_, *ast.guard).scalar;
    const Value body = lower_scalar(scope_, *ast.body);
    s.body = body.scalar;
    std::map<const Scalar*, std::size_t> known;
    if (tree_size(s.body, known) > max_nodes || tree_size(s.guard, known) > max_nodes)
      scope_.fail(Code::syntax, ast.body->at,
                  "a body of more than " + std::to_string(max_nodes) + " operations, definitions written out",
                  "name a part of it in a statement of its own");
    finish(ast, std::move(s), body, definition);
    scope_.open = -1;
  }

  void check_kept(const ReduceAst& reduce) const {
    for (const NameAst& axis : reduce.axes)
      if (!scope_.axes.contains(axis.name)) {
        if (!scope_.sizes.contains(axis.name)) scope_.unknown(axis.name, axis.at, "an axis");
        scope_.fail(Code::shape, axis.at,
                    reduce.op + "[" + axis.name + "] keeps axis " + axis.name + ", which is not on the left side");
      }
  }

  void finish(const StmtAst& ast, Statement s, const Value& body, const Definition& definition) {
    if (s.guard && s.guard->dtype != DType::boolean)
      scope_.fail(Code::type, ast.guard->at,
                  "`where` takes a condition, this is " + std::string(name_of(s.guard->dtype)),
                  "compare it: `where m[x] != 0`");
    Tensor& t = p_.tensor(s.out);
    if (!state(s.out).pieces.empty()) check_rank(ast, s);
    set_statement_type(ast, t, state(s.out), default_type(body, definition), !body.stored && s.reducer <= Reducer::min,
                       s);
    if (definition.kind == Definition::expanded) {
      std::vector<AxisId> axes;
      for (const NameAst& axis : ast.reduce->axes) axes.push_back(scope_.axes.at(axis.name));
      expand(build_, s, definition, axes, ast.reduce->keywords);
      tensors_.resize(p_.tensors.size(), {ast.out.at, true, true});
    }
    state(s.out).pieces.push_back(static_cast<StatementId>(p_.nodes.size()));
    p_.nodes.emplace_back(std::move(s));
  }

  void check_rank(const StmtAst& ast, const Statement& s) {
    const Statement& first = *p_.statement(state(s.out).pieces.front());
    if (first.at.size() != s.at.size())
      scope_.fail(Code::shape, ast.out.at,
                  "this piece of " + ast.out.name + " has " + counted(s.at.size(), "dim", "dims") + ", the one at " +
                      place({first.place.line, first.place.column}) + " has " + std::to_string(first.at.size()));
  }

  void opaque(const OpaqueAst& ast) {
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
      Tensor& t = p_.tensor(id);
      if (!state(id).pieces.empty())
        scope_.fail(Code::shape, out.name.at,
                    t.name + " is written at " + place(state(id).at) + " and by an opaque statement");
      for (const NameAst& axis : out.axes) t.dims.push_back(size_named(axis));
      set_type(t, type);
      state(id).sealed = state(id).opaque = true;
      o.out.push_back(id);
    }
    p_.nodes.emplace_back(std::move(o));
  }

  void outputs() {
    for (const auto& [out, buffer] : ast_.outputs) {
      auto found = ids_.find(out.name);
      if (found == ids_.end()) scope_.unknown(out.name, out.at, "the name of a tensor");
      p_.outputs.push_back(found->second);
      if (!buffer) continue;
      auto in = ids_.find(buffer->name);
      if (in == ids_.end()) scope_.unknown(buffer->name, buffer->at, "the name of an input");
      Tensor& t = p_.tensor(found->second);
      if (p_.tensor(in->second).kind != Kind::input || t.kind != Kind::intermediate)
        scope_.fail(Code::name, buffer->at,
                    "an output that is computed can be stored in the buffer of an input; this is " + out.name + " = " +
                        buffer->name);
      if (t.stored_in && *t.stored_in != in->second)
        scope_.fail(Code::name, buffer->at, out.name + " is stored in two buffers");
      t.stored_in = in->second;
    }
  }
};

} // namespace

std::vector<Program> parse_all(std::string_view text, std::string_view file) {
  std::vector<Program> programs;
  for (const ProgramAst& ast : parse_grammar(text, file)) programs.push_back(Lowering(ast, file).run());
  return programs;
}

Program parse(std::string_view text, std::string_view file, std::string_view program) {
  const std::vector<ProgramAst> all = parse_grammar(text, file);
  if (program.empty()) return Lowering(all.front(), file).run();
  std::vector<std::string> names;
  for (const ProgramAst& ast : all) {
    if (ast.name.name == program) return Lowering(ast, file).run();
    names.push_back(ast.name.name);
  }
  const std::string near = nearest(std::string(program), names);
  std::string known;
  for (const std::string& name : names) known += (known.empty() ? "" : ", ") + name;
  throw Error(Code::name, std::string(file), "no program " + std::string(program) + " in this file: it has " + known,
              near.empty() ? "" : "did you mean " + near + "?");
}

} // namespace tilewright
