// Index expressions: sums of sizes times axes, elements of integer tensors, quotients and remainders by sizes.
#include <algorithm>

#include "expr/parse_scope.h"
#include "expr/scalar.h"
#include "support/error.h"

namespace tilewright {

void Scope::fail(Code code, Mark mark, std::string message, std::string hint) const {
  throw Error(code, place_of(file, mark), std::move(message), std::move(hint));
}

void Scope::unknown(const std::string& name, Mark mark, const std::string& what) const {
  std::vector<std::string> known;
  for (const auto& size : sizes) known.push_back(size.first);
  for (const Tensor& t : program.tensors) {
    if (t.name == name) fail(Code::name, mark, name + " is a tensor: expected " + what);
    known.push_back(t.name);
  }
  const std::string near = nearest(name, known);
  fail(Code::name, mark, "unknown name " + name + ": expected " + what,
       near.empty() ? "every axis and size stands in the header" : "did you mean " + near + "?");
}

// Within one edit for every three letters, or the same but for case; else empty.
std::string nearest(const std::string& name, const std::vector<std::string>& known) {
  std::string best;
  std::size_t least = std::min<std::size_t>(3, 1 + name.size() / 3);
  if (name.size() > 64) return best;
  for (const std::string& other : known) {
    if (other.size() > 64) continue;
    auto same_letter = [](char a, char b) { return (a | 32) == (b | 32); };
    if (std::equal(name.begin(), name.end(), other.begin(), other.end(), same_letter)) return other;
    std::vector<std::size_t> row(other.size() + 1);
    for (std::size_t j = 0; j < row.size(); ++j) row[j] = j;
    for (std::size_t i = 1; i <= name.size(); ++i) {
      std::size_t diagonal = row[0];
      row[0] = i;
      for (std::size_t j = 1; j < row.size(); ++j) {
        const std::size_t swap = diagonal + (name[i - 1] != other[j - 1]);
        diagonal = row[j];
        row[j] = std::min({row[j] + 1, row[j - 1] + 1, swap});
      }
    }
    if (row.back() < least) {
      least = row.back();
      best = other;
    }
  }
  return best;
}

std::string counted(std::size_t n, const std::string& one, const std::string& many) {
  return std::to_string(n) + " " + (n == 1 ? one : many);
}

namespace {

class Indices {
public:
  Indices(const Scope& scope, bool header) : scope_(scope), header_(header) {}

  Index of(const Ast& ast) {
    switch (ast.kind) {
    case Ast::integer: return constant_index(ast.whole);
    case Ast::name: return name(ast);
    case Ast::size: return constant_index(size(ast));
    case Ast::index: return axis(ast);
    case Ast::access: return gather(ast);
    case Ast::unary: return Size(-1) * of(*ast.args[0]);
    case Ast::call: {
      const Size a = pure(ast, of(*ast.args[0])), b = pure(ast, of(*ast.args[1]));
      return constant_index(ast.text == "min" ? min(a, b) : max(a, b));
    }
    default: return binary(ast);
    }
  }

private:
  const Scope& scope_;
  bool header_;

  static bool is_pure(const Index& i) { return i.terms.empty() && i.div == Size(1) && i.mod == Size(0); }

  Size pure(const Ast& ast, const Index& i) const {
    if (!is_pure(i))
      scope_.fail(Code::bounds, ast.at, "'" + ast.text + "' of an axis, where a size is needed",
                  ast.text == "*" ? "an index is linear: size * axis"
                                  : "inside brackets a bare name is an index; its extent is size(x)");
    return i.offset;
  }

  Index binary(const Ast& ast) {
    const Index a = of(*ast.args[0]), b = of(*ast.args[1]);
    if (ast.text == "+") return a + b;
    if (ast.text == "-") return a - b;
    if (ast.text == "*") return is_pure(a) ? a.offset * b : pure(ast, b) * a;
    const Size by = pure(ast, b);
    if (by.is_constant() && by.constant() <= 0)
      scope_.fail(Code::bounds, ast.at, "'" + ast.text + "' by " + by.text(), "indices are divided by positive sizes");
    if (is_pure(a)) return constant_index(ast.text == "//" ? floor_div(a.offset, by) : floor_mod(a.offset, by));
    return ast.text == "//" ? floor_div(a, by) : floor_mod(a, by);
  }

