// Building programs: tensors and statements with unique names, and axis names for people.
#include <algorithm>
#include <cstring>

#include "expr/scalar.h"
#include "support/error.h"

namespace tilewright {

namespace {

// The name of an extent that is a symbol, else a letter; never one that an earlier axis of the statement has.
std::vector<std::string> names_of(const std::vector<Size>& axes) {
  static constexpr std::string_view letters = "ijklabcdefghmnopqrstuvwxyz";
  std::vector<std::string> names;
  auto taken = [&](const std::string& name) { return std::find(names.begin(), names.end(), name) != names.end(); };
  for (const Size& extent : axes) {
    std::vector<std::string> symbols;
    extent.collect_symbols(symbols);
    if (symbols.size() == 1 && extent == Size::symbol(symbols[0]) && !taken(symbols[0])) {
      names.push_back(symbols[0]);
      continue;
    }
    std::string name;
    for (std::size_t i = 0; name.empty() || taken(name); ++i) {
      name = std::string(1, letters[i % letters.size()]);
      if (i >= letters.size()) name += std::to_string(i / letters.size());
    }
    names.push_back(name);
  }
  return names;
}

} // namespace

std::vector<AxisId> parallel_axes(const Statement& s) {
  std::vector<AxisId> axes;
  for (AxisId a = 0; a < static_cast<AxisId>(s.axes.size()); ++a)
    if (std::find(s.reduced.begin(), s.reduced.end(), a) == s.reduced.end()) axes.push_back(a);
  return axes;
}

bool is_map(const Statement& s) { return s.reducer == Reducer::none; }

DType held_as(const Program& p, const Statement& s) {
  if (s.reducer == Reducer::any || s.reducer == Reducer::all) return DType::boolean;
  const DType body = compute_type(s.body->dtype), declared = compute_type(p.tensor(s.out).dtype);
  const bool pair = s.reducer == Reducer::argmax || s.reducer == Reducer::argmin;   // its result is no value of the body
  return !pair && is_float(body) == is_float(declared) && bytes_of(declared) > bytes_of(body) ? declared : body;
}

std::string Builder::unique(const std::string& hint) {
  for (; known_sizes_ < p_.sizes.size(); ++known_sizes_) used_.insert(p_.sizes[known_sizes_].name);
  for (; known_tensors_ < p_.tensors.size(); ++known_tensors_) used_.insert(p_.tensors[known_tensors_].name);
  std::string name = hint.empty() ? "t" : hint;
  for (int i = 1; !used_.insert(name).second; ++i) name = (hint.empty() ? "t" : hint) + "_" + std::to_string(i);
  return name;
}

TensorId Builder::tensor(std::string hint, DType dtype, std::vector<Size> dims, Kind kind) {
  Tensor t;
  t.name = unique(hint);
  t.dtype = dtype;
  t.dims = std::move(dims);
  t.kind = kind;
  p_.tensors.push_back(std::move(t));
  ++known_tensors_;
  return static_cast<TensorId>(p_.tensors.size()) - 1;
}

TensorId Builder::weight(std::string hint, DType dtype, std::vector<std::int64_t> dims, std::vector<std::byte> bytes) {
  auto owner = std::make_shared<const std::vector<std::byte>>(std::move(bytes));
  const TensorId id = tensor(std::move(hint), dtype, std::vector<Size>(dims.begin(), dims.end()), Kind::weight);
  Tensor& t = p_.tensor(id);
  t.data = *owner;
  t.owner = std::move(owner);
  Array shape{dtype, std::move(dims), nullptr, nullptr};
  TW_ASSERT(t.data.size() == shape.bytes());
  return id;
}

void Builder::piece(TensorId out, std::vector<Index> at, std::vector<Size> axes, ScalarRef body, Reducer reducer,
                    std::vector<AxisId> reduced, ScalarRef guard, std::string label) {
  TW_ASSERT((reducer == Reducer::none) == reduced.empty() && at.size() == p_.tensor(out).dims.size());
  Statement s;
  s.out = out;
  s.at = std::move(at);
  s.axes = std::move(axes);
  s.names = names_of(s.axes);
  s.reduced = std::move(reduced);
  s.reducer = reducer;
  s.body = std::move(body);
  if (guard) s.guard = cast(std::move(guard), DType::boolean);
  s.label = std::move(label);
  s.place = place;
  p_.nodes.emplace_back(std::move(s));
}

TensorId Builder::statement(std::string hint, DType dtype, std::vector<Size> axes, ScalarRef body, Reducer reducer,
                            std::vector<AxisId> reduced, ScalarRef guard, std::string label) {
  std::vector<Size> dims;
  std::vector<Index> at;
  for (AxisId a = 0; a < static_cast<AxisId>(axes.size()); ++a)
    if (std::find(reduced.begin(), reduced.end(), a) == reduced.end()) {
      dims.push_back(axes[static_cast<std::size_t>(a)]);
      at.push_back(axis_index(a));
    }
  const TensorId out = tensor(std::move(hint), dtype, std::move(dims));
  piece(out, std::move(at), std::move(axes), std::move(body), reducer, std::move(reduced), std::move(guard),
        std::move(label));
  return out;
}

} // namespace tilewright
