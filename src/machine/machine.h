// A machine as data: a tree of memory levels, units that compute, latencies and launch costs. Passes ask by role, never
// by a name of a vendor or a product; what differs between machines is in machines/*.json (docs/machines.md).
//
//   Machine m = machine_named("h200");                              // shipped, or a path, or "cpu": the running one
//   LevelId l2 = *find(m, LevelRole::cache);                        // the outermost cache
//   seconds_for(m, l2, 64 << 20)                                    // 64 MiB out of it by all cores:      7.4 us
//   UnitId mma = *unit_for(m, UnitKind::tensor, DType::f16);
//   seconds_for(m, mma, DType::f16, 2.0 * 4096 * 4096 * 4096)       // a matmul at the unit's full rate:   228 us
//
// Levels form a tree whose root is the largest memory. The rates of a level are those between it and what lies below
// it: `down` is what its readers get out of it, `up` what they can write into it. So a load costs bytes / down of the
// level it comes from, a store bytes / up of the level it goes to, whichever levels lie between (a block without a
// cluster skips the cluster level).
//
//   GPU   memory -> cache (L2) -> [cluster] -> scratch (shared memory) -> registers
//   CPU   memory -> cache (L3) -> cache (L2) -> scratch (packed buffers, a part of the L2) -> cache (L1) -> registers
//
// Where a level is managed, what it holds is our decision, and bytes that cross into it are counted exactly; where it
// is cached, the hardware decides, and cost is an estimate. All numbers are in SI units: bytes, seconds, bytes a
// second, joules, hertz.
#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "support/dtype.h"