  Size size(const Ast& ast) const {
    auto found = scope_.sizes.find(ast.text);
    if (found == scope_.sizes.end()) scope_.unknown(ast.text, ast.at, header_ ? "an earlier size" : "a size");
    return found->second;
  }

  Index axis(const Ast& ast) const {
    if (header_) scope_.fail(Code::name, ast.at, "index(" + ast.text + ") in a header", "sizes are derived from sizes");
    auto found = scope_.axes.find(ast.text);
    if (found != scope_.axes.end()) return axis_index(found->second);
    if (!scope_.sizes.contains(ast.text)) scope_.unknown(ast.text, ast.at, "an axis");
    scope_.fail(Code::name, ast.at, "axis " + ast.text + " is neither on the left side nor reduced",
                "inside brackets a bare name is an index; its extent is size(" + ast.text + ")");
  }

  // A bare name: an axis, or a tensor without dims.
  Index name(const Ast& ast) const {
    if (header_) return constant_index(size(ast));
    if (scope_.sizes.contains(ast.text)) return axis(ast);
    if (scope_.tensor(ast.text, ast.at) < 0) scope_.unknown(ast.text, ast.at, "an axis or an integer tensor");
    return gather(ast);
  }

  Index gather(const Ast& ast) const {
    if (header_) scope_.fail(Code::name, ast.at, "an element of a tensor in a header", "sizes are derived from sizes");
    auto access = std::make_shared<const Access>(lower_access(scope_, ast));
    const Tensor& t = scope_.program.tensor(access->tensor);
    if (!is_integer(t.dtype))
      scope_.fail(Code::type, ast.at, "an index by " + t.name + ", whose elements are " + std::string(name_of(t.dtype)),
                  "index with an integer tensor");
    if (scope_.sources) scope_.sources->accesses[access.get()] = place_of(scope_.file, ast.at);
    Index i;
    i.terms.push_back({1, std::move(access)});
    return i;
  }
};

} // namespace

Size lower_size(const Scope& scope, const Ast& ast) { return Indices(scope, true).of(ast).offset; }
Index lower_index(const Scope& scope, const Ast& ast) { return Indices(scope, false).of(ast); }

Access lower_access(const Scope& scope, const Ast& ast) {
  const TensorId id = scope.tensor(ast.text, ast.at);
  if (id < 0) {
    if (scope.sizes.contains(ast.text)) scope.fail(Code::name, ast.at, ast.text + " is a size, and is indexed");
    scope.unknown(ast.text, ast.at, "a tensor");
  }
  const Tensor& t = scope.program.tensor(id);
  if (id != scope.open && ast.args.size() != t.dims.size())
    scope.fail(Code::shape, ast.at,
               t.name + " has " + counted(t.dims.size(), "dim", "dims") + " and is read with " +
                   counted(ast.args.size(), "index", "indices"),
               ast.args.empty() ? "only tensors without dims are read by their bare name" : "");
  Access access{id, {}, nullptr};
  for (const AstRef& index : ast.args) access.at.push_back(lower_index(scope, *index));
  if (id == scope.open) {
    const auto earlier = scope.piece(id, access.at);
    if (!earlier || ast.otherwise)
      scope.fail(Code::cycle, ast.at, t.name + " is read before all of it is written",
                 "a piece may read an earlier piece of its tensor, where it is clear which");
    return *earlier;
  }
  if (!ast.otherwise) return access;
  const Value value = lower_scalar(scope, *ast.otherwise);
  const DType type = compute_type(scope.program.tensor(id).dtype), given = value.scalar->dtype;
  if (compute_type(promote(type, given)) != type)
    scope.fail(Code::type, ast.otherwise->at,
               "the `else` value of " + t.name + " is " + std::string(name_of(given)) + ", its elements are " +
                   std::string(name_of(t.dtype)),
               "cast the value");
  access.otherwise = as_type(value, type);
  return access;
}

} // namespace tilewright
