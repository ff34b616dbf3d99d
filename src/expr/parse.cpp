// From trees to programs: names are declared, sizes valued, tensors typed. Statements are in parse_statement.cpp.
#include <algorithm>

#include "expr/parse_program.h"
#include "expr/sizes.h"
#include "expr/text.h"
#include "support/error.h"

namespace tilewright {

Lowering::Lowering(const ProgramAst& ast, std::string_view file)
    : ast_(ast), scope_{p_, file, values_,
                        [this](const std::string& name, Mark at) { return tensor_to_read(name, at); },
                        [this](TensorId id, const std::vector<Index>& at) { return earlier_piece(id, at); }} {
  scope_.sources = &sources_;
}

Program Lowering::run() {
  p_.name = ast_.name.name;
  note_axes();
  sizes();
  declare_all();
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

// ---- names and sizes

void Lowering::note_axes(const Ast& ast) {
  if (ast.kind == Ast::name || ast.kind == Ast::index) used_as_axis_.insert(ast.text);
  for (const AstRef& arg : ast.args) note_axes(*arg);
}

void Lowering::note_axes(const std::vector<NameAst>& axes) {
  for (const NameAst& axis : axes) used_as_axis_.insert(axis.name);
}

// A size that is an axis is at least 1; one that is only a size may be 0.
void Lowering::note_axes() {
  for (const NodeAst& line : ast_.lines) {
    if (line.decl)
      for (const TensorAst& t : line.decl->tensors) note_axes(t.axes);
    if (line.opaque)
      for (const auto& out : line.opaque->out) note_axes(out.first.axes);
    if (!line.stmt) continue;
    for (const AstRef& index : line.stmt->indices) note_axes(*index);
    if (line.stmt->reduce) note_axes(line.stmt->reduce->axes);
  }
}

void Lowering::new_name(const NameAst& name) {
  Mark before{};
  if (auto size = size_marks_.find(name.name); size != size_marks_.end()) before = size->second;
  if (auto tensor = ids_.find(name.name); tensor != ids_.end()) before = state(tensor->second).at;
  if (before.line > 0)
    scope_.fail(Code::name, name.at, "the name " + name.name + " is taken: see " + place(before),
                "tensors and sizes share one name space");
}

void Lowering::sizes() {
  for (const SizeAst& ast : ast_.sizes) {
    new_name(ast.name);
    placed(ast.name.at, [&] { size(ast); });
    size_marks_[ast.name.name] = ast.name.at;
  }
  ranges_ = ranges_of(p_);
}

namespace {

bool mentions_name(const Ast& ast) {
  return ast.kind == Ast::name || ast.kind == Ast::size ||
         std::any_of(ast.args.begin(), ast.args.end(), [](const AstRef& arg) { return mentions_name(*arg); });
}

std::string text_of(Interval range) { return std::to_string(range.low) + ".." + std::to_string(range.high); }

} // namespace

void Lowering::size(const SizeAst& ast) {
  SizeDecl s;
  s.name = ast.name.name;
  s.range.low = used_as_axis_.contains(s.name) && !ast.fixed ? 1 : 0; // who writes == 0 means it
  const bool derived = ast.value && mentions_name(*ast.value);
  if (ast.range) {
    s.range = {ast.range->first, ast.range->second};
    s.ranged = true;
    if (derived)
      scope_.fail(Code::size, ast.name.at, "size " + s.name + " is derived and has a range",
                  "ranges belong to free sizes");
    if (s.range.low < 0 || s.range.low > s.range.high)
      scope_.fail(Code::size, ast.name.at,
                  "size " + s.name + " in " + text_of(s.range) + ": the range is empty or negative");
  }
  give_value(s, ast, derived);
  // What a size stands for in the free ones; those before it are known.
  Size value = Size::symbol(s.name);
  if (is_fixed(s)) value = s.range.low;
  if (is_derived(s)) value = lower_size(scope_, *ast.value);
  p_.sizes.push_back(std::move(s));
  values_[ast.name.name] = value;
}

// A derived size keeps the names that it was written in; one that comes out as a number is fixed.
void Lowering::give_value(SizeDecl& s, const SizeAst& ast, bool derived) const {
  if (ast.value) {
    std::map<std::string, Size> names;
    for (const auto& known : values_) names.emplace(known.first, Size::symbol(known.first));
    const Scope header{scope_.program, scope_.file, names, scope_.tensor, scope_.piece};
    s.value = lower_size(header, *ast.value);
  }
  if (ast.fixed && derived)
    scope_.fail(Code::size, ast.name.at, "size " + s.name + " == a size that depends on others",
                "write " + s.name + " = ... for a derived size");
  const auto number = is_fixed(s) && !s.value ? std::optional(s.range.low) : s.value ? s.value->value() : std::nullopt;
  if (!number) return;
  in_range(s, *number, ast.name.at);
  if (!ast.fixed && !derived && !is_fixed(s)) return;
  s.value = Size(*number);
  s.range = {*number, *number};
  s.ranged = true;
}

void Lowering::in_range(const SizeDecl& s, std::int64_t value, Mark at) const {
  if (value >= s.range.low && value <= s.range.high) return;
  const bool no_points = s.range.low == 1 && value == 0;
  scope_.fail(Code::size, at, "size " + s.name + " is " + std::to_string(value) + ", outside " + text_of(s.range),
              no_points ? "an axis has at least one point; a name used only as a size may be 0" : "");
}

Size Lowering::size_named(const NameAst& name) const {
  auto found = values_.find(name.name);
  if (found == values_.end()) scope_.unknown(name.name, name.at, "a size of the header");
  return found->second;
}

// ---- tensors

TensorId Lowering::new_tensor(const NameAst& name, Kind kind) {
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
void Lowering::declare_all() {
  for (const NodeAst& line : ast_.lines) {
    if (line.decl) declaration(*line.decl);
    if (line.opaque)
      for (const auto& out : line.opaque->out) new_tensor(out.first.name, Kind::intermediate);
    if (!line.stmt) continue;
    const NameAst& out = line.stmt->out;
    auto known = ids_.find(out.name);
    if (known == ids_.end() || p_.tensor(known->second).kind != Kind::intermediate) new_tensor(out, Kind::intermediate);
  }
}

void Lowering::declaration(const DeclAst& ast) {
  for (const TensorAst& t : ast.tensors) {
    const TensorId id = new_tensor(t.name, ast.weight ? Kind::weight : Kind::input);
    Tensor& tensor = p_.tensor(id);
    for (const NameAst& axis : t.axes) tensor.dims.push_back(size_named(axis));
    set_type(tensor, ast.type);
    if (ast.sparse) sparse_.emplace_back(id, &*ast.sparse);
    if (!ast.weight) p_.inputs.push_back(id);
  }
}

void Lowering::set_type(Tensor& t, const TypeAst& type) const {
  t.dtype = type.dtype;
  if (!type.index_of) return;
  t.index_of = size_named(*type.index_of);
  t.index_axis = type.index_of->name;
}

TensorId Lowering::tensor_to_read(const std::string& name, Mark at) {
  auto found = ids_.find(name);
  if (found == ids_.end()) return -1;
  const TensorId id = found->second;
  if (state(id).sealed) return id;
  if (state(id).pieces.empty() && id == scope_.open)
    scope_.fail(Code::cycle, at, name + " reads itself", "there is no recurrence; give the result another name");
  if (state(id).pieces.empty())
    scope_.fail(Code::cycle, at, name + " is read before it is written at " + place(state(id).at),
                "statements stand in the order in which they are computed");
  if (id != scope_.open) seal(id);
  return id;
}

void Lowering::sparsities() {
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

void Lowering::outputs() {
  for (const OutputAst& out : ast_.outputs) {
    auto found = ids_.find(out.name.name);
    if (found == ids_.end()) scope_.unknown(out.name.name, out.name.at, "the name of a tensor");
    p_.outputs.push_back(found->second);
    if (out.extents) extents(found->second, out);
    if (out.state) store_in(found->second, *out.state);
  }
}

// The extents of an output: those that it has, or tensors that count its rows when the program has run.
void Lowering::extents(TensorId id, const OutputAst& out) {
  Tensor& t = p_.tensor(id);
  if (out.extents->size() != t.dims.size())
    scope_.fail(Code::shape, out.name.at,
                t.name + " has " + std::to_string(t.dims.size()) + " dims, " + std::to_string(out.extents->size()) +
                    " extents are given");
  std::vector<TensorId> counts;
  for (std::size_t d = 0; d < t.dims.size(); ++d) {
    const NameAst& name = (*out.extents)[d];
    const auto count = ids_.find(name.name);
    counts.push_back(count == ids_.end() ? -1 : count->second);
    if (counts.back() < 0 && size_named(name) != t.dims[d])
      scope_.fail(Code::shape, name.at,
                  "dim " + std::to_string(d) + " of " + t.name + " is " + t.dims[d].text() + ", not " + name.name,
                  "give the extent that it has, or a tensor that counts its rows");
  }
  if (!t.counted_by.empty() && t.counted_by != counts)
    scope_.fail(Code::shape, out.name.at, t.name + " is counted in two ways");
  if (std::count(counts.begin(), counts.end(), -1) < static_cast<std::ptrdiff_t>(counts.size())) t.counted_by = counts;
}

void Lowering::store_in(TensorId out, const NameAst& buffer) {
  auto in = ids_.find(buffer.name);
  if (in == ids_.end()) scope_.unknown(buffer.name, buffer.at, "the name of an input");
  Tensor& t = p_.tensor(out);
  if (p_.tensor(in->second).kind != Kind::input || t.kind != Kind::intermediate)
    scope_.fail(Code::name, buffer.at,
                "an output that is computed can be stored in the buffer of an input; this is " + t.name + " = " +
                    buffer.name);
  if (t.stored_in && *t.stored_in != in->second)
    scope_.fail(Code::name, buffer.at, t.name + " is stored in two buffers");
  t.stored_in = in->second;
}

// ---- files

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
