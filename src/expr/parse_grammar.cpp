// Programs, declarations and statements: one token of lookahead decides.
#include <algorithm>
#include <array>

#include "expr/parse_tokens.h"

namespace tilewright {

// ---- the cursor

const Token& Cursor::take() {
  const Token& token = tokens_[at_];
  if (at_ + 1 < tokens_.size()) ++at_;
  return token;
}

bool Cursor::is_at(std::size_t ahead, std::string_view text) const {
  const Token& token = peek(ahead);
  return (token.kind == Token::symbol || token.kind == Token::name) && token.text == text;
}

bool Cursor::is_name(std::size_t ahead) const {
  const Token& token = peek(ahead);
  return token.kind == Token::quoted || (token.kind == Token::name && !is_reserved(token.text));
}

bool Cursor::is_number(std::size_t ahead) const {
  return peek(ahead).kind == Token::integer || peek(ahead).kind == Token::number;
}

bool Cursor::accept(std::string_view text) {
  if (!is(text)) return false;
  take();
  return true;
}

void Cursor::fail(Mark mark, std::string message, std::string hint) const {
  throw Error(Code::syntax, place_of(file_, mark), std::move(message), std::move(hint));
}

void Cursor::expected(const std::string& what, std::string hint) const {
  fail(mark(), "expected " + what + ", found " + found(peek()), std::move(hint));
}

void Cursor::expect(std::string_view text, std::string_view where, std::string hint) {
  if (!accept(text)) expected("'" + std::string(text) + "' after " + std::string(where), std::move(hint));
}

NameAst Cursor::expect_name(std::string_view what) {
  if (is_name()) {
    const Token& token = take();
    return {token.text, token.at};
  }
  const bool reserved = peek().kind == Token::name;
  expected(std::string(what), reserved ? "'" + peek().text + "' is reserved; quote it to use it as a name" : "");
}

std::int64_t Cursor::expect_integer(std::string_view what) {
  const bool minus = accept("-");
  if (peek().kind != Token::integer) expected(std::string(what));
  const std::int64_t value = take().whole;
  return minus ? -value : value;
}

void Cursor::expect_line_end(std::string_view after) {
  if (ends()) {
    if (peek().kind == Token::newline) take();
    return;
  }
  expected("the end of the line after " + std::string(after));
}

namespace {

class Grammar {
public:
  Grammar(std::string_view text, std::string_view file) : in_(text, file) {}

  std::vector<ProgramAst> file() {
    std::vector<ProgramAst> programs;
    while (in_.peek().kind != Token::end) programs.push_back(program());
    if (programs.empty())
      in_.fail(in_.mark(), "no program in this file", "a program begins with `program NAME(sizes)`");
    return programs;
  }

private:
  Cursor in_;

  ProgramAst program() {
    ProgramAst p;
    if (!in_.accept("program")) in_.expected("'program'");
    p.name = in_.expect_name("the name of the program");
    in_.expect("(", "the program's name", "a program without sizes is `program NAME()`");
    if (!in_.is(")")) {
      do p.sizes.push_back(size());
      while (in_.accept(","));
    }
    in_.expect(")", "the sizes");
    in_.expect_line_end("the header");
    while (!in_.is("output")) {
      if (in_.peek().kind == Token::end || in_.is("program"))
        in_.expected("a statement or 'output'", "a program ends with `output NAME`");
      p.lines.push_back(line());
    }
    in_.take();
    do p.outputs.push_back(output());
    while (in_.accept(","));
    in_.expect_line_end("the outputs");
    return p;
  }

  OutputAst output() {
    OutputAst o;
    o.name = in_.expect_name("the name of an output");
    if (in_.accept("[")) {
      o.extents.emplace();
      if (!in_.is("]")) o.extents = axes();
      in_.expect("]", "the extents of " + o.name.name, "each is the name of a size, or of a tensor that counts");
    }
    if (in_.accept("=")) o.state = in_.expect_name("the input in whose buffer it is stored");
    return o;
  }

  SizeAst size() {
    SizeAst s;
    s.name = in_.expect_name("the name of a size");
    if (in_.accept("==")) {
      s.value = parse_iexpr(in_);
      s.fixed = true;
      return s;
    }
    if (in_.accept("=")) s.value = parse_iexpr(in_);
    if (in_.accept("in")) {
      const std::int64_t low = in_.expect_integer("the lowest value");
      in_.expect("..", "the lowest value");
      s.range = {low, in_.expect_integer("the highest value")};
    }
    return s;
  }

  NodeAst line() {
    NodeAst node;
    if (in_.is("input") || in_.is("weight"))
      node.decl = declaration();
    else if (in_.is("opaque"))
      node.opaque = opaque();
    else if (in_.is_name())
      node.stmt = statement();
    else
      in_.expected(
          "a statement, a declaration or 'output'",
          in_.peek().kind == Token::name ? "'" + in_.peek().text + "' is reserved; quote it to use it as a name" : "");
    return node;
  }

