#include "service/object_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "tests/unit/tools/scratch_folder.h"

namespace downpour {
namespace {

namespace fs = std::filesystem;

class ObjectStoreTest : public testing::Test {
 protected:
  absl::StatusOr<StoredObject> Store(const std::string& bucket, const std::string& name, const std::string& content) {
    const absl::StatusOr<std::string> upload = store_.Begin(bucket, name);
    if (!upload.ok()) return upload.status();
    if (const absl::Status status = store_.Append(*upload, content); !status.ok()) return status;
    return store_.Finish(*upload);
  }
  ScratchFolder folder_;
  ObjectStore store_{folder_.path()};
};

TEST_F(ObjectStoreTest, AnObjectIsThereOnceItIsWhole) {
  const std::string upload = store_.Begin("models", "a/b.txt").value();
  ASSERT_TRUE(store_.Append(upload, "on").ok());
  EXPECT_FALSE(store_.Find("models", "a/b.txt").ok());
  const ObjectStore later(folder_.path());  // of a service that was started again
  ASSERT_TRUE(later.Append(upload, "e").ok());
  EXPECT_EQ(later.Size(upload).value(), 3);
  EXPECT_EQ(later.Finish(upload)->bytes, 3);
  EXPECT_EQ(store_.Find("models", "a/b.txt")->bytes, 3);
  EXPECT_EQ(store_.PathOf("gs://models/a/b.txt").value(), folder_.path() + "/storage/models/a/b.txt");
  EXPECT_EQ(store_.PathOf("gs://models/a/").value(), folder_.path() + "/storage/models/a");
  EXPECT_FALSE(store_.Finish(upload).ok()) << "it is finished";
}

TEST_F(ObjectStoreTest, OfAnObjectAndOneBelowItsNameOnlyOneIsKept) {
  ASSERT_TRUE(Store("models", "d/e", "x").ok());
  EXPECT_EQ(Store("models", "d", "x").status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(Store("models", "d/e/f", "x").status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_TRUE(fs::is_empty(folder_.path() + "/uploads")) << "what was refused is gone";
  EXPECT_EQ(store_.Find("models", "d/e")->bytes, 1);
}

TEST_F(ObjectStoreTest, WhatIsRemovedTakesItsEmptyFoldersWithIt) {
  ASSERT_TRUE(Store("models", "a/b/c", "x").ok());
  ASSERT_TRUE(Store("models", "a/d", "x").ok());
  for (const char* uri : {"gs://models/a", "gs://models", "gs://models/none"}) {
    EXPECT_TRUE(store_.Remove(uri).ok()) << uri;
  }
  EXPECT_EQ(store_.List("models", "", 10)->size(), 2u) << "no object has these names";
  ASSERT_TRUE(store_.Remove("gs://models/a/b/c").ok());
  EXPECT_FALSE(fs::exists(folder_.path() + "/storage/models/a/b"));
  EXPECT_TRUE(store_.Find("models", "a/d").ok());
  ASSERT_TRUE(store_.Remove("gs://models/a/d").ok());
  EXPECT_TRUE(fs::is_empty(folder_.path() + "/storage/models"));
  EXPECT_FALSE(store_.Remove("gs://models/../x").ok());
}

TEST_F(ObjectStoreTest, ListsByPrefix) {
  for (const char* name : {"b/2", "a/1", "b/1"}) ASSERT_TRUE(Store("models", name, "x").ok());
  EXPECT_EQ(store_.List("models", "", 10)->size(), 3u);
  const std::vector<StoredObject> found = store_.List("models", "b/", 1).value();
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].name, "b/1");
}

TEST_F(ObjectStoreTest, NamesThatLeaveTheBucketAreRefused) {
  for (const char* name : {"../x", "a/../x", "/x", "a//b", ".", "a/.", "a\nb", "..", "a/"}) {
    EXPECT_EQ(store_.PathOf("models", name).status().code(), absl::StatusCode::kInvalidArgument) << name;
  }
  EXPECT_FALSE(store_.PathOf("models", std::string("a\0b", 3)).ok());
  EXPECT_FALSE(store_.PathOf("models", std::string(300, 'a')).ok());
  for (const char* bucket : {"", "..", "a/b", "Models", "...", "-ab", "ab"}) {
    EXPECT_FALSE(store_.CheckBucket(bucket).ok()) << bucket;
  }
  for (const char* uri : {"", "models/x", "gs:/models/x", "file:///etc/passwd"}) {
    EXPECT_FALSE(store_.PathOf(uri).ok()) << uri;
  }
  EXPECT_FALSE(store_.Begin("models", "").ok());
  for (const char* upload : {"", "..", "../storage", "none"}) EXPECT_FALSE(store_.Size(upload).ok()) << upload;
}

TEST_F(ObjectStoreTest, LinksThatAJobLeftLeadNowhere) {
  ASSERT_TRUE(Store("models", "a/b", "x").ok());
  fs::create_symlink("/etc", folder_.path() + "/storage/models/link");
  EXPECT_FALSE(store_.Find("models", "link/passwd").ok());
  EXPECT_FALSE(Store("models", "link/x", "x").ok());
}

}  // namespace
}  // namespace downpour
