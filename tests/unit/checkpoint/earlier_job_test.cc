// A new job begins with yesterday's variables and rows, whatever became of its model and its buckets meanwhile.
#include "checkpoint/earlier_job.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <map>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "checkpoint/table_reader.h"
#include "cluster/job_folder.h"
#include "job/job_file.h"
#include "tests/unit/tools/cli/made_checkpoint.h"
#include "tests/unit/tools/cli/run_tool.h"

namespace downpour {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class EarlierJobTest : public testing::Test {
 protected:
  void SetUp() override {
    from_ = FreshFolder("earlier");
    to_ = FreshFolder("later");
    MakeCheckpoint(from_, JobOf(kTables, 3), {1, 7}, [](size_t, int64_t i) { return static_cast<float>(i) + 0.5f; });
  }

  static constexpr char kTables[] = "[{name: users, width: 8}, {name: items, width: 2}]";

  JobSpec JobOf(const std::string& tables, int units, const std::string& more = "") const {
    const bool films = absl::StrContains(tables, "films");
    const JobFileResult read = ParseJob(
        absl::StrCat("name: tables\nmodel: {tables: ", tables, ", tableBuckets: 4, initializeFrom: ", from_,
                     ", layers: [{name: u, embedding: {table: users, column: user}}, {name: i, embedding: {table: "
                     "items, column: user}}, ",
                     films ? "{name: f, embedding: {table: films, column: user}}, {name: all, from: [u, i, f], "
                           : "{name: all, from: [u, i], ",
                     "concat: {}}, {name: out, dense: {units: ", units,
                     "}}]}\ndata: {format: csv, train: /nowhere/a, label: y, columns: [{name: user, key: ",
                     "integer}]}\n", more),
        "tables");
    EXPECT_TRUE(read.ok()) << (read.errors.empty() ? "" : ToString(read.errors[0]));
    return read.job;
  }
  Checkpoint Staged(const JobSpec& job) {
    const absl::StatusOr<std::string> note = StageFromEarlierJob(job, to_);
    EXPECT_TRUE(note.ok()) << note.status();
    note_ = note.value_or("");
    absl::StatusOr<Checkpoint> staged = OpenCheckpoint(to_, Round());
    EXPECT_TRUE(staged.ok() && CheckFiles(*staged).ok() && FindDamage(*staged).empty()) << staged.status();
    return *std::move(staged);
  }
  // Rows of a table as a ps would install them: by key, with their slots.
  static std::map<uint64_t, std::vector<std::byte>> Rows(const Checkpoint& staged, const std::string& table,
                                                         uint64_t consumed = 0) {
    std::map<uint64_t, std::vector<std::byte>> rows;
    for (uint32_t bucket = 0; bucket < staged.grid.buckets; ++bucket) {
      BucketInstaller installer(TablesOf(staged.job), bucket, /*copy=*/1);
      const auto state = ReadBucketRecord(staged, bucket, [&](auto part) { return installer.Add(part); });
      EXPECT_TRUE(state.ok()) << state.status();
      EXPECT_TRUE(std::move(installer).Finish(consumed).ok());
      const auto take = [&](const TableSpec& spec, const TablePart& part) {
        if (staged.job.model.tables[spec.id].name != table) return absl::OkStatus();
        for (uint32_t i = 0; i < part.header.rows; ++i) {
          const std::byte* const row = part.Content(i);
          rows[part.Row(i).key].assign(row, row + ShapeOf(spec).bytes());
        }
        return absl::OkStatus();
      };
      EXPECT_TRUE(ReadTableParts(staged, bucket, take).ok());
    }
    return rows;
  }
  std::map<uint64_t, std::vector<std::byte>> Before(const std::string& table) {
    return Rows(*OpenCheckpoint(from_, {1, 7}), table, /*consumed=*/1);
  }

