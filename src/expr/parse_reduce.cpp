#include "expr/parse_reduce.h"

#include <algorithm>
#include <cmath>

#include "support/error.h"

namespace tilewright {

namespace {

ScalarRef plus(const ScalarRef& a, const ScalarRef& b) { return binary(Op::add, a, b); }
ScalarRef minus(const ScalarRef& a, const ScalarRef& b) { return binary(Op::sub, a, b); }
ScalarRef over(const ScalarRef& a, const ScalarRef& b) { return binary(Op::div, a, b); }
ScalarRef square(const ScalarRef& a) { return binary(Op::mul, a, a); }

class Expansion {
public:
  Expansion(Builder& build, Statement& s, const Definition& d, const std::vector<AxisId>& axes)
      : build_(build), s_(s), label_(d.name), axes_(axes), type_(s.body->dtype == DType::f64 ? DType::f64 : DType::f32),
        body_(cast(s.body, type_)), guard_(s.guard) {
    if (is_float(s.body->dtype)) body_ = s.body;
    for (const Index& index : s.at)
      for (const Index::Term& term : index.terms) all_.push_back(std::get<AxisId>(term.of));
    for (AxisId a : all_)
      if (std::find(axes_.begin(), axes_.end(), a) == axes_.end()) kept_.push_back(a);
  }

  void run(double eps) {
    if (label_ == "mean") return finish(mean("mean", body_), nullptr);
    if (label_ == "rmsnorm")
      return finish(over(body_, unary(Op::sqrt, plus(mean("mean", square(body_)), number(eps)))), guard_);
    if (label_ == "l2norm") {
      const ScalarRef length = unary(Op::sqrt, statistic("sum", Reducer::sum, square(body_)));
      return finish(over(body_, binary(Op::max, length, number(eps))), guard_);
    }
    if (label_ == "layernorm") {
      const ScalarRef centred = minus(body_, mean("mean", body_));
      return finish(over(centred, unary(Op::sqrt, plus(mean("variance", square(centred)), number(eps)))), guard_);
    }
    const ScalarRef most = statistic("max", Reducer::max, body_), shifted = minus(body_, most);
    if (label_ == "softmax") {
      const ScalarRef power = everywhere("exp", unary(Op::exp, shifted));
      return finish(over(power, statistic("sum", Reducer::sum, power)), guard_);
    }
    const ScalarRef log = unary(Op::log, statistic("sum", Reducer::sum, unary(Op::exp, shifted)));
    if (label_ == "logsumexp") return finish(plus(most, log), nullptr);
    const ScalarRef value = minus(shifted, log);
    finish(guard_ ? select(guard_, value, number(-INFINITY)) : value, nullptr);
  }

private:
  Builder& build_;
  Statement& s_;
  std::string label_;
  const std::vector<AxisId>& axes_;
  DType type_;
  ScalarRef body_, guard_;
  std::vector<AxisId> all_, kept_; // of the left side; those that the definition does not run over

  ScalarRef add(const std::string& suffix, const std::vector<AxisId>& left, Reducer reducer, const ScalarRef& body) {
    Statement t = s_;
    std::vector<Size> dims;
    std::vector<Index> at;
    for (AxisId a : left) {
      dims.push_back(s_.axes[static_cast<std::size_t>(a)]);
      at.push_back(axis_index(a));
    }
    t.out = build_.tensor(build_.program().tensor(s_.out).name + "_" + suffix, type_, dims);
    t.at = at;
    t.reducer = reducer;
    t.reduced = reducer == Reducer::none ? std::vector<AxisId>{} : axes_;
    t.body = body;
    t.label = label_;
    const TensorId out = t.out;
    build_.program().nodes.emplace_back(std::move(t));
    return build_.read(out, at);
  }

  ScalarRef statistic(const std::string& suffix, Reducer reducer, const ScalarRef& body) {
    return add(suffix, kept_, reducer, body);
  }
  ScalarRef everywhere(const std::string& suffix, const ScalarRef& body) {
    return add(suffix, all_, Reducer::none, body);
  }

  // Of the points that the guard lets through.
  ScalarRef mean(const std::string& suffix, const ScalarRef& body) {
    const ScalarRef total = statistic(suffix == "mean" ? "sum" : suffix + "_sum", Reducer::sum, body);
    if (guard_)
      return over(total,
                  binary(Op::max, statistic(suffix + "_count", Reducer::sum, number(1, type_)), number(1, type_)));
    Size count = 1;
    for (AxisId a : axes_) count = count * s_.axes[static_cast<std::size_t>(a)];
    return over(total, size_value(count));
  }

  // The statement itself becomes a map over the axes of its left side, which are its first ones.
  void finish(const ScalarRef& body, const ScalarRef& guard) {
    s_.body = body;
    s_.guard = guard;
    s_.label = label_;
    s_.reducer = Reducer::none;
    s_.reduced.clear();
    s_.axes.resize(all_.size());
    s_.names.resize(all_.size());
  }
};

} // namespace

Definition definition_named(std::string_view op) {
  for (int r = 1; r <= static_cast<int>(Reducer::argmin); ++r)
    if (name_of(static_cast<Reducer>(r)) == op)
      return {Definition::reducer, static_cast<Reducer>(r), std::string(op), false};
  return {Definition::expanded, Reducer::none, std::string(op), op != "mean" && op != "logsumexp"};
}

bool takes_keyword(const Definition& d, std::string_view keyword) {
  return keyword == "eps" && (d.name == "layernorm" || d.name == "rmsnorm" || d.name == "l2norm");
}

void expand(Builder& build, Statement& s, const Definition& d, const std::vector<AxisId>& over,
            const std::vector<std::pair<Token, double>>& keywords) {
  double eps = d.name == "l2norm" ? 1e-12 : 1e-5;
  for (const auto& keyword : keywords) eps = keyword.second;
  Expansion(build, s, d, over).run(eps);
}

} // namespace tilewright
