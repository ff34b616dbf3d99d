// Machines to and from JSON. The schema is written down in docs/machines.md.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <map>

#include "machine/isa.h"
#include "machine/machine.h"
#include "machine/strict_json.h"
#include "support/error.h"

namespace tilewright {
namespace {

using Ordered = nlohmann::ordered_json;

constexpr double largest = 1e18; // of any rate, and of operations a second
constexpr std::int64_t many = 1ll << 50;

template <class E> E one_of(Form& form, const std::string& key, std::initializer_list<E> values) {
  std::vector<std::string> names;
  for (E value : values) names.emplace_back(name_of(value));
  const std::string found = form.choice(key, names);
  return *(values.begin() + (std::find(names.begin(), names.end(), found) - names.begin()));
}

Source source_of(Form& form) {
  if (!form.has("source")) return Source::estimate;
  return one_of(form, "source",
                {Source::measured, Source::datasheet, Source::estimate, Source::detected, Source::calibrated});
}

Rate read_rate(Form& level, const std::string& key) {
  if (!level.has(key)) return {};
  Form form = level.form(key);
  Rate rate{form.number("all", 1, largest), form.number_or("one", 1, largest, 0)};
  if (rate.one > rate.all) form.fail("one", "is more than all", "one core cannot get more than all together");
  form.done();
  return rate;
}

Level read_level(Form& form) {
  Level level;
  level.name = form.text("name");
  level.role = one_of(form, "role",
                      {LevelRole::fabric, LevelRole::memory, LevelRole::cache, LevelRole::cluster, LevelRole::scratch,
                       LevelRole::registers});
  level.mode = one_of(form, "mode", {Mode::managed, Mode::cached});
  level.capacity = form.integer("capacity", 1, many);
  level.usable = form.integer_or("usable", 1, level.capacity, level.capacity);
  level.count = static_cast<int>(form.integer("count", 1, 1 << 24));
  level.down = read_rate(form, "down");
  level.up = form.has("up") ? read_rate(form, "up") : level.down;
  level.latency = form.number_or("latency", 0, 1, 0);
  level.transaction = static_cast<int>(form.integer_or("transaction", 1, 1 << 20, 1));
  level.energy = form.number_or("energy", 0, 1, 0);
  level.source = source_of(form);
  if (level.down.all <= 0 && level.role != LevelRole::registers)
    form.fail("down", "is missing, must be an object", "every level but the registers limits the bytes below it");
  return level;
}

// Parents by name, in any order in the file; afterwards parents come before children, else in the order of the file.
std::vector<Level> read_levels(Form& machine) {
  std::vector<Form> forms = machine.forms("levels");
  std::vector<Level> levels;
  std::vector<std::string> parent;
  std::map<std::string, std::size_t> position;
  for (std::size_t i = 0; i < forms.size(); i++) {
    levels.push_back(read_level(forms[i]));
    parent.push_back(forms[i].text_or("parent", ""));
    forms[i].done();
    if (!position.emplace(levels[i].name, i).second)
      throw Error(Code::name, forms[i].at("name"), fmt::format("a second level '{}'", levels[i].name));
  }
  std::vector<std::size_t> depth(levels.size(), 0), order(levels.size());
  for (std::size_t i = 0; i < levels.size(); i++) {
    std::string chain = levels[i].name;
    for (std::string up = parent[i]; !up.empty(); up = parent[position[up]], depth[i]++) {
      if (!position.count(up))
        throw Error(Code::name, forms[i].at("parent"), fmt::format("there is no level '{}'", up));
      chain += " -> " + up;
      if (depth[i] > levels.size())
        throw Error(Code::cycle, forms[i].at("parent"), "the levels form a cycle: " + chain.substr(0, 200),
                    "the root, the largest memory, has no parent");
    }
    order[i] = i;
  }
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return depth[a] < depth[b]; });
  std::vector<Level> sorted;
  std::map<std::string, LevelId> id;
  for (std::size_t i : order) {
    sorted.push_back(levels[i]);
    sorted.back().parent = parent[i].empty() ? -1 : id.at(parent[i]);
    id[levels[i].name] = static_cast<LevelId>(sorted.size()) - 1;
  }
  return sorted;
}

