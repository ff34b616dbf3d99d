#include "onnx/context.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "expr/sizes.h"
#include "support/error.h"

namespace tilewright::onnx {
namespace {

// The program inputs and long constants that a tensor is computed from, found by walking back through its producers.
void collect_sources(const Program& p, const KnownTensors& known, TensorId t, std::set<TensorId>& seen,
                     std::vector<std::string>& names) {
  if (known.contains(t) || !seen.insert(t).second) return;
  const tilewright::Tensor& tensor = p.tensor(t);
  if (tensor.kind != Kind::intermediate) {
    names.push_back(tensor.name);
    return;
  }
  for (const auto& node : p.nodes) {
    if (auto s = std::get_if<Statement>(&node)) {
      if (s->out != t) continue;
      for_each_access(*s, [&](const Access& a) { collect_sources(p, known, a.tensor, seen, names); });
    } else {
      const auto& o = std::get<Opaque>(node);
      if (std::find(o.out.begin(), o.out.end(), t) == o.out.end()) continue;
      for (TensorId in : o.in) collect_sources(p, known, in, seen, names);
    }
  }
}

} // namespace

// ---------------------------------------------------------------------------------------------------- weights

TensorId Importing::weight(const Tensor& t, const std::string& name) {
  if (!t.dtype) {
    throw Error(Code::unsupported, name, fmt::format("a constant of {} elements", element_name(t.element)));
  }
  std::size_t need = static_cast<std::size_t>(t.count) * bytes_of(*t.dtype);
  if (t.bytes.size() != need) {
    throw Error(Code::model, name,
                fmt::format("{} bytes of data for {} elements of {}", t.bytes.size(), t.count, name_of(*t.dtype)));
  }
  const TensorId id = builder.tensor(name, *t.dtype, {t.dims.begin(), t.dims.end()}, Kind::weight);
  program.tensor(id).data = t.bytes;      // where they lie in the file, at any address
  program.tensor(id).owner = t.owner;
  if (t.count <= (is_float(*t.dtype) ? known_floats : known_limit)) known[id] = decode(*t.dtype, t.bytes, t.count);
  return id;
}

// ---------------------------------------------------------------------------------------------------- the node

Context::Context(Importing& importing, const Node& node, std::string label, int opset)
    : importing_(importing), node_(node), label_(std::move(label)), opset_(opset) {
  importing_.builder.place = tilewright::Place{0, 0, label_};
}

void Context::unsupported(const std::string& what, const std::string& hint) const {
  throw Error(Code::unsupported, label_, what, hint);
}

void Context::fail(Code code, const std::string& message, const std::string& hint) const {
  throw Error(code, label_, fmt::format("{}: {}", node_.op_type, message), hint);
}

// ---------------------------------------------------------------------------------------------------- inputs

int Context::inputs() const {
  std::size_t n = node_.inputs.size();
  while (n > 0 && node_.inputs[n - 1].empty()) --n;
  return static_cast<int>(n);
}

bool Context::has(int i) const {
  read_inputs_.insert(i);
  return i >= 0 && static_cast<std::size_t>(i) < node_.inputs.size() &&
         !node_.inputs[static_cast<std::size_t>(i)].empty();
}

TensorId Context::input(int i) const {
  if (!has(i)) fail(Code::model, fmt::format("input {} is missing", i));
  return importing_.values.at(std::string(node_.inputs[static_cast<std::size_t>(i)]));
}

std::vector<Size> Context::dims(TensorId t) const { return importing_.program.tensor(t).dims; }
DType Context::dtype(TensorId t) const { return importing_.program.tensor(t).dtype; }
int Context::rank(TensorId t) const { return static_cast<int>(importing_.program.tensor(t).dims.size()); }

int Context::axis(std::int64_t given, int rank) const {
  if (given < -rank || given >= rank) fail(Code::shape, fmt::format("axis {} of a tensor of rank {}", given, rank));
  return static_cast<int>(given < 0 ? given + rank : given);
}

std::vector<int> Context::axes(const std::vector<std::int64_t>& given, int rank) const {
  std::vector<int> result;
  for (std::int64_t a : given) {
    int own = axis(a, rank);
    if (std::find(result.begin(), result.end(), own) != result.end())
      fail(Code::shape, fmt::format("axis {} twice", own));
    result.push_back(own);
  }
  return result;
}

// ---------------------------------------------------------------------------------------------------- known elements

const Elements* Context::known(TensorId t) const {
  auto found = importing_.known.find(t);
  return found == importing_.known.end() ? nullptr : &found->second;
}

void Context::refuse_unknown(TensorId t) const {
  std::set<TensorId> seen;
  std::vector<std::string> names;
  collect_sources(importing_.program, importing_.known, t, seen, names);
  const std::string& tensor = importing_.program.tensor(t).name;
  if (names.empty()) unsupported(fmt::format("its shape needs '{}', which is no size expression", tensor));
  unsupported(fmt::format("its shape depends on the values of input '{}'", fmt::join(names, "', '")));
}

std::vector<Size> Context::sizes(TensorId t) const {
  if (is_float(dtype(t)))
    fail(Code::type, fmt::format("'{}' is {}, integers are needed", program_tensor(t).name, name_of(dtype(t))));
  const Elements* e = known(t);
  if (!e) refuse_unknown(t);
  std::vector<Size> result;
  for (const Element& x : *e) result.push_back(x.size);
  return result;
}

std::vector<std::int64_t> Context::integers(TensorId t) const {
  std::vector<std::int64_t> result;
  for (const Size& s : sizes(t)) {
    if (!s.is_constant()) {
      unsupported(fmt::format("'{}' must be constant and is {}", program_tensor(t).name, s.text()), fix_hint({s}));
    }
    result.push_back(s.constant());
  }
  return result;
}

std::vector<double> Context::reals(TensorId t) const {
  const Elements* e = known(t);
  if (!e) refuse_unknown(t);
  std::vector<double> result;
  for (const Element& x : *e) {
    if (!x.is_constant())
      unsupported(fmt::format("'{}' must be constant and depends on a size", program_tensor(t).name),
                  fix_hint({x.size, x.over}));
    result.push_back(x.real ? *x.real
                            : static_cast<double>(x.size.constant()) / static_cast<double>(x.over.constant()));
  }
  return result;
}

std::int64_t Context::fixed(const Size& s, std::string_view what) const {
  if (!s.is_constant()) fail(Code::shape, fmt::format("{} is {}, a number is wanted", what, s.text()), fix_hint({s}));
  return s.constant();
}

void Context::need_one_element(TensorId t) const {
  if (count_of(dims(t)) != Size(1))
    fail(Code::shape, fmt::format("'{}' of shape {}, one element is wanted", program_tensor(t).name, text_of(dims(t))));
}

Size Context::size(TensorId t) const {
  need_one_element(t);
  return sizes(t)[0];
}

std::int64_t Context::integer_of(TensorId t) const {
  need_one_element(t);
  return integers(t)[0];
}

double Context::real_of(TensorId t) const {
  need_one_element(t);
  return reals(t)[0];
}

Interval Context::range(const Size& s) const { return s.range(ranges_of(importing_.program)); }

bool Context::assume_at_most(const Size& a, const Size& b) {
  Size room = b - a;
  if (range(room).low >= 0) return true;
  // room = k * symbol + c: the symbol is bounded from one side.
  if (room.terms().size() != 1 || room.terms()[0].atoms.size() != 1) return false;
  std::vector<std::string> names;
  room.collect_symbols(names);
  std::int64_t k = room.terms()[0].coefficient, c = room.offset();
  if (names.size() != 1 || room != Size(k) * Size::symbol(names[0]) + c) return false;
  for (SizeDecl& decl : program().sizes) {
    if (decl.name != names[0]) continue;
    Interval tight = decl.range;
    if (k < 0)
      tight.high = std::min(tight.high, floor_div_i64(c, -k));
    else
      tight.low = std::max(tight.low, ceil_div_i64(-c, k));
    if (tight.low > tight.high) return false;
    decl.range = tight;
    decl.ranged = true;
    return true;
  }
  return false;
}

TensorId Context::constant(const std::string& hint, DType d, std::vector<Size> dims, Elements elements) {
  TensorId t;
  if (std::all_of(elements.begin(), elements.end(), [](const Element& e) { return e.is_constant(); })) {
    std::vector<std::int64_t> extents;
    for (const Size& s : dims) extents.push_back(s.constant());
    t = builder().weight(hint, d, extents, encode(d, elements));
  } else {
    t = builder().tensor(hint, d, dims);
    for (std::size_t i = 0; i < elements.size(); ++i) {
      std::vector<Index> at = unravel(constant_index(static_cast<std::int64_t>(i)), dims);
      builder().piece(t, at, {}, literal(elements[i], d), Reducer::none, {}, nullptr, std::string(node_.op_type));
    }
  }
  if (elements.size() <= static_cast<std::size_t>(known_limit)) importing_.known[t] = std::move(elements);
  return t;
}

// ---------------------------------------------------------------------------------------------------- attributes

const Attribute* Context::find(std::string_view name) const {
  read_.emplace(name);
  return find_attribute(node_, name);
}

namespace {

template <class T> const T* value_of(const Context& c, const Attribute* a) {
  if (!a) return nullptr;
  auto v = std::get_if<T>(&a->value);
  if (!v) c.fail(Code::model, fmt::format("attribute {} is {}", a->name, kind_name(a->kind)));
  return v;
}

template <class T> T required(const Context& c, std::string_view name, std::optional<T> otherwise) {
  if (!otherwise) c.fail(Code::model, fmt::format("attribute {} is missing", name));
  return *std::move(otherwise);
}

} // namespace

bool Context::has_attr(std::string_view name) const { return find_attribute(node_, name) != nullptr; }

std::int64_t Context::int_attr(std::string_view name, std::optional<std::int64_t> otherwise) const {
  auto v = value_of<std::int64_t>(*this, find(name));
  return v ? *v : required(*this, name, otherwise);
}

double Context::real_attr(std::string_view name, std::optional<double> otherwise) const {
  auto v = value_of<float>(*this, find(name));
  return v ? static_cast<double>(*v) : required(*this, name, otherwise);
}

std::string Context::text_attr(std::string_view name, std::optional<std::string> otherwise) const {
  auto v = value_of<std::string_view>(*this, find(name));
  return v ? std::string(*v) : required(*this, name, std::move(otherwise));
}

std::vector<std::int64_t> Context::ints_attr(std::string_view name,
                                             std::optional<std::vector<std::int64_t>> otherwise) const {
  auto v = value_of<std::vector<std::int64_t>>(*this, find(name));
  return v ? *v : required(*this, name, std::move(otherwise));
}

std::vector<double> Context::reals_attr(std::string_view name, std::optional<std::vector<double>> otherwise) const {
  auto v = value_of<std::vector<float>>(*this, find(name));
  return v ? std::vector<double>(v->begin(), v->end()) : required(*this, name, std::move(otherwise));
}

std::vector<std::string> Context::texts_attr(std::string_view name,
                                             std::optional<std::vector<std::string>> otherwise) const {
  auto v = value_of<std::vector<std::string_view>>(*this, find(name));
  return v ? std::vector<std::string>(v->begin(), v->end()) : required(*this, name, std::move(otherwise));
}

const Tensor* Context::tensor_attr(std::string_view name) const {
  auto v = value_of<std::shared_ptr<const Tensor>>(*this, find(name));
  return v ? v->get() : nullptr;
}

std::vector<int> Context::unread_inputs() const {
  std::vector<int> result;
  for (int i = 0; i < inputs(); ++i) {
    if (!node_.inputs[static_cast<std::size_t>(i)].empty() && !read_inputs_.contains(i)) result.push_back(i);
  }
  return result;
}

void Context::ignore_attr(std::string_view name) const { read_.emplace(name); }

std::vector<std::string> Context::unread_attributes() const {
  std::vector<std::string> result;
  for (const Attribute& a : node_.attributes) {
    if (!read_.contains(a.name)) result.emplace_back(a.name);
  }
  return result;
}

// ---------------------------------------------------------------------------------------------------- statements

std::string Context::name(int output) const {
  auto k = static_cast<std::size_t>(output);
  std::string own = k < node_.outputs.size() && !node_.outputs[k].empty() ? std::string(node_.outputs[k])
                                                                          : fmt::format("{}.{}", label_, output);
  return importing_.prefix + own;
}

std::string Context::name(const std::string& part) const { return name(0) + "." + part; }

ScalarRef Context::read(TensorId t, std::vector<Index> at, ScalarRef otherwise) {
  if (at.size() != dims(t).size())
    fail(Code::shape,
         fmt::format("'{}' has shape {}, {} dims are wanted", program_tensor(t).name, text_of(dims(t)), at.size()));
  if (const Elements* e = known(t); e && e->size() == 1 && !otherwise) return literal(e->front(), dtype(t));
  return builder().read(t, std::move(at), std::move(otherwise));
}

Index Context::element_index(TensorId t, std::vector<Index> at) {
  if (at.size() != dims(t).size())
    fail(Code::shape,
         fmt::format("'{}' has shape {}, {} dims are wanted", program_tensor(t).name, text_of(dims(t)), at.size()));
  Index index = constant_index(0);
  index.terms.push_back({1, std::make_shared<const Access>(Access{t, std::move(at), nullptr})});
  return index;
}

// i below zero becomes i + extent, without a choice: i - extent * (i // 2^62), whose quotient is -1 or 0.
Index Context::gather_index(TensorId t, std::vector<Index> at, const Size& extent) {
  Index element = element_index(t, std::move(at));
  if (const Elements* e = known(t)) {
    for (const Element& x : *e) {
      if (x.is_constant() && extent.is_constant() &&
          (x.size.constant() < -extent.constant() || x.size.constant() >= extent.constant()))
        fail(Code::bounds, fmt::format("index {} into {} elements", x.size.text(), extent.text()));
    }
    auto inside = [](const Element& x) { return x.size.range().low >= 0; };
    if (e->size() == 1) return constant_index(inside(e->front()) ? e->front().size : e->front().size + extent);
    if (std::all_of(e->begin(), e->end(), inside)) return element;
  }
  return element - extent * floor_div(element, Size(std::int64_t{1} << 62));
}

ScalarRef Context::read_broadcast(TensorId t, const std::vector<Size>& out) {
  if (broadcast(*this, dims(t), out) != out) {
    fail(Code::shape, fmt::format("'{}' of shape {} does not broadcast to {}", program_tensor(t).name, text_of(dims(t)),
                                  text_of(out)));
  }
  return read(t, broadcast_index(dims(t), out, axis_indices(static_cast<int>(out.size()))));
}

void Context::check_dims(const std::vector<Size>& dims) const {
  std::int64_t count = 1;
  for (const Size& s : dims) {
    if (s.range().high < 0) fail(Code::shape, fmt::format("a negative extent: {}", text_of(dims)));
    if (s.is_constant() && s.constant() > 0) count = checked_mul(count, s.constant());
  }
}

TensorId Context::map(const std::string& hint, DType d, std::vector<Size> dims, ScalarRef body, ScalarRef guard) {
  return reduce(hint, d, std::move(dims), std::move(body), Reducer::none, {}, std::move(guard));
}

TensorId Context::reduce(const std::string& hint, DType d, std::vector<Size> axes, ScalarRef body, Reducer reducer,
                         std::vector<AxisId> reduced, ScalarRef guard) {
  check_dims(axes);
  TensorId t = builder().statement(hint, d, std::move(axes), std::move(body), reducer, std::move(reduced),
                                   std::move(guard), std::string(node_.op_type));
  settle(t);
  return t;
}

TensorId Context::tensor(const std::string& hint, DType d, std::vector<Size> dims) {
  check_dims(dims);
  return builder().tensor(hint, d, std::move(dims));
}

void Context::piece(TensorId out, std::vector<Index> at, std::vector<Size> axes, ScalarRef body, Reducer reducer,
                    std::vector<AxisId> reduced, ScalarRef guard) {
  builder().piece(out, std::move(at), std::move(axes), std::move(body), reducer, std::move(reduced), std::move(guard),
                  std::string(node_.op_type));
  settle(out);
}

// Folds the statement just added where all it reads is known. A tensor of several pieces is known once all its elements
// are.
void Context::settle(TensorId out) {
  const auto& s = std::get<Statement>(program().nodes.back());
  const tilewright::Tensor& tensor = program().tensor(out);
  std::int64_t count = 1;
  for (const Size& extent : tensor.dims) {
    if (!extent.is_constant() || extent.constant() > known_limit) return;
    count *= extent.constant();
    if (count > known_limit) return;
  }
  bool all = true;
  for_each_access(s, [&](const Access& a) { all = all && importing_.known.contains(a.tensor); });
  if (!all) return;
  auto elements = fold(program(), importing_.known, s);
  if (!elements) return;
  auto& partial = importing_.partial[out];
  partial.resize(static_cast<std::size_t>(count));
  std::vector<AxisId> parallel = parallel_axes(s);
  std::vector<std::int64_t> at(s.axes.size(), 0);
  for (std::size_t i = 0; i < elements->size(); ++i) {
    auto rest = static_cast<std::int64_t>(i);
    for (std::size_t k = parallel.size(); k-- > 0;) {
      auto a = static_cast<std::size_t>(parallel[k]);
      at[a] = rest % s.axes[a].constant();
      rest /= s.axes[a].constant();
    }
    std::int64_t linear = 0;
    for (std::size_t dim = 0; dim < s.at.size(); ++dim) {
      auto p = fold(program(), importing_.known, s.at[dim], at);
      if (!p) return;
      linear = linear * tensor.dims[dim].constant() + *p;
    }
    partial[static_cast<std::size_t>(linear)] = (*elements)[i];
  }
  if (!std::all_of(partial.begin(), partial.end(), [](const auto& e) { return e.has_value(); })) return;
  Elements whole;
  for (auto& e : partial) whole.push_back(*e);
  importing_.known[out] = std::move(whole);
  importing_.partial.erase(out);
}

void Context::opaque(const std::string& op, std::vector<TensorId> in, std::vector<TensorId> out, Reference reference) {
  program().nodes.push_back(Opaque{op, std::move(in), std::move(out),
                                   std::make_shared<const Reference>(std::move(reference)),
                                   tilewright::Place{0, 0, label_}});
}

void Context::counted(TensorId t, int dim, TensorId count) {
  importing_.counted.try_emplace(t, dims(t).size(), -1).first->second.at(static_cast<std::size_t>(dim)) = count;
}

std::vector<TensorId> Context::counts(TensorId t) const {
  auto found = importing_.counted.find(t);
  return found == importing_.counted.end() ? std::vector<TensorId>(dims(t).size(), -1) : found->second;
}

// ---------------------------------------------------------------------------------------------------- outputs

int Context::outputs() const { return static_cast<int>(node_.outputs.size()); }

bool Context::wants(int k) const { return k < outputs() && !node_.outputs[static_cast<std::size_t>(k)].empty(); }

void Context::output(int k, TensorId t) {
  if (wants(k)) importing_.values[std::string(node_.outputs[static_cast<std::size_t>(k)])] = t;
}

} // namespace tilewright::onnx
