// Plans that are kept on disk: the same plan without planning; whatever is wrong with a file, a plan all the same.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "expr/sizes.h"
#include "expr/text.h"
#include "loop/nest.h"
#include "runtime/session.h"

namespace tilewright {
namespace {

constexpr const char* block = R"(program block(n=1, y=14, x=14, c=24, h=96, i=3, j=3)
input X[n y x c], W[h c], V[h i j], U[c h] : f16
A[n y x h] : f16 = sum[c] X[n y x c] * W[h c]
B[n y x h] : f16 = max(A[n y x h], 0)
C[n y x h] : f16 = sum[i j] B[n, y+i-1, x+j-1, h else 0] * V[h i j]
D[n y x h] : f16 = max(C[n y x h], 0)
E[n y x c] : f16 = sum[h] D[n y x h] * U[c h]
F[n y x c] : f16 = E[n y x c] + X[n y x c]
output F
)";

class KeptPlan : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::temp_directory_path() / ("tilewright_plans_" + std::to_string(::getpid()));
    std::filesystem::remove_all(folder_);
    ::setenv("TILEWRIGHT_CACHE_DIR", folder_.c_str(), 1);
    options_.machine = "h200", options_.kept_plans = true;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  // Everything that is said of it.
  std::string said(const SessionOptions& o) const {
    const Plan plan = plan_program(fix_sizes(parse(block, "block.tw"), {}), o);
    std::ostringstream text_;
    text_ << print(*plan.program) << plan.search.candidates << plan.search.priced;
    for (const PlannedKernel& k : plan.kernels) {
      text_ << k.name << k.groups << " " << k.together << " " << k.apart << " " << k.cost.seconds << k.cost.bound << k.cost.loaded << text(*k.region, k.schedule);
      text_ << k.schedule.threads << " " << k.schedule.blocks << k.schedule.cluster << k.schedule.resident << k.schedule.band << k.schedule.fragments << k.schedule.overlapped << print(*plan.program, *k.region, k.schedule, expand(*plan.program, *k.region, k.schedule, k.name));
      for (const LeafAt& l : k.schedule.leaves) text_ << l.statement << l.tensor << l.group << l.rows << l.columns << l.warps_m << l.warps_n << l.warps_k << l.lanes << l.tile.size();
      for (const ValueAt& v : k.schedule.values) text_ << v.tensor << v.pad << v.swizzled << v.stages << v.kept << v.bulk;
      for (const std::string& r : k.refusals) text_ << r;
      for (const Alternative& a : k.alternatives) text_ << a.kernels << a.together << a.apart << a.rule;
    }
    for (const DimOrder& order : plan.layouts)
      for (int d : order) text_ << d;
    return text_.str();
  }
  std::vector<std::filesystem::path> files() const {
    std::vector<std::filesystem::path> list;
    if (std::filesystem::is_directory(folder_ / "plans"))
      for (const auto& f : std::filesystem::directory_iterator(folder_ / "plans")) list.push_back(f.path());
    return list;
  }
  static std::string bytes(const std::filesystem::path& p) {
    std::ostringstream out;
    out << std::ifstream(p, std::ios::binary).rdbuf();
    return out.str();
  }
  static void write(const std::filesystem::path& p, const std::string& text) { std::ofstream(p, std::ios::binary) << text; }

  std::filesystem::path folder_;
  SessionOptions options_;
};

TEST_F(KeptPlan, IsThePlan) {
  SessionOptions plain = options_;
  plain.kept_plans = false;
  const std::string want = said(plain);
  EXPECT_TRUE(files().empty());
  EXPECT_EQ(said(options_), want);
  ASSERT_EQ(files().size(), 1u);
  EXPECT_EQ(said(options_), want);
  EXPECT_EQ(files().size(), 1u);
}

TEST_F(KeptPlan, IsReadBack) {
  const std::string want = said(options_);
  ASSERT_EQ(files().size(), 1u);
  // Told apart from planning anew: the file is not written again.
  const auto then = std::filesystem::last_write_time(files()[0]);
  EXPECT_EQ(said(options_), want);
  EXPECT_EQ(std::filesystem::last_write_time(files()[0]), then);
}

TEST_F(KeptPlan, FollowsWhatItIsMadeFrom) {
  said(options_);
  SessionOptions other = options_;
  other.fuse = false;
  const std::string apart = said(other);
  EXPECT_EQ(files().size(), 2u);
  other.machine = "a100";
  EXPECT_NE(said(other), apart);
  EXPECT_EQ(files().size(), 3u);
  other.strict = true;
  said(other);
  EXPECT_EQ(files().size(), 4u);
  EXPECT_NE(said(options_), apart);
}

TEST_F(KeptPlan, DamagedOnesAreMadeAnew) {
  const std::string want = said(options_);
  ASSERT_EQ(files().size(), 1u);
  const auto file = files()[0];
  const std::string whole = bytes(file);
  for (std::size_t cut = 0; cut < whole.size(); cut += 1 + whole.size() / 9) {
    write(file, whole.substr(0, cut));
    EXPECT_EQ(said(options_), want) << cut;
    EXPECT_EQ(bytes(file), whole);
  }
  for (std::size_t at = 0; at < whole.size(); at += 1 + whole.size() / 9) {
    std::string damaged = whole;
    damaged[at] = static_cast<char>(damaged[at] ^ 4);
    write(file, damaged);
    EXPECT_EQ(said(options_), want) << at;
  }
}

TEST_F(KeptPlan, NowhereToKeepThem) {
  const std::string want = said(options_);
  std::filesystem::remove_all(folder_);
  write(folder_, "a file where the folder would be");
  EXPECT_EQ(said(options_), want);
  ::setenv("TILEWRIGHT_CACHE_DIR", "/dev/full", 1);
  EXPECT_EQ(said(options_), want);
}

}  // namespace
}  // namespace tilewright
