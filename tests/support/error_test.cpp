#include "support/error.h"

#include <gtest/gtest.h>

#include <set>

namespace tilewright {
namespace {

TEST(Error, TextHasIdPlaceMessageAndHint) {
  Error full(Code::shape, "model.tw:4:17", "extent of k is 3 in A and 4 in B", "rename one of the axes");
  EXPECT_STREQ(full.what(), "E0104 model.tw:4:17: extent of k is 3 in A and 4 in B (rename one of the axes)");
  EXPECT_STREQ(Error(Code::option, "", "no such option").what(), "E0302 no such option");
  EXPECT_STREQ(Error(Code::file, "a.onnx", "cannot be read").what(), "E0201 a.onnx: cannot be read");
}

TEST(Error, AtFillsOnlyAMissingPlace) {
  Error bare(Code::type, "", "f32 and i8");
  EXPECT_STREQ(bare.at("node conv1").what(), "E0103 node conv1: f32 and i8");
  EXPECT_STREQ(bare.at("node conv1").at("elsewhere").what(), "E0103 node conv1: f32 and i8");
  EXPECT_EQ(bare.at("x").code, Code::type);
}

TEST(Error, IdsAreDistinctAndKindsAreExitCodes) {
  std::set<std::string_view> ids;
  for (int i = 0; i <= static_cast<int>(Code::internal); ++i) ids.insert(id_of(static_cast<Code>(i)));
  EXPECT_EQ(ids.size(), static_cast<std::size_t>(Code::internal) + 1);
  EXPECT_EQ(static_cast<int>(kind_of(Code::external)), 2);
  EXPECT_EQ(static_cast<int>(kind_of(Code::unsupported)), 3);
  EXPECT_EQ(static_cast<int>(kind_of(Code::check)), 1);
  EXPECT_EQ(static_cast<int>(kind_of(Code::memory)), 4);
  EXPECT_EQ(static_cast<int>(kind_of(Code::internal)), 5);
  EXPECT_EQ(static_cast<int>(kind_of(Code::interrupted)), 130);
}

TEST(Error, AFailedAssertionIsOurOwnFault) {
  EXPECT_NO_THROW(TW_ASSERT(1 + 1 == 2));
  try {
    assertion_failed("a < b", "/elsewhere/src/expr/program.cpp", 12);
  } catch (const Error& error) {
    EXPECT_EQ(error.code, Code::internal);
    EXPECT_EQ(error.where, "src/expr/program.cpp:12");
    EXPECT_NE(error.message.find("a < b"), std::string::npos);
  }
  EXPECT_THROW(TW_ASSERT(1 + 1 == 3), Error);
}

} // namespace
} // namespace tilewright
