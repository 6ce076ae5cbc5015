#include "service/checksums.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "tests/unit/scratch_folder.h"

namespace downpour {
namespace {

TEST(ChecksumsTest, AreThoseOfGooglesStore) {
  EXPECT_EQ(ChecksumsOf("").crc32c, "AAAAAA==");
  EXPECT_EQ(ChecksumsOf("").md5, "1B2M2Y8AsgTpgAmY7PhCfg==");
  EXPECT_EQ(ChecksumsOf("123456789").crc32c, "4waSgw==") << "e3069283, the check value of CRC-32C";
  EXPECT_EQ(ChecksumsOf("hello").md5, "XUFAKrxLKna5cZ2REBfFkg==");
}

TEST(ChecksumsTest, OfAFileAreThoseOfWhatItHasNow) {
  const ScratchFolder folder;
  const std::string path = folder.path() + "/a";
  ChecksumCache cache;
  EXPECT_FALSE(cache.Of(path).ok());
  EXPECT_FALSE(cache.Of(folder.path()).ok()) << "a folder has none";
  std::ofstream(path) << "hello";
  EXPECT_EQ(cache.Of(path)->md5, ChecksumsOf("hello").md5);
  EXPECT_EQ(cache.Of(path)->crc32c, ChecksumsOf("hello").crc32c);
  std::ofstream(path, std::ios::app) << " again";
  EXPECT_EQ(cache.Of(path)->md5, ChecksumsOf("hello again").md5);
  std::filesystem::remove(path);
  std::ofstream(path) << "hullo again";
  EXPECT_EQ(cache.Of(path)->md5, ChecksumsOf("hullo again").md5) << "another file of that length";
  std::filesystem::create_symlink(path, folder.path() + "/link");
  EXPECT_FALSE(cache.Of(folder.path() + "/link").ok());
}

}  // namespace
}  // namespace downpour
