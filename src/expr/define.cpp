#include "expr/define.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "support/error.h"

namespace tilewright::define {

namespace {

constexpr std::array<std::string_view, 7> names{"mean",      "logsumexp", "softmax", "log_softmax",
                                                "layernorm", "rmsnorm",   "l2norm"};

// An access that costs nothing to repeat: affine indices, inside.
bool is_plain(const ScalarRef& s) {
  auto* access = std::get_if<Access>(&s->leaf);
  return access && !access->otherwise && std::all_of(access->at.begin(), access->at.end(), is_affine);
}

class Expansion {
public:
  Expansion(Builder& build, Reduction kind, const Form& form)
      : build_(build), form_(form), label_(define::name_of(kind)) {
    TW_ASSERT(form.names.empty() || form.names.size() == form.axes.size());
    for (AxisId a = 0; a < static_cast<AxisId>(form.axes.size()); ++a) {
      all_.push_back(a);
      if (std::find(form.over.begin(), form.over.end(), a) == form.over.end()) kept_.push_back(a);
    }
    type_ = form.body->dtype == DType::f64 ? DType::f64 : DType::f32;
    body_ = is_float(form.body->dtype) ? form.body : cast(form.body, type_);
    if (form.guard) guard_ = cast(form.guard, DType::boolean);
    if (!is_plain(form.body)) body_ = everywhere("body", body_);
  }

  Map run(Reduction kind, double eps) {
    switch (kind) {
    case Reduction::mean: return reduced(mean("", body_, kept_positions()));
    case Reduction::logsumexp: return logsumexp();
    case Reduction::softmax: return softmax();
    case Reduction::log_softmax: return log_softmax();
    case Reduction::layernorm: {
      const ScalarRef centred = binary(Op::sub, body_, mean("mean", body_, kept_));
      return whole(binary(Op::div, centred, root(mean("variance", square(centred), kept_), eps)));
    }
    case Reduction::rmsnorm: return whole(binary(Op::div, body_, root(mean("square", square(body_), kept_), eps)));
    case Reduction::l2norm: break;
    }
    const ScalarRef length = unary(Op::sqrt, statistic("sum", Reducer::sum, square(body_), kept_));
    return whole(binary(Op::div, body_, binary(Op::max, length, number(eps, type_))));
  }

private:
  Builder& build_;
  const Form& form_;
  std::string label_;
  std::vector<AxisId> all_, kept_;
  DType type_;
  ScalarRef body_, guard_;

  // ---- statements

  std::string hint(const std::string& suffix) const {
    const std::string base = form_.hint.empty() ? label_ : form_.hint;
    return suffix.empty() ? base : base + "_" + suffix;
  }

  TensorId add(const std::string& suffix, const ScalarRef& body, Reducer reducer, const ScalarRef& guard) {
    const auto over = reducer == Reducer::none ? std::vector<AxisId>{} : form_.over;
    const TensorId t = build_.statement(hint(suffix), type_, form_.axes, body, reducer, over, guard, label_);
    if (!form_.names.empty()) std::get<Statement>(build_.program().nodes.back()).names = form_.names;
    return t;
  }

  ScalarRef read_at(TensorId t, const std::vector<AxisId>& axes) {
    std::vector<Index> at;
    for (AxisId a : axes) at.push_back(axis_index(a));
    return build_.read(t, std::move(at));
  }

  // A map over all axes, read at the same point.
  ScalarRef everywhere(const std::string& suffix, const ScalarRef& body) {
    return read_at(add(suffix, body, Reducer::none, guard_), all_);
  }

  // A reduction over the live points, read by the axes `at`: kept_ beside the form's axes, their positions where only
  // they are left.
  ScalarRef statistic(const std::string& suffix, Reducer reducer, const ScalarRef& body,
                      const std::vector<AxisId>& at) {
    return read_at(add(suffix, body, reducer, guard_), at);
  }

  std::vector<AxisId> kept_positions() const {
    return {all_.begin(), all_.begin() + static_cast<std::ptrdiff_t>(kept_.size())};
  }

  Map whole(ScalarRef body) const { return {form_.axes, form_.names, std::move(body), guard_}; }

