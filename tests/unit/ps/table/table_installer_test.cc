#include "ps/table/table_installer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "tests/unit/ps/table/table_oracle.h"

namespace downpour {
namespace {

using testing::Test;

// A record by hand, of one part, with what no writer of ours makes.
struct Forged {
  TableSpec spec = {.id = 4, .width = 2, .optimizer = OptimizerKind::kAdagrad, .admit_after = 2};
  TablePartHeader header = {.table = 4, .point = {.copy = 8, .number = 1, .clock = 9}, .width = 2, .buckets = 1};
  struct Row {
    uint32_t number;
    uint64_t key;
    uint32_t last;
    std::vector<float> content;
  };
  std::vector<Row> rows = {{1, 10, 3, {1, 2, 3, 4}}, {2, 11, 3, {1, 2, 3, 4}}};
  std::vector<uint32_t> empties;
  struct Count {
    uint32_t number;
    AdmissionCounts::Entry entry;
  };
  std::vector<Count> counts = {{5, {.key = 20, .last = 2, .count = 1}}};

  Payload Part(bool is_last = true) const {
    TablePartHeader written = header;
    written.form = FormOf(spec);
    TablePartWriter writer(written, spec, 4096);
    for (const Row& row : rows) {
      writer.AddRow({row.number, row.last, row.key}, reinterpret_cast<const std::byte*>(row.content.data()));
    }
    for (uint32_t number : empties) writer.AddEmpty(number);
    for (const Count& count : counts) writer.AddCount(count.number, count.entry);
    return std::move(writer).Finish(is_last);
  }