std::vector<std::string> dtype_names() {
  std::vector<std::string> names;
  for (DType dtype : {DType::f64, DType::f32, DType::f16, DType::bf16, DType::f8e4m3, DType::f8e5m2, DType::i8,
                      DType::u8, DType::i32, DType::i64, DType::boolean})
    names.emplace_back(name_of(dtype));
  return names;
}

UnitRate read_unit_rate(Form& form, double unit_clock) {
  UnitRate rate;
  if (form.has("types")) {
    Form types = form.form("types");
    const auto dtype = [&](const std::string& key) { return *dtype_named(types.choice(key, dtype_names())); };
    rate.types = Types{dtype("a"), dtype("b"), dtype("out")};
    types.done();
  }
  if (form.has("shape")) {
    Form shape = form.form("shape");
    const auto side = [&](const std::string& key) { return static_cast<int>(shape.integer(key, 1, 4096)); };
    rate.shape = {side("m"), side("n"), side("k")};
    rate.n_step = static_cast<int>(shape.integer_or("n_step", 1, rate.shape[1], 0));
    if (rate.n_step > 0 && rate.shape[1] % rate.n_step != 0)
      shape.fail("n_step", fmt::format("is {}, must divide n = {}", rate.n_step, rate.shape[1]));
    shape.done();
  }
  rate.per_clock = form.number("per_clock", 1e-6, largest);
  rate.clock = form.number_or("clock", 1e6, 1e11, unit_clock);
  rate.energy = form.number_or("energy", 0, 1, 0);
  form.done();
  return rate;
}

void read_places(Form& form, const std::string& key, bool& registers, bool& scratch) {
  if (!form.has(key)) return;
  registers = scratch = false;
  for (const std::string& place : form.texts_or_none(key)) {
    if (place != "registers" && place != "scratch")
      throw Error(Code::name, form.at(key), fmt::format("holds '{}', must be of registers, scratch", place));
    (place == "registers" ? registers : scratch) = true;
  }
  if (!registers && !scratch) form.fail(key, "is empty, must name registers, scratch or both");
}

Unit read_unit(Form& form, double core_clock) {
  Unit unit;
  unit.name = form.text("name");
  unit.kind = one_of(form, "kind",
                     {UnitKind::tensor, UnitKind::dot, UnitKind::fma, UnitKind::alu, UnitKind::special,
                      UnitKind::shuffle, UnitKind::issue});
  const double clock = form.number_or("clock", 1e6, 1e11, core_clock);
  unit.latency = form.number_or("latency", 0, 1, 0);
  unit.warps = static_cast<int>(form.integer_or("warps", 1, 64, 1));
  unit.asynchronous = form.flag_or("asynchronous", false);
  unit.rounds_operands = form.flag_or("rounds_operands", false);
  if (form.has("needs")) unit.needs = form.choice("needs", {"vnni", "bf16"});
  read_places(form, "a_from", unit.a_registers, unit.a_scratch);
  read_places(form, "b_from", unit.b_registers, unit.b_scratch);
  for (Form& rate : form.forms("rates")) unit.rates.push_back(read_unit_rate(rate, clock));
  unit.source = source_of(form);
  if (unit.rates.empty()) form.fail("rates", "is empty", "a unit has at least one rate");
  form.done();
  return unit;
}

Core read_core(Form form) {
  Core core;
  const auto small = [&](const char* key, int low, int otherwise) {
    return static_cast<int>(otherwise < low ? form.integer(key, low, 1 << 24)
                                            : form.integer_or(key, low, 1 << 24, otherwise));
  };
  core.count = small("count", 1, 0);
  core.clock = form.number("clock", 1e6, 1e11);
  core.lanes = small("lanes", 1, 0);
  core.threads = small("threads", 1, 1);
  core.blocks = small("blocks", 1, 1);
  core.block_threads = small("block_threads", 1, core.threads);
  core.registers = small("registers", 1, 0);
  core.thread_registers = small("thread_registers", 1, 0);
  core.register_granule = small("register_granule", 1, 1);
  core.block_scratch = form.integer("block_scratch", 1, many);
  core.reserved_scratch = form.integer_or("reserved_scratch", 0, many, 0);
  core.scratch_granule = form.integer_or("scratch_granule", 1, many, 1);
  core.combined = form.integer_or("combined", 0, many, 0);
  form.done();
  return core;
}

