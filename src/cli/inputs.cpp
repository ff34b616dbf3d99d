#include "cli/inputs.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>

#include "cli/console.h"
#include "cli/fill.h"
#include "cli/npy.h"
#include "expr/results.h"
#include "expr/sizes.h"
#include "expr/text.h"

namespace tilewright {

namespace {

using Specs = std::map<std::string, std::string>; // name -> file or random[...]

bool given_by_caller(const Program& p, const Tensor& t) {
  const auto id = static_cast<TensorId>(&t - p.tensors.data());
  return std::find(p.inputs.begin(), p.inputs.end(), id) != p.inputs.end();
}

// NAME=SPEC; a lone SPEC is for the only input.
Specs read_specs(const Program& p, const std::vector<std::string>& texts) {
  Specs specs;
  std::vector<std::string> names;
  for (const Tensor& t : p.tensors)
    if (given_by_caller(p, t)) names.push_back(t.name);
  const auto known = [&](const std::string& name) {
    return std::find(names.begin(), names.end(), name) != names.end();
  };
  for (const std::string& text : texts) {
    std::size_t at = text.find('=');
    while (at != std::string::npos && !known(text.substr(0, at)) && text.find('=', at + 1) != std::string::npos)
      at = text.find('=', at + 1);
    const std::string name = at != std::string::npos ? text.substr(0, at) : names.size() == 1 ? names[0] : "";
    if (at == std::string::npos && names.size() != 1)
      throw Error(Code::option, "--input", fmt::format("is '{}', must be NAME=FILE or NAME=random", text),
                  fmt::format("inputs are {}", fmt::join(names, ", ")));
    if (!known(name))
      throw Error(Code::input, name, "the model has no input of this name",
                  fmt::format("inputs are {}", fmt::join(names, ", ")));
    if (!specs.emplace(name, at == std::string::npos ? text : text.substr(at + 1)).second)
      throw Error(Code::option, "--input", fmt::format("{} is given twice", name));
  }
  return specs;
}

std::map<std::string, Array> read_files(const Program& p, const Specs& specs) {
  std::map<std::string, Array> arrays;
  for (const Tensor& t : p.tensors) {
    const auto spec = specs.find(t.name);
    if (spec == specs.end() || !given_by_caller(p, t)) continue;
    if (is_random(spec->second) || spec->second.ends_with(".png")) continue;
    const bool narrow = t.dtype == DType::bf16 || bytes_of(t.dtype) == 1;
    arrays.emplace(t.name, read_npy(spec->second, narrow ? std::optional(t.dtype) : std::nullopt));
  }
  return arrays;
}

void bind_from_shapes(const Program& p, const std::map<std::string, Array>& arrays, Binding& sizes) {
  for (const Tensor& t : p.tensors) {
    const auto a = arrays.find(t.name);
    if (a == arrays.end() || a->second.dims.size() != t.dims.size() || !given_by_caller(p, t)) continue;
    for (std::size_t d = 0; d < t.dims.size(); ++d)
      for (const SizeDecl& s : p.sizes)
        if (is_free(s) && t.dims[d] == Size::symbol(s.name)) sizes.emplace(s.name, a->second.dims[d]);
  }
}

// A free size that is the first dim of an input and nothing else is taken to be a batch.
bool is_batch(const Program& p, const std::string& size) {
  bool first = false, elsewhere = false;
  for (TensorId id : p.inputs)
    for (std::size_t d = 0; d < p.tensor(id).dims.size(); ++d)
      if (p.tensor(id).dims[d] == Size::symbol(size)) (d == 0 ? first : elsewhere) = true;
  return first && !elsewhere;
}

// Every free size gets a value. planning: what nobody gave is 1024, within its range.
// batches: a batch is then 1; else like any other size.
void bind_rest(const Common& c, const Program& p, Binding& sizes, bool planning, bool batches = true) {
  constexpr std::int64_t planning_value = 1024;
  std::vector<std::string> unknown;
  for (const SizeDecl& s : p.sizes) {
    if (!is_free(s) || s.value || sizes.count(s.name)) continue;
    const bool one = batches && is_batch(p, s.name);
    if (one || planning) {
      sizes[s.name] = std::clamp(one ? 1 : planning_value, s.range.low, s.range.high);
      note(c, fmt::format("size {} is free: {} is taken (--size {}=N for another)", s.name, sizes[s.name], s.name));
    } else {
      unknown.push_back(s.name);
    }
  }
  if (unknown.empty()) return;
  std::string options;
  for (const std::string& name : unknown) options += fmt::format(" --size {}=N", name);
  throw Error(Code::size, c.model, fmt::format("free sizes have no value: {}", fmt::join(unknown, ", ")),
              "add" + options);
}

std::vector<TensorId> unbound_weights(const Program& p) {
  std::vector<TensorId> ids;
  for (std::size_t t = 0; t < p.tensors.size(); ++t)
    if (p.tensors[t].kind == Kind::weight && p.tensors[t].data.empty() && !p.tensors[t].owner)
      ids.push_back(static_cast<TensorId>(t));
  return ids;
}

struct Opener {
  const Common& common;
  const InputArguments& arguments;
  Opened out;
  Specs specs;
  std::map<std::string, Array> files;

