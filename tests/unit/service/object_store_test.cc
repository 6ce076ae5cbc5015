#include "service/object_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "tests/unit/scratch_folder.h"

namespace downpour {
namespace {

namespace fs = std::filesystem;

class ObjectStoreTest : public testing::Test {
 protected:
  absl::StatusOr<StoredObject> Store(const std::string& bucket, const std::string& name, const std::string& content) {
    return store_.Store({.bucket = bucket, .name = name}, content);
  }
  ScratchFolder folder_;
  ObjectStore store_{folder_.path()};
};

TEST_F(ObjectStoreTest, AnObjectIsThereOnceItIsWhole) {
  const std::string upload = store_.Begin({.bucket = "models", .name = "a/b.txt"}).value();
  ASSERT_TRUE(store_.uploads().Write(upload, 0, "on").ok());
  EXPECT_FALSE(store_.Find("models", "a/b.txt").ok());
  const ObjectStore later(folder_.path());  // of a service that was started again
  ASSERT_TRUE(later.uploads().Write(upload, 2, "e").ok());
  EXPECT_EQ(later.Finish(upload)->bytes, 3);
  EXPECT_EQ(later.Finish(upload)->bytes, 3) << "for a client to which no answer came";
  EXPECT_EQ(store_.Find("models", "a/b.txt")->bytes, 3);
  EXPECT_EQ(store_.PathOf("gs://models/a/b.txt").value(), folder_.path() + "/storage/models/a/b.txt");
  EXPECT_EQ(store_.PathOf("gs://models/a/").value(), folder_.path() + "/storage/models/a");
  EXPECT_FALSE(store_.Finish(upload).ok()) << "a service that does not know finds nothing to finish";
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
  EXPECT_EQ(store_.List("models", {})->objects.size(), 2u) << "no object has these names";
  ASSERT_TRUE(store_.Remove("gs://models/a/b/c").ok());
  EXPECT_FALSE(fs::exists(folder_.path() + "/storage/models/a/b"));
  EXPECT_TRUE(store_.Find("models", "a/d").ok());
  ASSERT_TRUE(store_.Remove("gs://models/a/d").ok());
  EXPECT_TRUE(fs::is_empty(folder_.path() + "/storage/models"));
  EXPECT_FALSE(store_.Remove("gs://models/../x").ok());
}

TEST_F(ObjectStoreTest, WrongChecksumsLeaveNothing) {
  for (const UploadOrder& order : {UploadOrder{.bucket = "models", .name = "a", .crc32c = "AAAAAA=="},
                                   UploadOrder{.bucket = "models", .name = "a", .md5 = "1B2M2Y8AsgTpgAmY7PhCfg=="}}) {
    EXPECT_TRUE(absl::IsInvalidArgument(store_.Store(order, "x").status()));
    EXPECT_TRUE(store_.Store(order, "").ok());
    ASSERT_TRUE(store_.Remove("gs://models/a").ok());
  }
  EXPECT_TRUE(fs::is_empty(folder_.path() + "/uploads"));
}

TEST_F(ObjectStoreTest, OfAnotherGenerationNothingIsReplaced) {
  const auto store = [&](int64_t generation) {
    return store_.Store({.bucket = "models", .name = "a", .generation = generation}, "x");
  };
  EXPECT_TRUE(absl::IsAborted(store(1).status()));
  const StoredObject first = store(0).value();
  EXPECT_TRUE(absl::IsAborted(store(0).status()));
  EXPECT_TRUE(store(first.generation).ok());
  const std::string upload = store_.Begin({.bucket = "models", .name = "b", .generation = 0}).value();
  ASSERT_TRUE(Store("models", "b", "meanwhile").ok());
  EXPECT_TRUE(absl::IsAborted(store_.Finish(upload).status()));
  EXPECT_EQ(store_.Find("models", "b")->bytes, 9);
}

TEST_F(ObjectStoreTest, ACopyHasTheSameBytes) {
  const StoredObject from = Store("models", "a", std::string(3'000'000, 'x')).value();
  const StoredObject copy = store_.Copy(from, {.bucket = "other", .name = "b/c"}).value();
  EXPECT_EQ(store_.ChecksumsOf(copy)->md5, store_.ChecksumsOf(from)->md5);
  EXPECT_FALSE(store_.Copy(from, {.bucket = "other", .name = "../c"}).ok());
}

TEST_F(ObjectStoreTest, BucketsAreMadeListedAndRemoved) {
  ASSERT_TRUE(store_.MakeBucket("two").ok());
  ASSERT_TRUE(Store("one", "a/b", "x").ok());
  EXPECT_THAT(store_.Buckets(), testing::ElementsAre("one", "two"));
  EXPECT_TRUE(absl::IsAlreadyExists(store_.MakeBucket("two")));
  EXPECT_TRUE(absl::IsInvalidArgument(store_.MakeBucket("../x")));
  EXPECT_TRUE(absl::IsFailedPrecondition(store_.RemoveBucket("one")));
  ASSERT_TRUE(store_.Remove("gs://one/a/b").ok());
  EXPECT_TRUE(store_.RemoveBucket("one").ok());
  EXPECT_TRUE(absl::IsNotFound(store_.RemoveBucket("one")));
  EXPECT_THAT(store_.Buckets(), testing::ElementsAre("two"));
}

std::string TextOf(const Listing& listing) {
  std::string text;
  for (const StoredObject& object : listing.objects) text += object.name + " ";
  for (const std::string& prefix : listing.prefixes) text += prefix + " ";
  return listing.last.empty() ? text : text + "... " + listing.last;
}

TEST_F(ObjectStoreTest, ListsByPrefixAndDelimiter) {
  for (const char* name : {"b/2", "a/1", "b/1", "b/c/d", "a.txt"}) ASSERT_TRUE(Store("models", name, "x").ok());
  fs::create_directories(folder_.path() + "/storage/models/empty");
  const auto list = [&](const ListOrder& order) { return TextOf(store_.List("models", order).value()); };
  EXPECT_EQ(list({}), "a.txt a/1 b/1 b/2 b/c/d ");
  EXPECT_EQ(list({.delimiter = "/"}), "a.txt a/ b/ ");
  EXPECT_EQ(list({.prefix = "b/"}), "b/1 b/2 b/c/d ");
  EXPECT_EQ(list({.prefix = "b/", .delimiter = "/"}), "b/1 b/2 b/c/ ");
  EXPECT_EQ(list({.prefix = "a", .delimiter = "/"}), "a.txt a/ ");
  EXPECT_EQ(list({.prefix = "../"}) + list({.prefix = "a//"}) + list({.prefix = "none/"}), "");
  EXPECT_EQ(TextOf(store_.List("none", {}).value()), "");
  EXPECT_FALSE(store_.List("../x", {}).ok());
}

TEST_F(ObjectStoreTest, APageContinuesWhereTheOneBeforeEnded) {
  for (const char* name : {"a/1", "a/2", "a0", "b/1", "c"}) ASSERT_TRUE(Store("models", name, "x").ok());
  std::string all;
  ListOrder order{.delimiter = "/", .most = 1};
  for (int pages = 0; pages < 10; ++pages) {
    const Listing page = store_.List("models", order).value();
    all += TextOf(page) + "|";
    if ((order.after = page.last).empty()) break;
  }
  EXPECT_EQ(all, "a/ ... a/|a0 ... a0|b/ ... b/|c |");
}

TEST_F(ObjectStoreTest, ArgumentsGetPathsForUris) {
  const std::string at = folder_.path() + "/storage/";
  for (const auto& [argument, expected] : std::vector<std::pair<std::string, std::string>>{
           {"gs://data/x.csv", at + "data/x.csv"},
           {"--train=gs://data/part-*.csv", "--train=" + at + "data/part-*.csv"},
           {"--train=gs://data/a,b,gs://data/c/", "--train=" + at + "data/a,b," + at + "data/c/"},
           {"gs://data", at + "data"},
           {"--note=see gs://data/x.csv", "--note=see gs://data/x.csv"},
           {"gs://data/../../x", "gs://data/../../x"},
           {"gs://", "gs://"},
           {"s3://data/x", "s3://data/x"},
           {"", ""}}) {
    EXPECT_EQ(store_.WithPaths(argument), expected);
  }
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
  EXPECT_FALSE(store_.Begin({.bucket = "models", .name = ""}).ok());
}

TEST_F(ObjectStoreTest, LinksThatAJobLeftLeadNowhere) {
  ASSERT_TRUE(Store("models", "a/b", "x").ok());
  fs::create_symlink("/etc", folder_.path() + "/storage/models/link");
  EXPECT_FALSE(store_.Find("models", "link/passwd").ok());
  EXPECT_FALSE(Store("models", "link/x", "x").ok());
}

}  // namespace
}  // namespace downpour