ClusterSize read_cluster(Form& form) {
  ClusterSize cluster{static_cast<int>(form.integer("size", 2, 64)),
                      static_cast<int>(form.integer("cores", 1, 1 << 24)), form.number_or("multicast", 1, largest, 0)};
  form.done();
  return cluster;
}

Latency read_latency(Form form) {
  const auto seconds = [&](const char* key) { return form.number_or(key, 0, 1, 0); };
  Latency latency{seconds("barrier"), seconds("cluster_barrier"), seconds("cluster_merge"), seconds("grid_barrier"),
                  seconds("copy"),    seconds("atomic"),          seconds("shuffle"),       source_of(form)};
  form.done();
  return latency;
}

Launch read_launch(Form form) {
  Launch launch{form.number_or("first", 0, 1, 0), form.number("step", 0, 1), form.number_or("early", 0, 1, 0),
                form.number_or("cluster", 0, 1, 0), source_of(form)};
  form.done();
  return launch;
}

// ---- writing

Ordered json_of(const Level& level, const Machine& machine) {
  const auto rate = [](const Rate& r) {
    Ordered out{{"all", r.all}};
    if (r.one > 0) out["one"] = r.one;
    return out;
  };
  Ordered out{{"name", level.name}, {"role", name_of(level.role)}, {"mode", name_of(level.mode)}};
  if (level.parent >= 0) out["parent"] = machine.levels[static_cast<std::size_t>(level.parent)].name;
  out["count"] = level.count;
  out["capacity"] = level.capacity;
  if (level.usable != level.capacity) out["usable"] = level.usable;
  if (level.down.all > 0) out["down"] = rate(level.down);
  if (level.up != level.down) out["up"] = rate(level.up);
  out["latency"] = level.latency;
  out["transaction"] = level.transaction;
  out["energy"] = level.energy;
  out["source"] = name_of(level.source);
  return out;
}

Ordered json_of(const UnitRate& rate) {
  Ordered out;
  if (rate.types)
    out["types"] = {{"a", name_of(rate.types->a)}, {"b", name_of(rate.types->b)}, {"out", name_of(rate.types->out)}};
  out["shape"] = {{"m", rate.shape[0]}, {"n", rate.shape[1]}, {"k", rate.shape[2]}};
  if (rate.n_step > 0) out["shape"]["n_step"] = rate.n_step;
  out["per_clock"] = rate.per_clock;
  out["clock"] = rate.clock;
  out["energy"] = rate.energy;
  return out;
}

Ordered json_of(const Unit& unit) {
  const auto places = [](bool registers, bool scratch) {
    Ordered out = Ordered::array();
    if (registers) out.push_back("registers");
    if (scratch) out.push_back("scratch");
    return out;
  };
  Ordered out{{"name", unit.name},
              {"kind", name_of(unit.kind)},
              {"latency", unit.latency},
              {"warps", unit.warps},
              {"asynchronous", unit.asynchronous}};
  if (unit.rounds_operands) out["rounds_operands"] = true;
  if (!unit.needs.empty()) out["needs"] = unit.needs;
  out["a_from"] = places(unit.a_registers, unit.a_scratch);
  out["b_from"] = places(unit.b_registers, unit.b_scratch);
  out["source"] = name_of(unit.source);
  out["rates"] = Ordered::array();
  for (const UnitRate& rate : unit.rates) out["rates"].push_back(json_of(rate));
  return out;
}