  void fill(TensorId id, std::size_t number) {
    const Tensor& t = out.program.tensor(id);
    const auto spec = specs.find(t.name);
    if (const auto file = files.find(t.name); file != files.end()) {
      out.inputs.push_back(file->second);
      out.origins.push_back(spec->second);
    } else if (spec != specs.end() && spec->second.ends_with(".png")) {
      out.inputs.push_back(picture(t, spec->second, {arguments.mean, arguments.deviation, arguments.layout}));
      out.origins.push_back(spec->second);
    } else {
      const RandomSpec random = random_spec(spec == specs.end() ? "random" : spec->second);
      out.inputs.push_back(random_array(t, random, number));
      out.origins.push_back(fmt::format("random, seed {}", random.seed));
    }
  }
};

std::map<std::string, Array> weights_for(const Program& fixed, const std::vector<TensorId>& ids) {
  std::map<std::string, Array> constants;
  for (TensorId id : ids)
    constants.emplace(fixed.tensor(id).name, random_weight(fixed.tensor(id), static_cast<std::size_t>(id)));
  return constants;
}

} // namespace

Opened open_to_plan(const Common& c, bool batches) {
  const auto start = std::chrono::steady_clock::now();
  Opened out;
  OpenOptions o = c.open;
  o.open_weights = false;
  Program p = load_program(c.model, o);
  Binding sizes = o.session.sizes;
  std::erase_if(sizes, [&](const auto& s) { // an import has bound its own
    return std::none_of(p.sizes.begin(), p.sizes.end(), [&](const SizeDecl& d) { return d.name == s.first; });
  });
  bind_rest(c, p, sizes, true, batches);
  out.program = fix_sizes(p, sizes);
  bind_constants(out.program, weights_for(out.program, unbound_weights(out.program)));
  out.options = c.open.session;
  out.options.sizes.clear();
  out.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return out;
}

Opened open_model(const Common& c, const InputArguments& arguments) {
  const auto start = std::chrono::steady_clock::now();
  OpenOptions o = c.open;
  o.open_weights = false;
  Program p = load_program(c.model, o);
  const double imported = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  // Weights without a value stand with the inputs while values are looked for.
  const std::vector<TensorId> weights = unbound_weights(p);
  Program asked = p;
  asked.inputs.insert(asked.inputs.end(), weights.begin(), weights.end());
  Opener opener{c, arguments, {}, read_specs(asked, arguments.inputs), {}};
  opener.files = read_files(asked, opener.specs);
  Binding sizes = o.session.sizes;
  std::erase_if(sizes, [&](const auto& s) {
    return std::none_of(p.sizes.begin(), p.sizes.end(), [&](const SizeDecl& d) { return d.name == s.first; });
  });
  bind_from_shapes(asked, opener.files, sizes);
  bind_rest(c, p, sizes, false);
  Opened& out = opener.out;
  out.program = fix_sizes(p, sizes);
  std::map<std::string, Array> constants = weights_for(out.program, weights);
  for (const auto& [name, spec] : opener.specs) {
    const auto weight = constants.find(name);
    if (weight == constants.end()) continue;
    if (const auto file = opener.files.find(name); file != opener.files.end())
      weight->second = file->second;
    else if (!is_random(spec))
      throw Error(Code::input, name, "a weight takes an .npy file", "write it with numpy.save");
  }
  bind_constants(out.program, constants);
  out.options = c.open.session;
  out.options.sizes.clear();
  for (std::size_t i = 0; i < out.program.inputs.size(); ++i) opener.fill(out.program.inputs[i], i);
  out.seconds = imported;
  return std::move(out);
}

std::vector<Strided> strided(const std::vector<Array>& arrays) {
  std::vector<Strided> all;
  for (const Array& a : arrays) all.push_back(dense(a));
  return all;
}

std::vector<Array> make_outputs(const Program& p) {
  std::vector<Array> outputs;
  for (TensorId id : p.outputs) outputs.push_back(Array::make(p.tensor(id).dtype, dims_of(p.tensor(id))));
  return outputs;
}

void cut(std::vector<Array>& outputs, const std::vector<std::vector<std::int64_t>>& dims) {
  for (std::size_t i = 0; i < outputs.size(); ++i) outputs[i] = first_rows(outputs[i], dims[i]);
}

double element(const Array& a, std::int64_t i) {
  switch (a.dtype) {
  case DType::f64: return a.as<double>()[i];
  case DType::f32: return static_cast<double>(a.as<float>()[i]);
  case DType::f16: return static_cast<double>(f16_to_f32(a.as<std::uint16_t>()[i]));
  case DType::bf16: return static_cast<double>(bf16_to_f32(a.as<std::uint16_t>()[i]));
  case DType::f8e4m3:
  case DType::f8e5m2: return static_cast<double>(f8_to_f32(a.as<std::uint8_t>()[i], a.dtype));
  case DType::i8: return a.as<std::int8_t>()[i];
  case DType::u8:
  case DType::boolean: return a.as<std::uint8_t>()[i];
  case DType::i32: return a.as<std::int32_t>()[i];
  case DType::i64: return static_cast<double>(a.as<std::int64_t>()[i]);
  }
  return 0;
}

} // namespace tilewright
