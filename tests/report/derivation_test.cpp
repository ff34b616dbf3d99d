// The page of a derivation as text, and its pictures.
#include "report/derivation.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "expr/text.h"
#include "report/diagram.h"

namespace tilewright {
namespace {

std::string read_file(const std::string& path) {
  std::ifstream in(path);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

void golden(const std::string& name, const std::string& got) {
  const std::string path = std::string(TILEWRIGHT_SOURCE_DIR) + "/tests/golden/derive/" + name;
  if (std::getenv("TILEWRIGHT_UPDATE_GOLDEN")) {
    std::filesystem::create_directories(std::filesystem::path(path).parent_path());
    std::ofstream(path) << got;
  }
  EXPECT_EQ(got, read_file(path)) << "TILEWRIGHT_UPDATE_GOLDEN=1 writes " << path;
}

DerivationReport report_of(const std::string& example, const Binding& sizes, const std::string& machine = "h100") {
  const Program free =
      parse(read_file(std::string(TILEWRIGHT_SOURCE_DIR) + "/examples/" + example + ".tw"), example + ".tw");
  return derivation_report(example, fix_sizes(free, sizes), free, sizes, machine_named(machine));
}

const std::vector<std::pair<std::string, Binding>> examples = {
    {"matmul", {{"m", 4096}, {"k", 4096}, {"n", 4096}}},
    {"attention", {{"h", 32}, {"q", 8192}, {"x", 8192}, {"d", 128}}},
    {"gqa", {{"g", 8}, {"r", 4}, {"q", 4096}, {"x", 4096}, {"d", 128}}},
    {"spherical_attention", {{"h", 8}, {"q", 4096}, {"x", 4096}, {"d", 64}}},
    {"layernorm_linear", {{"t", 4096}, {"c", 1024}, {"f", 4096}}},
    {"mlp", {}},
    {"linear_cross_entropy", {{"t", 4096}, {"m", 1024}, {"v", 32000}}},
    {"conv_relu", {}},
    {"moe_top1", {{"t", 1024}, {"e", 8}, {"k", 1024}, {"n", 1024}}},
};

// What may differ in the last digits between compilers is cut off: differences, which are near 0.
std::string steady(std::string text) {
  const std::string mark = "largest difference ";
  for (std::size_t at = text.find(mark); at != std::string::npos; at = text.find(mark, at + 1)) {
    const std::size_t from = at + mark.size(), to = text.find(" of", from);
    EXPECT_LT(std::stod(text.substr(from, to - from)), 1e-9);
    text.replace(from, to - from, "~0");
  }
  return text;
}

TEST(DerivationPage, AsText) {
  for (const auto& [name, sizes] : examples) golden(name + ".txt", steady(text(report_of(name, sizes))));
}

TEST(DerivationPage, AsPictures) {
  const auto files = diagrams(report_of("attention", {{"h", 1}, {"q", 8192}, {"x", 8192}, {"d", 128}}));
  ASSERT_EQ(files.size(), 6u);
  golden("attention-start.svg", files[0].drawing.svg(files[0].title));
  golden("attention-tile.svg", files[4].drawing.svg(files[4].title));
  golden("attention-pipeline.svg", files[5].drawing.svg(files[5].title));
}

// No text lies on another, and none leaves the picture.
TEST(DerivationPage, TextsDoNotMeet) {
  for (const auto& [name, sizes] : examples)
    for (const char* machine : {"h100", "generic-avx2"})
      for (const DrawnFile& f : diagrams(report_of(name, sizes, machine))) {
        const auto& texts = f.drawing.texts();
        ASSERT_FALSE(texts.empty()) << name;
        for (std::size_t i = 0; i < texts.size(); ++i) {
          EXPECT_GE(texts[i].x, 0) << name << " " << f.name << " " << texts[i].text;
          EXPECT_LE(texts[i].x + texts[i].width, f.drawing.width() + 1e-9);
          EXPECT_LE(texts[i].y + texts[i].height, f.drawing.height() + 1e-9);
          for (std::size_t j = i + 1; j < texts.size(); ++j)
            EXPECT_FALSE(meet(texts[i], texts[j]))
                << name << " " << f.name << ": '" << texts[i].text << "' and '" << texts[j].text << "'";
        }
      }
}

TEST(DerivationPage, AsJson) {
  const auto page =
      nlohmann::json::parse(derivation_json(report_of("attention", {{"h", 32}, {"q", 8192}, {"x", 8192}, {"d", 128}})));
  EXPECT_EQ(page["streams"][0]["axis"], "x");
  ASSERT_EQ(page["moves"].size(), 5u);
  EXPECT_EQ(page["moves"][4]["moved"]["formula"], "2*d*h*q + 2*d*h*q*x/g_q");
  for (const auto& m : page["moves"]) EXPECT_LT(m["difference"].get<double>(), 1e-9);
  const auto& kernel = page["kernels"][0];
  EXPECT_EQ(kernel["closed_form"][0]["moved"], "2*d*h*q + 4*d^2*h*q*x*M^-1");
  EXPECT_EQ(kernel["closed_form"][0]["terms"][1]["beta"], 1);
  EXPECT_EQ(kernel["roofline"]["bound"], "operations");
  EXPECT_EQ(kernel["hardware"]["tiles"].size(), 8u);
}

} // namespace
} // namespace tilewright
