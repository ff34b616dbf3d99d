// What is done to a small model: each call of mutate() changes one thing in its graph, and `log` says what. Beside it,
// what is needed to run the program that comes of it.
#pragma once
#include <limits>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "expr/evaluate.h"
#include "onnx/operator_models.h"

namespace tilewright::onnx {

struct Mutator {
  OperatorModel& m;
  std::mt19937_64 random;
  std::string log;

  std::size_t below(std::size_t n) { return n == 0 ? 0 : random() % n; }
  bool one_in(int n) { return below(static_cast<std::size_t>(n)) == 0; }
  Graph& graph() { return m.model.graph; }
  Node& node() { return graph().nodes[0]; }
  template <class T> T* any_of(std::vector<T>& all) { return all.empty() ? nullptr : &all[below(all.size())]; }

  std::int64_t extreme() {
    static const std::int64_t values[] = {INT64_MIN,
                                          INT64_MAX,
                                          INT64_MAX - 1,
                                          INT32_MIN,
                                          INT32_MAX,
                                          std::int64_t{1} << 31,
                                          std::int64_t{1} << 40,
                                          -1,
                                          -2,
                                          -3,
                                          0,
                                          0,
                                          1,
                                          1,
                                          2,
                                          3,
                                          4,
                                          5,
                                          7,
                                          8,
                                          10,
                                          16,
                                          100,
                                          4096,
                                          100000};
    return values[below(std::size(values))];
  }
  double extreme_real() {
    static const double inf = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
    static const double values[] = {inf, -inf, nan, 0, -0.0, 1e-45, 3e38, -3e38, -1, 0.5, 1, 1.5, 2, 3, 1e9, 1e19};
    return values[below(std::size(values))];
  }
  int some_dtype() {
    static const int types[] = {1, 2, 3, 6, 7, 9, 10, 11, 16, 17, 19, 8, 5, 12, 21, 99};
    return types[below(one_in(5) ? std::size(types) : 9)];
  }

  // ---- inputs of the graph

  void input_dtype() {
    if (ValueInfo* v = any_of(graph().inputs)) v->type.element = some_dtype();
  }
  void all_dtypes() {
    int d = some_dtype();
    for (ValueInfo& v : graph().inputs) v.type.element = d;
    for (Tensor& t : graph().initializers)
      if (t.dtype && is_float(*t.dtype) && dtype_of_element(d))
        t.element = d, t.dtype = dtype_of_element(d), set_values(t, {});
  }
  void input_rank() {
    ValueInfo* v = any_of(graph().inputs);
    if (!v) return;
    auto& dims = v->type.dims;
    auto at = dims.begin() + static_cast<std::ptrdiff_t>(below(dims.size() + 1));
    switch (below(4)) {
    case 0: dims.insert(at, Dim{1 + static_cast<std::int64_t>(below(3)), {}}); break;
    case 1: dims.clear(); break;
    case 2: v->type.ranked = one_in(2); break;
    default:
      if (!dims.empty()) dims.erase(dims.begin() + static_cast<std::ptrdiff_t>(below(dims.size())));
    }
  }
  void input_dim() {
    ValueInfo* v = any_of(graph().inputs);
    Dim* d = v ? any_of(v->type.dims) : nullptr;
    if (!d) return;
    if (one_in(3))
      *d = Dim{-1, one_in(3) ? std::string_view() : one_in(2) ? "n" : one_in(2) ? "m" : "n + 1"};
    else
      *d = Dim{std::max<std::int64_t>(extreme(), 0), {}};
  }

  // ---- the node

  void attribute() {
    Attribute* a = any_of(node().attributes);
    if (!a) return;
    if (one_in(5)) {
      node().attributes.erase(node().attributes.begin() + (a - node().attributes.data()));
    } else if (auto i = std::get_if<std::int64_t>(&a->value)) {
      *i = extreme();
    } else if (auto r = std::get_if<float>(&a->value)) {
      *r = static_cast<float>(extreme_real());
    } else if (auto list = std::get_if<std::vector<std::int64_t>>(&a->value)) {
      if (std::int64_t* v = any_of(*list); v && !one_in(4))
        *v = extreme();
      else
        list->resize(below(6), 1);
    } else if (auto reals = std::get_if<std::vector<float>>(&a->value)) {
      if (float* v = any_of(*reals); v && !one_in(4))
        *v = static_cast<float>(extreme_real());
      else
        reals->resize(below(6), 1);
    } else {
      a->value = std::string_view(one_in(2) ? "" : one_in(2) ? "SAME_UPPER" : one_in(2) ? "ij->" : "edge");
    }
  }
  void attribute_kind() {
    Attribute* a = any_of(node().attributes);
    if (!a) return;
    switch (below(4)) {
    case 0: a->kind = Attribute::Kind::integer, a->value = extreme(); break;
    case 1: a->kind = Attribute::Kind::real, a->value = static_cast<float>(extreme_real()); break;
    case 2: a->kind = Attribute::Kind::integers, a->value = std::vector<std::int64_t>{extreme(), extreme()}; break;
    default: a->kind = Attribute::Kind::string, a->value = std::string_view("x");
    }
  }
  void inputs() {
    auto& in = node().inputs;
    std::string_view* v = any_of(in);
    switch (below(5)) {
    case 0:
      if (v) *v = "";
      break;
    case 1:
      if (v) in.erase(in.begin() + (v - in.data()));
      break;
    case 2:
      if (v) in.insert(in.begin() + (v - in.data()), *v);
      break;
    case 3:
      if (v) std::swap(*v, *any_of(in));
      break;
    default: in.push_back(v && one_in(2) ? *v : one_in(4) ? "nothing" : "");
    }
  }
  void outputs() {
    auto& out = node().outputs;
    switch (below(4)) {
    case 0: out.push_back("more"); break;
    case 1: out[below(out.size())] = ""; break;
    case 2:
      graph().outputs[below(graph().outputs.size())].type = Type{some_dtype(), true, {Dim{2, {}}, Dim{3, {}}}, {}};
      break;
    default: out.push_back("more"); graph().outputs.push_back({"more", Type{}});
    }
  }
  void version() {
    node().opset = one_in(4) ? extreme() % 100 : 7 + static_cast<std::int64_t>(below(22));
    m.model.opsets = {{"", node().opset}};
  }

