#include "checkpoint/table_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "tests/unit/tools/cli/made_checkpoint.h"

namespace downpour {
namespace {

using testing::HasSubstr;

TEST(TableReader, GivesEachRowOfEachBucketOnce) {
  const std::string dir = FreshFolder("table_reader");
  const JobSpec job = JobWithTables();
  MakeCheckpoint(dir, job, {1, 1}, Zero);
  const Checkpoint checkpoint = *OpenCheckpoint(dir, {1, 1});
  std::set<uint64_t> keys;
  size_t parts = 0;
  for (uint32_t bucket = 0; bucket < checkpoint.grid.buckets; ++bucket) {
    const absl::Status status = ReadTableParts(checkpoint, bucket, [&](const TableSpec& table, const TablePart& part) {
      for (uint32_t i = 0; i < part.header.rows; ++i) {
        const uint64_t key = part.Row(i).key;
        EXPECT_TRUE(keys.insert(key).second) << key;
        std::vector<float> values(8), born(8);
        ReadValues(ShapeOf(table), part.Content(i), values.data());
        InitialRow(table, key, born.data());
        EXPECT_EQ(values, born) << "its gradients were 0";
      }
      ++parts;
      return absl::OkStatus();
    });
    EXPECT_TRUE(status.ok()) << status;
  }
  EXPECT_EQ(keys.size(), kMadeKeys);
  EXPECT_GT(parts, 4u) << "records are cut";
}

TEST(TableReader, LoadsBucketsThatAnswerAsThePsDoes) {
  const std::string dir = FreshFolder("table_loads");
  const JobSpec job = JobWithTables();
  MakeCheckpoint(dir, job, {1, 1}, Zero);
  const absl::StatusOr<std::vector<BucketRows>> buckets = LoadBuckets(*OpenCheckpoint(dir, {1, 1}));
  ASSERT_TRUE(buckets.ok()) << buckets.status();
  ASSERT_EQ(buckets->size(), 4u);
  uint64_t rows = 0;
  for (const BucketRows& bucket : *buckets) rows += bucket.rows();
  EXPECT_EQ(rows, kMadeKeys);
}

// Its checksums are right, so what it says is judged.
TEST(TableReader, RefusesWhatNoPsWrites) {
  const std::string dir = FreshFolder("table_foreign");
  JobSpec job = JobWithTables();
  MakeCheckpoint(dir, job, {1, 1}, Zero);
  Checkpoint checkpoint = *OpenCheckpoint(dir, {1, 1});
  const auto read = [&] {
    return ReadTableParts(checkpoint, 2, [](const TableSpec&, const TablePart&) { return absl::OkStatus(); });
  };
  ASSERT_TRUE(read().ok());
  checkpoint.job.model.tables[0].width = 9;
  EXPECT_THAT(std::string(read().message()), HasSubstr("with width 8"));
  checkpoint.job.model.tables[0].width = 8;
  checkpoint.job.model.table_buckets = 8;
  EXPECT_THAT(std::string(read().message()), HasSubstr("a part of bucket 2 of 4"));
  checkpoint.job.model.table_buckets = 4;
  checkpoint.job.model.tables.push_back({.name = "more", .width = 1});
  EXPECT_THAT(std::string(read().message()), HasSubstr("bucket 2: a record that ends within table 1"));
  checkpoint.manifest.train_examples = 0;
  checkpoint.job = job;
  EXPECT_FALSE(LoadBuckets(checkpoint).ok()) << "a plan without leases, of which one is open";
}

}  // namespace
}  // namespace downpour
