#include "runtime/posix/code_cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "runtime/posix/package.h"
#include "schema/sha256.h"
#include "tests/unit/scratch_folder.h"

namespace downpour {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class CodeCacheTest : public testing::Test {
 protected:
  CodeCacheTest() {
    fs::create_directories(own_ + "/trainer");
    std::ofstream(own_ + "/trainer/task.py") << "print(1)";
    const std::string packed = PackFolder(own_, "code").value();
    // In two blocks, as they come.
    blocks_ = {Payload::CopyOf(packed.data(), 10), Payload::CopyOf(packed.data() + 10, packed.size() - 10)};
    code_ = {.module = "trainer.task",
             .sha256 = Sha256Of(blocks_),
             .bytes = static_cast<int64_t>(packed.size()),
             .args = {}};
  }
  size_t Entries() const { return static_cast<size_t>(std::distance(fs::directory_iterator(folder_), {})); }

  ScratchFolder scratch_;
  const std::string own_ = scratch_.path() + "/own", folder_ = scratch_.path() + "/a/cache";
  const CodeCache cache_{folder_};
  std::vector<Payload> blocks_;
  PythonSpec code_;
};

TEST_F(CodeCacheTest, WhatIsKeptIsFoundAndNothingElseStays) {
  EXPECT_TRUE(absl::IsNotFound(cache_.Find(code_).status()));
  const auto kept = cache_.Keep(code_, blocks_);
  ASSERT_TRUE(kept.ok()) << kept.status();
  EXPECT_TRUE(fs::exists(kept->path + "/trainer/task.py"));
  EXPECT_EQ(cache_.Find(code_).value().path, kept->path);
  ASSERT_TRUE(cache_.Keep(code_, blocks_).ok()) << "another worker was quicker";
  EXPECT_EQ(Entries(), 1u);
}

TEST_F(CodeCacheTest, HalfOfItIsNotFound) {
  blocks_.pop_back();
  EXPECT_FALSE(cache_.Keep(code_, blocks_).ok());
  EXPECT_TRUE(absl::IsNotFound(cache_.Find(code_).status()));
  EXPECT_EQ(Entries(), 0u);
}

// As in a home where the user may not write, or that is none.
TEST_F(CodeCacheTest, WhereNoFolderCanBeMadeTheReasonAndTheRemedyAreTold) {
  scratch_.Write("a", "no folder");
  const std::string said(cache_.Find(code_).status().message());
  EXPECT_THAT(said, HasSubstr("cannot make the folder " + scratch_.path() + "/a: Not a directory"));
  EXPECT_THAT(said, HasSubstr("Let XDG_CACHE_HOME name a folder where this user may write"));
}

TEST_F(CodeCacheTest, AFolderThatOthersMayWriteToIsRefused) {
  fs::create_directories(folder_);
  chmod(folder_.c_str(), 0777);
  EXPECT_THAT(cache_.Find(code_).status().message(), HasSubstr("this user alone may write"));
  EXPECT_FALSE(cache_.Keep(code_, blocks_).ok());
}

TEST_F(CodeCacheTest, WhatNobodyUsedForLongIsRemoved) {
  ASSERT_TRUE(cache_.Keep(code_, blocks_).ok());
  const std::string old = folder_ + "/old";
  fs::create_directory(old);
  fs::last_write_time(old, fs::file_time_type::clock::now() - std::chrono::hours(31 * 24));
  ASSERT_TRUE(cache_.Keep(code_, blocks_).ok());
  EXPECT_FALSE(fs::exists(old));
  EXPECT_TRUE(cache_.Find(code_).ok());
}

TEST_F(CodeCacheTest, WhatIsInUseStaysHoweverOldItIs) {
  absl::StatusOr<CachedCode> used = cache_.Keep(code_, blocks_);
  ASSERT_TRUE(used.ok()) << used.status();
  std::ofstream(own_ + "/trainer/task.py") << "print(2)";
  const std::string packed = PackFolder(own_, "code").value();
  const std::vector<Payload> others = {Payload::CopyOf(packed.data(), packed.size())};
  PythonSpec other = code_;
  other.sha256 = Sha256Of(others);
  const auto grow_old = [&] {
    fs::last_write_time(used->path, fs::file_time_type::clock::now() - std::chrono::hours(31 * 24));
  };
  grow_old();
  ASSERT_TRUE(cache_.Keep(other, others).ok());
  EXPECT_TRUE(fs::exists(used->path + "/trainer/task.py"));
  used->in_use = UniqueFd();
  grow_old();
  ASSERT_TRUE(cache_.Keep(other, others).ok());
  EXPECT_FALSE(fs::exists(used->path));
}

// The same code is the same archive, whenever and wherever it is packed.
TEST_F(CodeCacheTest, AnArchiveIsOfItsFilesAlone) {
  const std::string copy = scratch_.path() + "/copy";
  fs::create_directories(copy + "/trainer/__pycache__");
  std::ofstream(copy + "/trainer/__pycache__/task.pyc") << "x";
  std::ofstream(copy + "/.hidden") << "x";
  std::ofstream(copy + "/trainer/task.py") << "print(1)";
  EXPECT_EQ(PackFolder(copy, "code").value(), PackFolder(own_, "code").value());
  std::ofstream(copy + "/trainer/task.py") << "print(2)";
  EXPECT_NE(PackFolder(copy, "code").value(), PackFolder(own_, "code").value());
  EXPECT_THAT(PackFolder(copy + "/nowhere", "code").status().message(), HasSubstr("No such file"));
}

}  // namespace
}  // namespace downpour
