// The user's file of measured CPUs: read on every use of the running CPU, written by `tilewright device --calibrate`.
#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>

#include "machine/host.h"
#include "machine/strict_json.h"
#include "support/error.h"
#include "support/file.h"

namespace tilewright {
namespace {

using Ordered = nlohmann::ordered_json;

constexpr double largest = 1e18;

Rate read_rate(Form form) {
  Rate rate{form.number("all", 1, largest), form.number("one", 1, largest)};
  form.done();
  return rate;
}

Calibration read_calibration(Form& form) {
  Calibration c;
  c.model = form.text("model");
  c.date = form.text("date");
  c.isa = *isa_named(form.choice("isa", {"base", "avx2", "avx512", "neon"}));
  c.cores = static_cast<int>(form.integer("cores", 1, 1 << 20));
  c.fma = form.number("fma", 1, largest);
  c.usable = form.integer_or("usable", 0, std::int64_t{1} << 50, 0);
  Form levels = form.form("read");
  for (const char* name : {"l1", "l2", "l3", "dram"})
    if (levels.has(name)) c.read[name] = read_rate(levels.form(name));
  levels.done();
  c.copy = read_rate(form.form("copy"));
  c.barrier = form.number("barrier", 0, 1);
  c.fork_join = form.number("fork_join", 0, 1);
  form.done();
  return c;
}

} // namespace

std::string calibration_path() {
  const char* config = std::getenv("XDG_CONFIG_HOME");
  if (config && config[0] == '/') return std::string(config) + "/tilewright/machine.json"; // a relative one is invalid
  const char* home = std::getenv("HOME");
  return home && home[0] == '/' ? std::string(home) + "/.config/tilewright/machine.json" : std::string();
}

std::vector<Calibration> calibrations_from_json(std::string_view text, const std::string& file) {
  const Json json = parse_json(text, file);
  Form form(json, file);
  std::vector<Calibration> out;
  for (Form& entry : form.forms("cpus")) out.push_back(read_calibration(entry));
  form.done();
  return out;
}

std::string to_json(const std::vector<Calibration>& calibrations) {
  const auto rate = [](const Rate& r) { return Ordered{{"all", r.all}, {"one", r.one}}; };
  Ordered cpus = Ordered::array();
  for (const Calibration& c : calibrations) {
    Ordered read = Ordered::object();
    for (const auto& [level, r] : c.read) read[level] = rate(r);
    cpus.push_back({{"model", c.model},
                    {"date", c.date},
                    {"isa", name_of(c.isa)},
                    {"cores", c.cores},
                    {"fma", c.fma},
                    {"usable", c.usable},
                    {"read", read},
                    {"copy", rate(c.copy)},
                    {"barrier", c.barrier},
                    {"fork_join", c.fork_join}});
  }
  return Ordered{{"cpus", cpus}}.dump(2, ' ', false, Ordered::error_handler_t::replace) + "\n";
}

std::optional<Calibration> find_calibration(const std::vector<Calibration>& all, const std::string& model, Isa isa) {
  for (const Calibration& c : all)
    if (c.model == model && c.isa == isa) return c;
  return std::nullopt;
}

namespace {

// What stands there is a file of a few kilobytes, or not ours.
std::vector<Calibration> read_calibrations(const std::string& path) {
  std::error_code failed;
  if (path.empty() || !std::filesystem::exists(path, failed)) return {};
  if (!std::filesystem::is_regular_file(path, failed) || std::filesystem::file_size(path, failed) > (1 << 20))
    throw Error(Code::file, path, "is no file of measured CPUs");
  return calibrations_from_json(read_text(path), path);
}

} // namespace

void save_calibration(const Calibration& calibration, const std::string& path) {
  if (path.empty())
    throw Error(Code::file, "", "there is no place for the user's settings", "set HOME or XDG_CONFIG_HOME");
  std::vector<Calibration> all;
  try {
    all = read_calibrations(path);
  } catch (const Error&) { // a damaged file is worth less than the new measurement
  }
  std::erase_if(all, [&](const Calibration& c) { return c.model == calibration.model && c.isa == calibration.isa; });
  all.push_back(calibration);
  std::error_code failed;
  std::filesystem::create_directories(std::filesystem::path(path).parent_path(), failed);
  if (failed) throw Error(Code::file, path, "its folder cannot be made: " + failed.message());
  write_file(path, to_json(all));
}

// A damaged file must not stop a run that only wants to know the number of cores: it is left aside, and a note says so.
Machine this_cpu(int threads) {
  static const Host host = read_host(); // some thousand small files where there are hundreds of CPUs
  std::optional<Calibration> calibration;
  std::string note;
  try {
    calibration = find_calibration(read_calibrations(calibration_path()), host.model, host.features.isa);
  } catch (const Error& error) {
    note = fmt::format("measured rates left aside: {}", error.what());
  }
  Machine machine = machine_of(host, threads, calibration);
  if (!note.empty()) machine.notes.push_back(note);
  return machine;
}

} // namespace tilewright
