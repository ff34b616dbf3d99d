// `tilewright device`: what it prints, and that its calibration can be believed as far as a busy machine allows.
#include "cli/device.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>

#include "cli/calibrate.h"
#include "support/error.h"

using namespace tilewright;
using Json = nlohmann::json;

namespace {

class Device : public testing::Test {
protected:
  void SetUp() override {
    folder_ = std::filesystem::temp_directory_path() / ("device_test_" + std::to_string(getpid()));
    std::filesystem::create_directories(folder_);
    if (const char* was = std::getenv("XDG_CONFIG_HOME")) was_ = was;
    setenv("XDG_CONFIG_HOME", folder_.c_str(), 1);
  }
  void TearDown() override {
    if (was_.empty())
      unsetenv("XDG_CONFIG_HOME");
    else
      setenv("XDG_CONFIG_HOME", was_.c_str(), 1);
    std::filesystem::remove_all(folder_);
  }
  std::string run(const DeviceOptions& options) {
    std::ostringstream out;
    EXPECT_EQ(device_command(options, out), 0);
    return out.str();
  }
  std::filesystem::path folder_;
  std::string was_;
};

TEST_F(Device, PrintsWhatIsBelievedAndWhy) {
  const std::string text = run({});
  EXPECT_NE(text.find(cpu_model()), std::string::npos);
  EXPECT_NE(text.find(name_of(detect_isa())), std::string::npos);
  for (const char* part : {"cores", "memory", "dram", "l1", "fma", "estimate", "--calibrate", "\nCUDA"})
    EXPECT_NE(text.find(part), std::string::npos) << part << " in\n" << text;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 120u) << line;
}

TEST_F(Device, JsonIsTheMachineAndTheDriver) {
  DeviceOptions options;
  options.json = true;
  options.threads = 1;
  const Json json = Json::parse(run(options));
  EXPECT_EQ(machine_from_json(json.at("machine").dump(), "device"), this_cpu(1));
  EXPECT_EQ(json.at("features").at("isa"), std::string(name_of(detect_isa())));
  EXPECT_EQ(json.at("machines").get<std::vector<std::string>>(), machine_names());
  const Json& cuda = json.at("cuda");
  EXPECT_EQ(cuda.at("reason").is_null(), !cuda.at("devices").empty()) << "either devices or a reason";
}

TEST_F(Device, RefusesNegativeThreads) {
  DeviceOptions options;
  options.threads = -1;
  std::ostringstream out;
  EXPECT_THROW(device_command(options, out), Error);
}

TEST_F(Device, CalibrationNeedsAPlaceForItsFigures) {
  const std::string home = std::getenv("HOME") ? std::getenv("HOME") : "";
  setenv("XDG_CONFIG_HOME", "", 1);
  unsetenv("HOME");
  DeviceOptions options;
  options.calibrate = true;
  std::ostringstream out;
  try {
    device_command(options, out);
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(error.code, Code::file);
    EXPECT_NE(error.hint.find("XDG_CONFIG_HOME"), std::string::npos);
  }
  setenv("HOME", home.c_str(), 1);
}

#if defined(__OPTIMIZE__)
TEST_F(Device, MeasuresThisCpu) {
  std::vector<std::string> lines;
  const Calibration c = calibrate(
      read_host(), [&](const std::string& line) { lines.push_back(line); }, 0.02);
  EXPECT_EQ(c.model, cpu_model());
  EXPECT_EQ(c.isa, detect_isa());
  EXPECT_EQ(c.date.size(), 10u);
  EXPECT_GT(c.fma, 1e8);
  EXPECT_LT(c.fma, 1e12) << "more than any core does: the loop was optimised away";
  ASSERT_TRUE(c.read.count("dram"));
  for (const auto& [level, rate] : c.read) {
    EXPECT_GT(rate.one, 1e8) << level;
    EXPECT_LT(rate.one, 2e12) << level << ": the loop was optimised away";
    EXPECT_GE(rate.all, rate.one) << level;
  }
  EXPECT_GE(lines.size(), 3u);
  // kept, found again, and used
  save_calibration(c, calibration_path());
  const std::string text = run({});
  EXPECT_NE(text.find("calibrated"), std::string::npos) << text;
  EXPECT_NE(text.find(c.date), std::string::npos) << text;
}
#else
TEST_F(Device, RefusesToMeasureAnUnoptimisedBuild) {
  try {
    calibrate(read_host(), [](const std::string&) {});
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(error.code, Code::device);
  }
}
#endif

} // namespace
