// Every shipped machine is read, is sane, and says what is known of the hardware.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "machine/isa.h"
#include "machine/machine.h"
#include "support/error.h"

using namespace tilewright;

namespace {

const Level& at(const Machine& machine, LevelId id) { return machine.levels[static_cast<std::size_t>(id)]; }
const Level& at(const Machine& machine, LevelRole role) { return at(machine, find(machine, role).value()); }

class Shipped : public testing::TestWithParam<std::string> {};

std::string test_name(const testing::TestParamInfo<std::string>& info) {
  std::string name = info.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

TEST_P(Shipped, IsTheFileInTheFolderAndKeepsItsValuesInJson) {
  const Machine machine = machine_named(GetParam());
  EXPECT_EQ(machine.name, GetParam());
  const std::string path = std::string(TILEWRIGHT_SOURCE_DIR) + "/machines/" + GetParam() + ".json";
  EXPECT_EQ(machine_named(path), machine);
  const std::string text = to_json(machine);
  const Machine again = machine_from_json(text, "again");
  EXPECT_EQ(again, machine);
  EXPECT_EQ(to_json(again), text);
}

TEST_P(Shipped, TreeIsSane) {
  const Machine machine = machine_named(GetParam());
  ASSERT_GE(machine.levels.size(), 4u);
  EXPECT_EQ(machine.levels[0].parent, -1);
  EXPECT_EQ(machine.levels[0].role, LevelRole::memory);
  for (std::size_t i = 1; i < machine.levels.size(); i++) {
    const Level& level = machine.levels[i];
    ASSERT_GE(level.parent, 0);
    ASSERT_LT(level.parent, static_cast<LevelId>(i)) << "parents come first";
    const Level& parent = at(machine, level.parent);
    EXPECT_GE(level.count, parent.count);
    EXPECT_EQ(level.count, parent.count * instances_below(machine, static_cast<LevelId>(i)));
    // what is nearer is smaller, except that the registers of a GPU are more than its shared memory
    EXPECT_TRUE(level.capacity <= parent.capacity || level.role == LevelRole::registers) << level.name;
    EXPECT_LE(level.usable, level.capacity);
    EXPECT_LE(level.energy, parent.energy) << level.name << ": what is nearer is cheaper";
    EXPECT_LE(level.latency, parent.latency) << level.name;
    const bool faster = level.down.all >= parent.down.all;
    // A cluster gives less than the L2 above it; its use is latency. Registers have no rate.
    EXPECT_TRUE(faster || level.down.all == 0 || level.role == LevelRole::cluster) << level.name;
  }
  const std::vector<LevelId> path = path_to(machine, level_of(machine, LevelRole::registers));
  EXPECT_EQ(path.size(), machine.levels.size()) << "the shipped trees are chains";
  EXPECT_EQ(path.front(), 0);
  EXPECT_LE(machine.core.block_scratch, at(machine, LevelRole::scratch).capacity);
  EXPECT_EQ(at(machine, LevelRole::scratch).mode, Mode::managed);
  for (const Level& level : machine.levels) EXPECT_EQ(level.role == LevelRole::cache, level.mode == Mode::cached);
}

TEST_P(Shipped, CanPriceWhatProgramsNeed) {
  const Machine machine = machine_named(GetParam());
  for (UnitKind kind : {UnitKind::fma, UnitKind::alu, UnitKind::special}) {
    const UnitId unit = unit_for(machine, kind, DType::f32).value();
    const double seconds = seconds_for(machine, unit, DType::f32, 1e9);
    EXPECT_GT(seconds, 0);
    EXPECT_LT(seconds, 10);
    EXPECT_DOUBLE_EQ(seconds_for(machine, unit, DType::f32, 1e9, 0.5), 2 * seconds);
    EXPECT_DOUBLE_EQ(seconds_for(machine, unit, DType::f32, 3e9), 3 * seconds);
  }
  EXPECT_TRUE(unit_for(machine, UnitKind::issue, DType::f32));
  EXPECT_EQ(machine.launch.early > 0, machine.launch.early > 0 && machine.launch.early < machine.launch.step);
  for (const Unit& unit : machine.units)
    for (const UnitRate& rate : unit.rates) {
      EXPECT_GT(rate.clock, 1e8);
      EXPECT_GT(rate.energy, 0) << unit.name;
    }
}

TEST_P(Shipped, MoreCoresAreNeverSlower) {
  const Machine machine = machine_named(GetParam());
  for (LevelId level = 0; level < static_cast<LevelId>(machine.levels.size()); level++)
    for (Direction direction : {Direction::down, Direction::up}) {
      double before = INFINITY;
      for (int cores = 1; cores <= machine.core.count; cores++) {
        const double seconds = seconds_for(machine, level, 1e9, direction, cores);
        ASSERT_LE(seconds, before);
        before = seconds;
      }
      const double all = seconds_for(machine, level, 1e9, direction);
      EXPECT_LE(std::abs(before - all), 0.011 * all) << "all cores together reach the rate of all (3 digits)";
    }
}

TEST_P(Shipped, ArchAndIsaBelongTogether) {
  const Machine machine = machine_named(GetParam());
  if (machine.target == Target::cuda) {
    EXPECT_EQ(machine.arch.substr(0, 3), "sm_");
    EXPECT_EQ(machine.core.lanes, 32);
    EXPECT_EQ(machine.core.registers, 65536);
    return;
  }
  const Isa isa = isa_named(machine.isa).value();
  EXPECT_EQ(machine.core.lanes * 4, vector_bytes(isa));
  EXPECT_EQ(machine.core.registers, vector_registers(isa));
  EXPECT_EQ(at(machine, LevelRole::registers).capacity, vector_bytes(isa) * vector_registers(isa));
}

INSTANTIATE_TEST_SUITE_P(Machines, Shipped, testing::ValuesIn(machine_names()), test_name);

TEST(Catalog, HoldsEveryFileOfTheFolderAndThoseThatWerePromised) {
  std::vector<std::string> files;
  for (const auto& file : std::filesystem::directory_iterator(std::string(TILEWRIGHT_SOURCE_DIR) + "/machines"))
    files.push_back(file.path().stem());
  std::sort(files.begin(), files.end());
  EXPECT_EQ(machine_names(), files);
  for (const char* name : {"h200", "h100", "a100", "gtx1660", "rtxa4000", "orin", "generic-avx512", "generic-avx2",
                           "generic-neon", "generic-base"})
    EXPECT_FALSE(machine_text(name).empty()) << name;
  EXPECT_TRUE(machine_text("h2000").empty());
}

TEST(Catalog, FactsOfTheGpus) {
  struct Fact {
    const char *name, *arch;
    int cores;
    std::int64_t block_scratch, l2;
    double f32;    // TFLOP/s of the vector units
    double memory; // TB/s, the datasheet's: no machine reaches it
  };
  for (const Fact& fact : {Fact{"h200", "sm_90a", 132, 227 << 10, 60 << 20, 67, 4.8},
                           Fact{"h100", "sm_90a", 132, 227 << 10, 50 << 20, 67, 3.35},
                           Fact{"a100", "sm_80", 108, 163 << 10, 40 << 20, 19.5, 2.039},
                           Fact{"gtx1660", "sm_75", 22, 64 << 10, 3 << 19, 5.0, 0.192},
                           Fact{"rtxa4000", "sm_86", 48, 99 << 10, 4 << 20, 19.2, 0.448},
                           Fact{"orin", "sm_87", 16, 163 << 10, 4 << 20, 5.3, 0.2048}}) {
    const Machine machine = machine_named(fact.name);
    EXPECT_EQ(machine.arch, fact.arch);
    EXPECT_EQ(machine.core.count, fact.cores) << fact.name;
    EXPECT_EQ(machine.core.block_scratch, fact.block_scratch) << fact.name;
    EXPECT_EQ(at(machine, LevelRole::cache).capacity, fact.l2) << fact.name;
    const UnitId fma = unit_for(machine, UnitKind::fma, DType::f32).value();
    EXPECT_NEAR(operations_per_second(machine, fma, DType::f32) * 1e-12, fact.f32, 0.02 * fact.f32) << fact.name;
    EXPECT_LT(at(machine, LevelRole::memory).down.all, fact.memory * 1e12) << fact.name;
    EXPECT_GT(at(machine, LevelRole::memory).down.all, fact.memory * 0.8e12) << fact.name;
    EXPECT_EQ(unit_for(machine, UnitKind::tensor, DType::f16).has_value(), std::string(fact.name) != "gtx1660");
  }
}

TEST(Catalog, TheMeasuredFiguresOfTheH200) {
  const Machine machine = machine_named("h200");
  const std::vector<UnitId> tensor = units_of(machine, UnitKind::tensor);
  ASSERT_GE(tensor.size(), 2u);
  const UnitId wgmma = tensor[0], mma = tensor[1];
  EXPECT_TRUE(machine.units[static_cast<std::size_t>(wgmma)].asynchronous);
  const double fast = operations_per_second(machine, wgmma, DType::f16);
  const double plain = operations_per_second(machine, mma, DType::f16);
  EXPECT_NEAR(fast * 1e-12, 825, 25);  // 800 to 850 TFLOP/s sustained
  EXPECT_NEAR(plain * 1e-12, 602, 12); // 592 to 618
  EXPECT_NEAR(rate_for(machine, mma, DType::f16)->per_clock / rate_for(machine, wgmma, DType::f16)->per_clock, 0.66,
              0.005);
  EXPECT_NEAR(operations_per_second(machine, mma, DType::i8) * 1e-12, 1300, 20);
  EXPECT_NEAR(operations_per_second(machine, wgmma, DType::i8) * 1e-12, 1893, 30);
  EXPECT_NEAR(operations_per_second(machine, wgmma, DType::f8e4m3) * 1e-12, 1645, 32);
  EXPECT_NEAR(at(machine, LevelRole::cache).down.all, 9.0e12, 1e11);
  EXPECT_NEAR(at(machine, LevelRole::memory).down.all, 4.49e12, 5e10);
  EXPECT_NEAR(machine.launch.step, 0.98e-6, 1e-8);
  EXPECT_NEAR(machine.launch.early, 0.52e-6, 2e-8);
  EXPECT_EQ(machine.clusters.size(), 4u);
  for (const ClusterSize& cluster : machine.clusters)
    EXPECT_EQ(cluster.cores, cluster.size == 2 ? 132 : cluster.size == 16 ? 112 : 120);
  // a matmul of 4096^3 and a pass over 64 MiB of L2, as the header's example says
  EXPECT_NEAR(seconds_for(machine, mma, DType::f16, 2.0 * 4096 * 4096 * 4096) * 1e6, 228, 1);
  EXPECT_NEAR(seconds_for(machine, *find(machine, LevelRole::cache), 64 << 20) * 1e6, 7.46, 0.01);
  // tensor cores round f32 to tf32: never the answer to "what multiplies f32"
  EXPECT_FALSE(unit_for(machine, UnitKind::tensor, DType::f32));
  EXPECT_NEAR(balance(machine, unit_for(machine, UnitKind::fma, DType::f32).value(), DType::f32, 0), 14.9, 0.1);
}

TEST(Lookup, TypesOfTheResultAndUnitsThatCannot) {
  const Machine machine = machine_named("h200");
  const UnitId fma = unit_for(machine, UnitKind::fma, DType::f16).value();
  EXPECT_EQ(rate_for(machine, fma, DType::f16)->types->out, DType::f16);
  EXPECT_EQ(rate_for(machine, fma, DType::f16, DType::f32), nullptr);
  EXPECT_EQ(rate_for(machine, fma, DType::i64), nullptr);
  EXPECT_TRUE(std::isinf(seconds_for(machine, fma, DType::i64, 1)));
  EXPECT_EQ(operations_per_second(machine, fma, DType::i64), 0);
  EXPECT_TRUE(unit_for(machine, UnitKind::tensor, DType::f16, DType::f16));
  EXPECT_FALSE(unit_for(machine, UnitKind::tensor, DType::f16, DType::f64));
  EXPECT_EQ(level_named(machine, "l2"), find(machine, LevelRole::cache));
  EXPECT_FALSE(level_named(machine, "l4"));
  EXPECT_FALSE(find(machine, LevelRole::fabric));
  EXPECT_EQ(seconds_for(machine, level_of(machine, LevelRole::registers), 1e9), 0) << "no limit known";
  // two caches: find gives the outermost
  const Machine cpu = machine_named("generic-avx2");
  EXPECT_EQ(at(cpu, LevelRole::cache).name, "l3");
  EXPECT_EQ(instances_below(cpu, *level_named(cpu, "l2")), cpu.core.count);
}

std::string message_of(const std::string& name) {
  try {
    machine_named(name);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(Catalog, WrongNamesAreToldTheNearest) {
  EXPECT_NE(message_of("h20").find("did you mean h200"), std::string::npos) << message_of("h20");
  EXPECT_NE(message_of("gtx").find("did you mean gtx1660"), std::string::npos) << message_of("gtx");
  EXPECT_NE(message_of("generic-avx215").find("generic-avx2"), std::string::npos);
  EXPECT_NE(message_of("H200").find("h200"), std::string::npos) << message_of("H200");
  EXPECT_NE(message_of("quantum").find("shipped are a100, "), std::string::npos) << message_of("quantum");
  EXPECT_NE(message_of("").find("shipped are"), std::string::npos);
  EXPECT_NE(message_of(std::string(5000, 'x')).find("shipped are"), std::string::npos);
  EXPECT_NE(message_of("nowhere/x.json").find("E0201 nowhere/x.json: there is no such machine file"),
            std::string::npos);
  EXPECT_NE(message_of("x.json").find("E0201"), std::string::npos);
  EXPECT_NE(message_of(TILEWRIGHT_SOURCE_DIR).find("E0201"), std::string::npos) << "a folder";
}

} // namespace
