#include "ps/snapshot.h"

#include <gtest/gtest.h>

#include <string>
#include <variant>
#include <vector>

#include "ps/optimizer.h"
#include "tests/scenario/tiny_job.h"

namespace downpour {
namespace {

constexpr SliceEpoch kEpoch{1, 1};
constexpr Round kRound{1, 1};
constexpr PeerId kAsker{2};
constexpr Incarnation kThisPs{7};

class SnapshotTest : public testing::Test {
 protected:
  SnapshotTest() : shard_(TinyJob(), TinyGrid(), TinyPlan(), 7) {
    for (const SliceId slice : {kKernel, kBias}) shard_.Assign({slice, kEpoch, SliceSource::kInitialValues});
    shard_.InstallNext(1 << 20);
  }

  void Push(SliceId id, LeaseId lease, Step step) {
    ServedSlice& slice = *shard_.Find(id);
    const std::vector<float> ones(static_cast<size_t>(TinyGrid().at(id).elements), 1);
    const Payload gradient = Payload::CopyOf(ones.data(), ones.size() * sizeof(float));
    const Optimizer optimizer(TinyJob(), TinyGrid(), TinyPlan());
    ASSERT_TRUE(slice.state->Update({.slice = id, .gradient = gradient, .staleness = 0}, TinyGrid(), optimizer, slice));
    slice.counters.Consume(lease, step, 3);
    ++slice.consumed;
  }

  SnapshotRequest Request(std::vector<SnapshotRequest::Item> slices, Round round = kRound) {
    return {kThisPs, round, std::move(slices)};
  }

  std::vector<SliceRecord> Answers(SnapshotQueue& queue) {
    Effects effects;
    queue.Answer(pace_, shard_, kThisPs, kAsker, effects);
    std::vector<SliceRecord> records;
    for (Effect& effect : effects.Take()) {
      if (auto* send = std::get_if<Send>(&effect)) records.push_back(std::get<SliceRecord>(send->message));
    }
    return records;
  }

  // From now on records are to be paid for, and a large one was just made.
  void MakeBusy() {
    pace_.Served(1);
    pace_.Tick();
    pace_.Made(1 << 20);
  }