  TensorAst tensor() {
    TensorAst t;
    t.name = in_.expect_name("the name of a tensor");
    if (!in_.accept("[")) return t;
    if (!in_.is("]")) t.axes = axes();
    in_.expect("]", "the axes of " + t.name.name, "the axes of a declaration are names of sizes in the header");
    return t;
  }

  std::vector<NameAst> axes() {
    std::vector<NameAst> list{in_.expect_name("the name of an axis")};
    while (in_.is_name() || (in_.is(",") && !in_.is_at(2, "="))) {
      in_.accept(",");
      list.push_back(in_.expect_name("the name of an axis"));
    }
    return list;
  }

  TypeAst type() {
    TypeAst t;
    t.at = in_.mark();
    if (in_.is("index")) {
      t.dtype = DType::i64;
      index_of(t);
      return t;
    }
    const auto dtype = in_.peek().kind == Token::name ? dtype_named(in_.peek().text) : std::nullopt;
    if (!dtype) in_.expected("a type", "f64 f32 f16 bf16 f8e4m3 f8e5m2 i8 u8 i32 i64 bool, or index(NAME)");
    t.dtype = *dtype;
    in_.take();
    if (in_.is("index")) index_of(t); // an index that is not stored as i64
    return t;
  }

  void index_of(TypeAst& t) {
    in_.take();
    in_.expect("(", "'index'", "an index type names what it indexes: index(v)");
    t.index_of = in_.expect_name("the name of a size");
    in_.expect(")", "index(" + t.index_of->name);
  }

  DeclAst declaration() {
    DeclAst d;
    d.weight = in_.take().text == "weight";
    do d.tensors.push_back(tensor());
    while (in_.accept(","));
    in_.expect(":", "the declared names", "a declaration ends with a type: `input X[n c] : f32`");
    d.type = type();
    if (in_.is("sparse")) d.sparse = sparse();
    in_.expect_line_end("the declaration");
    return d;
  }

  SparseAst sparse() {
    SparseAst s;
    s.at = in_.take().at;
    in_.expect("(", "'sparse'");
    const Token form = in_.peek();
    if (!in_.accept("zeros") && !in_.accept("mask") && !in_.accept("lengths"))
      in_.expected("zeros, mask NAME or lengths NAME");
    s.form = form.text;
    if (s.form != "zeros") s.of = in_.expect_name("the tensor that tells " + s.form);
    if (in_.accept(",")) {
      in_.expect("tile", "','");
      const std::int64_t rows = in_.expect_integer("the rows of a tile");
      in_.expect(",", "the rows of a tile");
      s.tile = {rows, in_.expect_integer("the columns of a tile")};
    }
    in_.expect(")", "the sparsity");
    return s;
  }

  bool at_reducer() const {
    static constexpr std::array ops{"sum",       "prod",        "any",       "all",    "mean",
                                    "softmax",   "log_softmax", "logsumexp", "argmax", "argmin",
                                    "layernorm", "rmsnorm",     "l2norm",    "min",    "max"};
    return in_.is_at(1, "[") && std::any_of(ops.begin(), ops.end(), [&](std::string_view op) { return in_.is(op); });
  }

  StmtAst statement() {
    StmtAst s;
    s.out = in_.expect_name("the name of a tensor");
    if (in_.accept("[")) {
      s.indices = parse_ilist(in_);
      in_.expect("]", "the indices of " + s.out.name);
    }
    if (in_.accept(":")) s.type = type();
    in_.expect("=", "the left side of a statement");
    if (at_reducer()) {
      ReduceAst r;
      r.op = in_.peek().text;
      r.at = in_.take().at;
      in_.take();
      r.axes = axes();
      if (in_.accept(",")) r.keywords = parse_keywords(in_);
      in_.expect("]", "the axes of " + r.op);
      s.reduce = std::move(r);
    }
    s.body = parse_expr(in_);
    if (in_.accept("where")) s.guard = parse_expr(in_);
    in_.expect_line_end("the statement");
    return s;
  }

  OpaqueAst opaque() {
    OpaqueAst o;
    in_.take();
    do {
      TensorAst t = tensor();
      in_.expect(":", "an output of an opaque statement");
      o.out.emplace_back(std::move(t), type());
    } while (in_.accept(","));
    in_.expect("=", "the outputs of an opaque statement");
    o.op = in_.expect_name("the name of an opaque function");
    in_.expect("(", "the opaque function");
    if (!in_.is(")")) {
      do o.in.push_back(in_.expect_name("the name of a tensor"));
      while (in_.accept(","));
    }
    in_.expect(")", "the arguments of " + o.op.name);
    in_.expect_line_end("the opaque statement");
    return o;
  }
};

} // namespace

std::vector<ProgramAst> parse_grammar(std::string_view text, std::string_view file) {
  return Grammar(text, file).file();
}

} // namespace tilewright