Ordered json_of(const Core& core) {
  return {{"count", core.count},
          {"clock", core.clock},
          {"lanes", core.lanes},
          {"threads", core.threads},
          {"blocks", core.blocks},
          {"block_threads", core.block_threads},
          {"registers", core.registers},
          {"thread_registers", core.thread_registers},
          {"register_granule", core.register_granule},
          {"block_scratch", core.block_scratch},
          {"reserved_scratch", core.reserved_scratch},
          {"scratch_granule", core.scratch_granule},
          {"combined", core.combined}};
}

// ---- what a file must also be, beyond its form

void check_level(const Machine& machine, std::size_t i, const std::string& where) {
  const Level& level = machine.levels[i];
  const std::string at = fmt::format("{}#/levels/{}", where, level.name);
  if (level.parent < 0) {
    if (i != 0) throw Error(Code::name, at + "/parent", "is missing: only the root, the largest memory, has no parent");
    if (level.role != LevelRole::memory && level.role != LevelRole::fabric)
      throw Error(Code::name, at + "/role",
                  fmt::format("the root is {}, must be memory or fabric", name_of(level.role)));
    return;
  }
  const Level& parent = machine.levels[static_cast<std::size_t>(level.parent)];
  if (level.count < parent.count)
    throw Error(Code::size, at + "/count",
                fmt::format("is {}, fewer than the {} of its parent {}", level.count, parent.count, parent.name));
  if (level.role == LevelRole::memory && parent.role != LevelRole::fabric)
    throw Error(Code::name, at + "/role", "a memory below a level that is no fabric");
  if (parent.role == LevelRole::registers) throw Error(Code::name, at + "/parent", "a level below the registers");
}

void check_roles(const Machine& machine, const std::string& where) {
  for (LevelRole role :
       {LevelRole::fabric, LevelRole::memory, LevelRole::cluster, LevelRole::scratch, LevelRole::registers}) {
    const auto n = std::count_if(machine.levels.begin(), machine.levels.end(),
                                 [&](const Level& level) { return level.role == role; });
    const bool optional = role == LevelRole::fabric || role == LevelRole::cluster;
    if (n > 1 || (n == 0 && !optional))
      throw Error(Code::name, where + "#/levels",
                  fmt::format("{} levels of role {}, must be {}", n, name_of(role), optional ? "one at most" : "one"));
  }
  const LevelId scratch = level_of(machine, LevelRole::scratch), registers = level_of(machine, LevelRole::registers);
  const std::vector<LevelId> path = path_to(machine, registers);
  if (std::find(path.begin(), path.end(), scratch) == path.end())
    throw Error(Code::name, where + "#/levels", "the registers are not below the scratch level");
  for (LevelId id : {scratch, registers}) {
    const Level& level = machine.levels[static_cast<std::size_t>(id)];
    if (level.count != machine.core.count)
      throw Error(Code::size, fmt::format("{}#/levels/{}/count", where, level.name),
                  fmt::format("is {}, must be the number of cores, {}", level.count, machine.core.count));
  }
  const std::int64_t capacity = machine.levels[static_cast<std::size_t>(scratch)].capacity;
  if (machine.core.block_scratch > capacity)
    throw Error(Code::size, where + "#/core/block_scratch",
                fmt::format("is {}, more than the {} of the scratch level", machine.core.block_scratch, capacity));
}

void check_clusters(const Machine& machine, const std::string& where) {
  if (machine.clusters.empty() == find(machine, LevelRole::cluster).has_value())
    throw Error(Code::size, where + "#/clusters", "clusters and a level of role cluster come together or not at all");
  int previous = 1;
  for (const ClusterSize& cluster : machine.clusters) {
    if (cluster.size <= previous) throw Error(Code::size, where + "#/clusters", "sizes are not ascending");
    if (cluster.cores > machine.core.count)
      throw Error(Code::size, where + "#/clusters",
                  fmt::format("size {} uses {} cores, there are {}", cluster.size, cluster.cores, machine.core.count));
    previous = cluster.size;
  }
}

