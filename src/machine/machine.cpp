#include "machine/machine.h"

#include <algorithm>
#include <limits>

#include "support/error.h"

namespace tilewright {
namespace {

double sustained(double all, double one, int cores) {
  if (cores <= 0 || one <= 0) return all;
  const double together = one * cores;
  return all > 0 ? std::min(all, together) : together;
}

} // namespace

std::optional<LevelId> find(const Machine& machine, LevelRole role) {
  for (std::size_t i = 0; i < machine.levels.size(); i++)
    if (machine.levels[i].role == role) return static_cast<LevelId>(i);
  return std::nullopt;
}

LevelId level_of(const Machine& machine, LevelRole role) {
  const std::optional<LevelId> level = find(machine, role);
  TW_ASSERT(level.has_value());
  return *level;
}

std::optional<LevelId> level_named(const Machine& machine, std::string_view name) {
  for (std::size_t i = 0; i < machine.levels.size(); i++)
    if (machine.levels[i].name == name) return static_cast<LevelId>(i);
  return std::nullopt;
}

std::vector<LevelId> path_to(const Machine& machine, LevelId level) {
  std::vector<LevelId> path;
  for (LevelId i = level; i >= 0; i = machine.levels[static_cast<std::size_t>(i)].parent) path.push_back(i);
  std::reverse(path.begin(), path.end());
  return path;
}

int instances_below(const Machine& machine, LevelId child) {
  const Level& level = machine.levels[static_cast<std::size_t>(child)];
  if (level.parent < 0) return level.count;
  const int parents = machine.levels[static_cast<std::size_t>(level.parent)].count;
  return (level.count + parents - 1) / parents;
}

std::vector<UnitId> units_of(const Machine& machine, UnitKind kind) {
  std::vector<UnitId> units;
  for (std::size_t i = 0; i < machine.units.size(); i++)
    if (machine.units[i].kind == kind) units.push_back(static_cast<UnitId>(i));
  return units;
}

const UnitRate* rate_for(const Machine& machine, UnitId unit, DType a, std::optional<DType> out) {
  for (const UnitRate& rate : machine.units[static_cast<std::size_t>(unit)].rates)
    if (!rate.types || (rate.types->a == a && (!out || rate.types->out == *out))) return &rate;
  return nullptr;
}

std::optional<UnitId> unit_for(const Machine& machine, UnitKind kind, DType a, std::optional<DType> out) {
  for (UnitId unit : units_of(machine, kind))
    if (!machine.units[static_cast<std::size_t>(unit)].rounds_operands && rate_for(machine, unit, a, out)) return unit;
  return std::nullopt;
}

double operations_per_second(const Machine& machine, UnitId unit, DType a) {
  const UnitRate* rate = rate_for(machine, unit, a);
  return rate ? rate->per_clock * rate->clock * machine.core.count : 0;
}

double bytes_per_second(const Machine& machine, LevelId id, Direction direction, int cores) {
  const Level& level = machine.levels[static_cast<std::size_t>(id)];
  const Rate& rate = direction == Direction::down ? level.down : level.up;
  return sustained(rate.all, rate.one, cores);
}

double seconds_for(const Machine& machine, LevelId level, double bytes, Direction direction, int cores) {
  const double rate = bytes_per_second(machine, level, direction, cores);
  return rate > 0 ? bytes / rate : 0; // no limit known: registers
}

double seconds_for(const Machine& machine, UnitId unit, DType a, double operations, double utilisation) {
  const UnitRate* rate = rate_for(machine, unit, a);
  return rate ? seconds_for(machine, *rate, operations, utilisation) : std::numeric_limits<double>::infinity();
}

double seconds_for(const Machine& machine, const UnitRate& rate, double operations, double utilisation) {
  TW_ASSERT(utilisation > 0 && utilisation <= 1);
  return operations / (rate.per_clock * rate.clock * machine.core.count * utilisation);
}

double balance(const Machine& machine, UnitId unit, DType a, LevelId level) {
  const double rate = bytes_per_second(machine, level);
  return rate > 0 ? operations_per_second(machine, unit, a) / rate : 0;
}

std::string_view name_of(Target target) { return target == Target::cpu ? "cpu" : "cuda"; }

std::string_view name_of(Source source) {
  switch (source) {
  case Source::measured: return "measured";
  case Source::datasheet: return "datasheet";
  case Source::estimate: return "estimate";
  case Source::detected: return "detected";
  case Source::calibrated: return "calibrated";
  }
  return "estimate";
}

std::string_view name_of(LevelRole role) {
  switch (role) {
  case LevelRole::fabric: return "fabric";
  case LevelRole::memory: return "memory";
  case LevelRole::cache: return "cache";
  case LevelRole::cluster: return "cluster";
  case LevelRole::scratch: return "scratch";
  case LevelRole::registers: return "registers";
  }
  return "memory";
}

std::string_view name_of(Mode mode) { return mode == Mode::managed ? "managed" : "cached"; }

std::string_view name_of(UnitKind kind) {
  switch (kind) {
  case UnitKind::tensor: return "tensor";
  case UnitKind::dot: return "dot";
  case UnitKind::fma: return "fma";
  case UnitKind::alu: return "alu";
  case UnitKind::special: return "special";
  case UnitKind::shuffle: return "shuffle";
  case UnitKind::issue: return "issue";
  }
  return "issue";
}

} // namespace tilewright
