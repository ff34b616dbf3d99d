// The running CPU as a machine, on made-up systems and on this one.
#include "machine/host.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <numeric>

#include "support/error.h"

using namespace tilewright;
namespace fs = std::filesystem;

namespace {

class Folder { // of its own for each test, removed afterwards
public:
  Folder()
      : path_(fs::temp_directory_path() /
              ("machine_test_" + std::to_string(getpid()) + "_" + std::to_string(made_++))) {
    fs::create_directories(path_);
  }
  ~Folder() { fs::remove_all(path_); }
  std::string str() const { return path_.string(); }
  void write(const std::string& name, const std::string& text) const {
    fs::create_directories((path_ / name).parent_path());
    std::ofstream(path_ / name) << text << "\n";
  }

private:
  static inline int made_ = 0;
  fs::path path_;
};

std::vector<int> cpus(int n) {
  std::vector<int> out(static_cast<std::size_t>(n));
  std::iota(out.begin(), out.end(), 0);
  return out;
}

struct FakeCache {
  int level;
  const char *type, *size;
  int sharing; // CPUs with consecutive numbers
};

std::string range(int low, int n) {
  return n == 1 ? std::to_string(low) : std::to_string(low) + "-" + std::to_string(low + n - 1);
}

void fake(const Folder& root, int n, int threads, const std::vector<FakeCache>& caches) {
  for (int cpu = 0; cpu < n; cpu++) {
    const std::string folder = "sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/";
    root.write(folder + "topology/thread_siblings_list", range(cpu / threads * threads, threads));
    for (std::size_t i = 0; i < caches.size(); i++) {
      const std::string index = folder + "cache/index" + std::to_string(i) + "/";
      root.write(index + "level", std::to_string(caches[i].level));
      root.write(index + "type", caches[i].type);
      root.write(index + "size", caches[i].size);
      root.write(index + "shared_cpu_list", range(cpu / caches[i].sharing * caches[i].sharing, caches[i].sharing));
    }
  }
}

const Level* level_of_name(const Machine& machine, const char* name) {
  const std::optional<LevelId> id = level_named(machine, name);
  return id ? &machine.levels[static_cast<std::size_t>(*id)] : nullptr;
}

TEST(Host, ReadsThreadsCachesMemoryAndClock) {
  const Folder root;
  fake(root, 16, 2,
       {{1, "Data", "48K", 2}, {1, "Instruction", "32K", 2}, {2, "Unified", "2048K", 2}, {3, "Unified", "36M", 8}});
  root.write("proc/meminfo", "MemTotal:       16384000 kB");
  root.write("sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq", "4500000");
  const Host host = read_host(root.str(), cpus(16));
  EXPECT_EQ(host.cpus, 16);
  EXPECT_EQ(host.cores, 8);
  EXPECT_EQ(host.memory, 16384000ll << 10);
  EXPECT_DOUBLE_EQ(host.clock, 4.5e9);
  EXPECT_EQ(host.caches, (std::vector<HostCache>{{1, 48 << 10, 8}, {2, 2 << 20, 8}, {3, 36 << 20, 2}}));
  EXPECT_EQ(read_host(root.str(), {0, 1}).cores, 1) << "two threads of one core";
  EXPECT_EQ(read_host(root.str(), {0, 2, 9}).cores, 3);
  EXPECT_EQ(read_host(root.str(), {0, 2}).caches[2].instances, 1) << "one L3 reached";
}

TEST(Host, AQuotaOfAControlGroupLimitsTheCores) {
  const Folder root;
  fake(root, 8, 1, {});
  const auto cores = [&] { return read_host(root.str(), cpus(8)).cores; };
  EXPECT_EQ(cores(), 8);
  root.write("sys/fs/cgroup/cpu.max", "max 100000");
  EXPECT_EQ(cores(), 8);
  root.write("sys/fs/cgroup/cpu.max", "250000 100000");
  EXPECT_EQ(cores(), 3);
  root.write("sys/fs/cgroup/cpu.max", "1000 100000");
  EXPECT_EQ(cores(), 1);
  root.write("sys/fs/cgroup/cpu.max", "nonsense");
  EXPECT_EQ(cores(), 8);
  fs::remove(root.str() + "/sys/fs/cgroup/cpu.max");
  root.write("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "200000");
  root.write("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000");
  EXPECT_EQ(cores(), 2) << "the older form";
  root.write("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1");
  EXPECT_EQ(cores(), 8);
}

TEST(Host, ASystemThatSaysNothingIsStillAMachine) {
  const Folder root;
  const Host host = read_host(root.str(), cpus(4));
  EXPECT_EQ(host.cores, 4);
  EXPECT_TRUE(host.caches.empty());
  EXPECT_EQ(host.clock, 0);
  EXPECT_EQ(host.memory, 0);
  const Machine machine = machine_of(host, 0, {});
  EXPECT_EQ(machine.core.count, 4);
  EXPECT_TRUE(level_of_name(machine, "l3")) << "the sizes of the shipped file";
  const Folder rubbish;
  rubbish.write("sys/devices/system/cpu/cpu0/cache/index0/type", "Data");
  rubbish.write("sys/devices/system/cpu/cpu0/cache/index0/level", "many");
  rubbish.write("sys/devices/system/cpu/cpu0/cache/index0/size", "99999999999999999999999999G");
  rubbish.write("proc/meminfo", "MemTotal: lots");
  EXPECT_TRUE(read_host(rubbish.str(), cpus(1)).caches.empty());
}

Host host_of(Isa isa, int cores, std::vector<HostCache> caches) {
  Host host;
  host.model = "Made Up 9000";
  host.features = {isa, true, true};
  host.cpus = host.cores = cores;
  host.memory = 8ll << 30;
  host.caches = std::move(caches);
  return host;
}

TEST(MachineOf, HasTheHostsSizesAndItsShareOfTheRates) {
  const Host host = host_of(Isa::avx512, 8, {{1, 48 << 10, 8}, {2, 2 << 20, 8}, {3, 36 << 20, 2}});
  const Machine generic = machine_named("generic-avx512");
  const Machine machine = machine_of(host, 0, {});
  EXPECT_EQ(machine.title, "Made Up 9000");
  EXPECT_EQ(machine.isa, "avx512");
  EXPECT_EQ(machine.core.count, 8);
  EXPECT_EQ(level_of_name(machine, "l1")->capacity, 48 << 10);
  EXPECT_EQ(level_of_name(machine, "l2")->capacity, 2 << 20);
  EXPECT_EQ(level_of_name(machine, "l2")->count, 8);
  EXPECT_EQ(level_of_name(machine, "l3")->count, 2);
  EXPECT_EQ(level_of_name(machine, "dram")->capacity, 8ll << 30);
  EXPECT_EQ(level_of_name(machine, "scratch")->capacity, 1 << 20) << "half of the L2";
  EXPECT_EQ(machine.core.block_scratch, 1 << 20);
  EXPECT_DOUBLE_EQ(level_of_name(machine, "l1")->down.all, 8 * level_of_name(generic, "l1")->down.one);
  EXPECT_DOUBLE_EQ(level_of_name(machine, "dram")->down.all, level_of_name(generic, "dram")->down.all);
  const Machine two = machine_of(host, 2, {});
  EXPECT_EQ(two.core.count, 2);
  EXPECT_EQ(level_of_name(two, "l2")->count, 2);
  EXPECT_DOUBLE_EQ(level_of_name(two, "dram")->down.all, 2 * level_of_name(generic, "dram")->down.one);
  EXPECT_EQ(machine_of(host, 100, {}).core.count, 8) << "threads make no cores";
  EXPECT_EQ(machine_of(host, 1, {}).latency.barrier, 0) << "nobody to wait for";
}

TEST(MachineOf, ScalesWithTheClockAndDropsUnitsThatAreMissing) {
  Host host = host_of(Isa::avx512, 4, {{1, 32 << 10, 4}, {2, 1 << 20, 4}, {3, 32 << 20, 1}});
  const Machine slow = machine_of(host, 0, {});
  host.clock = 2 * slow.core.clock;
  const Machine fast = machine_of(host, 0, {});
  const UnitId fma = unit_for(slow, UnitKind::fma, DType::f32).value();
  EXPECT_DOUBLE_EQ(operations_per_second(fast, fma, DType::f32), 2 * operations_per_second(slow, fma, DType::f32));
  EXPECT_DOUBLE_EQ(level_of_name(fast, "l1")->down.all, 2 * level_of_name(slow, "l1")->down.all);
  EXPECT_DOUBLE_EQ(level_of_name(fast, "dram")->down.all, level_of_name(slow, "dram")->down.all);
  EXPECT_EQ(slow.units[static_cast<std::size_t>(unit_for(slow, UnitKind::dot, DType::u8).value())].name, "vnni");
  host.features.vnni = false;
  const Machine without = machine_of(host, 0, {});
  EXPECT_EQ(without.units[static_cast<std::size_t>(unit_for(without, UnitKind::dot, DType::u8).value())].name, "madd");
}

TEST(MachineOf, CachesThatAreSharedOrMissing) {
  const Machine shared = machine_of(host_of(Isa::neon, 8, {{1, 64 << 10, 8}, {2, 4 << 20, 2}}), 0, {});
  EXPECT_EQ(level_of_name(shared, "l3"), nullptr);
  EXPECT_EQ(level_of_name(shared, "l2")->count, 2);
  EXPECT_EQ(shared.levels[static_cast<std::size_t>(level_of_name(shared, "l2")->parent)].name, "dram");
  EXPECT_EQ(level_of_name(shared, "scratch")->capacity, 4 << 20 >> 1 >> 2) << "half of the L2, a quarter each";
  const Machine bare = machine_of(host_of(Isa::base, 3, {{1, 16 << 10, 3}}), 0, {});
  EXPECT_EQ(level_of_name(bare, "l2"), nullptr);
  EXPECT_EQ(level_of_name(bare, "scratch")->capacity, 8 << 10);
  const Machine far = machine_of(host_of(Isa::avx2, 6, {{1, 32 << 10, 6}, {3, 8 << 20, 1}}), 0, {});
  EXPECT_EQ(level_of_name(far, "scratch")->capacity, 16 << 10) << "the L3 is too far away";
}

TEST(MachineOf, IsSaneOnEveryKindOfHost) { // verify() is called inside; it throws
  int machines = 0;
  for (Isa isa : {Isa::base, Isa::avx2, Isa::avx512, Isa::neon})
    for (int cores : {1, 2, 3, 7, 64, 256})
      for (int l2 : {0, 1, 2, 5, 256})
        for (int l3 : {0, 1, 3, 32})
          for (int threads : {0, 1, 2, 5}) {
            std::vector<HostCache> caches = {{1, 32 << 10, cores}};
            if (l2 > 0) caches.push_back({2, 1 << 20, l2});
            if (l3 > 0) caches.push_back({3, 16 << 20, l3});
            const Machine machine = machine_of(host_of(isa, cores, caches), threads, {});
            EXPECT_EQ(machine_from_json(to_json(machine), "again"), machine);
            EXPECT_EQ(machine.core.count, threads == 0 ? cores : std::min(threads, cores));
            machines++;
          }
  EXPECT_EQ(machines, 4 * 6 * 5 * 4 * 4);
}

Calibration measured(const std::string& model, Isa isa, int cores) {
  Calibration c;
  c.model = model;
  c.date = "2026-01-02";
  c.isa = isa;
  c.cores = cores;
  c.fma = 123.25e9;
  c.usable = 24 << 20;
  c.read = {{"l1", {5e11, 2.5e11}}, {"l2", {2e11, 1e11}}, {"l3", {9e10, 5e10}}, {"dram", {3e10, 2.1e10}}};
  c.copy = {2e10, 1.4e10};
  c.barrier = 2.5e-7;
  c.fork_join = 3e-6;
  return c;
}

TEST(Calibrated, FiguresReplaceTheShippedOnes) {
  const Host host = host_of(Isa::avx512, 2, {{1, 32 << 10, 2}, {2, 1 << 20, 2}, {3, 32 << 20, 1}});
  const Machine plain = machine_of(host, 0, {});
  const Machine machine = machine_of(host, 0, measured(host.model, Isa::avx512, 2));
  const UnitId fma = unit_for(machine, UnitKind::fma, DType::f32).value();
  EXPECT_NEAR(operations_per_second(machine, fma, DType::f32), 2 * 123.25e9, 1e3);
  EXPECT_NEAR(operations_per_second(machine, fma, DType::f64) / operations_per_second(machine, fma, DType::f32), 0.5,
              1e-9);
  EXPECT_EQ(machine.units[static_cast<std::size_t>(fma)].source, Source::calibrated);
  EXPECT_EQ(level_of_name(machine, "l2")->down, (Rate{2e11, 1e11}));
  EXPECT_EQ(level_of_name(machine, "scratch")->down, (Rate{2e11, 1e11})) << "lies in the L2";
  EXPECT_EQ(level_of_name(machine, "dram")->source, Source::calibrated);
  EXPECT_EQ(level_of_name(plain, "l3")->usable, 32 << 20);
  EXPECT_EQ(level_of_name(machine, "l3")->usable, 24 << 20) << "others use it too";
  EXPECT_EQ(level_of_name(machine, "l3")->capacity, 32 << 20);
  // a copy of n bytes reads and writes n: n / up = 2n / copy - n / down
  EXPECT_NEAR(1 / level_of_name(machine, "dram")->up.all, 2 / 2e10 - 1 / 3e10, 1e-16);
  EXPECT_EQ(machine.launch.first, 3e-6);
  EXPECT_EQ(machine.launch.step, 2.5e-7);
  EXPECT_EQ(plain.launch.source, Source::estimate);
  EXPECT_EQ(machine.launch.source, Source::calibrated);
  const UnitId special = unit_for(machine, UnitKind::special, DType::f32).value();
  EXPECT_EQ(machine.units[static_cast<std::size_t>(special)], plain.units[static_cast<std::size_t>(special)]);
}

TEST(Calibrated, WithOtherNumbersOfCores) {
  const Host host = host_of(Isa::avx512, 8, {{1, 32 << 10, 8}, {2, 1 << 20, 8}, {3, 32 << 20, 1}});
  const Calibration with8 = [&] {
    Calibration c = measured(host.model, Isa::avx512, 8);
    c.read["dram"] = {5e10, 2e10};
    c.read["l1"] = {1.9e12, 2.5e11};
    return c;
  }();
  EXPECT_EQ(level_of_name(machine_of(host, 8, with8), "dram")->down.all, 5e10);
  EXPECT_EQ(level_of_name(machine_of(host, 2, with8), "dram")->down.all, 4e10) << "two cores take no more";
  EXPECT_EQ(level_of_name(machine_of(host, 2, with8), "l1")->down.all, 5e11);
  // measured with one core, used with eight: what is shared is not less than the shipped file believes
  Calibration with1 = with8;
  with1.cores = 1;
  with1.read["dram"] = {2e10, 2e10};
  EXPECT_EQ(level_of_name(machine_of(host, 8, with1), "l1")->down.all, 2e12);
  EXPECT_EQ(level_of_name(machine_of(host, 8, with1), "dram")->down.all,
            level_of_name(machine_of(host, 8, {}), "dram")->down.all);
  EXPECT_EQ(machine_of(host, 8, with1).launch.source, Source::estimate) << "no barrier was measured";
}

TEST(CalibrationFile, KeepsOneEntryACpuAndIsa) {
  const Folder folder;
  const std::string path = folder.str() + "/new/folder/machine.json";
  save_calibration(measured("A", Isa::avx2, 2), path);
  save_calibration(measured("B", Isa::avx2, 4), path);
  save_calibration(measured("A", Isa::avx512, 2), path);
  save_calibration(measured("A", Isa::avx2, 16), path);
  std::ifstream file(path);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const std::vector<Calibration> all = calibrations_from_json(text, path);
  ASSERT_EQ(all.size(), 3u);
  EXPECT_EQ(find_calibration(all, "A", Isa::avx2), measured("A", Isa::avx2, 16));
  EXPECT_EQ(find_calibration(all, "B", Isa::avx2), measured("B", Isa::avx2, 4));
  EXPECT_FALSE(find_calibration(all, "B", Isa::base));
  EXPECT_EQ(calibrations_from_json(to_json(all), path), all);
  int files = 0;
  for ([[maybe_unused]] const auto& entry : fs::directory_iterator(folder.str() + "/new/folder")) files++;
  EXPECT_EQ(files, 1) << "nothing half-written is left";
  folder.write("new/folder/machine.json", "{ damaged");
  save_calibration(measured("C", Isa::base, 1), path);
  std::ifstream again(path);
  EXPECT_EQ(calibrations_from_json({std::string(std::istreambuf_iterator<char>(again), {})}, path).size(), 1u);
}

TEST(CalibrationFile, RefusalsNameThePlace) {
  const std::string good = to_json({measured("A", Isa::avx2, 2)});
  const auto refused = [&](const std::string& from, const std::string& to) -> std::string {
    std::string text = good;
    const std::size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    text.replace(at, from.size(), to);
    try {
      calibrations_from_json(text, "machine.json");
    } catch (const Error& error) {
      return error.what();
    }
    return "accepted";
  };
  EXPECT_NE(refused("\"cpus\"", "\"cpu\"").find("#/cpus: is missing"), std::string::npos);
  EXPECT_NE(refused("\"avx2\"", "\"avx9\"").find("#/cpus/0/isa"), std::string::npos);
  EXPECT_NE(refused("\"cores\": 2", "\"cores\": 0").find("#/cpus/0/cores: is 0"), std::string::npos);
  EXPECT_NE(refused("\"l1\"", "\"l9\"").find("#/cpus/0/read/l9: unknown key"), std::string::npos);
  EXPECT_NE(refused("\"barrier\": ", "\"barrier\": -").find("#/cpus/0/barrier"), std::string::npos);
  EXPECT_NE(refused("\"fma\": ", "\"fma\": -").find("#/cpus/0/fma"), std::string::npos);
}

TEST(CalibrationFile, ThatCannotBeWritten) {
  const Folder folder;
  folder.write("file", "not a folder");
  for (const std::string& path : {std::string(), folder.str() + "/file/machine.json"}) {
    try {
      save_calibration(measured("A", Isa::avx2, 2), path);
      ADD_FAILURE() << path;
    } catch (const Error& error) {
      EXPECT_EQ(error.code, Code::file) << error.what();
    }
  }
}

class Environment { // a variable set for a while
public:
  Environment(const char* name, const std::string& value) : name_(name) {
    if (const char* was = std::getenv(name)) was_ = was;
    setenv(name, value.c_str(), 1);
  }
  ~Environment() {
    if (was_)
      setenv(name_, was_->c_str(), 1);
    else
      unsetenv(name_);
  }

private:
  const char* name_;
  std::optional<std::string> was_;
};

TEST(ThisCpu, IsConsistentWithWhatWasDetected) {
  const Folder config;
  const Environment environment("XDG_CONFIG_HOME", config.str());
  const Host host = read_host();
  const Machine machine = this_cpu();
  EXPECT_EQ(machine.isa, name_of(detect_isa()));
  EXPECT_EQ(machine.core.count, host.cores);
  EXPECT_LE(host.cores, host.cpus);
  EXPECT_GE(host.cores, 1);
  EXPECT_EQ(machine_named("cpu"), machine);
  EXPECT_EQ(this_cpu(1).core.count, 1);
  for (const HostCache& cache : host.caches) {
    EXPECT_GE(cache.instances, 1);
    EXPECT_LE(cache.instances, host.cpus);
  }
  EXPECT_EQ(machine_from_json(to_json(machine), "again"), machine);
}

TEST(ThisCpu, UsesTheUsersFigures) {
  const Folder config;
  const Environment environment("XDG_CONFIG_HOME", config.str());
  EXPECT_EQ(calibration_path(), config.str() + "/tilewright/machine.json");
  const Host host = read_host();
  save_calibration(measured(host.model, host.features.isa, host.cores), calibration_path());
  const Machine machine = this_cpu();
  EXPECT_NEAR(operations_per_second(machine, unit_for(machine, UnitKind::fma, DType::f32).value(), DType::f32),
              123.25e9 * host.cores, 1e3);
  EXPECT_NE(machine.notes.back().find("2026-01-02"), std::string::npos) << machine.notes.back();
  config.write("tilewright/machine.json", "{ damaged");
  const Machine aside = this_cpu();
  EXPECT_NE(aside.notes.back().find("left aside: E0101"), std::string::npos) << aside.notes.back();
  EXPECT_EQ(aside.levels, machine_of(host, 0, {}).levels);
}

TEST(CalibrationFile, StandsInTheUsersSettings) {
  {
    const Environment config("XDG_CONFIG_HOME", ""), home("HOME", "/somebody");
    EXPECT_EQ(calibration_path(), "/somebody/.config/tilewright/machine.json");
  }
  {
    const Environment config("XDG_CONFIG_HOME", "relative"), home("HOME", "/somebody");
    EXPECT_EQ(calibration_path(), "/somebody/.config/tilewright/machine.json");
  }
  const Environment config("XDG_CONFIG_HOME", ""), home("HOME", "");
  EXPECT_EQ(calibration_path(), "");
}

} // namespace
