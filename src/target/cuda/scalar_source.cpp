#include "target/cuda/scalar_source.h"

#include <cmath>

#include <fmt/format.h>

namespace tilewright::cuda {

std::string type_of(DType t) {
  switch (compute_type(t)) {
    case DType::f64: return "double";
    case DType::i32: return "int";
    case DType::i64: return "i64";
    case DType::boolean: return "bool";
    default: return "float";
  }
}

std::string stored_type_of(DType t) {
  switch (t) {
    case DType::f16: return "f16";
    case DType::bf16: return "bf16";
    case DType::f8e4m3: return "f8e4m3";
    case DType::f8e5m2: return "f8e5m2";
    case DType::i8: return "i8";
    case DType::u8: return "u8";
    case DType::boolean: return "bool";
    default: return type_of(t);
  }
}

std::string literal(double v, DType t) {
  const bool wide = compute_type(t) == DType::f64;
  if (std::isnan(v)) return wide ? "nan64()" : "nan32()";
  if (std::isinf(v)) return fmt::format("{}inf{}()", v < 0 ? "-" : "", wide ? 64 : 32);
  std::string text = wide ? fmt::format("{}", v) : fmt::format("{}", static_cast<float>(v));
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return wide ? text : text + "f";
}

std::string literal(std::int64_t v, DType t) {
  if (compute_type(t) == DType::i64) return v == INT64_MIN ? "(-9223372036854775807ll - 1)" : fmt::format("{}ll", v);
  return v == INT32_MIN ? "(-2147483647 - 1)" : fmt::format("{}", v);
}

std::string ScalarSource::temporary(const std::string& type, const std::string& expression) {
  const std::string name = fmt::format("v{}", next_++);
  lines += fmt::format("{}const {} {} = {};\n", indent_, type, name, expression);
  return name;
}

std::string ScalarSource::index(const Index& i) {
  // What the data says is kept whole until it is looked at: 2^32 is not 0. Only what is divided by more than 2^31 stays so.
  const bool plain = i.div == Size(1) && i.mod == Size(0), whole = i.div.constant() > INT32_MAX || i.mod.constant() > INT32_MAX;
  std::string sum;
  for (const Index::Term& t : i.terms) {
    std::string term;
    if (const AxisId* a = std::get_if<AxisId>(&t.of)) term = axes_[static_cast<std::size_t>(*a)];
    else if (const auto* g = std::get_if<std::shared_ptr<const Access>>(&t.of)) term = plain ? read(**g) : fmt::format("{}({})", whole ? "i64" : "int", read(**g));
    else term = index(*std::get<std::shared_ptr<const Index>>(t.of));
    const std::int64_t c = t.coefficient.constant();
    sum += sum.empty() ? "" : " + ";
    sum += c == 1 ? term : fmt::format("{} * {}", c, term);
  }
  if (i.offset.constant() != 0 || sum.empty()) sum += fmt::format("{}{}", sum.empty() ? "" : " + ", i.offset.constant());
  if (whole) sum = fmt::format("i64({})", sum);
  if (i.div != Size(1)) sum = fmt::format("floor_div({}, {}{})", sum, i.div.constant(), whole ? "ll" : "");
  if (i.mod != Size(0)) sum = fmt::format("floor_mod({}, {}{})", sum, i.mod.constant(), whole ? "ll" : "");
  if (whole) sum = fmt::format("int({})", sum);
  return "(" + sum + ")";
}

// Whether an index holds elements of a tensor.
bool ScalarSource::has_elements(const Index& i) {
  for (const Index::Term& t : i.terms) {
    if (std::holds_alternative<std::shared_ptr<const Access>>(t.of)) return true;
    if (const auto* inner = std::get_if<std::shared_ptr<const Index>>(&t.of); inner && has_elements(**inner)) return true;
  }
  return false;
}

std::string ScalarSource::address(TensorId t, const std::vector<Index>& at) {
  const Where& w = where_.at(t);
  std::string sum, column;
  for (std::size_t d = 0; d < at.size(); ++d) {
    if (w.stride[d] == 0 || (p_.tensor(t).dims[d] == Size(1) && w.low.empty())) continue;
    std::string i = index(at[d]);
    if (d < w.through.size() && !w.through[d].empty()) i = fmt::format(fmt::runtime(w.through[d]), i);
    // What the data says is looked at before it is followed. Where the point may be one that is left out, nobody is told.
    if (has_elements(at[d])) i = fmt::format("in_dim({}, {}, {})", i, p_.tensor(t).dims[d].constant(), unsure_ > 0 ? "nullptr" : "fault");
    if (!w.low.empty() && w.low[d] != "0") i = fmt::format("({} - ({}))", i, w.low[d]);
    if (static_cast<int>(d) == w.inner) {
      column = i;
      continue;
    }
    const std::int64_t stride = w.inner < 0 ? w.stride[d] : w.stride[d] / w.row;
    sum += fmt::format("{}{}", sum.empty() ? "" : " + ", stride == 1 ? i : fmt::format("{} * {}", i, stride));
  }
  if (w.inner >= 0) return fmt::format("{}[swizzled<{}, {}>({}, {}) + {} % {}]", w.pointer, w.row, w.rows, sum.empty() ? "0" : sum, column, column, w.row / 8);
  return fmt::format("{}[{}]", w.pointer, sum.empty() ? "0" : sum);
}

// The condition under which every index lies in its dim; empty where that is certain.
std::string ScalarSource::inside(const Access& a) {
  std::string all;
  for (std::size_t d = 0; d < a.at.size(); ++d) {
    const Size& dim = p_.tensor(a.tensor).dims[d];
    if (is_affine(a.at[d]) && in_bounds(a.at[d], dim, points_.region.axes)) continue;
    all += fmt::format("{}{}({}) < {}u", all.empty() ? "" : " && ", has_elements(a.at[d]) ? "(unsigned long long)" : "unsigned", index(a.at[d]), dim.constant());
  }
  return all;
}

bool ScalarSource::conditional(const Access& a) { return a.otherwise && !where_.at(a.tensor).filled && !inside(a).empty(); }

std::string ScalarSource::read(const Access& a) {
  if (const auto it = inner_.find(a.tensor); it != inner_.end()) return it->second;
  const DType t = p_.tensor(a.tensor).dtype;
  unsure_ += a.otherwise != nullptr;
  const std::string place = address(a.tensor, a.at), load = fmt::format("load({})", place);
  unsure_ -= a.otherwise != nullptr;
  if (const auto it = fetched_.find(place); it != fetched_.end()) return it->second;
  if (!a.otherwise || where_.at(a.tensor).filled) return temporary(type_of(t), load);
  const std::string condition = inside(a);
  if (condition.empty()) return temporary(type_of(t), load);
  const ScalarRef outside = cast(a.otherwise, t);
  alive_.push_back(outside);
  return temporary(type_of(t), fmt::format("{} ? {} : {}", condition, load, node(outside)));
}

std::string ScalarSource::rounded(const std::string& v, DType from, DType declared) {
  if (from == declared) return v;
  if (is_float(declared) && is_float(from) && bytes_of(declared) >= bytes_of(compute_type(from))) return fmt::format("{}({})", type_of(declared), v);
  return fmt::format("load(round_to<{}>({}))", stored_type_of(declared), v);
}

std::string ScalarSource::operation(const Scalar& s, const std::vector<std::string>& a, DType operand) {
  const bool real = is_float(operand);
  const std::string f = operand == DType::f64 ? "" : "f";
  auto infix = [&](const char* op) { return fmt::format("{} {} {}", a[0], op, a[1]); };
  auto call = [&](const std::string& name) {
    std::string list;
    for (const std::string& x : a) list += (list.empty() ? "" : ", ") + x;
    return fmt::format("{}({})", name, list);
  };
  switch (s.op) {
    case Op::add: return infix("+");
    case Op::sub: return infix("-");
    case Op::mul: return infix("*");
    case Op::div: return infix("/");
    case Op::floor_div: return call("floor_div");
    case Op::mod: return call("floor_mod");
    case Op::min: return call("minimum");
    case Op::max: return call("maximum");
    case Op::pow: return call("pow" + f);
    case Op::neg: return "-" + a[0];
    case Op::abs: return real ? call("fabs" + f) : call("abs");
    case Op::sign: return fmt::format("{0} > 0 ? 1 : {0} < 0 ? -1 : {0}", a[0]);
    case Op::floor: return call("floor" + f);
    case Op::ceil: return call("ceil" + f);
    case Op::round: return call("rint" + f);
    case Op::trunc: return call("trunc" + f);
    case Op::exp: return call("exp" + f);
    case Op::log: return call("log" + f);
    case Op::sqrt: return call("sqrt" + f);
    case Op::tanh: return call("tanh" + f);
    case Op::erf: return call("erf" + f);
    case Op::sin: return call("sin" + f);
    case Op::cos: return call("cos" + f);
    case Op::tan: return call("tan" + f);
    case Op::asin: return call("asin" + f);
    case Op::acos: return call("acos" + f);
    case Op::atan: return call("atan" + f);
    case Op::sinh: return call("sinh" + f);
    case Op::cosh: return call("cosh" + f);
    case Op::asinh: return call("asinh" + f);
    case Op::acosh: return call("acosh" + f);
    case Op::atanh: return call("atanh" + f);
    case Op::eq: return infix("==");
    case Op::ne: return infix("!=");
    case Op::lt: return infix("<");
    case Op::le: return infix("<=");
    case Op::gt: return infix(">");
    case Op::ge: return infix(">=");
    case Op::logical_and: return infix("&&");
    case Op::logical_or: return infix("||");
    case Op::logical_not: return "!" + a[0];
    case Op::bit_and: return infix("&");
    case Op::bit_or: return infix("|");
    case Op::bit_xor: return infix("^");
    case Op::bit_not: return "~" + a[0];
    case Op::shift_left: return call("shift_left");
    case Op::shift_right: return call("shift_right");
    case Op::is_nan: return fmt::format("{0} != {0}", a[0]);
    case Op::is_inf: return fmt::format("fabs{}({}) == inf{}()", f, a[0], operand == DType::f64 ? 64 : 32);
    case Op::select: return fmt::format("{} ? {} : {}", a[0], a[1], a[2]);
    default: break;
  }
  TW_ASSERT(!"an operator without a CUDA form");
  return {};
}

std::string ScalarSource::node(const ScalarRef& s) {
  if (const auto it = known_.find(s.get()); it != known_.end()) return it->second;
  std::string name;
  switch (s->op) {
    case Op::constant:
      if (const double* v = std::get_if<double>(&s->leaf)) name = literal(*v, s->dtype);
      else name = literal(std::get<std::int64_t>(s->leaf), s->dtype);
      name = "(" + name + ")";
      break;
    case Op::axis: name = fmt::format("{}({})", type_of(s->dtype), axes_[static_cast<std::size_t>(std::get<AxisId>(s->leaf))]); break;
    case Op::size: name = literal(std::get<Size>(s->leaf).constant(), s->dtype); break;
    case Op::read: name = read(std::get<Access>(s->leaf)); break;
    case Op::cast: {
      const DType from = compute_type(s->args[0]->dtype);
      if (std::string apart = s->dtype == DType::f32 && !is_float(from) ? float_of_places(s->args[0]) : ""; !apart.empty()) {
        name = temporary("float", apart);
        break;
      }
      name = temporary(type_of(s->dtype), rounded(node(s->args[0]), from, s->dtype));
      break;
    }
    default: {
      if (approximate && compute_type(s->dtype) == DType::f32) {
        if (std::string fast = fast_form(*s); !fast.empty()) {
          name = temporary(type_of(s->dtype), fast);
          break;
        }
      }
      std::vector<std::string> args;
      unsure_ += s->op == Op::select;
      for (const ScalarRef& a : s->args) args.push_back(node(a));
      unsure_ -= s->op == Op::select;
      const DType operand = compute_type(s->args.back()->dtype);
      name = temporary(type_of(s->dtype), operation(*s, args, operand));
    }
  }
  return known_[s.get()] = name;
}

// An integer of axes as what a thread's points share and what is a constant of each, and a bound of it.
std::optional<ScalarSource::Spread> ScalarSource::spread(const ScalarRef& s) {
  double v = 0;
  if (is_literal(s, &v)) return Spread{{fmt::format("{}", static_cast<std::int64_t>(v)), "0"}, static_cast<std::int64_t>(std::abs(v))};
  if (s->op == Op::size) return spread(integer(std::get<Size>(s->leaf).constant(), DType::i64));
  if (s->op == Op::axis) {
    const auto a = static_cast<std::size_t>(std::get<AxisId>(s->leaf));
    return Spread{places[a], points_.extent[a] + 1024};
  }
  if (s->op == Op::cast && !is_float(s->dtype) && s->dtype != DType::boolean && bytes_of(s->dtype) >= 4) return spread(s->args[0]);
  if (s->op != Op::add && s->op != Op::sub) return std::nullopt;
  const auto a = spread(s->args[0]), b = spread(s->args[1]);
  if (!a || !b) return std::nullopt;
  const char* op = s->op == Op::add ? "+" : "-";
  return Spread{{fmt::format("({} {} ({}))", a->place.base, op, b->place.base), fmt::format("({} {} ({}))", a->place.offset, op, b->place.offset)}, a->largest + b->largest};
}
std::string ScalarSource::float_of_places(const ScalarRef& s) {
  const auto sum = places.empty() ? std::nullopt : spread(s);
  return sum && sum->largest < (1 << 23) ? fmt::format("float({}) + float({})", sum->place.base, sum->place.offset) : "";
}

// exp(a*c - b*c) by the special unit: one multiply-add in front of it, with the factor of its base.
std::string ScalarSource::fast_exponential(const ScalarRef& x) {
  auto scaled = [](const ScalarRef& s, double& by) -> ScalarRef {
    if (s->op == Op::mul && is_literal(s->args[1], &by)) return s->args[0];
    if (s->op == Op::mul && is_literal(s->args[0], &by)) return s->args[1];
    by = 1;
    return s;
  };
  double left = 1, right = 1;
  if (x->op == Op::sub) {
    const ScalarRef a = scaled(x->args[0], left), b = scaled(x->args[1], right);
    if (left == right) return fmt::format("exp_difference({}, {}, {})", node(a), node(b), literal(left * 1.4426950408889634, DType::f32));
    return fmt::format("exp_difference({}, {}, 1.44269504f)", node(x->args[0]), node(x->args[1]));
  }
  const ScalarRef a = scaled(x, left);
  return fmt::format("exp_fast({}, {})", node(a), literal(left * 1.4426950408889634, DType::f32));
}

// Divisions by constants as products.
std::string ScalarSource::fast_form(const Scalar& s) {
  if (s.op == Op::exp) return fast_exponential(s.args[0]);
  double by = 0;
  if (s.op == Op::div && is_literal(s.args[1], &by) && by != 0 && std::isfinite(1 / by)) return fmt::format("{} * ({})", node(s.args[0]), literal(1 / by, DType::f32));
  if (s.op == Op::div) return fmt::format("divide_fast({}, {})", node(s.args[0]), node(s.args[1]));
  return {};
}

std::string ScalarSource::value(const ScalarRef& body, StatementId id) {
  const auto& image = points_.region.image[static_cast<std::size_t>(points_.region.position(id))];
  const ScalarRef over_points = substitute(p_, body, image);
  alive_.push_back(over_points);
  const bool left_out = p_.statement(id)->guard != nullptr, given = approximate;
  const DType made = p_.tensor(p_.statement(id)->out).dtype;
  approximate = given || made == DType::f16 || made == DType::bf16;
  unsure_ += left_out;
  std::string name = node(over_points);
  unsure_ -= left_out;
  approximate = given;
  return name;
}

}  // namespace tilewright::cuda