  Shard shard_;
  RecordPace pace_;
};

TEST_F(SnapshotTest, ARecordIsThePairAtOneApplyPoint) {
  SnapshotQueue queue;
  Push(kBias, LeaseId{0}, 1);
  queue.Add(Request({{kBias, kEpoch}}), shard_);
  const std::vector<SliceRecord> records = Answers(queue);
  Push(kBias, LeaseId{0}, 2);  // after it: not in the record
  ASSERT_EQ(records.size(), 1u);
  const absl::StatusOr<SliceState> state = DecodeRecord(records[0].blocks);
  ASSERT_TRUE(state.ok()) << state.status();
  EXPECT_EQ(state->counters, (std::vector<LeaseCounter>{{LeaseId{0}, 1}}));
  EXPECT_EQ(state->version, 1u);
  EXPECT_EQ(records[0].version, 1u);
  EXPECT_EQ(state->values.floats()[0], -1);
  EXPECT_EQ(StateOf(kBias, *shard_.Find(kBias)).values.floats()[0], -2);
}

TEST_F(SnapshotTest, HowManyPushesASliceSkippedIsInItsRecordAndBesideItAndComesBack) {
  shard_.Find(kBias)->skipped = 3;
  SnapshotQueue queue;
  queue.Add(Request({{kKernel, kEpoch}, {kBias, kEpoch}}), shard_);
  const std::vector<SliceRecord> records = Answers(queue);
  ASSERT_EQ(records.size(), 2u);
  EXPECT_EQ(records[0].skipped, 0u);
  EXPECT_EQ(records[1].skipped, 3u);
  shard_.Assign({kBias, {2, 1}, SliceSource::kCheckpoint});
  ASSERT_TRUE(shard_.Restore({.slice = kBias, .epoch = {2, 1}, .blocks = records[1].blocks, .round = {}}));
  ASSERT_NE(shard_.Find(kBias), nullptr) << shard_.Report(kBias).error;
  EXPECT_EQ(shard_.Find(kBias)->skipped, 3u);
}

TEST_F(SnapshotTest, EachSliceHasOneAnswerForAllThatAskBeforeIt) {
  SnapshotQueue queue;
  queue.Add(Request({{kKernel, kEpoch}, {kBias, kEpoch}}), shard_);
  queue.Add(Request({{kBias, kEpoch}, {kKernel, kEpoch}}), shard_);  // repeated by an impatient chief
  EXPECT_EQ(Answers(queue).size(), 2u);
  EXPECT_EQ(Answers(queue).size(), 0u);
  queue.Add(Request({{kKernel, kEpoch}}), shard_);  // the record was lost
  EXPECT_EQ(Answers(queue).size(), 1u);
}

TEST_F(SnapshotTest, AnotherEpochHasNoAnswerAndANewRoundDropsTheOld) {
  SnapshotQueue queue;
  queue.Add(Request({{kKernel, {1, 2}}, {SliceId{9}, kEpoch}}), shard_);
  EXPECT_EQ(Answers(queue).size(), 0u);
  queue.Add(Request({{kKernel, kEpoch}}), shard_);
  queue.Add(Request({{kBias, kEpoch}}, {1, 2}), shard_);
  queue.Add(Request({{kKernel, kEpoch}}), shard_);  // late
  const std::vector<SliceRecord> records = Answers(queue);
  ASSERT_EQ(records.size(), 1u);
  EXPECT_EQ(records[0].slice, kBias);
  EXPECT_EQ(records[0].round, (Round{1, 2}));
}

TEST_F(SnapshotTest, WhileWorkersComeTheNextRecordWaitsUntilTheLastOneIsPaidFor) {
  SnapshotQueue queue;
  MakeBusy();
  queue.Add(Request({{kKernel, kEpoch}, {kBias, kEpoch}}), shard_);
  EXPECT_EQ(Answers(queue).size(), 0u);
  pace_.Served(RecordPace::kServedPerByte << 20);
  EXPECT_EQ(Answers(queue).size(), 2u);
}

TEST_F(SnapshotTest, AnUrgentRoundWaitsForNobodyAndIsNotPaidFor) {
  SnapshotQueue queue;
  MakeBusy();
  SnapshotRequest urgent = Request({{kKernel, kEpoch}}, {1, 2});
  urgent.urgent = true;
  queue.Add(urgent, shard_);
  queue.Add(Request({{kBias, kEpoch}}), shard_);  // late, of the round that was given up for it
  EXPECT_EQ(Answers(queue).size(), 1u);
  pace_.Served((RecordPace::kServedPerByte << 20) - RecordPace::kServedPerByte * (RecordPace::kPaidByTick - 1));
  EXPECT_TRUE(pace_.Allows());
}

// Drives a ShardWriter with a disk that answers as told.
class ShardWriterTest : public SnapshotTest {
 protected:
  void Begin(Round round = kRound) {
    const WriteShard request{kThisPs, round, "ps-0.shard", {{kKernel, kEpoch}, {kBias, kEpoch}}};
    writer_.Begin(request, kAsker, shard_, effects_);
    Collect();
  }
  void Finish(absl::Status status = absl::OkStatus()) {
    ASSERT_FALSE(ops_.empty());
    writer_.Done(StorageDone{ops_.back().ticket, std::move(status), Payload(), {}}, effects_);
    writer_.Continue(pace_, shard_, effects_);
    Collect();
  }
  void Collect() {
    for (Effect& effect : effects_.Take()) {
      if (auto* op = std::get_if<StorageOp>(&effect)) ops_.push_back(std::move(*op));
      if (auto* send = std::get_if<Send>(&effect)) reports_.push_back(std::get<ShardWritten>(send->message));
    }
  }

