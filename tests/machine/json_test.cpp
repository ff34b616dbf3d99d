// What a machine file is told when it is wrong: code, place and message of every refusal.
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <random>

#include "machine/machine.h"
#include "support/error.h"

using namespace tilewright;
using Json = nlohmann::json;

namespace {

struct Refused {
  Code code;
  std::string where, message, hint;
};

Refused refused(const std::string& text) {
  try {
    machine_from_json(text, "box.json");
  } catch (const Error& error) {
    return {error.code, error.where, error.message, error.hint};
  }
  ADD_FAILURE() << "accepted: " << text.substr(0, 200);
  return {};
}

Json base(const char* name = "h200") { return Json::parse(machine_text(name)); }

struct Case {
  const char *pointer, *value; // the change: a JSON value at a pointer; "" removes
  Code code;
  const char *where, *message;
};

// In h200: levels 0 dram, 1 l2, 2 cluster, 3 shared, 4 registers; units 0 wgmma, 1 mma, 5 fma, 6 alu.
const Case cases[] = {
    {"/colour", "\"red\"", Code::name, "#/colour", "unknown key"},
    {"/core/colour", "1", Code::name, "#/core/colour", "unknown key"},
    {"/levels/1/colour", "1", Code::name, "#/levels/1/colour", "unknown key"},
    {"/levels/1/down/two", "1", Code::name, "#/levels/1/down/two", "unknown key"},
    {"/clusters/0/colour", "1", Code::name, "#/clusters/0/colour", "unknown key"},
    {"/units/0/colour", "1", Code::name, "#/units/0/colour", "unknown key"},
    {"/units/0/rates/0/colour", "1", Code::name, "#/units/0/rates/0/colour", "unknown key"},
    {"/units/0/rates/0/types/c", "\"f32\"", Code::name, "#/units/0/rates/0/types/c", "unknown key"},
    {"/units/0/rates/0/shape/o", "1", Code::name, "#/units/0/rates/0/shape/o", "unknown key"},
    {"/latency/coffee", "1", Code::name, "#/latency/coffee", "unknown key"},
    {"/launch/late", "1", Code::name, "#/launch/late", "unknown key"},
    {"/a~1b", "1", Code::name, "#/a~1b", "unknown key"},
    {"/name", "", Code::syntax, "#/name", "is missing, must be a text"},
    {"/name", "3", Code::syntax, "#/name", "is number, must be a text"},
    {"/name", "\"\"", Code::syntax, "#/name", "is empty"},
    {"/target", "\"tpu\"", Code::name, "#/target", "is 'tpu', must be one of cpu, cuda"},
    {"/arch", "", Code::syntax, "#/arch", "is missing"},
    {"/isa", "\"avx2\"", Code::name, "#/isa", "belongs to a CPU"},
    {"/notes", "\"text\"", Code::syntax, "#/notes", "is string, must be an array of texts"},
    {"/notes", "[1]", Code::syntax, "#/notes", "holds number, must be an array of texts"},
    {"/core", "", Code::syntax, "#/core", "is missing, must be an object"},
    {"/core", "[]", Code::syntax, "#/core", "is array, must be an object"},
    {"/core/count", "0", Code::size, "#/core/count", "is 0, must be 1 to"},
    {"/core/count", "1.5", Code::syntax, "#/core/count", "is number, must be an integer"},
    {"/core/count", "18446744073709551615", Code::size, "#/core/count", "is 18446744073709551615"},
    {"/core/count", "131", Code::size, "#/levels/shared/count", "is 132, must be the number of cores, 131"},
    {"/core/clock", "-1", Code::size, "#/core/clock", "is -1, must be"},
    {"/core/block_scratch", "500000", Code::size, "#/core/block_scratch", "is 500000, more than the 233472"},
    {"/levels", "", Code::syntax, "#/levels", "is missing, must be an array of objects"},
    {"/levels", "[]", Code::size, "#/levels", "is empty"},
    {"/levels/1", "7", Code::syntax, "#/levels/1", "is number, must be an object"},
    {"/levels/1/capacity", "-1", Code::size, "#/levels/1/capacity", "is -1, must be 1 to"},
    {"/levels/1/capacity", "\"60 MB\"", Code::syntax, "#/levels/1/capacity", "is string, must be an integer"},
    {"/levels/1/usable", "99999999999", Code::size, "#/levels/1/usable", "must be 1 to 62914560"},
    {"/levels/1/count", "0", Code::size, "#/levels/1/count", "is 0"},
    {"/levels/1/count", "2000", Code::size, "#/levels/cluster/count", "is 66, fewer than the 2000 of its parent l2"},
    {"/levels/1/role", "\"cach\"", Code::name, "#/levels/1/role", "is 'cach', must be one of"},
    {"/levels/1/mode", "\"manual\"", Code::name, "#/levels/1/mode", "must be one of managed, cached"},
    {"/levels/1/down", "", Code::syntax, "#/levels/1/down", "is missing, must be an object"},
    {"/levels/1/down/all", "0", Code::size, "#/levels/1/down/all", "is 0, must be"},
    {"/levels/1/down/one", "9e15", Code::syntax, "#/levels/1/down/one", "is more than all"},
    {"/levels/1/latency", "2", Code::size, "#/levels/1/latency", "is 2, must be 0 to 1"},
    {"/levels/1/transaction", "0", Code::size, "#/levels/1/transaction", "is 0"},
    {"/levels/1/energy", "-1", Code::size, "#/levels/1/energy", "is -1"},
    {"/levels/1/source", "\"guess\"", Code::name, "#/levels/1/source", "is 'guess', must be one of measured"},
    {"/levels/1/name", "\"dram\"", Code::name, "#/levels/1/name", "a second level 'dram'"},
    {"/levels/1/parent", "\"hbm\"", Code::name, "#/levels/1/parent", "there is no level 'hbm'"},
    {"/levels/0/parent", "\"shared\"", Code::cycle, "#/levels/0/parent",
     "the levels form a cycle: dram -> shared -> cluster -> l2 -> dram"},
    {"/levels/1/parent", "\"l2\"", Code::cycle, "#/levels/1/parent", "the levels form a cycle: l2 -> l2"},
    {"/levels/1/parent", "", Code::name, "#/levels/l2/parent", "only the root"},
    {"/levels/0/role", "\"cache\"", Code::name, "#/levels/dram/role", "the root is cache, must be memory or fabric"},
    {"/levels/1/role", "\"memory\"", Code::name, "#/levels/l2/role", "a memory below a level that is no fabric"},
    {"/levels/3/role", "\"cache\"", Code::name, "#/levels", "0 levels of role scratch, must be one"},
    {"/levels/1/role", "\"scratch\"", Code::name, "#/levels", "2 levels of role scratch, must be one"},
    {"/levels/1/role", "\"cluster\"", Code::name, "#/levels", "2 levels of role cluster, must be one at most"},
    {"/levels/3/parent", "\"registers\"", Code::cycle, "#/levels/3/parent", "shared -> registers -> shared"},
    {"/levels/4/parent", "\"l2\"", Code::name, "#/levels", "the registers are not below the scratch level"},
    {"/levels/2",
     "{\"name\":\"cluster\",\"role\":\"registers\",\"mode\":\"managed\",\"parent\":\"l2\",\"capacity\":1,\"count\":66}",
     Code::name, "#/levels/shared/parent", "a level below the registers"},
    {"/clusters", "", Code::size, "#/clusters", "come together or not at all"},
    {"/clusters/1/size", "2", Code::size, "#/clusters", "sizes are not ascending"},
    {"/clusters/0/size", "1", Code::size, "#/clusters/0/size", "is 1, must be 2 to 64"},
    {"/clusters/0/cores", "133", Code::size, "#/clusters", "size 2 uses 133 cores, there are 132"},
    {"/units", "{}", Code::syntax, "#/units", "is object, must be an array of objects"},
    {"/units", "[]", Code::name, "#/units", "no unit of kind fma takes f32"},
    {"/units/5/kind", "\"alu\"", Code::name, "#/units", "no unit of kind fma takes f32"},
    {"/units/5/rounds_operands", "true", Code::name, "#/units", "no unit of kind fma takes f32"},
    {"/units/5/kind", "\"mul\"", Code::name, "#/units/5/kind", "is 'mul', must be one of tensor"},
    {"/units/5/name", "\"mma\"", Code::name, "#/units/5/name", "a second unit 'mma'"},
    {"/units/5/rates", "[]", Code::syntax, "#/units/5/rates", "is empty"},
    {"/units/5/warps", "0", Code::size, "#/units/5/warps", "is 0"},
    {"/units/5/asynchronous", "1", Code::syntax, "#/units/5/asynchronous", "is number, must be true or false"},
    {"/units/5/needs", "\"magic\"", Code::name, "#/units/5/needs", "must be one of vnni, bf16"},
    {"/units/0/a_from", "[\"global\"]", Code::name, "#/units/0/a_from", "holds 'global'"},
    {"/units/0/a_from", "[]", Code::syntax, "#/units/0/a_from", "is empty"},
    {"/units/0/rates/0/per_clock", "0", Code::size, "#/units/0/rates/0/per_clock", "is 0"},
    {"/units/0/rates/0/per_clock", "", Code::syntax, "#/units/0/rates/0/per_clock", "is missing, must be a number"},
    {"/units/0/rates/0/types/a", "\"f17\"", Code::name, "#/units/0/rates/0/types/a", "is 'f17', must be one of f64"},
    {"/units/0/rates/0/types/out", "", Code::syntax, "#/units/0/rates/0/types/out", "is missing"},
    {"/units/0/rates/0/shape/m", "0", Code::size, "#/units/0/rates/0/shape/m", "is 0"},
    {"/units/0/rates/0/shape/n_step", "7", Code::syntax, "#/units/0/rates/0/shape/n_step", "is 7, must divide n = 256"},
    {"/launch", "", Code::syntax, "#/launch", "is missing"},
    {"/launch/step", "", Code::syntax, "#/launch/step", "is missing, must be a number"},
    {"/launch/step", "-1e-6", Code::size, "#/launch/step", "must be 0 to 1"},
    {"/latency/barrier", "null", Code::syntax, "#/latency/barrier", "is null, must be a number"},
};

TEST(Refusals, EachNamesPlaceAndReason) {
  for (const Case& c : cases) {
    Json json = base();
    const Json::json_pointer pointer(c.pointer);
    if (*c.value)
      json[pointer] = Json::parse(c.value);
    else
      ASSERT_EQ(json.at(pointer.parent_pointer()).erase(pointer.back()), 1u) << c.pointer;
    const Refused error = refused(json.dump());
    EXPECT_EQ(error.code, c.code) << c.pointer << ": " << error.where << ": " << error.message;
    EXPECT_EQ(error.where, std::string("box.json") + c.where) << error.message;
    EXPECT_NE(error.message.find(c.message), std::string::npos) << c.pointer << ": " << error.message;
  }
}

TEST(Refusals, MisspeltKeysAndNamesAreToldTheNearest) {
  Json json = base();
  json["levels"][1]["capacty"] = 1;
  EXPECT_EQ(refused(json.dump()).hint, "did you mean 'capacity'?");
  json = base();
  json["units"][0]["kind"] = "tensr";
  EXPECT_EQ(refused(json.dump()).hint, "did you mean 'tensor'?");
}

TEST(Refusals, OfACpu) {
  Json json = base("generic-avx2");
  json["isa"] = "avx3";
  EXPECT_NE(refused(json.dump()).message.find("is 'avx3', must be base, avx2, avx512 or neon"), std::string::npos);
  json.erase("isa");
  EXPECT_EQ(refused(json.dump()).where, "box.json#/isa");
}

TEST(Refusals, OfTextThatIsNoJson) {
  EXPECT_EQ(refused("").where, "box.json:1:1");
  const Refused comma = refused("{\n  \"name\": \"x\",\n  \"target\" \"cpu\"\n}");
  EXPECT_EQ(comma.code, Code::syntax);
  EXPECT_EQ(comma.where.substr(0, 11), "box.json:3:");
  EXPECT_EQ(refused("[]").message, "is array, must be an object");
  EXPECT_EQ(refused("[]").where, "box.json#");
  EXPECT_EQ(refused("{} {}").code, Code::syntax) << "text after the end";
  EXPECT_EQ(refused("{\"name\": \"\xff\"}").code, Code::syntax) << "no UTF-8";
  EXPECT_EQ(refused("{\"name\": 1e999}").code, Code::size);
  const Refused twice = refused("{\"name\": \"a\", \"core\": {\"count\": 1, \"count\": 2}}");
  EXPECT_EQ(twice.code, Code::name);
  EXPECT_NE(twice.message.find("'count' stands twice"), std::string::npos);
  EXPECT_EQ(refused(std::string(1 << 20, '[')).code, Code::syntax) << "deep nesting";
  EXPECT_EQ(refused(std::string(1 << 17, '[') + std::string(1 << 17, ']')).message, "is array, must be an object");
}

TEST(Reading, LevelsMayStandInAnyOrderAndNamesMayRepeatAcrossObjects) {
  Json json = base();
  const Machine machine = machine_from_json(json.dump(), "box.json");
  std::reverse(json["levels"].begin(), json["levels"].end());
  EXPECT_EQ(machine_from_json(json.dump(), "box.json"), machine);
}

TEST(Reading, AFabricMayStandAboveTheMemory) {
  Json json = base();
  json["levels"][0]["parent"] = "links";
  json["levels"].push_back({{"name", "links"},
                            {"role", "fabric"},
                            {"mode", "managed"},
                            {"count", 1},
                            {"capacity", 1128000000000},
                            {"down", {{"all", 4.5e11}}}});
  const Machine machine = machine_from_json(json.dump(), "box.json");
  EXPECT_EQ(machine.levels[0].role, LevelRole::fabric);
  EXPECT_EQ(machine.levels[static_cast<std::size_t>(level_of(machine, LevelRole::memory))].parent, 0);
}

TEST(Reading, DefaultsAreWhatTheDocumentSays) {
  Json json = base();
  json["levels"][1].erase("usable");
  json["levels"][1].erase("up");
  json["levels"][1].erase("source");
  json["units"][0].erase("clock");
  json["units"][0].erase("a_from");
  json.erase("title");
  json.erase("notes");
  json.erase("latency");
  json["core"].erase("block_threads");
  const Machine machine = machine_from_json(json.dump(), "box.json");
  EXPECT_EQ(machine.levels[1].usable, machine.levels[1].capacity);
  EXPECT_EQ(machine.levels[1].up, machine.levels[1].down);
  EXPECT_EQ(machine.levels[1].source, Source::estimate);
  EXPECT_EQ(machine.units[0].rates[0].clock, machine.core.clock);
  EXPECT_TRUE(machine.units[0].a_registers && !machine.units[0].a_scratch);
  EXPECT_EQ(machine.title, "h200");
  EXPECT_EQ(machine.latency, Latency{});
  EXPECT_EQ(machine.core.block_threads, machine.core.threads);
}

// Any damage to a file is an Error or another machine that survives its own round trip; never a crash, never a hang.
TEST(Reading, DamagedFilesAreErrorsNotCrashes) {
  std::mt19937 random(7);
  const std::vector<std::string> names = machine_names();
  int accepted = 0, refusals = 0;
  for (int i = 0; i < 3000; i++) {
    std::string text(machine_text(names[random() % names.size()]));
    for (unsigned n = 1 + random() % 3; n > 0; n--) {
      const std::size_t at = random() % text.size();
      const std::size_t digit = text.find_first_of("0123456789", at);
      switch (random() % 6) {
      case 0: text[at] = static_cast<char>(random()); break;
      case 1: text.erase(at, 1 + random() % 20); break;
      case 2: text.insert(at, text.substr(random() % text.size(), random() % 30)); break;
      case 3: text[at] = "0123456789-{}[],:\"e."[random() % 20]; break;
      default:
        if (digit != std::string::npos) text[digit] = static_cast<char>('0' + random() % 10);
      }
      if (text.empty()) text = " ";
    }
    try {
      const Machine machine = machine_from_json(text, "damaged");
      accepted++;
      ASSERT_EQ(machine_from_json(to_json(machine), "again"), machine);
    } catch (const Error& error) {
      refusals++;
      ASSERT_NE(kind_of(error.code), ErrorKind::internal) << error.what();
      ASSERT_EQ(error.where.compare(0, 7, "damaged"), 0) << error.what();
    }
  }
  std::cout << accepted << " accepted, " << refusals << " refused\n";
  EXPECT_GT(accepted, 300);
  EXPECT_GT(refusals, 1000);
}

} // namespace
