#include "data/byte_source.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>
#include <string>
#include <vector>

#include "tests/unit/scratch_folder.h"

namespace downpour {
namespace {

TEST(ByteSourceTest, AFileIsReadAtAnyPlace) {
  const ScratchFolder folder;
  const std::string path = folder.path() + "/a";
  std::ofstream(path) << "0123456789";
  const auto source = OpenFile(path);
  ASSERT_TRUE(source.ok()) << source.status();
  EXPECT_EQ((*source)->size(), 10u);
  EXPECT_EQ((*source)->name(), path);
  std::vector<uint8_t> some(4);
  EXPECT_EQ((*source)->Read(3, absl::MakeSpan(some)).value(), 4u);
  EXPECT_EQ(std::string(some.begin(), some.end()), "3456");
  EXPECT_EQ((*source)->Read(8, absl::MakeSpan(some)).value(), 2u) << "fewer at the end";
  EXPECT_EQ((*source)->Read(1000, absl::MakeSpan(some)).value(), 0u);
}

TEST(ByteSourceTest, WhatIsNoFileIsRefusedByName) {
  const ScratchFolder folder;
  EXPECT_TRUE(absl::IsNotFound(OpenFile(folder.path() + "/absent").status()));
  EXPECT_TRUE(absl::IsInvalidArgument(OpenFile(folder.path()).status()));
  const std::string pipe = folder.path() + "/pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  const absl::Status status = OpenFile(pipe).status();
  EXPECT_TRUE(absl::IsInvalidArgument(status));
  EXPECT_EQ(status.message(), pipe + " is no regular file: name a file of data");
}

}  // namespace
}  // namespace downpour
