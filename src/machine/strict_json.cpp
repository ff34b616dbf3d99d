#include "machine/strict_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "support/error.h"

namespace tilewright {
namespace {

std::string escaped(std::string_view key) { // RFC 6901
  std::string out;
  for (char c : key) out += c == '~' ? "~0" : c == '/' ? "~1" : std::string(1, c);
  return out;
}

std::string place_of(std::string_view text, std::size_t byte, const std::string& file) {
  const std::string_view before = text.substr(0, std::min(byte, text.size()));
  const std::size_t line = 1 + static_cast<std::size_t>(std::count(before.begin(), before.end(), '\n'));
  const std::size_t newline = before.rfind('\n');
  const std::size_t column = newline == std::string_view::npos ? before.size() + 1 : before.size() - newline;
  return fmt::format("{}:{}:{}", file, line, column);
}

std::size_t edits(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); j++) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); i++) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); j++) {
      const std::size_t substituted = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, substituted});
    }
  }
  return row[b.size()];
}

} // namespace

std::vector<std::string> nearest(std::string_view word, const std::vector<std::string>& names) {
  constexpr std::size_t longest = 64; // what is longer is no misspelling
  std::vector<std::pair<std::size_t, std::string>> found;
  if (word.size() > longest) return {};
  for (const std::string& name : names) {
    const std::size_t distance = edits(word, name);
    const bool contains = word.size() >= 3 && name.find(word) != std::string::npos;
    if (distance <= std::max<std::size_t>(1, word.size() / 3) || contains) found.emplace_back(distance, name);
  }
  std::sort(found.begin(), found.end());
  std::vector<std::string> out;
  for (std::size_t i = 0; i < std::min<std::size_t>(3, found.size()); i++) out.push_back(found[i].second);
  return out;
}

std::string joined(const std::vector<std::string>& names, std::string_view separator) {
  return fmt::format("{}", fmt::join(names, separator));
}

Json parse_json(std::string_view text, const std::string& file) {
  std::vector<std::set<std::string>> open; // the keys seen in each object that is still open
  const auto refuse_repeats = [&](int, Json::parse_event_t event, Json& parsed) {
    if (event == Json::parse_event_t::object_start) open.emplace_back();
    if (event == Json::parse_event_t::object_end) open.pop_back();
    if (event == Json::parse_event_t::key && !open.back().insert(parsed.get<std::string>()).second)
      throw Error(Code::name, file, fmt::format("key '{}' stands twice in one object", parsed.get<std::string>()));
    return true;
  };
  try {
    return Json::parse(text.begin(), text.end(), refuse_repeats);
  } catch (const Json::parse_error& error) {
    throw Error(Code::syntax, place_of(text, error.byte > 0 ? error.byte - 1 : 0, file), "is not valid JSON");
  } catch (const Json::out_of_range&) {
    throw Error(Code::size, file, "contains a number beyond the range of a double");
  }
}

Form::Form(const Json& value, std::string file, std::string pointer)
    : value_(value), file_(std::move(file)), pointer_(std::move(pointer)) {
  if (!value.is_object()) fail("", fmt::format("is {}, must be an object", value.type_name()));
  for (const auto& item : value.items()) present_.push_back(item.key());
}

std::string Form::at(const std::string& key) const {
  return file_ + "#" + pointer_ + (key.empty() ? "" : "/" + escaped(key));
}

void Form::fail(const std::string& key, const std::string& message, const std::string& hint) const {
  throw Error(Code::syntax, at(key), message, hint);
}

bool Form::has(const std::string& key) {
  known_.push_back(key);
  return value_.contains(key);
}

const Json& Form::need(const std::string& key, std::string_view type, bool (Json::*is)() const noexcept) {
  if (!has(key)) fail(key, fmt::format("is missing, must be {}", type));
  const Json& found = value_.at(key);
  if (!(found.*is)()) fail(key, fmt::format("is {}, must be {}", found.type_name(), type));
  return found;
}

double Form::number(const std::string& key, double low, double high) {
  const double found = need(key, "a number", &Json::is_number).get<double>();
  if (!(found >= low && found <= high))
    throw Error(Code::size, at(key), fmt::format("is {}, must be {} to {}", found, low, high));
  return found;
}

double Form::number_or(const std::string& key, double low, double high, double otherwise) {
  return has(key) ? number(key, low, high) : otherwise;
}

std::int64_t Form::integer(const std::string& key, std::int64_t low, std::int64_t high) {
  const Json& found = need(key, "an integer", &Json::is_number_integer);
  const bool huge = found.is_number_unsigned() && found.get<std::uint64_t>() > static_cast<std::uint64_t>(INT64_MAX);
  if (huge || found.get<std::int64_t>() < low || found.get<std::int64_t>() > high)
    throw Error(Code::size, at(key), fmt::format("is {}, must be {} to {}", found.dump(), low, high));
  return found.get<std::int64_t>();
}

std::int64_t Form::integer_or(const std::string& key, std::int64_t low, std::int64_t high, std::int64_t otherwise) {
  return has(key) ? integer(key, low, high) : otherwise;
}

std::string Form::text(const std::string& key) {
  std::string found = need(key, "a text", &Json::is_string).get<std::string>();
  if (found.empty()) fail(key, "is empty");
  return found;
}

std::string Form::text_or(const std::string& key, const std::string& otherwise) {
  return has(key) ? text(key) : otherwise;
}

bool Form::flag_or(const std::string& key, bool otherwise) {
  return has(key) ? need(key, "true or false", &Json::is_boolean).get<bool>() : otherwise;
}

std::string Form::choice(const std::string& key, const std::vector<std::string>& names) {
  const std::string found = text(key);
  if (std::find(names.begin(), names.end(), found) != names.end()) return found;
  const std::vector<std::string> near = nearest(found, names);
  throw Error(Code::name, at(key), fmt::format("is '{}', must be one of {}", found, joined(names)),
              near.empty() ? "" : "did you mean '" + near[0] + "'?");
}

std::vector<std::string> Form::texts_or_none(const std::string& key) {
  std::vector<std::string> out;
  if (!has(key)) return out;
  for (const Json& item : need(key, "an array of texts", &Json::is_array)) {
    if (!item.is_string()) fail(key, fmt::format("holds {}, must be an array of texts", item.type_name()));
    out.push_back(item.get<std::string>());
  }
  return out;
}

Form Form::form(const std::string& key) {
  return Form(need(key, "an object", &Json::is_object), file_, pointer_ + "/" + escaped(key));
}

std::vector<Form> Form::forms(const std::string& key) {
  const Json& array = need(key, "an array of objects", &Json::is_array);
  std::vector<Form> out;
  for (std::size_t i = 0; i < array.size(); i++)
    out.emplace_back(array[i], file_, fmt::format("{}/{}/{}", pointer_, escaped(key), i));
  return out;
}

std::vector<Form> Form::forms_or_none(const std::string& key) { return has(key) ? forms(key) : std::vector<Form>{}; }

void Form::done() const {
  for (const std::string& key : present_) {
    if (std::find(known_.begin(), known_.end(), key) != known_.end()) continue;
    const std::vector<std::string> near = nearest(key, known_);
    throw Error(Code::name, at(key), "unknown key",
                near.empty() ? "keys here: " + joined(known_) : "did you mean '" + near[0] + "'?");
  }
}

} // namespace tilewright
