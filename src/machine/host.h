// The CPU that we run on, as a machine.
//
//   Machine m = this_cpu();      // every physical core that we may use
//   Machine m = this_cpu(2);     // seen with two threads: two cores, their caches, their share of the bandwidth
//
// Sizes and counts are detected (cpuid, affinity mask, sysfs). Rates come from the shipped file of the ISA
// (machines/generic-*.json), scaled to cores and clock, until `tilewright device --calibrate` has measured this CPU:
// then from $XDG_CONFIG_HOME/tilewright/machine.json. Machine::notes and the source of each level and unit say which.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "machine/isa.h"
#include "machine/machine.h"

namespace tilewright {

struct HostCache {
  int level = 1;
  std::int64_t bytes = 0; // of one instance
  int instances = 1;      // that the usable CPUs reach
  friend bool operator==(const HostCache&, const HostCache&) = default;
};

struct Host {
  std::string model = "unknown";
  CpuFeatures features;
  int cpus = 1;                  // in the affinity mask
  int cores = 1;                 // physical ones among them, no more than the control group's quota
  double clock = 0;              // at most; 0: unknown (virtual machines hide it)
  std::int64_t memory = 0;       // bytes; 0: unknown
  std::vector<HostCache> caches; // data and unified ones, ascending; empty: unknown
};

Host read_host();
Host read_host(const std::string& root, const std::vector<int>& cpus); // /proc and /sys under another root, for tests

// What was measured on one CPU. Rates by the level's name; a rate's `all` is with `cores` cores.
struct Calibration {
  std::string model, date;
  Isa isa = Isa::base;
  int cores = 1;
  double fma = 0; // f32 operations a second of long products, one core
  std::int64_t usable = 0; // bytes of the last cache that are read at its rate; 0: all, as far as is known
  std::map<std::string, Rate> read;
  Rate copy;            // bytes read plus bytes written, far beyond the caches
  double barrier = 0;   // of all threads, spinning
  double fork_join = 0; // a parallel region whose threads slept
  friend bool operator==(const Calibration&, const Calibration&) = default;
};

Machine machine_of(const Host&, int threads, const std::optional<Calibration>&); // pure; 0 threads: all cores
Machine this_cpu(int threads = 0);

// The user's file: one entry a CPU model and ISA.
std::string calibration_path(); // empty if neither XDG_CONFIG_HOME nor HOME is set
std::vector<Calibration> calibrations_from_json(std::string_view text, const std::string& file); // strict
std::string to_json(const std::vector<Calibration>&);
void save_calibration(const Calibration&, const std::string& path); // replaces its entry, keeps the others; atomic
std::optional<Calibration> find_calibration(const std::vector<Calibration>&, const std::string& model, Isa);

} // namespace tilewright
