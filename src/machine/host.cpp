#include "machine/host.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <set>
#include <sstream>
#include <thread>

#include "support/error.h"

#if defined(__linux__)
#include <sched.h>
#endif

namespace tilewright {
namespace {

std::string first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

std::vector<int> affinity() {
  std::vector<int> cpus;
#if defined(__linux__)
  std::vector<cpu_set_t> mask(16); // 16384 CPUs
  const std::size_t bytes = mask.size() * sizeof(cpu_set_t);
  if (sched_getaffinity(0, bytes, mask.data()) == 0)
    for (int cpu = 0; cpu < static_cast<int>(bytes) * 8; cpu++)
      if (CPU_ISSET_S(static_cast<std::size_t>(cpu), bytes, mask.data())) cpus.push_back(cpu);
#endif
  if (cpus.empty())
    for (unsigned cpu = 0; cpu < std::max(1u, std::thread::hardware_concurrency()); cpu++)
      cpus.push_back(static_cast<int>(cpu));
  return cpus;
}

std::string cpu_folder(const std::string& root, int cpu) {
  return fmt::format("{}/sys/devices/system/cpu/cpu{}", root, cpu);
}

// Threads of one core name the same siblings; a system that says nothing has one thread a core.
int physical_cores(const std::string& root, const std::vector<int>& cpus) {
  std::set<std::string> cores;
  for (int cpu : cpus) {
    const std::string siblings = first_line(cpu_folder(root, cpu) + "/topology/thread_siblings_list");
    cores.insert(siblings.empty() ? fmt::format("cpu {}", cpu) : siblings);
  }
  return static_cast<int>(cores.size());
}

// Whole cores that the control group's quota pays for; more threads than that would only wait for each other.
int quota(const std::string& root) {
  double limit = -1, period = -1;
  std::istringstream v2(first_line(root + "/sys/fs/cgroup/cpu.max")); // "200000 100000" or "max 100000"
  if (!(v2 >> limit >> period)) {
    limit = std::atof(first_line(root + "/sys/fs/cgroup/cpu/cpu.cfs_quota_us").c_str());
    period = std::atof(first_line(root + "/sys/fs/cgroup/cpu/cpu.cfs_period_us").c_str());
  }
  if (limit <= 0 || period <= 0) return 1 << 24;
  return static_cast<int>(std::clamp(std::ceil(limit / period), 1.0, 65536.0));
}

std::int64_t bytes_of_size(const std::string& text) { // "32K", "1024K", "32M"
  std::int64_t value = 0;
  std::size_t i = 0;
  for (; i < text.size() && text[i] >= '0' && text[i] <= '9' && value < (1ll << 40); i++)
    value = 10 * value + (text[i] - '0');
  const char unit = i < text.size() ? text[i] : ' ';
  return value << (unit == 'K' ? 10 : unit == 'M' ? 20 : unit == 'G' ? 30 : 0);
}

std::vector<HostCache> read_caches(const std::string& root, const std::vector<int>& cpus) {
  std::map<int, HostCache> caches;                 // by level
  std::set<std::pair<int, std::string>> instances; // index and sharers: each is read once
  for (int cpu : cpus)
    for (int index = 0; index < 16; index++) {
      const std::string folder = fmt::format("{}/cache/index{}/", cpu_folder(root, cpu), index);
      const std::string shared = first_line(folder + "shared_cpu_list");
      if (!instances.emplace(index, shared.empty() ? fmt::format("cpu {}", cpu) : shared).second) continue;
      const std::string type = first_line(folder + "type");
      if (type.empty()) break;
      const int level = std::atoi(first_line(folder + "level").c_str());
      const std::int64_t bytes = bytes_of_size(first_line(folder + "size"));
      if (type == "Instruction" || level < 1 || level > 4 || bytes <= 0) continue;
      HostCache& cache = caches.emplace(level, HostCache{level, bytes, 0}).first->second;
      cache.bytes = std::min(cache.bytes, bytes); // cores of two kinds: plan for the smaller
      cache.instances++;
    }
  std::vector<HostCache> out;
  for (const auto& [level, cache] : caches) out.push_back(cache);
  return out;
}

std::int64_t read_memory(const std::string& root) {
  std::ifstream file(root + "/proc/meminfo");
  std::string key;
  std::int64_t kilobytes = 0;
  return file >> key >> kilobytes && key == "MemTotal:" ? kilobytes << 10 : 0;
}

// ---- the shipped file, fitted to the host

void remove_level(Machine& machine, LevelId gone) {
  const LevelId parent = machine.levels[static_cast<std::size_t>(gone)].parent;
  machine.levels.erase(machine.levels.begin() + gone);
  for (Level& level : machine.levels) {
    if (level.parent == gone) level.parent = parent;
    if (level.parent > gone) level.parent--;
  }
}

int depth_of_cache(const Level& level) { // "l2" -> 2; 0 for what is no cache
  return level.role == LevelRole::cache && level.name.size() == 2 && level.name[0] == 'l' ? level.name[1] - '0' : 0;
}

void fit_caches(Machine& machine, const Host& host) {
  const auto find_cache = [&](int depth) -> const HostCache* {
    for (const HostCache& cache : host.caches)
      if (cache.level == depth) return &cache;
    return nullptr;
  };
  for (LevelId id = static_cast<LevelId>(machine.levels.size()) - 1; id >= 0 && !host.caches.empty(); id--)
    if (const int depth = depth_of_cache(machine.levels[static_cast<std::size_t>(id)]); depth > 0 && !find_cache(depth))
      remove_level(machine, id);
  for (Level& level : machine.levels) {
    const int depth = depth_of_cache(level);
    level.count = depth == 0 && level.role != LevelRole::memory ? machine.core.count : 1;
    if (const HostCache* cache = depth > 0 ? find_cache(depth) : nullptr) {
      level.capacity = level.usable = cache->bytes;
      level.count = std::min(cache->instances, machine.core.count);
    } else if (depth > 0 && depth < 3) {
      level.count = machine.core.count;
    }
    if (level.parent >= 0)
      level.count = std::max(level.count, machine.levels[static_cast<std::size_t>(level.parent)].count);
  }
}

// Packed buffers take half of the innermost cache above them that is larger than the first: each core its share.
void fit_scratch(Machine& machine) {
  Level& scratch = machine.levels[static_cast<std::size_t>(level_of(machine, LevelRole::scratch))];
  const Level* holder = &machine.levels[static_cast<std::size_t>(scratch.parent)];
  if (depth_of_cache(*holder) != 2) // no second cache: a last one is too far away, the first one is what there is
    for (const Level& level : machine.levels)
      if (depth_of_cache(level) == 1) holder = &level;
  const int sharing = (machine.core.count + holder->count - 1) / holder->count;
  scratch.capacity = std::max<std::int64_t>(4096, holder->capacity / 2 / sharing);
  scratch.usable = scratch.capacity;
  machine.core.block_scratch = scratch.capacity;
}

void fit_rates(Machine& machine, double faster) {
  const int cores = machine.core.count;
  for (Level& level : machine.levels) {
    const bool memory = level.role == LevelRole::memory;
    for (Rate* rate : {&level.down, &level.up}) {
      rate->one *= memory ? 1 : faster;
      rate->all = memory ? std::min(rate->all, rate->one * cores) : rate->one * cores;
    }
    if (!memory) level.latency /= faster;
  }
  machine.core.clock *= faster;
  for (Unit& unit : machine.units) {
    unit.latency /= faster;
    for (UnitRate& rate : unit.rates) rate.clock *= faster;
  }
  if (cores == 1)
    machine.latency.barrier = machine.latency.grid_barrier = machine.launch.first = machine.launch.step = 0;
}

// `all` was measured with some number of cores. Fewer get no more than each can take. More than were measured: each its
// own where they share nothing, else what the shipped file believes, but not less than was seen.
Rate at_cores(Rate measured, int measured_with, int cores, bool own, double believed) {
  const double together = measured.one * cores;
  if (cores < measured_with) return {std::min(own ? together : measured.all, together), measured.one};
  if (cores > measured_with)
    return {own ? together : std::max(measured.all, std::min(together, believed)), measured.one};
  return measured;
}

void apply(Machine& machine, const Calibration& calibration) {
  const int cores = machine.core.count;
  for (Level& level : machine.levels) {
    const auto found = calibration.read.find(level.role == LevelRole::scratch ? "l2" : level.name);
    if (found == calibration.read.end()) continue;
    const double up = level.up.all / level.down.all;
    const bool own = level.role != LevelRole::memory && level.count == cores;
    level.down = at_cores(found->second, calibration.cores, cores, own, level.down.all);
    level.up = {level.down.all * up, level.down.one * up};
    if (level.role == LevelRole::memory && calibration.copy.one > 0) { // seconds of a copy less those of its reads
      const auto writes = [](double copy, double read) { return 1 / std::max(2 / copy - 1 / read, 1 / read); };
      const Rate copy = at_cores(calibration.copy, calibration.cores, cores, false, 0);
      level.up = {writes(copy.all, level.down.all), writes(copy.one, level.down.one)};
      level.up.one = std::min(level.up.one, level.up.all);
    }
    level.source = Source::calibrated;
  }
  if (const auto last = find(machine, LevelRole::cache); last && calibration.usable > 0) {
    Level& level = machine.levels[static_cast<std::size_t>(*last)];
    level.usable = std::min(level.usable, calibration.usable);
  }
  const double was = operations_per_second(machine, *unit_for(machine, UnitKind::fma, DType::f32), DType::f32) / cores;
  for (Unit& unit : machine.units) { // the other types and the byte products run on the same pipes
    if (unit.kind != UnitKind::fma && unit.kind != UnitKind::dot) continue;
    for (UnitRate& rate : unit.rates) rate.per_clock *= calibration.fma / was;
    unit.source = Source::calibrated;
  }
  if (cores > 1 && calibration.cores > 1) {
    machine.latency.barrier = machine.latency.grid_barrier = machine.launch.step = calibration.barrier;
    machine.launch.first = calibration.fork_join;
    machine.latency.source = machine.launch.source = Source::calibrated;
  }
}

} // namespace

Host read_host(const std::string& root, const std::vector<int>& cpus) {
  Host host;
  host.model = cpu_model();
  host.features = cpu_features();
  host.cpus = static_cast<int>(cpus.size());
  host.cores = std::min(physical_cores(root, cpus), quota(root));
  host.clock = 1e3 * std::atof(first_line(cpu_folder(root, cpus[0]) + "/cpufreq/cpuinfo_max_freq").c_str());
  host.memory = read_memory(root);
  host.caches = read_caches(root, cpus);
  return host;
}

Host read_host() { return read_host("", affinity()); }

Machine machine_of(const Host& host, int threads, const std::optional<Calibration>& calibration) {
  TW_ASSERT(threads >= 0 && host.cores >= 1);
  const std::string file = fmt::format("generic-{}", name_of(host.features.isa));
  Machine machine = machine_named(file);
  machine.name = "cpu";
  machine.title = host.model;
  machine.core.count = threads == 0 ? host.cores : std::min(threads, host.cores);
  std::erase_if(machine.units, [&](const Unit& unit) {
    return (unit.needs == "vnni" && !host.features.vnni) || (unit.needs == "bf16" && !host.features.bf16);
  });
  const bool plausible = host.clock > 5e8 && host.clock < 1e10;
  const double faster = plausible ? host.clock / machine.core.clock : 1;
  Level& memory = machine.levels[static_cast<std::size_t>(level_of(machine, LevelRole::memory))];
  if (host.memory > 0) memory.capacity = memory.usable = host.memory;
  fit_caches(machine, host);
  fit_scratch(machine);
  fit_rates(machine, faster);
  if (calibration) apply(machine, *calibration);
  machine.notes = {
      fmt::format("cores: {} of {} usable ({} CPUs in the affinity mask)", machine.core.count, host.cores, host.cpus),
      host.caches.empty() ? fmt::format("sizes of the caches: unknown here, those of {}", file)
                          : std::string("sizes of the caches: detected"),
      plausible ? std::string("clock: detected") : fmt::format("clock: unknown here, that of {}", file),
      calibration ? fmt::format("rates: measured on this CPU on {}; the rest from {}", calibration->date, file)
                  : fmt::format("rates: estimates of {}, scaled to cores and clock; --calibrate measures them", file)};
  verify(machine, "cpu");
  return machine;
}

} // namespace tilewright