  absl::StatusCode CodeOf(const TableSpec& into) const { return Install(into, {Part()}).status().code(); }
  absl::StatusCode Code() const { return CodeOf(spec); }
};

template <class Change>
absl::StatusCode After(const Change& change) {
  Forged forged;
  change(forged);
  return forged.Code();
}

constexpr absl::StatusCode kRefused = absl::StatusCode::kInvalidArgument;

TEST(TableInstallerTest, TakesWhatIsInOrder) {
  const Forged forged;
  const absl::StatusOr<TableBucket> bucket = Install(forged.spec, {forged.Part()});
  ASSERT_TRUE(bucket.ok()) << bucket.status();
  EXPECT_EQ(bucket->rows(), 2u);
  EXPECT_EQ(bucket->clock(), 9u);
  std::vector<float> values(2);
  const uint64_t key = 11;
  bucket->Gather({&key, 1}, values.data());
  EXPECT_EQ(values, (std::vector<float>{1, 2}));
}

// ZeroMQ's frames may begin at any address; UBSan sees a float that is read there.
TEST(TableInstallerTest, TakesAPartAtAnyAddress) {
  const Forged forged;
  const Payload part = forged.Part();
  std::vector<std::byte> moved(part.bytes().size() + 1);
  std::copy(part.bytes().begin(), part.bytes().end(), moved.begin() + 1);
  TableInstaller installer(forged.spec, 5);
  ASSERT_TRUE(installer.Add(absl::MakeConstSpan(moved).subspan(1)).ok());
  EXPECT_EQ(std::move(installer).Finish()->rows(), 2u);
}

TEST(TableInstallerTest, RefusesNumbersThatNoTrainingLeaves) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(After([](Forged& f) { f.rows[1].content[1] = kNan; }), kRefused);
  EXPECT_EQ(After([](Forged& f) { f.rows[1].content[3] = kNan; }), kRefused);
  EXPECT_EQ(After([](Forged& f) { f.rows[0].content[0] = -INFINITY; }), kRefused);
  EXPECT_EQ(After([](Forged& f) { f.rows[0].content[2] = -1; }), kRefused);
  EXPECT_EQ(After([](Forged& f) { f.rows[0].content[0] = -1; }), absl::StatusCode::kOk);
}

TEST(TableInstallerTest, RefusesAKeyTwice) {
  EXPECT_EQ(After([](Forged& f) { f.rows[1].key = 10; }), kRefused);
  EXPECT_EQ(After([](Forged& f) { f.counts.push_back({6, f.counts[0].entry}); }), kRefused);
}

TEST(TableInstallerTest, RefusesPlacesThatComeTwiceOrLate) {
  EXPECT_EQ(After([](Forged& f) { f.rows[1].number = 1; }), kRefused);
  EXPECT_EQ(After([](Forged& f) { std::swap(f.rows[0], f.rows[1]); }), kRefused);
  EXPECT_EQ(After([](Forged& f) { f.empties = {2}; }), kRefused);
  EXPECT_EQ(After([](Forged& f) { f.empties = {9, 8}; }), kRefused);
  EXPECT_EQ(After([](Forged& f) { f.empties = {0, 3}; }), absl::StatusCode::kOk);
  EXPECT_EQ(After([](Forged& f) { f.counts.push_back({5, {.key = 21, .last = 2, .count = 1}}); }), kRefused);
}

TEST(TableInstallerTest, RefusesPushesThatWereNot) {
  EXPECT_EQ(After([](Forged& f) { f.rows[0].last = 0; }), kRefused);
  EXPECT_EQ(After([](Forged& f) { f.rows[0].last = 10; }), kRefused);
  EXPECT_EQ(After([](Forged& f) { f.counts[0].entry.last = 10; }), kRefused);
}

TEST(TableInstallerTest, WhatCountsTheRowsThatAreAliveIsMemoryToo) {
  Forged forged;
  const size_t plain = Install(forged.spec, {forged.Part()})->bytes();
  forged.spec.evict_after = kMostEvictAfter;
  forged.spec.max_rows = 10;
  EXPECT_GE(Install(forged.spec, {forged.Part()})->bytes(), plain + sizeof(uint32_t) * kMostEvictAfter);
}

// A record must not end the process that reads it.
TEST(TableInstallerTest, ABucketOfAllPushesThatCanBeCountedRefusesTheNext) {
  Forged forged;
  forged.header.point.clock = std::numeric_limits<uint32_t>::max();
  absl::StatusOr<TableBucket> bucket = Install(forged.spec, {forged.Part()});
  ASSERT_TRUE(bucket.ok()) << bucket.status();
  const std::vector<uint64_t> keys = {10};
  const std::vector<float> gradients = {1, 1};
  const auto applied = bucket->Apply({keys, absl::MakeConstSpan(gradients), SgdUpdate{1}});
  EXPECT_EQ(applied.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(bucket->clock(), std::numeric_limits<uint32_t>::max());
}

TEST(TableInstallerTest, RefusesPointsAndBucketsThatCannotBe) {
  EXPECT_EQ(After([](Forged& f) { f.header.point.number = 0; }), kRefused);
  EXPECT_EQ(After([](Forged& f) { f.header.base = 1; }), kRefused);
  EXPECT_EQ(After([](Forged& f) { f.header.buckets = 0; }), kRefused);
  EXPECT_EQ(After([](Forged& f) { f.header.buckets = kMostBuckets + 1; }), kRefused);
  EXPECT_EQ(After([](Forged& f) { f.header.bucket = 1; }), kRefused);
  EXPECT_EQ(After([](Forged& f) { f.header.index = 1; }), kRefused);
}

TEST(TableInstallerTest, RefusesAKeyOfAnotherBucket) {
  Forged forged;
  forged.counts.clear();
  forged.header.buckets = 2;
  forged.rows.resize(1);
  for (uint32_t bucket = 0; bucket < 2; ++bucket) {
    forged.header.bucket = bucket;
    TableSpec into = forged.spec;
    into.buckets = 2, into.bucket = bucket;
    const bool belongs = BucketOf(4, 10, 2) == bucket;
    EXPECT_EQ(forged.CodeOf(into), belongs ? absl::StatusCode::kOk : kRefused);
  }
}

TEST(TableInstallerTest, RefusesARecordThatIsNotComplete) {
  const Forged forged;
  EXPECT_EQ(Install(forged.spec, {forged.Part(/*is_last=*/false)}).status().code(), kRefused);
  EXPECT_EQ(Install(forged.spec, {}).status().code(), kRefused);
  TableSpec half = forged.spec;
  half.buckets = 2;
  EXPECT_EQ(forged.CodeOf(half), absl::StatusCode::kOk);  // half of the rows of the only bucket
  Forged other;
  other.header.buckets = 2;
  other.rows.clear(), other.counts.clear();
  EXPECT_EQ(other.Code(), kRefused);  // the bucket beside it is missing
}

TEST(TableInstallerTest, OncePartIsRefusedNothingIsServed) {
  const Forged forged;
  TableInstaller installer(forged.spec, 1);
  ASSERT_TRUE(installer.Add(forged.Part().bytes()).ok());
  EXPECT_FALSE(installer.Add(forged.Part().bytes()).ok());  // it was there before
  EXPECT_EQ(installer.Add(forged.Part().bytes()).code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(std::move(installer).Finish().status().code(), absl::StatusCode::kFailedPrecondition);
}

class PartsTest : public Test {
 protected:
  PartsTest() {
    for (int i = 0; i < 20; ++i) pair_.Push();
    first_ = pair_.bucket.BeginRecord(std::nullopt);
    whole_ = RestOfRecord(pair_.bucket, 300);
    pair_.Push();
    second_ = pair_.bucket.BeginRecord(first_);
    changed_ = RestOfRecord(pair_.bucket, 300);
    for (int i = 0; i < 3; ++i) pair_.Push();
    pair_.bucket.BeginRecord(second_);
    later_ = RestOfRecord(pair_.bucket, 300);
  }
  absl::StatusCode Code(const std::vector<std::vector<Payload>>& records) {
    std::vector<Payload> parts;
    for (const std::vector<Payload>& record : records) parts.insert(parts.end(), record.begin(), record.end());
    return Install(spec_, parts).status().code();
  }

  const TableSpec spec_ = {.width = 4, .optimizer = OptimizerKind::kSgd, .initial = 1};
  TablePair pair_{spec_, 3};
  RecordPoint first_, second_;
  std::vector<Payload> whole_, changed_, later_;
};

TEST_F(PartsTest, AChainEndsWithAWholeRecordAndLeavesOutNone) {
  EXPECT_EQ(Code({whole_}), absl::StatusCode::kOk);
  EXPECT_EQ(Code({changed_, whole_}), absl::StatusCode::kOk);
  EXPECT_EQ(Code({later_, changed_, whole_}), absl::StatusCode::kOk);
  EXPECT_EQ(Code({later_, whole_}), kRefused);
  EXPECT_EQ(Code({changed_}), kRefused);
  EXPECT_EQ(Code({whole_, changed_}), kRefused);
}

TEST_F(PartsTest, PartsAreOfOneScanAndInTheirOrder) {
  ASSERT_GE(whole_.size(), 3u);
  for (size_t i = 0; i < whole_.size(); ++i) {
    std::vector<Payload> parts = whole_;
    parts.erase(parts.begin() + i);
    EXPECT_EQ(Code({parts}), kRefused) << i;
    parts = whole_;
    parts.insert(parts.begin() + i, whole_[i]);
    EXPECT_EQ(Code({parts}), kRefused) << i;
  }
  pair_.bucket.BeginRecord(std::nullopt);
  std::vector<Payload> again = RestOfRecord(pair_.bucket, 300);
  again[0] = whole_[0];
  EXPECT_EQ(Code({again}), kRefused);
}

TEST_F(PartsTest, ARecordOfAnotherCopyIsNoBase) {
  TablePair other(spec_, 3, 2);
  for (int i = 0; i < 20; ++i) other.Push();
  other.bucket.BeginRecord(std::nullopt);
  EXPECT_EQ(Code({changed_, RestOfRecord(other.bucket, 300)}), kRefused);
}

}  // namespace
}  // namespace downpour
