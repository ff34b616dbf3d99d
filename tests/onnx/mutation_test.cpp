// Damaged files: whatever is done to the bytes of a model, reading it, putting its functions in and sorting it either
// work or throw an Error of a reader, and nothing is read that is not there (which the sanitizers see).
// TILEWRIGHT_LONG=1 tries more.
#include "onnx/functions.h"
#include "onnx/reader.h"
#include "onnx/sort.h"
#include "onnx/walk.h"
#include "onnx/wire_writer.h"
#include "support/error.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <random>

namespace tilewright::onnx {
namespace {

std::vector<W> seeds() {
  W tensor = tensor_header("t", element::float16, {2, 2}).packed(5, {0x3c00, 1, 2, 3});
  W ints = tensor_header("k", element::int64, {3}).integer(7, 1).packed(7, {-5, 1 << 20});
  auto branch = [&](const std::string& outer) {
    return graph({"then", {node("Add", {outer, "k"}, {"z"})}, {ints}, {}, {value_info("z")}});
  };
  W rich =
      node("Op", {"x", "", "w"}, {"t1", "t2"}, "rich",
           {attribute_float("f", 0.5f), attribute("ints", 7).packed(8, {1, 300, -1}), attribute("s", 3).text(4, "same"),
            attribute("floats", 6).packed_fixed<float>(7, {1, 2}), attribute("t", 4).message(5, tensor),
            attribute("strings", 8).text(9, "a").text(9, "bc"), attribute_graph("then_branch", branch("x")),
            attribute("type", 13).message(14, tensor_type(1, {dim_named("n"), dim_fixed(3)}))});
  W call = node("F", {"t1"}, {"y"}, "call", {attribute_int("p", 3)}, "my");
  W f = function({"F",
                  "my",
                  {"a", "b"},
                  {"c", "a"},
                  {"p"},
                  {attribute_int("q", 1)},
                  {node("Op", {"a", "b"}, {"d"}, "op", {attribute_ref("v", 2, "p"), attribute_ref("u", 2, "q")}),
                   node("G", {"d"}, {"c"}, "inner", {}, "my")}});
  W g = function(
      {"G", "my", {"a"}, {"b"}, {}, {}, {node("Neg", {"a"}, {"b"}, "neg", {attribute_graph("g", branch("a"))})}});
  W sequence = W().message(4, W().message(1, tensor_type(7, {})));
  W main =
      graph({"g",
             {call, rich},
             {raw_tensor<float>("w", 1, {2, 2}, {1, 2, 3, 4}), tensor, ints,
              tensor_header("names", element::string, {2}).text(6, "p").text(6, "q")},
             {value_info("x", tensor_type(1, {dim_named("batch"), dim_fixed(4), W()})), value_info("seq", sequence)},
             {value_info("y")}});
  main.message(15, W().message(1, W().text(8, "sparse")));
  W whole = model(main, {f, g});
  whole.begin_group(40).varint(1, 1).text(2, "skipped").end_group(40).message(14, W().text(1, "k").text(2, "v"));
  W small = model(graph({"g", {node("Relu", {"x"}, {"y"}, "r")}, {}, {value_info("x")}, {value_info("y")}}));
  return {whole, small, model_of_tensor(tensor),
          model_of_tensor(external_tensor("w", 1, {2}, {{"location", "w.bin"}, {"offset", "4"}}))};
}

void damage(std::string& bytes, std::mt19937& random) {
  auto at = [&] { return bytes.empty() ? 0 : random() % bytes.size(); };
  switch (random() % 7) {
  case 0: bytes.resize(at()); break;
  case 1:
  case 2:
    if (!bytes.empty()) bytes[at()] ^= static_cast<char>(1 << random() % 8);
    break;
  case 3:
    if (!bytes.empty()) bytes[at()] = static_cast<char>(random());
    break;
  case 4: bytes.insert(at(), 1 + random() % 4, static_cast<char>(random())); break;
  case 5: bytes.erase(at(), 1 + random() % 4); break;
  default: { // a piece of it elsewhere
    std::string piece = bytes.substr(at(), random() % 40);
    bytes.insert(at(), piece);
  }
  }
}

std::string outcome(const std::string& bytes) {
  // A heap block of just this size: reading one byte past it is seen.
  std::vector<std::byte> copy(reinterpret_cast<const std::byte*>(bytes.data()),
                              reinterpret_cast<const std::byte*>(bytes.data()) + bytes.size());
  copy.shrink_to_fit();
  try {
    Model m = read_model(copy, "/nonexistent");
    Walk().model(m);
    m = inline_functions(std::move(m));
    sort_nodes(m.graph, m.file);
    Walk walk;
    walk.model(m);
    return "read";
  } catch (const Error& e) {
    bool known =
        e.code == Code::model || e.code == Code::external || e.code == Code::cycle || e.code == Code::unsupported;
    if (!known) ADD_FAILURE() << e.what();
    return std::string(id_of(e.code));
  }
}

TEST(Mutation, SeedsAreGood) {
  std::vector<W> all = seeds();
  EXPECT_EQ(outcome(all[0].out), "read");
  EXPECT_EQ(outcome(all[1].out), "read");
  EXPECT_EQ(outcome(all[2].out), "read");
  EXPECT_EQ(outcome(all[3].out), "E0203");
}

TEST(Mutation, DamagedModelsAreReadOrRefused) {
  int rounds = std::getenv("TILEWRIGHT_LONG") ? 400000 : 20000;
  std::mt19937 random(2026);
  std::vector<W> all = seeds();
  std::map<std::string, int> outcomes;
  for (int i = 0; i < rounds; ++i) {
    std::string bytes = all[random() % all.size()].out;
    for (std::uint32_t k = 1 + random() % 4; k > 0; --k) damage(bytes, random);
    ++outcomes[outcome(bytes)];
  }
  for (const auto& [what, count] : outcomes) std::printf("%s %d\n", what.c_str(), count);
  EXPECT_GT(outcomes["read"], rounds / 100);
  EXPECT_GT(outcomes["E0202"], rounds / 100);
}

TEST(Mutation, EveryTruncationAndEveryBitFlip) {
  for (const W& seed : seeds()) {
    for (std::size_t n = 0; n < seed.out.size(); ++n) outcome(seed.out.substr(0, n));
    for (std::size_t bit = 0; bit < 8 * seed.out.size(); ++bit) {
      std::string bytes = seed.out;
      bytes[bit / 8] ^= static_cast<char>(1 << bit % 8);
      outcome(bytes);
    }
  }
}

TEST(Mutation, RandomBytes) {
  std::mt19937 random(5);
  for (int i = 0; i < 20000; ++i) {
    std::string bytes(random() % 200, '\0');
    for (char& c : bytes) c = static_cast<char>(random() % 3 ? random() % 130 : random());
    outcome(bytes);
  }
}

} // namespace
} // namespace tilewright::onnx
