// Reads JSON as a form that is filled in, not as a bag: each key is asked for with its type and range, and what was not
// asked for is an error. Every complaint names the file and the place in it.
//
//   Form level = ...;                             // of {"name": "l2", "capacity": -1, "colour": "red"}
//   level.integer("capacity", 1, 1ll << 50)       -> Error  box.json#/levels/1/capacity: is -1, must be 1 to ...
//   level.done()                                  -> Error  box.json#/levels/1/colour: unknown key (keys are: ...)
//
// Included by few .cpp files only: nlohmann-json is slow to compile.
#pragma once
#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace tilewright {

using Json = nlohmann::json;

// Throws Error(syntax) with file:line:column; repeated keys, numbers out of range and text after the end are errors
// too.
Json parse_json(std::string_view text, const std::string& file);

// The names nearest to a misspelt one, best first, at most three; empty when nothing is near.
std::vector<std::string> nearest(std::string_view word, const std::vector<std::string>& names);
std::string joined(const std::vector<std::string>& names, std::string_view separator = ", ");

class Form {
public:
  Form(const Json& value, std::string file, std::string pointer = {}); // Error if the value is no object

  bool has(const std::string& key); // and marks the key as known
  double number(const std::string& key, double low, double high);
  double number_or(const std::string& key, double low, double high, double otherwise);
  std::int64_t integer(const std::string& key, std::int64_t low, std::int64_t high);
  std::int64_t integer_or(const std::string& key, std::int64_t low, std::int64_t high, std::int64_t otherwise);
  std::string text(const std::string& key);
  std::string text_or(const std::string& key, const std::string& otherwise);
  bool flag_or(const std::string& key, bool otherwise);
  std::string choice(const std::string& key, const std::vector<std::string>& names);
  std::vector<std::string> texts_or_none(const std::string& key);
  Form form(const std::string& key);
  std::vector<Form> forms(const std::string& key); // an array of objects, possibly empty
  std::vector<Form> forms_or_none(const std::string& key);
  const std::vector<std::string>& keys_present() const { return present_; }
  void done() const; // Error(name) on a key that nobody asked for

  std::string at(const std::string& key = {}) const; // "file#/levels/1/capacity"
  [[noreturn]] void fail(const std::string& key, const std::string& message, const std::string& hint = {}) const;

private:
  const Json& need(const std::string& key, std::string_view type, bool (Json::*is)() const noexcept);
  const Json& value_;
  std::string file_, pointer_;
  std::vector<std::string> present_, known_;
};

} // namespace tilewright
