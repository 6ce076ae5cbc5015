// Values that the user gave a job to begin with, as they stand staged in its folder: at the start, and as a source.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "chief/folder/checkpoint_store.h"
#include "chief/folder/journal.h"
#include "chief/startup.h"
#include "tests/unit/chief/slice_restore_fixture.h"

namespace downpour {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

class StagedValuesTest : public SliceRestoreFixture {
 protected:
  StagedValuesTest() : SliceRestoreFixture(*GridOf(SmallJob().model)) {}

  // Records of `round` on disk, in which every slice has finished `finished`.
  Manifest Put(Round round, const std::vector<uint64_t>& finished = {}, const JobSpec& job = FineTuned({})) {
    Manifest manifest;
    manifest.round = round;
    manifest.job = CanonicalJob(job);
    manifest.train_examples = round == Round() ? 0 : 12;
    std::string file;
    for (const Slice& slice : grid.slices) {
      const Payload zeros = Payload::Zeros(static_cast<size_t>(slice.bytes()));
      const SliceState state{.slice = slice.id,
                             .epoch = {},
                             .finished = SetOf(finished),
                             .counters = {},
                             .values = zeros,
                             .slots = std::vector<Payload>(static_cast<size_t>(SlotCount(job.training)), zeros)};
      const std::vector<Payload> blocks = EncodeRecord(state);
      manifest.records.push_back({slice.id, 0, file.size(), RecordBytes(blocks), RecordChecksum(blocks)});
      for (const Payload& block : blocks) file += ToString(block);
    }
    manifest.files = {{"0.shard", file.size()}};
    disk.Put(ShardPath(round, "0.shard"), file);
    disk.Put(ManifestPath(round), EncodeManifest(manifest));
    return manifest;
  }
  static JobSpec FineTuned(const std::vector<std::string>& overrides = {}) {
    std::vector<std::string> all = {"model.initializeFrom=/m.safetensors"};
    all.insert(all.end(), overrides.begin(), overrides.end());
    return SmallJob(all);
  }
  Startup::Outcome Start(const JobSpec& job, bool resume = false) {
    ChiefOptions options{.job = job, .job_dir = {}, .host = "h0", .pid = 9, .nonce = 70, .timing = {}};
    options.resume = resume;
    CheckpointStore store(storage);
    Journal journal(context, storage, Timing{});
    Startup startup(storage, store, journal, options);
    Startup::Outcome outcome{.exit_code = -1, .why = {}};
    startup.Run({/*unix_ms=*/5000, "h0:1"}, [&](const Startup::Outcome& end) { outcome = end; });
    Settle();
    return outcome;
  }
};

TEST_F(StagedValuesTest, LieInAFolderOfTheirOwn) {
  EXPECT_EQ(ManifestPath(Round()), "initial/MANIFEST");
  EXPECT_EQ(ShardPath(Round(), "a"), "initial/a");
}

// ---- At the start ---------------------------------------------------------------------------------------------------

TEST_F(StagedValuesTest, AreFoundAtTheStartAndAreNoCheckpoint) {
  Put({});
  const Startup::Outcome outcome = Start(FineTuned());
  ASSERT_EQ(outcome.exit_code, 0) << outcome.why;
  ASSERT_TRUE(outcome.initial.has_value());
  EXPECT_THAT(outcome.initial->records, SizeIs(2));
  EXPECT_THAT(outcome.sources, IsEmpty());
  EXPECT_FALSE(outcome.goes_on);
  EXPECT_TRUE(Start(FineTuned()).goes_on) << "the chief was started again";
}

// Round 0-0 stands for them, so what is said of it among the checkpoints would be said of them.
TEST_F(StagedValuesTest, RetentionNeverRemovesThemWhateverLiesAmongTheCheckpoints) {
  Put({});
  disk.Put("checkpoints/0-0/0.shard", "x");
  CheckpointStore store(storage);
  store.Load([](const absl::Status& status) { EXPECT_TRUE(status.ok()); });
  Settle();
  EXPECT_THAT(store.valid(), IsEmpty());
  store.Prune({1, 1}, 0, {.keep = 1}, [](const absl::Status&) {});
  Settle();
  EXPECT_TRUE(disk.Has(ManifestPath(Round())));
}

TEST_F(StagedValuesTest, AJobThatWantsThemDoesNotStartWithoutThem) {
  for (const char* text : {"", "damaged\ncrc32c 00000000\n"}) {
    disk = MemoryDisk();
    if (*text != '\0') disk.Put(ManifestPath(Round()), text);
    const Startup::Outcome outcome = Start(FineTuned());
    EXPECT_EQ(outcome.exit_code, 1);
    EXPECT_THAT(outcome.why, AllOf(HasSubstr("the copy of model.initializeFrom's values cannot be used: "),
                                   HasSubstr("initial/MANIFEST"), HasSubstr("name another job folder")));
    EXPECT_FALSE(disk.Has("term.a")) << "nobody was led";
  }
  EXPECT_EQ(Start(SmallJob()).exit_code, 0) << "a job without the key does not look";
}

TEST_F(StagedValuesTest, OfAnotherPlanTheyAreRefused) {
  Put({});
  const Startup::Outcome outcome = Start(FineTuned({"seed=9"}));
  EXPECT_EQ(outcome.exit_code, 78);
  EXPECT_THAT(outcome.why, AllOf(HasSubstr("initial/ belongs to another plan"), HasSubstr("seed")));
}

// The folder of another job has no such copy either. That it is the wrong folder comes first.
TEST_F(StagedValuesTest, AFolderOfAnotherPlanIsNamedBeforeWhatItLacks) {
  Put({1, 1}, {}, SmallJob({"seed=9"}));
  const Startup::Outcome outcome = Start(FineTuned(), /*resume=*/true);
  EXPECT_EQ(outcome.exit_code, 78);
  EXPECT_THAT(outcome.why, AllOf(HasSubstr("checkpoint 1-1 belongs to another plan; it differs in seed (9 there, "),
                                 HasSubstr("model.initializeFrom"), Not(HasSubstr("cannot be used"))));
}

// What counts is what was staged.
TEST_F(StagedValuesTest, AFileThatMovedIsNoOtherPlanButAJobWithoutOneIs) {
  Put({});
  Put({1, 1});
  ASSERT_EQ(Start(FineTuned({"model.initializeFrom=/elsewhere"}), /*resume=*/true).exit_code, 0);
  const Startup::Outcome outcome = Start(SmallJob(), /*resume=*/true);
  EXPECT_EQ(outcome.exit_code, 78);
  EXPECT_THAT(outcome.why, HasSubstr("model.initializeFrom"));
}

// ---- As a source ----------------------------------------------------------------------------------------------------

TEST_F(StagedValuesTest, SlicesBeginWithThemInPlaceOfThePssOwn) {
  Place({}, Put({}));
  ASSERT_THAT(Assigns(), SizeIs(1));
  const Assign assign = Assigns()[0];
  for (const Assign::Item& item : assign.slices) EXPECT_EQ(item.source, SliceSource::kCheckpoint);
  ASSERT_THAT(Restores(), SizeIs(2));
  EXPECT_EQ(Restores()[0].round, Round());
  EXPECT_TRUE(DecodeRecord(Restores()[0].blocks).ok());
  for (const uint32_t slice : {0, 1}) ASSERT_TRUE(Report(SliceId{slice}, {}).ok());
  EXPECT_TRUE(restore.complete());
  EXPECT_THAT(failures.list(), IsEmpty());
}

TEST_F(StagedValuesTest, ACheckpointGoesBeforeThem) {
  Place({Put({1, 2}, {0})}, Put({}));
  ASSERT_THAT(Restores(), SizeIs(2));
  EXPECT_EQ(Restores()[0].round, (Round{1, 2}));
}

TEST_F(StagedValuesTest, TheyAreThereForAProcessThatComesLater) {
  Place({}, Put({}));
  for (const uint32_t slice : {0, 1}) ASSERT_TRUE(Report(SliceId{slice}, {}).ok());
  Join join;
  join.role = TaskRole::kPs;
  join.index = 0;
  join.endpoint = "h2:1";
  join.nonce = 77;
  join.attempt = 1;
  ps->state = TaskState::kLost;
  Task* other = members.Admit(context.now, PeerId{(uint64_t{2} << 32)}, join).task;
  ASSERT_NE(other, nullptr);
  other->bulk = kBulk;
  ps = other;
  assignment.TakeOver({other}, {});
  effects = Settle();
  ASSERT_THAT(Restores(), SizeIs(2));
  EXPECT_EQ(Restores()[0].round, Round());
}

TEST_F(StagedValuesTest, WhatIsNotHeldBeginsWithThem) {
  ps->holds = true;
  Place({}, Put({}));
  ASSERT_TRUE(Report(SliceId{0}, SetOf({0})).ok());
  ASSERT_TRUE(Report(SliceId{1}, {}, "slice 1 is not held here").ok());
  ASSERT_THAT(Restores(), SizeIs(1));
  EXPECT_EQ(Restores()[0].slice, SliceId{1});
  EXPECT_EQ(Restores()[0].round, Round());
  EXPECT_THAT(failures.list()[0].what, HasSubstr("restarts from its initial values"));
}

// The ps could make values of its own; they would be others.
TEST_F(StagedValuesTest, ADamagedOneEndsTheJobAndNeverBecomesThePssOwn) {
  const Manifest initial = Put({});
  disk.At("initial/0.shard")[60] ^= 1;
  Place({}, initial);
  EXPECT_THAT(MessageOf(restore.failure()), AllOf(HasSubstr("slice 0"), HasSubstr("initial/0.shard: the record at byte "
                                                                                  "0 is damaged")));
  for (const Assign& assign : Assigns()) {
    for (const Assign::Item& item : assign.slices) EXPECT_NE(item.source, SliceSource::kInitialValues);
  }
}

// A3: a checkpoint was there, so they would lose the training in silence.
TEST_F(StagedValuesTest, TheyAreNoSubstituteForADamagedCheckpoint) {
  const Manifest initial = Put({}), newest = Put({1, 2}, {0});
  disk.At(ShardPath({1, 2}, "0.shard"))[60] ^= 1;
  Place({newest}, initial);
  EXPECT_THAT(MessageOf(restore.failure()), HasSubstr("no checkpoint's record of slice 0 can be used"));
}

TEST_F(StagedValuesTest, NorForAllCheckpointsThatAreLost) {
  assignment.Place(3, {ps}, 12, {{}, "checkpoint 1-2 is gone", Put({})});
  EXPECT_EQ(MessageOf(restore.failure()), "checkpoint 1-2 is gone");
}

TEST_F(StagedValuesTest, OfAnotherModelTheyAreNoSource) {
  Manifest initial = Put({});
  initial.records.pop_back();
  Place({}, initial);
  EXPECT_THAT(MessageOf(restore.failure()), HasSubstr("initial/MANIFEST is of another model"));
}

}  // namespace
}  // namespace downpour
