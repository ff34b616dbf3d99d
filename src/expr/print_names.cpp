#include "expr/print_names.h"

#include "expr/lexer.h"
#include "expr/sizes.h"

namespace tilewright {

namespace {

constexpr std::size_t width = 110;

std::string header_text(const Size& size) { return size.text(spelled); }

} // namespace

HeaderNames::HeaderNames(const Program& p) : p_(p) {
  for (const Tensor& t : p.tensors) tensors_.insert(t.name);
  const std::vector<Size> values = values_of(p);
  for (std::size_t i = 0; i < p.sizes.size(); ++i) {
    const SizeDecl& s = p.sizes[i];
    std::string text;
    if (is_fixed(s))
      text = " == " + std::to_string(s.range.low);
    else if (s.value)
      text = (is_free(s) ? "=" : " = ") + header_text(*s.value);
    add(s.name, values[i], std::move(text));
  }
}

std::size_t HeaderNames::add(std::string name, Size size, std::string text) {
  const std::size_t entry = entries_.size();
  by_name_[name] = entry;
  by_size_.emplace(size.text(), entry);
  entries_.push_back({std::move(name), std::move(text), std::move(size), false});
  return entry;
}

const std::string& HeaderNames::use(std::size_t entry, bool as_axis) {
  entries_[entry].as_axis |= as_axis;
  return entries_[entry].name;
}

std::string HeaderNames::make(const std::string& hint, const Size& size, const std::set<std::string>& taken) {
  std::string name = hint;
  for (int i = 2; taken.contains(name) || tensors_.contains(name) || by_name_.contains(name); ++i)
    name = hint + "_" + std::to_string(i);
  return entries_[add(name, size, (size.is_constant() ? " == " : " = ") + header_text(size))].name;
}

std::string HeaderNames::axis(const std::string& hint, const Size& extent, const std::set<std::string>& taken) {
  if (auto found = by_name_.find(hint);
      found != by_name_.end() && entries_[found->second].size == extent && !taken.contains(hint))
    return use(found->second, true);
  const auto [first, last] = by_size_.equal_range(extent.text());
  const std::string wanted = hint.empty() ? "i" : hint;
  for (auto it = first; it != last; ++it) {
    const std::string& name = entries_[it->second].name;
    const bool related = !extent.is_constant() || hint.empty() || name.starts_with(wanted + "_");
    if (related && !taken.contains(name)) return use(it->second, true);
  }
  const std::string name = make(wanted, extent, taken);
  return use(by_name_[name], true);
}

std::string HeaderNames::value(const Size& size, const std::string& hint) {
  const auto found = by_size_.find(size.text());
  return found != by_size_.end() ? entries_[found->second].name : make(hint, size, {});
}

const std::string* HeaderNames::known(const Size& size) const {
  if (size.is_constant()) return nullptr;
  const auto found = by_size_.find(size.text());
  return found != by_size_.end() ? &entries_[found->second].name : nullptr;
}

// The range is written where a reader of the text would not assume it: 1..2^31 for axes, 0..2^31 for other sizes.
std::string HeaderNames::header() const {
  std::string text = "program " + spelled(p_.name) + "(", line;
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    const Entry& e = entries_[i];
    std::string one = spelled(e.name) + e.text;
    if (i < p_.sizes.size() && is_free(p_.sizes[i])) {
      const Interval range = p_.sizes[i].range;
      if (range.low != (e.as_axis ? 1 : 0) || range.high != std::int64_t{1} << 31)
        one += " in " + std::to_string(range.low) + ".." + std::to_string(range.high);
    }
    if (i + 1 < entries_.size()) one += ",";
    const std::size_t begin = text.rfind('\n') == std::string::npos ? 0 : text.rfind('\n') + 1;
    if (i > 0) text += text.size() - begin + one.size() > width ? "\n    " : " ";
    text += one;
  }
  return text + ")\n";
}

} // namespace tilewright
