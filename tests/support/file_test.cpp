#include "support/file.h"

#include "support/error.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <functional>
#include <thread>

namespace tilewright {
namespace {

namespace fs = std::filesystem;

class Files : public testing::Test {
protected:
  fs::path folder = fs::temp_directory_path() / ("tilewright-file-" + std::to_string(::getpid()));
  void SetUp() override { fs::create_directories(folder); }
  void TearDown() override { fs::remove_all(folder); }
  std::string path(const std::string& name) const { return (folder / name).string(); }
  std::size_t count() const { return static_cast<std::size_t>(std::distance(fs::directory_iterator(folder), {})); }
};

void expect_error(const std::string& path, const std::string& part, const std::function<void()>& act) {
  try {
    act();
    ADD_FAILURE() << "no error; wanted: " << part;
  } catch (const Error& e) {
    EXPECT_EQ(e.code, Code::file);
    EXPECT_EQ(e.where, path);
    EXPECT_NE(e.message.find(part), std::string::npos) << e.message;
  }
}

TEST_F(Files, WhatIsWrittenIsRead) {
  std::string text("a\0b\xff\n", 5);
  write_file(path("t"), text);
  EXPECT_EQ(read_text(path("t")), text);
  write_file(path("t"), "");
  EXPECT_EQ(read_text(path("t")), "");
  EXPECT_EQ(count(), 1u); // no part is left behind
}

TEST_F(Files, AMappingOutlivesTheReplacementOfItsFile) {
  write_file(path("t"), "first");
  Mapping old = map_file(path("t"));
  write_file(path("t"), "second, longer");
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(old.bytes.data()), old.bytes.size()), "first");
  EXPECT_EQ(read_text(path("t")), "second, longer");
}

TEST_F(Files, ErrorsCarryThePathAndTheReason) {
  expect_error(path("absent"), "cannot be opened: No such file", [&] { map_file(path("absent")); });
  expect_error(folder.string(), "is a folder", [&] { map_file(folder.string()); });
  expect_error("/dev/zero", "is a device", [&] { map_file("/dev/zero"); });
  expect_error("", "the path is empty", [&] { map_file(""); });
  expect_error(path("no/t"), "cannot be created: No such file", [&] { write_file(path("no/t"), "x"); });
  expect_error(folder.string(), "cannot be replaced", [&] { write_file(folder.string(), "x"); });
  EXPECT_EQ(count(), 0u);
  if (fs::exists("/dev/full"))
    expect_error("/dev/full", "cannot be written: No space left", [&] { write_file("/dev/full", "x"); });
}

TEST_F(Files, PermissionsAreRespected) {
  write_file(path("t"), "x");
  fs::permissions(path("t"), fs::perms::none);
  bool root = ::geteuid() == 0; // may read everything: become somebody else for the while
  if (root && ::seteuid(65534) != 0) GTEST_SKIP() << "cannot give up root's rights here";
  expect_error(path("t"), "Permission denied", [&] { map_file(path("t")); });
  if (root) {
    ASSERT_EQ(::seteuid(0), 0);
  }
}

TEST_F(Files, PipesAreReadToTheirEndOrRefused) {
  ASSERT_EQ(::mkfifo(path("pipe").c_str(), 0600), 0);
  expect_error(path("pipe"), "is a pipe", [&] { map_file(path("pipe"), Accept::regular); });
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  std::string sent(300000, 'p');
  std::thread writer([&] {
    for (std::size_t done = 0; done < sent.size();)
      done += static_cast<std::size_t>(::write(ends[1], sent.data() + done, sent.size() - done));
    ::close(ends[1]);
  });
  std::string got = read_text("/dev/fd/" + std::to_string(ends[0]));
  writer.join();
  ::close(ends[0]);
  EXPECT_EQ(got, sent);
}

TEST_F(Files, FilesOfUnknownSizeAreReadToo) { EXPECT_FALSE(read_text("/proc/self/status").empty()); }

} // namespace
} // namespace tilewright