  std::string from_, to_, note_;
};

TEST_F(EarlierJobTest, RowsComeWithTheirSlotsIntoAsManyBuckets) {
  const Checkpoint staged = Staged(JobOf(kTables, 3));
  EXPECT_EQ(Rows(staged, "users").size(), kMadeKeys);
  EXPECT_TRUE(Rows(staged, "users") == Before("users") && Rows(staged, "items") == Before("items"));
  EXPECT_EQ(note_, absl::StrCat("2 variables and 2 tables from ", from_, "/checkpoints/1-7"));
}

TEST_F(EarlierJobTest, IntoOtherBucketsAndBesideOtherTablesToo) {
  for (const int64_t buckets : {4, 7}) {  // as many as before too: a key's bucket follows from its table's place
    JobSpec job = JobOf("[{name: items, width: 2}, {name: films, width: 3}, {name: users, width: 8}]", 3);
    job.model.table_buckets = buckets;
    const Checkpoint staged = Staged(job);
    EXPECT_TRUE(Rows(staged, "users") == Before("users") && Rows(staged, "items") == Before("items"));
    EXPECT_TRUE(Rows(staged, "films").empty());
    EXPECT_THAT(note_, HasSubstr("table films"));
  }
}

TEST_F(EarlierJobTest, VariablesComeWithSlotsAndTheCountOfTheirUpdates) {
  const Checkpoint staged = Staged(JobOf(kTables, 3));
  const SliceState kernel = *ReadSliceRecord(staged, staged.grid.slices[0]);
  EXPECT_EQ(kernel.values.floats()[4], 4.5f);
  EXPECT_EQ(kernel.version, 10u);
  EXPECT_TRUE(kernel.finished.empty());
  const Checkpoint other = Staged(JobOf(kTables, 3, "training: {optimizer: {name: adam}}\n"));
  const SliceState begun = *ReadSliceRecord(other, other.grid.slices[0]);
  EXPECT_EQ(begun.values.floats()[4], 4.5f);
  EXPECT_EQ(begun.version, 0u) << "it has no slots of adam's";
  EXPECT_EQ(begun.slots.size(), 2u);
}

TEST_F(EarlierJobTest, AVariableOfAnotherShapeBeginsAnew) {
  const Checkpoint staged = Staged(JobOf(kTables, 5));
  EXPECT_THAT(note_, AllOf(HasSubstr("0 variables and 2 tables"), HasSubstr("out/kernel (of another shape)")));
  const SliceState kernel = *ReadSliceRecord(staged, staged.grid.slices[0]);
  EXPECT_LT(kernel.values.floats()[4], 1.0f);
}

TEST_F(EarlierJobTest, OfPythonCodeWhatBeginsAnewBeginsAsItsModelHasIt) {
  const JobFileResult read =
      ParseJob(absl::StrCat("name: own\npython: {module: m, bytes: 1, sha256: \"", std::string(64, '0'),
                            "\"}\nmodel: {tables: ", kTables, ", tableBuckets: 4, initializeFrom: ", from_,
                            ", variables: [{name: out/bias, shape: [3]}, {name: mine, shape: [2]}]}\n"
                            "data: {format: python, trainExamples: 9}\n"),
               "own");
  ASSERT_TRUE(read.ok()) << ToString(read.errors[0]);
  EXPECT_FALSE(StageFromEarlierJob(read.job, to_).ok()) << "its code has said nothing";
  const std::string header = R"({"mine":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
                             R"("out/bias":{"dtype":"F32","shape":[3],"data_offsets":[8,20]}})";
  const uint64_t length = header.size();
  const float own[] = {7, 8, 9, 9, 9};
  std::filesystem::create_directories(to_ + "/python");
  PutFile(OwnValuesPath(to_), std::string(reinterpret_cast<const char*>(&length), 8) + header +
                                  std::string(reinterpret_cast<const char*>(own), sizeof(own)));
  const Checkpoint staged = Staged(read.job);
  EXPECT_THAT(note_, AllOf(HasSubstr("1 variable and 2 tables"), HasSubstr("not from there: mine")));
  EXPECT_TRUE(Rows(staged, "users") == Before("users"));
  const SliceState bias = *ReadSliceRecord(staged, staged.grid.slices[0]);
  EXPECT_EQ(bias.values.floats()[1], 1.5f);
  const SliceState mine = *ReadSliceRecord(staged, staged.grid.slices[1]);
  EXPECT_EQ(mine.values.floats()[1], 8);
  EXPECT_EQ(mine.version, 0u);
}

TEST_F(EarlierJobTest, WithAnotherOptimizerRowsKeepTheirValues) {
  const Checkpoint staged =
      Staged(JobOf("[{name: users, width: 8, optimizer: {name: adam}}, {name: items, width: 2}]", 3));
  const auto users = Rows(staged, "users"), before = Before("users");
  ASSERT_EQ(users.size(), before.size());
  for (const auto& [key, row] : users) {
    ASSERT_EQ(row.size(), 3 * 8 * sizeof(float));
    EXPECT_TRUE(std::equal(row.begin(), row.begin() + 8 * sizeof(float), before.at(key).begin()));
  }
}

TEST_F(EarlierJobTest, RowsOfAdamBringTheCountOfTheirUpdates) {
  constexpr char kAdam[] = "[{name: users, width: 8, optimizer: {name: adam}}, {name: items, width: 2}]";
  const auto version = [](const Checkpoint& staged) { return ReadBucketVersion(staged, 0).value_or(99); };
  EXPECT_EQ(version(Staged(JobOf(kTables, 3))), 0u) << "nothing counts them";
  EXPECT_EQ(version(Staged(JobOf(kAdam, 3))), 0u) << "its means are young";
  MakeCheckpoint(from_, JobOf(kAdam, 3), {1, 8}, [](size_t, int64_t) { return 0.5f; });
  EXPECT_GE(version(Staged(JobOf(kAdam, 3))), 10u);
}

TEST_F(EarlierJobTest, AGroupThatWasNotCompleteIsNotTakenAlong) {
  const std::string sync = "training: {consistency: sync, optimizer: {name: momentum}}\n";
  const std::string dense =
      "name: d\nmodel: {inputs: [{name: image, shape: [2, 2, 1]}], layers: [{dense: {units: 3}}]}\n"
      "data: {train: {images: /a, labels: /b}}\n" +
      sync;
  JobSpec job = ParseJob(dense, "dense").job;
  MakeCheckpoint(from_, job, {1, 9}, [](size_t, int64_t) { return 0.5f; });
  job.model.initialize_from = from_;
  const Checkpoint staged = Staged(job);
  const SliceState kernel = *ReadSliceRecord(staged, staged.grid.slices[0]);
  ASSERT_EQ(kernel.slots.size(), 2u);
  EXPECT_EQ(kernel.version, 10u);
}

TEST_F(EarlierJobTest, ADamagedCheckpointIsPassedOver) {
  MakeCheckpoint(from_, JobOf(kTables, 3), {1, 8}, [](size_t, int64_t) { return 0.5f; });
  const std::string shard = from_ + "/" + ShardPath({1, 8}, "ps-1.shard");
  std::fstream file(shard, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(-20, std::ios::end);
  file.put('!');
  file.close();
  Staged(JobOf(kTables, 3));
  EXPECT_THAT(note_, AllOf(HasSubstr("checkpoints/1-7"), HasSubstr("checkpoint 1-8 was passed over: ")));
}

TEST_F(EarlierJobTest, FtrlWouldForgetWhatWasLearned) {
  const std::string why(
      EarlierJob::Open(JobOf("[{name: users, width: 8, optimizer: {name: ftrl}}, {name: items, width: "
                             "2}]",
                             3))
          .status()
          .message());
  EXPECT_THAT(why, HasSubstr("table users had no ftrl"));
}

TEST_F(EarlierJobTest, WhatDoesNotFitIsRefusedByName) {
  const auto why = [](const JobSpec& job) { return std::string(EarlierJob::Open(job).status().message()); };
  EXPECT_THAT(
      why(JobOf("[{name: users, width: 9}, {name: items, width: 2}]", 3)),
      AllOf(HasSubstr("1-7: its table users has rows of 8 numbers, and the model's 9"), HasSubstr("another name")));
  JobSpec job = JobOf(kTables, 3);
  job.model.initialize_from = to_;
  EXPECT_FALSE(EarlierJob::Open(job).ok()) << "it has no checkpoint";
}

}  // namespace
}  // namespace downpour