  Map reduced(ScalarRef body) const {
    Map map{{}, {}, std::move(body), nullptr};
    for (AxisId a : kept_) {
      map.axes.push_back(form_.axes[static_cast<std::size_t>(a)]);
      if (!form_.names.empty()) map.names.push_back(form_.names[static_cast<std::size_t>(a)]);
    }
    return map;
  }

  // ---- definitions

  ScalarRef root(const ScalarRef& x, double eps) const {
    return unary(Op::sqrt, binary(Op::add, x, number(eps, type_)));
  }

  // Over the live points: where there is a guard they are counted.
  ScalarRef mean(const std::string& what, const ScalarRef& body, const std::vector<AxisId>& at) {
    const std::string prefix = what.empty() ? "" : what + "_";
    const ScalarRef sum = statistic(prefix + "sum", Reducer::sum, body, at);
    if (guard_) {
      const ScalarRef count = statistic(prefix + "count", Reducer::sum, number(1, type_), at);
      return binary(Op::div, sum, binary(Op::max, count, number(1, type_)));
    }
    Size count = 1;
    for (AxisId a : form_.over) count = count * form_.axes[static_cast<std::size_t>(a)];
    return binary(Op::div, sum, cast(size_value(count, DType::i64), type_));
  }

  ScalarRef shifted(const ScalarRef& most) const { return binary(Op::sub, body_, most); }

  Map logsumexp() {
    const TensorId most = add("max", body_, Reducer::max, guard_);
    const ScalarRef power = unary(Op::exp, shifted(read_at(most, kept_)));
    const ScalarRef sum = statistic("sum", Reducer::sum, power, kept_positions());
    return reduced(binary(Op::add, read_at(most, kept_positions()), unary(Op::log, sum)));
  }

  // The largest live point contributes 1 to the sum; where no point is live the guard fails everywhere.
  Map softmax() {
    const ScalarRef most = statistic("max", Reducer::max, body_, kept_);
    const ScalarRef power = everywhere("exp", unary(Op::exp, shifted(most)));
    const ScalarRef sum = statistic("sum", Reducer::sum, power, kept_);
    return whole(binary(Op::div, power, sum));
  }

  Map log_softmax() {
    const ScalarRef distance = shifted(statistic("max", Reducer::max, body_, kept_));
    const ScalarRef sum = statistic("sum", Reducer::sum, unary(Op::exp, distance), kept_);
    const ScalarRef value = binary(Op::sub, distance, unary(Op::log, sum));
    Map map = whole(guard_ ? select(guard_, value, number(-INFINITY, type_)) : value);
    map.guard = nullptr;
    return map;
  }
};

} // namespace

std::optional<Reduction> reduction_named(std::string_view name) {
  const auto found = std::find(names.begin(), names.end(), name);
  if (found == names.end()) return std::nullopt;
  return static_cast<Reduction>(found - names.begin());
}

std::string_view name_of(Reduction r) { return names[static_cast<std::size_t>(r)]; }
bool keeps_axes(Reduction r) { return r != Reduction::mean && r != Reduction::logsumexp; }
bool takes_eps(Reduction r) { return r == Reduction::layernorm || r == Reduction::rmsnorm || r == Reduction::l2norm; }
double default_eps(Reduction r) { return r == Reduction::l2norm ? 1e-12 : 1e-5; }

Map prepare(Builder& build, Reduction kind, const Form& form, std::optional<double> eps) {
  TW_ASSERT(!form.over.empty() && form.body);
  return Expansion(build, kind, form).run(kind, eps.value_or(default_eps(kind)));
}

TensorId expand(Builder& build, Reduction kind, const Form& form, DType dtype, std::optional<double> eps) {
  Map last = prepare(build, kind, form, eps);
  const std::string label(name_of(kind));
  const TensorId t = build.statement(form.hint.empty() ? label : form.hint, dtype, last.axes, last.body, Reducer::none,
                                     {}, last.guard, label);
  if (!last.names.empty()) std::get<Statement>(build.program().nodes.back()).names = last.names;
  return t;
}

} // namespace tilewright::define
