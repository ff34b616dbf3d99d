#include "cli/device.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <cmath>
#include <iostream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "cli/calibrate.h"
#include "machine/host.h"
#include "support/error.h"

namespace tilewright {
namespace {

// ---- the CUDA driver, if there is one; nothing of it is linked

struct CudaDevice {
  std::string name, machine; // machine: the shipped file that describes it best, or empty
  int major = 0, minor = 0, processors = 0;
  std::int64_t memory = 0;
};

struct Cuda {
  std::string version, reason; // reason: why there is none
  std::vector<CudaDevice> devices;
};

std::string machine_for(const CudaDevice& device) {
  std::string best;
  double distance = 0.2; // of memory sizes; vendors' gigabytes differ by a few per cent
  for (const std::string& name : machine_names()) {
    const Machine machine = machine_named(name);
    if (machine.target != Target::cuda || machine.core.count != device.processors) continue;
    if (machine.arch.compare(0, 5, fmt::format("sm_{}{}", device.major, device.minor)) != 0) continue;
    const auto memory =
        static_cast<double>(machine.levels[static_cast<std::size_t>(level_of(machine, LevelRole::memory))].capacity);
    const double off = std::abs(static_cast<double>(device.memory) / memory - 1);
    if (off < distance) best = name, distance = off;
  }
  return best;
}

class Driver { // the few calls of the driver's C interface that describe devices
public:
  explicit Driver(void* library) : library_(library) {}
  template <class... Args> bool call(const char* name, Args... args) {
    auto* function = reinterpret_cast<int (*)(Args...)>(dlsym(library_, name));
    status_ = function ? function(args...) : -1;
    return status_ == 0;
  }
  int status() const { return status_; }

private:
  void* library_;
  int status_ = 0;
};

Cuda probe_cuda() {
  Cuda cuda;
  void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL); // never closed: the driver keeps threads of its own
  if (!library) {
    cuda.reason = "libcuda.so.1 is not installed";
    return cuda;
  }
  Driver driver(library);
  int version = 0, count = 0;
  if (!driver.call("cuInit", 0u) || !driver.call("cuDriverGetVersion", &version) ||
      !driver.call("cuDeviceGetCount", &count)) {
    cuda.reason = fmt::format("the driver does not start (CUDA error {})", driver.status());
    return cuda;
  }
  cuda.version = fmt::format("{}.{}", version / 1000, version % 1000 / 10);
  for (int ordinal = 0; ordinal < count; ordinal++) {
    constexpr int processors = 16, major = 75, minor = 76; // CUdevice_attribute
    int handle = 0;
    char name[256] = {};
    std::size_t memory = 0;
    CudaDevice device;
    if (!driver.call("cuDeviceGet", &handle, ordinal) || !driver.call("cuDeviceGetName", name, 255, handle) ||
        !driver.call("cuDeviceTotalMem_v2", &memory, handle) ||
        !driver.call("cuDeviceGetAttribute", &device.processors, processors, handle) ||
        !driver.call("cuDeviceGetAttribute", &device.major, major, handle) ||
        !driver.call("cuDeviceGetAttribute", &device.minor, minor, handle))
      continue;
    device.name = name;
    device.memory = static_cast<std::int64_t>(memory);
    device.machine = machine_for(device);
    cuda.devices.push_back(device);
  }
  if (cuda.devices.empty()) cuda.reason = "the driver sees no device";
  return cuda;
}

// ---- text

std::string bytes_text(std::int64_t bytes) {
  const char* units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  double value = static_cast<double>(bytes);
  std::size_t unit = 0;
  for (; value >= 1024 && unit + 1 < std::size(units); unit++) value /= 1024;
  return value < 10 && std::floor(value) != value ? fmt::format("{:.1f} {}", value, units[unit])
                                                  : fmt::format("{:.0f} {}", value, units[unit]);
}

std::string rate_text(double rate, const char* of) {
  if (rate <= 0) return "-";
  const bool tera = rate >= 1e12;
  const double value = rate * (tera ? 1e-12 : 1e-9);
  return fmt::format("{:.{}f} {}{}", value, value < 10 ? 2 : value < 100 ? 1 : 0, tera ? "T" : "G", of);
}

void print_levels(const Machine& machine, std::ostream& out) {
  out << fmt::format("\n{:<11}{:>10} {:>4}  {:>12}{:>12}{:>12}  {}\n", "memory", "size", "of", "read", "one core",
                     "write", "rates");
  for (const Level& level : machine.levels) {
    if (level.down.all <= 0) continue;
    out << fmt::format("{:<11}{:>10} {:>4}  {:>12}{:>12}{:>12}  {}{}\n", level.name, bytes_text(level.capacity),
                       level.count, rate_text(level.down.all, "B/s"), rate_text(level.down.one, "B/s"),
                       rate_text(level.up.all, "B/s"), name_of(level.source),
                       level.mode == Mode::managed && level.parent >= 0 ? ", packed buffers" : "");
  }
}

void print_units(const Machine& machine, std::ostream& out) {
  out << fmt::format("\n{:<11}{:<18}{:>12}{:>12}  {}\n", "unit", "types", "all cores", "one core", "rates");
  for (std::size_t i = 0; i < machine.units.size(); i++) {
    const Unit& unit = machine.units[i];
    for (const UnitRate& rate : unit.rates) {
      const double one = rate.per_clock * rate.clock;
      const std::string types =
          rate.types ? fmt::format("{} {} {}", name_of(rate.types->a), name_of(rate.types->b), name_of(rate.types->out))
                     : std::string("any");
      out << fmt::format("{:<11}{:<18}{:>12}{:>12}  {}\n", &rate == &unit.rates[0] ? unit.name : "", types,
                         rate_text(one * machine.core.count, "op/s"), rate_text(one, "op/s"), name_of(unit.source));
    }
  }
}

void print_cuda(const Cuda& cuda, std::ostream& out) {
  out << "\nCUDA       ";
  if (!cuda.version.empty())
    out << "driver " << cuda.version << (cuda.reason.empty() ? "" : ": ") << cuda.reason << "\n";
  else
    out << "none: " << cuda.reason << "\n";
  for (std::size_t i = 0; i < cuda.devices.size(); i++) {
    const CudaDevice& d = cuda.devices[i];
    out << fmt::format("  cuda:{:<4} {}, sm_{}{}, {} multiprocessors, {}{}\n", i, d.name, d.major, d.minor,
                       d.processors, bytes_text(d.memory), d.machine.empty() ? "" : ", machine file " + d.machine);
  }
}

void print_text(const Machine& machine, const CpuFeatures& features, const Cuda& cuda, std::ostream& out) {
  out << machine.title << "\n\n";
  out << fmt::format("{:<11}{}{}{}{}, {} for a compiler\n", "isa", name_of(features.isa), features.vnni ? ", vnni" : "",
                     features.bf16 ? ", bf16" : "", features.tiles ? ", amx" : "", machine.arch);
  for (const std::string& note : machine.notes) {
    const std::size_t colon = note.find(": ");
    if (colon == std::string::npos || colon > 10)
      out << fmt::format("{:<11}{}\n", "", note);
    else
      out << fmt::format("{:<11}{}\n", note.substr(0, colon), note.substr(colon + 2));
  }
  print_levels(machine, out);
  print_units(machine, out);
  out << fmt::format("\n{:<11}{:.2f} us to enter a parallel region, {:.2f} us a barrier in it  ({})\n", "threads",
                     machine.launch.first * 1e6, machine.launch.step * 1e6, name_of(machine.launch.source));
  print_cuda(cuda, out);
}

void print_json(const Machine& machine, const CpuFeatures& features, const Cuda& cuda, std::ostream& out) {
  using Ordered = nlohmann::ordered_json;
  Ordered json{{"machine", Ordered::parse(to_json(machine))},
               {"features", {{"isa", name_of(features.isa)}, {"vnni", features.vnni}, {"bf16", features.bf16}, {"amx", features.tiles}}},
               {"calibration_file", calibration_path()},
               {"machines", machine_names()}};
  json["cuda"] = {{"driver", cuda.version.empty() ? Ordered() : Ordered(cuda.version)},
                  {"reason", cuda.reason.empty() ? Ordered() : Ordered(cuda.reason)},
                  {"devices", Ordered::array()}};
  for (const CudaDevice& d : cuda.devices)
    json["cuda"]["devices"].push_back({{"name", d.name},
                                       {"arch", fmt::format("sm_{}{}", d.major, d.minor)},
                                       {"multiprocessors", d.processors},
                                       {"memory", d.memory},
                                       {"machine", d.machine.empty() ? Ordered() : Ordered(d.machine)}});
  out << json.dump(2, ' ', false, Ordered::error_handler_t::replace) << "\n";
}

} // namespace

int device_command(const DeviceOptions& options, std::ostream& out) {
  if (options.threads < 0)
    throw Error(Code::option, "--threads", fmt::format("is {}, must be 0 or more", options.threads));
  if (options.calibrate) {
    const std::string path = calibration_path();
    if (path.empty())
      throw Error(Code::file, "", "there is no place for the measured figures", "set HOME or XDG_CONFIG_HOME");
    const auto progress = [&](const std::string& line) {
      if (!options.quiet) std::cerr << line << std::endl;
    };
    progress("measuring this CPU, some seconds; other work on it makes the figures too small");
    save_calibration(calibrate(read_host(), progress), path);
    progress("written to " + path);
  }
  const Machine machine = this_cpu(options.threads);
  const Cuda cuda = probe_cuda();
  if (options.json)
    print_json(machine, cpu_features(), cuda, out);
  else
    print_text(machine, cpu_features(), cuda, out);
  return 0;
}

} // namespace tilewright
