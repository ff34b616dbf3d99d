#include "expr/evaluate.h"

#include "expr/evaluate_lanes.h"
#include "expr/evaluate_run.h"
#include "expr/results.h"
#include "expr/sizes.h"
#include "support/error.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <new>

namespace tilewright {

namespace {

using evaluator::Lane;

// ---- sizes

// A free size that is the whole of an input's dim has the value of the array's dim.
Binding sizes_of_shapes(const Program& p, const Values& inputs) {
  Binding found;
  for (const auto& [id, array] : inputs) {
    const std::vector<Size>& dims = p.tensor(id).dims;
    for (std::size_t d = 0; d < dims.size() && d < array.dims.size(); ++d) {
      std::vector<std::string> symbols;
      dims[d].collect_symbols(symbols);
      if (symbols.size() == 1 && dims[d] == Size::symbol(symbols[0])) found.emplace(symbols[0], array.dims[d]);
    }
  }
  return found;
}

Binding bind_sizes(const Program& p, const Values& inputs, const Binding& given) {
  Binding shapes = sizes_of_shapes(p, inputs), bound = given;
  for (const SizeDecl& size : p.sizes) {
    std::optional<std::int64_t> value;
    bool own = is_fixed(size) || is_derived(size);
    if (is_fixed(size))
      value = size.range.low;
    else if (is_derived(size))
      value = size.value->at(bound);
    else if (auto g = given.find(size.name); g != given.end())
      value = g->second;
    else if (auto s = shapes.find(size.name); s != shapes.end())
      value = s->second;
    else if (size.value)
      value = size.value->at(bound);
    if (!value) throw Error(Code::size, {}, fmt::format("size {} has no value", size.name), "bind it");
    if (auto g = given.find(size.name); own && g != given.end() && g->second != *value)
      throw Error(Code::size, {},
                  fmt::format("size {} is {}, not {}: it follows from others", size.name, *value, g->second));
    if (!own && (*value < size.range.low || *value > size.range.high))
      throw Error(
          Code::size, {},
          fmt::format("size {} = {} is outside its range {}..{}", size.name, *value, size.range.low, size.range.high));
    bound[size.name] = *value;
  }
  return bound;
}

std::vector<std::int64_t> dims_of(const Tensor& t, const Binding& binding) {
  std::vector<std::int64_t> dims;
  for (const Size& d : t.dims) {
    dims.push_back(d.at(binding));
    if (dims.back() < 0)
      throw Error(Code::size, {}, fmt::format("a dim of {} is {} = {}", t.name, d.text(), dims.back()));
  }
  return dims;
}

// ---- arrays

DType held(DType type, Evaluation mode) { return mode == Evaluation::fp64 && is_float(type) ? DType::f64 : type; }

Array converted(const Array& from, DType to) {
  if (from.dtype == to) return from;
  Array result = Array::make(to, from.dims);
  std::uint64_t chunk[evaluator::lanes];
  std::int64_t count = from.count();
  for (std::int64_t at = 0; at < count; at += evaluator::lanes) {
    int n = static_cast<int>(std::min<std::int64_t>(evaluator::lanes, count - at));
    evaluator::load(from.dtype, from.data, at, nullptr, nullptr, n, chunk);
    evaluator::store(to, result.data, at, nullptr, n, evaluator::lane_of(from.dtype), chunk);
  }
  return result;
}

// Bytes of a mapped file may lie anywhere; the evaluator reads elements.
Array aligned(const Array& a) {
  if (reinterpret_cast<std::uintptr_t>(a.data) % bytes_of(a.dtype) == 0) return a;
  Array copy = Array::make(a.dtype, a.dims);
  std::copy_n(a.data, a.bytes(), copy.data);
  return copy;
}

std::string shape(const std::vector<std::int64_t>& dims) {
  std::string text;
  for (std::int64_t d : dims) text += (text.empty() ? "" : " ") + std::to_string(d);
  return "[" + text + "]";
}

Array bytes_of_weight(const Tensor& t, std::vector<std::int64_t> dims) {
  auto* data = const_cast<std::byte*>(t.data.data()); // weights are only read
  Array a{t.dtype, std::move(dims), std::shared_ptr<std::byte[]>(t.owner, data), data};
  if (a.bytes() != t.data.size())
    throw Error(Code::input, {},
                fmt::format("weight {} has {} bytes, its shape {} of {} needs {}", t.name, t.data.size(), shape(a.dims),
                            name_of(t.dtype), a.bytes()));
  return a;
}

const Array& checked_input(const Tensor& t, const Array& given, const std::vector<std::int64_t>& dims,
                           Evaluation mode) {
  if (given.dims != dims)
    throw Error(Code::input, {},
                fmt::format("input {} has the shape {}, it must be {}", t.name, shape(given.dims), shape(dims)));
  if (given.dtype != t.dtype && given.dtype != held(t.dtype, mode))
    throw Error(Code::input, {},
                fmt::format("input {} is of type {}, it must be {}", t.name, name_of(given.dtype), name_of(t.dtype)));
  if (!given.data && given.count() > 0) throw Error(Code::input, {}, fmt::format("input {} has no data", t.name));
  return given;
}

Values bind_inputs(const Program& p, const Values& inputs, const Binding& binding, Evaluation mode) {
  Values values;
  auto bind = [&](TensorId id) {
    const Tensor& t = p.tensor(id);
    std::vector<std::int64_t> dims = dims_of(t, binding);
    auto given = inputs.find(id);
    Array array;
    if (given != inputs.end())
      array = checked_input(t, given->second, dims, mode);
    else if (t.kind == Kind::weight && t.data.data())
      array = bytes_of_weight(t, dims);
    else if (std::count(dims.begin(), dims.end(), 0) > 0)
      array = Array::make(t.dtype, dims);
    else
      throw Error(Code::input, {}, fmt::format("input {} is missing", t.name));
    values[id] = converted(aligned(array), held(t.dtype, mode));
  };
  for (TensorId id : p.inputs) bind(id);
  for (TensorId id = 0; id < static_cast<TensorId>(p.tensors.size()); ++id)
    if (p.tensor(id).kind != Kind::intermediate && !values.count(id)) bind(id);
  return values;
}

// All tensors are kept. What cannot fit is refused before hours are spent on it.
void check_memory(const Program& p, const Binding& binding, Evaluation mode) {
  double needed = 0;
  for (const Tensor& t : p.tensors) {
    if (t.kind != Kind::intermediate) continue;
    double bytes = static_cast<double>(bytes_of(held(t.dtype, mode)));
    for (std::int64_t d : dims_of(t, binding)) bytes *= static_cast<double>(d);
    needed += bytes;
  }
  double there = static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGESIZE));
  if (needed > there)
    throw Error(Code::memory, {},
                fmt::format("the tensors of {} need {} GiB, the machine has {}", p.name, std::ceil(needed / (1 << 30)),
                            std::floor(there / (1 << 30))));
}