namespace tilewright {

using LevelId = int; // position in Machine::levels; parents come before children
using UnitId = int;  // position in Machine::units; the preferred of a kind comes first

enum class Target : std::uint8_t { cpu, cuda };
enum class Source : std::uint8_t { measured, datasheet, estimate, detected, calibrated }; // where a number comes from

enum class LevelRole : std::uint8_t {
  fabric,   // links between devices
  memory,   // the device's memory, DRAM
  cache,    // kept by hardware
  cluster,  // the scratch memories of a few cores that reach each other
  scratch,  // what one core's kernel holds on purpose: shared memory, packed buffers
  registers // of one core
};
enum class Mode : std::uint8_t { managed, cached };

// Bytes a second: by all cores together, and by one core while the others rest (0: no limit known).
struct Rate {
  double all = 0, one = 0;
  friend bool operator==(const Rate&, const Rate&) = default;
};

struct Level {
  std::string name;
  LevelRole role = LevelRole::memory;
  Mode mode = Mode::managed;
  LevelId parent = -1;       // -1: the root
  std::int64_t capacity = 0; // of one instance
  std::int64_t usable = 0;   // footprint that is still served at the full rate (an L2 that thrashes early); <= capacity
  int count = 1;             // instances on the whole machine
  Rate down, up;
  double latency = 0;  // of a dependent read that this level serves
  int transaction = 1; // bytes moved at least, whatever is asked
  double energy = 0;   // a byte moved out of or into it
  Source source = Source::estimate;
  friend bool operator==(const Level&, const Level&) = default;
};

enum class UnitKind : std::uint8_t {
  tensor,  // matrix instructions
  dot,     // sums of four byte products: dp4a, VNNI, SDOT
  fma,     // multiply-add on vectors
  alu,     // add, minimum, maximum, conversion, packing: one operation a result
  special, // exp, tanh, reciprocal, logarithm: one operation a result
  shuffle, // values exchanged between lanes
  issue    // instruction slots, counted a lane: 32 for an instruction of a warp
};

struct Types { // of a multiply-add: a * b + out
  DType a = DType::f32, b = DType::f32, out = DType::f32;
  friend bool operator==(const Types&, const Types&) = default;
};

// One instruction: m x n x k multiply-adds of those types, `per_clock` operations a clock and core (a multiply-add is
// two).
struct UnitRate {
  std::optional<Types> types;           // none: any (issue slots)
  std::array<int, 3> shape = {1, 1, 1}; // m, n, k
  int n_step = 0;                       // when positive, n may be any multiple of it up to shape[1]
  double per_clock = 0;
  double clock = 0;  // sustained under this load: matrix instructions run into the power limit
  double energy = 0; // an operation
  friend bool operator==(const UnitRate&, const UnitRate&) = default;
};

struct Unit {
  std::string name;
  UnitKind kind = UnitKind::fma;
  double latency = 0;           // from an instruction to one that needs its result
  int warps = 1;                // that issue one instruction together
  bool asynchronous = false;    // issued, then waited for
  bool rounds_operands = false; // to a narrower format than they have: never chosen unless asked for
  bool a_registers = true, a_scratch = false, b_registers = true, b_scratch = false; // where operands may be
  std::string needs; // "", or an extension of the CPU that not every core of its ISA has: "vnni", "bf16"
  std::vector<UnitRate> rates;
  Source source = Source::estimate;
  friend bool operator==(const Unit&, const Unit&) = default;
};

struct Core { // a multiprocessor of a GPU, a physical core of a CPU
  int count = 1;
  double clock = 0;                  // of vector and copy work
  int lanes = 1;                     // threads of a warp; f32 lanes of a vector
  int threads = 1;                   // resident in a core at most
  int blocks = 1;                    // likewise
  int block_threads = 1;             // in one block at most
  std::int64_t registers = 0;        // of 32 bits, in a core; on a CPU vector registers of a thread
  int thread_registers = 0;          // at most
  int register_granule = 1;          // a thread's registers are given in multiples of it
  std::int64_t block_scratch = 0;    // bytes of scratch that one block may have
  std::int64_t reserved_scratch = 0; // taken by the system from each block's share
  std::int64_t scratch_granule = 1;
  std::int64_t combined = 0; // scratch and first cache where they are one memory, else 0
  friend bool operator==(const Core&, const Core&) = default;
};

struct ClusterSize {
  int size = 2;
  int cores = 0;        // that work when every block is in a cluster of that size
  double multicast = 0; // bytes a second that arrive in all scratch memories when each copy goes to the whole cluster
  friend bool operator==(const ClusterSize&, const ClusterSize&) = default;
};

struct Latency {      // of the dependent chain; 0 where the machine has no such thing
  double barrier = 0; // all threads of a block; on a CPU all threads of a parallel region
  double cluster_barrier = 0;
  double cluster_merge = 0; // partial sums of some 16 KiB a block exchanged and added in a cluster
  double grid_barrier = 0;
  double copy = 0;   // an asynchronous copy from the innermost shared cache, issue to use
  double atomic = 0; // that returns a value
  double shuffle = 0;
  Source source = Source::estimate;
  friend bool operator==(const Latency&, const Latency&) = default;
};

struct Launch {
  double first = 0;   // once a run: entering a graph or a parallel region
  double step = 0;    // each further kernel over its body
  double early = 0;   // the same when it starts before its predecessor ends; 0: cannot
  double cluster = 0; // added for kernels in clusters
  Source source = Source::estimate;
  friend bool operator==(const Launch&, const Launch&) = default;
};

struct Machine {
  std::string name, title;
  Target target = Target::cpu;
  std::string arch;               // "sm_90a", "x86-64-v4": what a compiler is told
  std::string isa;                // of machine/isa.h on a CPU, else empty
  std::vector<std::string> notes; // where the numbers come from, in words
  Core core;
  std::vector<Level> levels;
  std::vector<ClusterSize> clusters; // ascending; empty without a cluster level
  std::vector<Unit> units;
  Latency latency;
  Launch launch;
  friend bool operator==(const Machine&, const Machine&) = default;
};

// ---- lookups by role
std::optional<LevelId> find(const Machine&, LevelRole); // the outermost of that role
LevelId level_of(const Machine&, LevelRole);            // one that every machine has: memory, scratch, registers
std::optional<LevelId> level_named(const Machine&, std::string_view);
std::vector<LevelId> path_to(const Machine&, LevelId);  // from the root to that level, both included
int instances_below(const Machine&, LevelId child);     // of a child in one instance of its parent, rounded up
std::vector<UnitId> units_of(const Machine&, UnitKind); // preferred first
std::optional<UnitId> unit_for(const Machine&, UnitKind, DType a,
                               std::optional<DType> out = {});                            // the first that takes it
const UnitRate* rate_for(const Machine&, UnitId, DType a, std::optional<DType> out = {}); // null: no such instruction
double operations_per_second(const Machine&, UnitId, DType a); // of the whole machine; 0 if it has none

// ---- roofline
enum class Direction : std::uint8_t { down, up };
double bytes_per_second(const Machine&, LevelId, Direction = Direction::down, int cores = 0); // 0 cores: all
double seconds_for(const Machine&, LevelId, double bytes, Direction = Direction::down, int cores = 0);
double seconds_for(const Machine&, UnitId, DType a, double operations, double utilisation = 1); // infinite if it cannot
double seconds_for(const Machine&, const UnitRate&, double operations, double utilisation = 1);
double balance(const Machine&, UnitId, DType a, LevelId); // operations a byte at which unit and level take equally long

// ---- text form; see docs/machines.md
void verify(const Machine&, const std::string& where);                     // throws what a file would be told
Machine machine_from_json(std::string_view text, const std::string& file); // strict
std::string to_json(const Machine&);                                       // machine_from_json gives it back

// ---- the shipped files
std::vector<std::string> machine_names();             // sorted
std::string_view machine_text(std::string_view name); // the file's text; empty if there is none of that name
Machine
machine_named(const std::string& name_or_path); // "h200", "my/box.json", "cpu"; a wrong name is told the nearest

std::string_view name_of(Target);
std::string_view name_of(Source);
std::string_view name_of(LevelRole);
std::string_view name_of(Mode);
std::string_view name_of(UnitKind);

} // namespace tilewright