void check_units(const Machine& machine, const std::string& where) {
  for (std::size_t i = 0; i < machine.units.size(); i++)
    for (std::size_t j = 0; j < i; j++)
      if (machine.units[i].name == machine.units[j].name)
        throw Error(Code::name, fmt::format("{}#/units/{}/name", where, i),
                    fmt::format("a second unit '{}'", machine.units[i].name));
  for (UnitKind kind : {UnitKind::fma, UnitKind::alu, UnitKind::special})
    if (!unit_for(machine, kind, DType::f32))
      throw Error(Code::name, where + "#/units", fmt::format("no unit of kind {} takes f32", name_of(kind)),
                  "without it most programs could not be priced");
}

} // namespace

void verify(const Machine& machine, const std::string& where) {
  if (machine.levels.empty()) throw Error(Code::size, where + "#/levels", "is empty");
  for (std::size_t i = 0; i < machine.levels.size(); i++) check_level(machine, i, where);
  check_roles(machine, where);
  check_clusters(machine, where);
  check_units(machine, where);
  const bool known = isa_named(machine.isa).has_value();
  if (machine.target == Target::cpu ? !known : !machine.isa.empty())
    throw Error(Code::name, where + "#/isa",
                machine.target == Target::cpu ? fmt::format("is '{}', must be base, avx2, avx512 or neon", machine.isa)
                                              : std::string("belongs to a CPU, this is a machine for cuda"));
}

Machine machine_from_json(std::string_view text, const std::string& file) {
  const Json json = parse_json(text, file);
  Form form(json, file);
  Machine machine;
  machine.name = form.text("name");
  machine.title = form.text_or("title", machine.name);
  machine.target = one_of(form, "target", {Target::cpu, Target::cuda});
  machine.arch = form.text("arch");
  machine.isa = form.text_or("isa", "");
  machine.notes = form.texts_or_none("notes");
  machine.core = read_core(form.form("core"));
  machine.levels = read_levels(form);
  for (Form& cluster : form.forms_or_none("clusters")) machine.clusters.push_back(read_cluster(cluster));
  for (Form& unit : form.forms("units")) machine.units.push_back(read_unit(unit, machine.core.clock));
  if (form.has("latency")) machine.latency = read_latency(form.form("latency"));
  machine.launch = read_launch(form.form("launch"));
  form.done();
  verify(machine, file);
  return machine;
}

std::string to_json(const Machine& machine) {
  Ordered out{{"name", machine.name}, {"title", machine.title}, {"target", name_of(machine.target)}};
  out["arch"] = machine.arch;
  if (!machine.isa.empty()) out["isa"] = machine.isa;
  out["notes"] = machine.notes;
  out["core"] = json_of(machine.core);
  out["levels"] = Ordered::array();
  for (const Level& level : machine.levels) out["levels"].push_back(json_of(level, machine));
  if (!machine.clusters.empty()) out["clusters"] = Ordered::array();
  for (const ClusterSize& c : machine.clusters) {
    out["clusters"].push_back({{"size", c.size}, {"cores", c.cores}});
    if (c.multicast > 0) out["clusters"].back()["multicast"] = c.multicast;
  }
  out["units"] = Ordered::array();
  for (const Unit& unit : machine.units) out["units"].push_back(json_of(unit));
  const Latency& l = machine.latency;
  out["latency"] = {{"barrier", l.barrier},
                    {"cluster_barrier", l.cluster_barrier},
                    {"cluster_merge", l.cluster_merge},
                    {"grid_barrier", l.grid_barrier},
                    {"copy", l.copy},
                    {"atomic", l.atomic},
                    {"shuffle", l.shuffle},
                    {"source", name_of(l.source)}};
  out["launch"] = {{"first", machine.launch.first},
                   {"step", machine.launch.step},
                   {"early", machine.launch.early},
                   {"cluster", machine.launch.cluster},
                   {"source", name_of(machine.launch.source)}};
  return out.dump(2, ' ', false, Ordered::error_handler_t::replace) + "\n"; // names may come from the system
}

} // namespace tilewright