  ShardWriter writer_;
  Effects effects_;
  std::vector<StorageOp> ops_;
  std::vector<ShardWritten> reports_;
};

TEST_F(ShardWriterTest, WritesOneRecordAfterTheOtherThenSyncsThenReports) {
  Begin();
  for (int i = 0; i < 4; ++i) {
    EXPECT_TRUE(reports_.empty());
    Finish();
  }
  using Kind = StorageOp::Kind;
  ASSERT_EQ(ops_.size(), 4u);
  EXPECT_EQ(ops_[0].kind, Kind::kMakeDir);
  EXPECT_EQ(ops_[0].path, "checkpoints/1-1");
  EXPECT_EQ(ops_[1].kind, Kind::kAppend);
  EXPECT_EQ(ops_[1].path, "checkpoints/1-1/ps-0.shard");
  EXPECT_EQ(ops_[2].kind, Kind::kAppend);
  EXPECT_EQ(ops_[3].kind, Kind::kSync);
  ASSERT_EQ(reports_.size(), 1u);
  const ShardWritten& report = reports_[0];
  EXPECT_EQ(report.error, "");
  ASSERT_EQ(report.slices.size(), 2u);
  EXPECT_EQ(report.slices[1].offset, report.slices[0].bytes);
  EXPECT_EQ(report.bytes, report.slices[1].offset + report.slices[1].bytes);
  for (size_t i = 0; i < 2; ++i) {
    uint32_t crc = 0;
    for (const Payload& block : ops_[i + 1].data) crc = Crc32c(block.bytes(), crc);
    EXPECT_EQ(report.slices[i].crc32c, crc);
    EXPECT_TRUE(DecodeRecord(ops_[i + 1].data).ok());
  }
}

TEST_F(ShardWriterTest, ReportsHowManyPushesTheSlicesOfTheFileSkipped) {
  shard_.Find(kKernel)->skipped = 2;
  shard_.Find(kBias)->skipped = 3;
  for (const Round round : {Round{1, 1}, Round{1, 2}}) {
    Begin(round);
    for (int i = 0; i < 4; ++i) Finish();
    EXPECT_EQ(reports_.back().skipped, 5u);
  }
}

TEST_F(ShardWriterTest, ReportsTheVersionsThatAreInTheFile) {
  shard_.Find(kKernel)->version = 9;
  shard_.Find(kBias)->version = 7;
  for (const Round round : {Round{1, 1}, Round{1, 2}}) {
    Begin(round);
    for (int i = 0; i < 4; ++i) Finish();
    EXPECT_EQ(reports_.back().oldest_version, 7u);
    EXPECT_EQ(reports_.back().newest_version, 9u);
  }
}

TEST_F(ShardWriterTest, WhileWorkersComeTheNextRecordWaitsUntilTheLastOneIsPaidFor) {
  MakeBusy();
  Begin();
  Finish();
  EXPECT_EQ(ops_.size(), 1u);
  pace_.Served(RecordPace::kServedPerByte << 20);
  writer_.Continue(pace_, shard_, effects_);
  Collect();
  EXPECT_EQ(ops_.size(), 2u);
}

TEST_F(ShardWriterTest, AnUrgentRoundWaitsForNobodyAndIsNotPaidFor) {
  MakeBusy();
  writer_.Begin(WriteShard{kThisPs, kRound, "ps-0.shard", {{kKernel, kEpoch}}, true}, kAsker, shard_, effects_);
  Collect();
  for (int i = 0; i < 3; ++i) Finish();
  EXPECT_EQ(reports_.size(), 1u);
  pace_.Served((RecordPace::kServedPerByte << 20) - RecordPace::kServedPerByte * (RecordPace::kPaidByTick - 1));
  EXPECT_TRUE(pace_.Allows());
}

TEST_F(ShardWriterTest, AFileIsNeverWrittenTwice) {
  Begin();
  Begin();  // doubled while it is under way
  EXPECT_EQ(ops_.size(), 1u);
  for (int i = 0; i < 4; ++i) Finish();
  Begin();  // the report was lost
  EXPECT_EQ(ops_.size(), 4u);
  ASSERT_EQ(reports_.size(), 2u);
  EXPECT_EQ(reports_[1].bytes, reports_[0].bytes);
}

TEST_F(ShardWriterTest, ReportsWhatTheDiskRefused) {
  Begin();
  Finish();
  Finish(absl::ResourceExhaustedError("no space"));
  ASSERT_EQ(reports_.size(), 1u);
  EXPECT_EQ(reports_[0].error, "no space");
  EXPECT_EQ(ops_.size(), 2u);
}

TEST_F(ShardWriterTest, ASliceThatMovedEndsTheFile) {
  Begin();
  Finish();
  shard_.Assign({kBias, {1, 2}, SliceSource::kInitialValues});
  Finish();
  ASSERT_EQ(reports_.size(), 1u);
  EXPECT_EQ(reports_[0].error, "") << "no disk is at fault";
  ASSERT_EQ(reports_[0].slices.size(), 2u);
  EXPECT_EQ(reports_[0].slices[0].slice, kKernel);
  EXPECT_GT(reports_[0].slices[0].bytes, 0u);
  EXPECT_EQ(reports_[0].slices[1].slice, kBias);
  EXPECT_EQ(reports_[0].slices[1].epoch, kEpoch) << "the epoch asked for";
  EXPECT_EQ(reports_[0].slices[1].bytes, 0u);
}

TEST_F(ShardWriterTest, ALongReportComesInPartsAndWhatIsLackingComesAgain) {
  ShardWriter writer(/*part_bytes=*/1);
  const auto feed = [&](std::vector<SnapshotRequest::Item> slices) {
    writer.Begin(WriteShard{kThisPs, kRound, "ps-0.shard", std::move(slices)}, kAsker, shard_, effects_);
    Collect();
  };
  feed({{kKernel, kEpoch}, {kBias, kEpoch}});
  for (int i = 0; i < 4; ++i) {
    writer.Done(StorageDone{ops_.back().ticket, absl::OkStatus(), Payload(), {}}, effects_);
    writer.Continue(pace_, shard_, effects_);
    Collect();
  }
  ASSERT_EQ(reports_.size(), 2u);
  EXPECT_EQ(reports_[0].slices.at(0).slice, kKernel);
  EXPECT_EQ(reports_[1].slices.at(0).slice, kBias);
  EXPECT_EQ(reports_[1].bytes, reports_[0].bytes);
  feed({{kBias, kEpoch}});  // its part was lost
  ASSERT_EQ(reports_.size(), 3u);
  EXPECT_EQ(reports_[2].slices.size(), 1u);
  EXPECT_EQ(reports_[2].slices[0].slice, kBias);
}

TEST_F(ShardWriterTest, ARecordThatNobodyCouldReadIsNotWritten) {
  std::vector<LeaseCounter> open;
  for (uint64_t lease = 0; lease < 90000; ++lease) open.push_back({LeaseId{lease}, 1});
  JobSpec job = TinyJob();
  job.training.epochs = 100000;
  shard_.Extend(Plan(job, kTinyExamples));
  ServedSlice& slice = *shard_.Find(kBias);
  slice.counters = *LeaseCounters::Restore({}, open, shard_.plan());  // of a build that took any
  slice.consumed = 90000;
  Begin();
  Finish();
  Finish();
  ASSERT_EQ(reports_.size(), 1u);
  EXPECT_EQ(reports_[0].error, "slice 1: a slice record whose counters take 1080056 bytes, of at most 1048576");
  EXPECT_TRUE(reports_[0].slices.empty());
}

TEST_F(ShardWriterTest, WhatIsAbandonedIsWrittenNoFurther) {
  Begin();
  writer_.Abandon();
  Finish();
  EXPECT_EQ(ops_.size(), 1u);
  EXPECT_TRUE(reports_.empty());
}

TEST_F(ShardWriterTest, ANewRoundTakesOverFromOneThatIsUnderWay) {
  Begin();
  Begin({1, 2});
  writer_.Done(StorageDone{ops_[0].ticket, absl::OkStatus(), Payload(), {}}, effects_);
  writer_.Continue(pace_, shard_, effects_);
  Collect();
  EXPECT_EQ(ops_.size(), 2u) << "the old round's completion moves nothing";
  Begin();  // late
  EXPECT_EQ(ops_.size(), 2u);
  for (int i = 0; i < 4; ++i) Finish();
  ASSERT_EQ(reports_.size(), 1u);
  EXPECT_EQ(reports_[0].round, (Round{1, 2}));
}

}  // namespace
}  // namespace downpour
