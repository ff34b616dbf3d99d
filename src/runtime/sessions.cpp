#include "runtime/sessions.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "expr/sizes.h"
#include "target/cuda/driver.h"

namespace tilewright {

namespace {

constexpr std::size_t most_sessions = 4;

std::string dims_text(const Tensor& t) {
  std::vector<std::string> words;
  for (const Size& d : t.dims) words.push_back(d.text());
  return fmt::format("[{}]", fmt::join(words, ", "));
}

void check_range(const SizeDecl& s, std::int64_t value) {
  if (value < s.range.low || value > s.range.high)
    throw Error(Code::size, s.name, fmt::format("is {}, must be {} to {}", value, s.range.low, s.range.high));
}

// The given sizes that the program has; an import has bound its own already, and told about unknown names.
Binding checked(const Program& p, const Binding& given) {
  Binding own;
  for (const auto& [name, value] : given) {
    const auto found =
        std::find_if(p.sizes.begin(), p.sizes.end(), [&, &n = name](const SizeDecl& s) { return s.name == n; });
    if (found == p.sizes.end()) continue;
    if (is_derived(*found))
      throw Error(Code::size, name, "is derived: " + found->value->text() + ", and cannot be given");
    check_range(*found, value);
    own.emplace(name, value);
  }
  return own;
}

} // namespace

Sessions::Sessions(Program program, SessionOptions options)
    : program_(std::move(program)), options_(std::move(options)), given_(checked(program_, options_.sizes)) {
  if (const int gpu = parse_device(options_.device); gpu >= 0) cuda::require_gpu(gpu); // told now, not at the first run
  options_.sizes.clear();
}

Binding Sessions::bind(const std::vector<std::vector<std::int64_t>>& shapes) const {
  const Program& p = program_;
  if (!shapes.empty() && shapes.size() != p.inputs.size())
    throw Error(Code::input, "", fmt::format("{} inputs are given, {} are wanted", shapes.size(), p.inputs.size()));
  Binding bound = given_;
  std::map<std::string, std::string> from; // the input that told a size first
  for (const auto& [name, value] : given_) from[name] = "the options";
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    const Tensor& t = p.tensor(p.inputs[i]);
    if (shapes[i].size() != t.dims.size())
      throw Error(Code::input, t.name,
                  fmt::format("the input has shape [{}], {} is wanted", fmt::join(shapes[i], ", "), dims_text(t)));
    for (std::size_t d = 0; d < t.dims.size(); ++d)
      for (const SizeDecl& s : p.sizes) {
        if (!is_free(s) || t.dims[d] != Size::symbol(s.name)) continue;
        const auto [at, fresh] = bound.emplace(s.name, shapes[i][d]);
        if (fresh) from[s.name] = t.name;
        if (at->second != shapes[i][d])
          throw Error(
              Code::input, t.name,
              fmt::format("dim {} is {}, but {} is {} in {}", d, shapes[i][d], s.name, at->second, from[s.name]),
              "both are the same size of the model");
      }
  }
  for (const SizeDecl& s : p.sizes) {
    if (!is_free(s)) continue;
    if (s.value) bound.emplace(s.name, s.value->constant());
    const auto found = bound.find(s.name);
    if (found == bound.end())
      throw Error(Code::size, s.name, "the size has no value",
                  fmt::format("fix it: --size {}=N, size.{}", s.name, s.name));
    check_range(s, found->second);
  }
  return bound;
}

std::vector<std::int64_t> Sessions::output_dims(std::size_t output, const Binding& sizes) const {
  std::vector<std::int64_t> dims;
  for (const Size& d : program_.tensor(program_.outputs[output]).dims) dims.push_back(d.at(sizes));
  return dims;
}

std::shared_ptr<Session> Sessions::session(const Binding& sizes) {
  const std::lock_guard lock(making_);
  const auto found = std::find_if(sessions_.begin(), sessions_.end(), [&](const auto& s) { return s.first == sizes; });
  if (found != sessions_.end()) {
    sessions_.splice(sessions_.begin(), sessions_, found);
    return sessions_.front().second;
  }
  SessionOptions o = options_;
  o.sizes = sizes;
  auto made = std::make_shared<Session>(program_, o);
  sessions_.emplace_front(sizes, made);
  if (sessions_.size() > most_sessions) sessions_.pop_back();
  return made;
}

std::shared_ptr<Session> Sessions::session() {
  {
    const std::lock_guard lock(making_);
    if (!sessions_.empty()) return sessions_.front().second;
  }
  return session(bind({}));
}

} // namespace tilewright
