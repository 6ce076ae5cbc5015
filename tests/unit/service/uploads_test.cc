#include "service/uploads.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <thread>

#include "cluster/job_folder.h"
#include "tests/unit/scratch_folder.h"

namespace downpour {
namespace {

namespace fs = std::filesystem;

class UploadsTest : public testing::Test {
 protected:
  // What it became.
  std::string Finished(Uploads& uploads, const std::string& id) {
    std::string content;
    const absl::Status status = uploads.Finish(id, [&](const UploadOrder&, const std::string& data) {
      content = ReadTextFile(data).value();
      return absl::OkStatus();
    });
    return status.ok() ? content : std::string(status.message());
  }
  // As if it had not grown since.
  void Age(const std::string& id, std::chrono::hours age) {
    fs::last_write_time(folder_.path() + "/" + id + "/data", fs::file_time_type::clock::now() - age);
  }

  ScratchFolder folder_;
  const UploadOrder order_{.bucket = "models", .name = "a/b", .md5 = "x", .generation = 0};
};

TEST_F(UploadsTest, BytesThatComeAgainCountOnce) {
  Uploads uploads(folder_.path());
  const std::string id = uploads.Begin(order_).value();
  ASSERT_TRUE(uploads.Write(id, 0, "0123").ok());
  ASSERT_TRUE(uploads.Write(id, 4, "4567").ok());
  ASSERT_TRUE(uploads.Write(id, 4, "4567").ok()) << "a first try that comes late";
  ASSERT_TRUE(uploads.Write(id, 2, "23456789").ok()) << "one that was cut otherwise";
  EXPECT_EQ(uploads.Size(id).value(), 10);
  EXPECT_EQ(Finished(uploads, id), "0123456789");
}

TEST_F(UploadsTest, TwoRequestsThatBringTheSameBytesAtATimeLeaveThemOnce) {
  Uploads uploads(folder_.path());
  const std::string id = uploads.Begin(order_).value();
  std::string content;
  for (int i = 0; i < 20'000; ++i) content += std::to_string(i);
  const auto bring = [&](size_t block) {
    for (size_t at = 0; at < content.size(); at += block) {
      EXPECT_TRUE(uploads.Write(id, static_cast<int64_t>(at), std::string_view(content).substr(at, block)).ok());
    }
  };
  std::thread first(bring, 100), retry(bring, 77);
  first.join();
  retry.join();
  EXPECT_EQ(Finished(uploads, id), content);
}

TEST_F(UploadsTest, WhatDoesNotFitIsRefused) {
  Uploads uploads(folder_.path());
  const std::string id = uploads.Begin(order_).value();
  ASSERT_TRUE(uploads.Write(id, 0, "0123").ok());
  EXPECT_TRUE(absl::IsInvalidArgument(uploads.Write(id, 5, "5"))) << "a gap";
  EXPECT_TRUE(absl::IsInvalidArgument(uploads.Expect(id, 3))) << "fewer than are there";
  ASSERT_TRUE(uploads.Expect(id, 6).ok());
  EXPECT_TRUE(absl::IsInvalidArgument(uploads.Expect(id, 7))) << "another length";
  EXPECT_TRUE(absl::IsInvalidArgument(uploads.Write(id, 4, "456"))) << "more than it is to have";
  EXPECT_TRUE(absl::IsOutOfRange(uploads.Expect(uploads.Begin(order_).value(), kMostObjectBytes + 1)));
  EXPECT_TRUE(absl::IsOutOfRange(uploads.Expect(id, kMostObjectBytes + 1)));
  EXPECT_EQ(uploads.Size(id).value(), 4);
  for (const char* none : {"", "..", "../storage", "none"}) {
    EXPECT_TRUE(absl::IsNotFound(uploads.Size(none).status())) << none;
    EXPECT_TRUE(absl::IsNotFound(uploads.Drop(none))) << none;
  }
}

TEST_F(UploadsTest, ALaterServiceContinues) {
  const std::string id = Uploads(folder_.path()).Begin(order_).value();
  ASSERT_TRUE(Uploads(folder_.path()).Write(id, 0, "on").ok());
  fs::create_directories(folder_.path() + "/half");  // killed as it began
  Uploads later(folder_.path());
  EXPECT_EQ(later.Size(id).value(), 2);
  ASSERT_TRUE(later.Write(id, 2, "e").ok());
  const absl::Status kept = later.Finish(id, [&](const UploadOrder& order, const std::string&) {
    EXPECT_EQ(order.bucket + "/" + order.name + " " + order.md5, "models/a/b x");
    EXPECT_EQ(order.generation, 0);
    return absl::OkStatus();
  });
  EXPECT_TRUE(kept.ok()) << kept;
  EXPECT_TRUE(fs::is_empty(folder_.path()));
}

TEST_F(UploadsTest, OneThatIsOverStaysOver) {
  Uploads uploads(folder_.path());
  const std::string id = uploads.Begin(order_).value();
  const auto refuse = [](absl::Status why) { return [why](const UploadOrder&, const std::string&) { return why; }; };
  EXPECT_TRUE(absl::IsUnavailable(uploads.Finish(id, refuse(absl::UnavailableError("the disk is full")))));
  EXPECT_FALSE(uploads.Finished(id));
  EXPECT_EQ(Finished(uploads, id), "") << "tried again";
  EXPECT_EQ(uploads.Finished(id)->name, "a/b");
  EXPECT_FALSE(uploads.Write(id, 0, "late").ok());
  const std::string refused = uploads.Begin(order_).value();
  EXPECT_FALSE(uploads.Finish(refused, refuse(absl::AbortedError("another one is there"))).ok());
  EXPECT_FALSE(uploads.Finished(refused));
  EXPECT_TRUE(absl::IsNotFound(uploads.Size(refused).status()));
  EXPECT_TRUE(fs::is_empty(folder_.path()));
}

TEST_F(UploadsTest, OldOnesGo) {
  Uploads before(folder_.path());
  const std::string old = before.Begin(order_).value(), young = before.Begin(order_).value();
  Age(old, std::chrono::hours(24 * 8));
  Age(young, std::chrono::hours(24 * 6));
  Uploads uploads(folder_.path());
  uploads.RemoveOld();
  EXPECT_TRUE(absl::IsNotFound(uploads.Size(old).status()));
  EXPECT_FALSE(fs::exists(folder_.path() + "/" + old));
  EXPECT_TRUE(uploads.Size(young).ok());
}

TEST_F(UploadsTest, TheirNumberHasABoundAndIdleOnesMakeRoom) {
  Uploads before(folder_.path());
  const std::string longest = before.Begin(order_).value(), idle = before.Begin(order_).value();
  Age(longest, std::chrono::hours(2));
  Age(idle, std::chrono::hours(1));
  Uploads uploads(folder_.path(), {.uploads = 2});
  const std::string first = uploads.Begin(order_).value();
  EXPECT_FALSE(uploads.Size(longest).ok());
  EXPECT_TRUE(uploads.Size(idle).ok());
  ASSERT_TRUE(uploads.Begin(order_).ok());
  EXPECT_FALSE(uploads.Size(idle).ok());
  EXPECT_TRUE(absl::IsResourceExhausted(uploads.Begin(order_).status())) << "those that are at work stay";
  ASSERT_TRUE(uploads.Drop(first).ok());
  EXPECT_TRUE(uploads.Begin(order_).ok());
}

TEST_F(UploadsTest, TheirBytesHaveABoundAndIdleOnesMakeRoom) {
  Uploads before(folder_.path());
  const std::string idle = before.Begin(order_).value();
  ASSERT_TRUE(before.Write(idle, 0, "0123456789").ok());
  Age(idle, std::chrono::hours(1));
  Uploads uploads(folder_.path(), {.bytes = 12});
  const std::string id = uploads.Begin(order_).value();
  ASSERT_TRUE(uploads.Write(id, 0, "01").ok());
  EXPECT_TRUE(uploads.Size(idle).ok());
  ASSERT_TRUE(uploads.Write(id, 2, "23").ok());
  EXPECT_FALSE(uploads.Size(idle).ok());
  ASSERT_TRUE(uploads.Write(id, 4, "45678901").ok());
  EXPECT_TRUE(absl::IsResourceExhausted(uploads.Write(id, 12, "2")));
  EXPECT_EQ(Finished(uploads, id), "012345678901");
  EXPECT_TRUE(uploads.Write(uploads.Begin(order_).value(), 0, "012345678901").ok()) << "they are free again";
}

}  // namespace
}  // namespace downpour
