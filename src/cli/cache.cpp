// tilewright cache: what is kept on disk between runs.
#include <fmt/format.h>

#include <map>

#include <nlohmann/json.hpp>

#include "cli/commands.h"
#include "cli/console.h"
#include "report/table.h"
#include "support/cache.h"

namespace tilewright {

namespace {

using Json = nlohmann::ordered_json;

std::string written(const Json& json) { return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n"; }

std::string age_text(std::int64_t seconds) {
  if (seconds < 120) return fmt::format("{} s", seconds);
  if (seconds < 7200) return fmt::format("{} min", seconds / 60);
  return seconds < 172800 ? fmt::format("{} h", seconds / 3600) : fmt::format("{} days", seconds / 86400);
}

std::string list_text(const std::vector<CacheEntry>& entries) {
  if (entries.empty()) return "nothing is kept\n";
  std::vector<std::vector<std::string>> rows{{"kind", "size", "age", "file"}};
  for (const CacheEntry& e : entries) rows.push_back({e.kind, bytes_text(e.bytes), age_text(e.age_seconds), e.path});
  return table(rows, "lrrl");
}

Json list_json(const std::vector<CacheEntry>& entries) {
  Json list = Json::array();
  for (const CacheEntry& e : entries)
    list.push_back({{"kind", e.kind}, {"file", e.path}, {"bytes", e.bytes}, {"age_seconds", e.age_seconds}});
  return list;
}

struct Total {
  std::size_t entries = 0;
  std::int64_t bytes = 0;
};

std::map<std::string, Total> totals_of(const std::vector<CacheEntry>& entries) {
  std::map<std::string, Total> by_kind;
  for (const CacheEntry& e : entries) ++by_kind[e.kind].entries, by_kind[e.kind].bytes += e.bytes;
  return by_kind;
}

std::string totals_text(const std::string& folder, const std::vector<CacheEntry>& entries) {
  std::string text = folder + "\n";
  for (const auto& [kind, total] : totals_of(entries))
    text += fmt::format("{}: {} files, {}\n", kind, total.entries, bytes_text(total.bytes));
  return entries.empty() ? text + "nothing is kept\n" : text;
}

Json totals_json(const std::string& folder, const std::vector<CacheEntry>& entries) {
  Json kinds = Json::object();
  for (const auto& [kind, total] : totals_of(entries))
    kinds[kind] = {{"entries", total.entries}, {"bytes", total.bytes}};
  return {{"folder", folder}, {"kinds", kinds}};
}

} // namespace

int cache_command(const CacheArguments& a) {
  const std::string folder = cache_folder();
  const std::vector<CacheEntry> entries = cache_entries(folder);
  if (a.action == "clear") {
    const std::size_t removed = remove_entries(entries);
    write_result(a.json ? written({{"folder", folder}, {"removed", removed}})
                        : fmt::format("{} files removed\n", removed));
  } else if (a.action == "stat") {
    write_result(a.json ? written(totals_json(folder, entries)) : totals_text(folder, entries));
  } else {
    write_result(a.json ? written({{"folder", folder}, {"entries", list_json(entries)}}) : list_text(entries));
  }
  return 0;
}

} // namespace tilewright