  // ---- initializers

  void initializer_value() {
    Tensor* t = any_of(graph().initializers);
    if (!t || !t->dtype || t->count == 0) return;
    Array a = Array::make(*t->dtype, t->dims);
    if (a.bytes() != t->bytes.size()) return;
    std::memcpy(a.data, t->bytes.data(), a.bytes());
    auto i = static_cast<std::int64_t>(below(static_cast<std::size_t>(a.count())));
    is_float(a.dtype) ? put_real(a, i, extreme_real()) : put_integer(a, i, extreme());
    t->bytes = {a.data, a.bytes()};
    t->owner = a.owner;
  }
  void initializer_shape() {
    Tensor* t = any_of(graph().initializers);
    if (!t || !t->dtype) return;
    switch (below(3)) {
    case 0: t->dims.push_back(1 + static_cast<std::int64_t>(below(2))); break;
    case 1: t->dims.clear(); break;
    default:
      if (!t->dims.empty()) t->dims[below(t->dims.size())] = static_cast<std::int64_t>(below(5));
    }
    set_values(*t, {});
  }
  void initializer_dtype() {
    Tensor* t = any_of(graph().initializers);
    int d = some_dtype();
    if (!t || !dtype_of_element(d)) return;
    t->element = d, t->dtype = dtype_of_element(d);
    if (!one_in(4)) set_values(*t, {});
  }
  void initializer_bytes() {
    if (Tensor* t = any_of(graph().initializers)) t->bytes = t->bytes.first(below(t->bytes.size() + 1));
  }
  void initializer_unknown() {
    Tensor* t = any_of(graph().initializers);
    if (!t) return;
    Type type{t->element, true, {}, {}};
    for (std::int64_t d : t->dims) type.dims.push_back(Dim{d, {}});
    graph().inputs.push_back({t->name, type});
    graph().initializers.erase(graph().initializers.begin() + (t - graph().initializers.data()));
  }

  void mutate() {
    static const std::vector<std::pair<const char*, void (Mutator::*)()>> all = {
        {"input_dtype", &Mutator::input_dtype},
        {"all_dtypes", &Mutator::all_dtypes},
        {"input_rank", &Mutator::input_rank},
        {"input_dim", &Mutator::input_dim},
        {"input_dim", &Mutator::input_dim},
        {"attribute", &Mutator::attribute},
        {"attribute", &Mutator::attribute},
        {"attribute", &Mutator::attribute},
        {"attribute_kind", &Mutator::attribute_kind},
        {"inputs", &Mutator::inputs},
        {"outputs", &Mutator::outputs},
        {"version", &Mutator::version},
        {"initializer_value", &Mutator::initializer_value},
        {"initializer_value", &Mutator::initializer_value},
        {"initializer_shape", &Mutator::initializer_shape},
        {"initializer_dtype", &Mutator::initializer_dtype},
        {"initializer_bytes", &Mutator::initializer_bytes},
        {"initializer_unknown", &Mutator::initializer_unknown}};
    const auto& [name, function] = all[below(all.size())];
    log += std::string(" ") + name;
    (this->*function)();
  }
};

constexpr std::int64_t most_work = 2000000; // points of a statement, elements of a tensor: more is not evaluated

inline bool small(const Program& p, const Binding& sizes) {
  auto count = [&](const std::vector<Size>& dims) {
    double n = 1;
    for (const Size& d : dims) n *= static_cast<double>(std::max<std::int64_t>(d.at(sizes), 1));
    return n;
  };
  for (const auto& t : p.tensors)
    if (count(t.dims) > most_work) return false;
  for (const auto& n : p.nodes)
    if (auto s = std::get_if<Statement>(&n); s && count(s->axes) > most_work) return false;
  return true;
}

inline Binding small_sizes(const Program& p, std::mt19937_64& random) {
  Binding sizes;
  for (const SizeDecl& s : p.sizes)
    if (!s.value)
      sizes[s.name] = std::clamp<std::int64_t>(1 + static_cast<std::int64_t>(random() % 4), s.range.low, s.range.high);
  return sizes;
}

// Small numbers, indices of both signs among them.
inline Values inputs_of(const Program& p, const Binding& sizes, std::mt19937_64& random) {
  Values inputs;
  for (TensorId t : p.inputs) {
    std::vector<std::int64_t> dims;
    for (const Size& s : p.tensor(t).dims) dims.push_back(s.at(sizes));
    Array a = Array::make(p.tensor(t).dtype, dims);
    for (std::int64_t i = 0; i < a.count(); ++i) {
      auto v = static_cast<std::int64_t>(random() % 5) - 1;
      is_float(a.dtype) ? put_real(a, i, static_cast<double>(v) / 2) : put_integer(a, i, v);
    }
    inputs.emplace(t, a);
  }
  return inputs;
}

} // namespace tilewright::onnx