// ---- nodes

std::string place_of(const Program& p, const Place& place, const std::string& label, TensorId out) {
  if (!place.node.empty()) return place.node;
  if (place.line > 0) return fmt::format("{}:{}", place.line, place.column);
  return label.empty() ? p.tensor(out).name : label;
}

void run_statement(const Program& p, const Statement& s, const Binding& binding, Evaluation mode, Values& values) {
  if (!values.count(s.out)) {
    const Tensor& t = p.tensor(s.out);
    values[s.out] = Array::make(held(t.dtype, mode), dims_of(t, binding));
  }
  evaluator::run(p, s, binding, mode, values);
}

void run_opaque(const Program& p, const Opaque& node, const Binding& binding, Evaluation mode, Values& values) {
  if (!node.reference || !*node.reference)
    throw Error(Code::unsupported, {}, fmt::format("{} has no reference function", node.op));
  std::vector<Array> in, out;
  for (TensorId id : node.in) in.push_back(converted(values.at(id), p.tensor(id).dtype));
  for (TensorId id : node.out) out.push_back(Array::make(p.tensor(id).dtype, dims_of(p.tensor(id), binding)));
  (*node.reference)(in, out);
  for (std::size_t i = 0; i < out.size(); ++i) {
    const Tensor& t = p.tensor(node.out[i]);
    TW_ASSERT(out[i].dtype == t.dtype && out[i].dims == dims_of(t, binding));
    values[node.out[i]] = converted(out[i], held(t.dtype, mode));
  }
}

void run_node(const Program& p, const std::variant<Statement, Opaque>& node, const Binding& binding, Evaluation mode,
              Values& values) {
  const Statement* s = std::get_if<Statement>(&node);
  const Opaque* o = std::get_if<Opaque>(&node);
  std::string where = s ? place_of(p, s->place, s->label, s->out) : place_of(p, o->place, o->op, o->out.at(0));
  try {
    if (s)
      run_statement(p, *s, binding, mode, values);
    else
      run_opaque(p, *o, binding, mode, values);
  } catch (const Error& error) {
    throw error.at(where);
  } catch (const std::bad_alloc&) {
    throw Error(Code::memory, where, "not enough memory");
  }
}

} // namespace

Values evaluate(const Program& p, const Values& inputs, const Binding& sizes, Evaluation mode) {
  Binding binding = bind_sizes(p, inputs, sizes);
  check_memory(p, binding, mode);
  Values values = bind_inputs(p, inputs, binding, mode);
  for (const auto& node : p.nodes) run_node(p, node, binding, mode, values);
  for (TensorId out : std::set(p.outputs.begin(), p.outputs.end())) {
    Array& array = values.at(out);
    array = first_rows(array, result_dims(p, out, array.dims, [&](TensorId t) { return *values.at(t).as<std::int64_t>(); }));
  }
  return values;
}

} // namespace tilewright
