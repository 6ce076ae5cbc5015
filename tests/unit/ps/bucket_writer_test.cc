// Rows that were trained elsewhere, as the record of a bucket that no push has touched.
#include "ps/bucket_writer.h"

#include <gtest/gtest.h>

#include <string>

#include "optimizer/update_rule.h"
#include "ps/bucket_parts.h"
#include "ps/table/bucket_rows.h"

namespace downpour {
namespace {

class BucketWriterTest : public testing::Test {
 protected:
  static constexpr uint32_t kBucket = 1, kBuckets = 2;
  void SetUp() override {
    job_.model.tables = {{.name = "a", .width = 3}, {.name = "b", .width = 1}};
    job_.model.table_buckets = kBuckets;
  }
  // Keys of that table up to 99 that fall into the bucket.
  static std::vector<uint64_t> Keys(uint64_t table) {
    std::vector<uint64_t> keys;
    for (uint64_t key = 0; key < 100; ++key) {
      if (BucketOf(table, key, kBuckets) == kBucket) keys.push_back(key);
    }
    return keys;
  }
  // Of the first table all those rows, with values key, key + 1, key + 2; none of the second one.
  std::string Write(size_t part_bytes) {
    std::string record;
    BucketWriter writer(TablesOf(job_), kBucket, part_bytes, [&record](const std::vector<Payload>& blocks) {
      for (const Payload& block : blocks) record.append(reinterpret_cast<const char*>(block.data()), block.size());
      return absl::OkStatus();
    });
    EXPECT_TRUE(writer.Begin(SliceId{4}).ok());
    const RowShape shape = ShapeOf(TablesOf(job_)[0]);
    std::vector<float> row(shape.bytes() / sizeof(float));
    for (const uint64_t key : Keys(0)) {
      for (size_t i = 0; i < row.size(); ++i) row[i] = static_cast<float>(key + i);
      EXPECT_TRUE(writer.Add(key, reinterpret_cast<const std::byte*>(row.data())).ok());
    }
    EXPECT_TRUE(writer.EndTable().ok());
    EXPECT_TRUE(writer.EndTable().ok());
    return record;
  }
  absl::StatusOr<BucketRows> Install(const std::string& record, uint64_t consumed) {
    BucketInstaller rows(TablesOf(job_), kBucket, /*copy=*/7);
    const auto take = [&rows](absl::Span<const std::byte> part) { return rows.Add(part); };
    BucketParts parts;
    const Payload piece = Payload::CopyOf(record.data(), record.size());
    if (absl::Status status = parts.Add(piece.bytes(), take); !status.ok()) return status;
    if (!parts.whole()) return absl::DataLossError("no whole record");
    return std::move(rows).Finish(consumed);
  }
  static std::string RecordOf(BucketRows& rows) {
    SliceState state;
    state.slice = SliceId{4};
    std::string record;
    const auto append = [&record](const std::vector<Payload>& blocks) {
      for (const Payload& block : blocks) record.append(reinterpret_cast<const char*>(block.data()), block.size());
    };
    append(EncodeRecord(state));
    rows.BeginRecord();
    while (rows.recording()) append(FramePart(rows.NextPart(4096)));
    return record;
  }
  static float FirstOf(const BucketRows& rows, uint64_t key) {
    return rows.Gather({.counts = {1, 0}, .keys = {key}}).floats()[0];
  }
  JobSpec job_;
};

TEST_F(BucketWriterTest, RowsAreThereBeforeTheFirstPush) {
  for (const size_t part_bytes : {size_t{200}, size_t{1} << 16}) {
    const absl::StatusOr<BucketRows> rows = Install(Write(part_bytes), 0);
    ASSERT_TRUE(rows.ok()) << rows.status();
    EXPECT_EQ(rows->rows(), Keys(0).size());
    for (const uint64_t key : Keys(0)) EXPECT_EQ(FirstOf(*rows, key), static_cast<float>(key));
  }
}

TEST_F(BucketWriterTest, ARecordOfThemBeforeTheFirstPushIsOneToo) {
  absl::StatusOr<BucketRows> rows = Install(Write(4096), 0);
  ASSERT_TRUE(rows.ok()) << rows.status();
  absl::StatusOr<BucketRows> again = Install(RecordOf(*rows), 0);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->rows(), Keys(0).size());
  EXPECT_FALSE(Install(Write(4096), 1).ok()) << "the counters would have a push that the rows lack";
}

TEST_F(BucketWriterTest, TheyExpireAsIfTheFirstPushHadThem) {
  job_.model.tables[0].evict_after = 3;
  absl::StatusOr<BucketRows> rows = Install(Write(4096), 0);
  ASSERT_TRUE(rows.ok()) << rows.status();
  const uint64_t key = Keys(0)[5];
  for (int push = 1; push <= 3; ++push) {
    rows->ConsumeEmpty();
    EXPECT_EQ(FirstOf(*rows, key), static_cast<float>(key)) << "behind push " << push;
  }
  rows->ConsumeEmpty();
  EXPECT_LT(FirstOf(*rows, key), 1) << "it is a new one";
}

TEST_F(BucketWriterTest, AFailureIsTheEnd) {
  int left = 1;
  BucketWriter writer(TablesOf(job_), kBucket, 4096, [&left](const std::vector<Payload>&) {
    return left-- > 0 ? absl::OkStatus() : absl::UnavailableError("the disk is full");
  });
  EXPECT_TRUE(writer.Begin(SliceId{4}).ok());
  EXPECT_TRUE(absl::IsUnavailable(writer.EndTable()));
  left = 9;
  EXPECT_TRUE(absl::IsUnavailable(writer.EndTable()));
}

}  // namespace
}  // namespace downpour
