#include "report/table.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <iterator>

namespace tilewright {

namespace {

std::size_t width_of(const std::string& text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }));
}

} // namespace

std::string table(const std::vector<std::vector<std::string>>& rows, const std::string& align,
                  const std::string& indent) {
  std::vector<std::size_t> widths(align.size(), 0);
  for (const auto& row : rows)
    for (std::size_t c = 0; c < row.size(); ++c) widths[c] = std::max(widths[c], width_of(row[c]));
  std::string out;
  for (const auto& row : rows) {
    std::string line = indent;
    for (std::size_t c = 0; c < row.size(); ++c) {
      const std::string blanks(widths[c] - width_of(row[c]), ' ');
      line += (c > 0 ? "  " : "") + (align[c] == 'r' ? blanks + row[c] : row[c] + blanks);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out += line + "\n";
  }
  return out;
}

std::string bytes_text(std::int64_t bytes) {
  const char* units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  double value = static_cast<double>(bytes);
  std::size_t unit = 0;
  for (; value >= 1024 && unit + 1 < std::size(units); ++unit) value /= 1024;
  return fmt::format("{:.{}f} {}", value, unit > 0 && value < 10 ? 1 : 0, units[unit]);
}

std::string time_text(double seconds) {
  const char* units[] = {"s", "ms", "us", "ns"};
  double value = seconds;
  std::size_t unit = 0;
  for (; value < 1 && value > 0 && unit + 1 < std::size(units); ++unit) value *= 1e3;
  return fmt::format("{:.{}f} {}", value, value < 10 ? 2 : value < 100 ? 1 : 0, units[unit]);
}

std::string count_text(std::int64_t count) {
  std::string digits = std::to_string(count);
  for (auto at = static_cast<std::ptrdiff_t>(digits.size()) - 3; at > (count < 0 ? 1 : 0); at -= 3)
    digits.insert(static_cast<std::size_t>(at), ",");
  return digits;
}

std::string shape_text(const Tensor& t) {
  std::vector<std::string> dims;
  for (const Size& d : t.dims) dims.push_back(d.text());
  return fmt::format("{} [{}]", name_of(t.dtype), fmt::join(dims, ", "));
}

std::string shortened(const std::string& name, std::size_t width) {
  if (width_of(name) <= width) return name;
  std::string rest = name;
  while (!rest.empty() && width_of(rest) + 3 > width) {
    rest.erase(0, 1);
    while (!rest.empty() && (static_cast<unsigned char>(rest[0]) & 0xc0) == 0x80) rest.erase(0, 1);
  }
  return "..." + rest;
}

} // namespace tilewright
