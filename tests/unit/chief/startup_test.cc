#include "chief/startup.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "chief/folder/sealed_copies.h"
#include "schema/codec.h"
#include "schema/sha256.h"
#include "tests/unit/chief/startup_fixture.h"

namespace downpour {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

TEST_F(StartupTest, TheTermRisesWithEachStartAndIsDurableFirst) {
  EXPECT_EQ(Run().term, 1u);
  EXPECT_EQ(disk.At("term.a"), Sealed("1"));
  EXPECT_EQ(disk.At("term.b"), Sealed("1"));
  EXPECT_EQ(Run().term, 2u);
  const nlohmann::json chief = nlohmann::json::parse(disk.At("chief.json"));
  EXPECT_EQ(chief["endpoint"], "h0:1");
  EXPECT_EQ(chief["pid"], 9);
  EXPECT_EQ(chief["term"], 2);
}

// Protocol hole A11: a term that is lost is used twice.
TEST_F(StartupTest, OneDamagedTermFileCostsNothing) {
  for (const char* file : {"term.a", "term.b"}) {
    const uint32_t before = Run().term;
    disk.At(file)[6] = 'x';
    const Startup::Outcome outcome = Run();
    EXPECT_EQ(outcome.term, before + 1) << file;
    EXPECT_THAT(outcome.findings, ElementsAre(HasSubstr(std::string(file) + ": ")));
    EXPECT_TRUE(Run().findings.empty()) << "both were written again";
  }
  disk.At("term.a") = "";
  disk.At("term.b") = "term 1";
  const Startup::Outcome outcome = Run();
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(outcome.why, HasSubstr("term.a: "));
  EXPECT_THAT(outcome.why, HasSubstr("term.b: "));
}

// Its first chief died while it wrote its term, and the disk damaged what there was of it.
TEST_F(StartupTest, ATermThatNobodyUsedCostsNothing) {
  disk.Put("term.a", "term 1");
  const Startup::Outcome outcome = Run();
  ASSERT_EQ(outcome.exit_code, 0) << outcome.why;
  EXPECT_EQ(outcome.term, 1u);
  EXPECT_EQ(disk.At("term.a"), Sealed("1"));
}

TEST_F(StartupTest, ATermThatMayHaveBeenUsedIsNotGuessedAt) {
  for (const char* sign :
       {"chief.json", "journal.a", "journal.b", "checkpoints/1-1/ps-0.shard", "checkpoints/1-1/MANIFEST"}) {
    for (const bool resume : {false, true}) {
      disk = MemoryDisk();
      disk.Put("term.a", "term 1");
      disk.Put(sign, "junk");
      const Startup::Outcome outcome = Run(resume);
      EXPECT_EQ(outcome.exit_code, 1) << sign;
      EXPECT_THAT(outcome.why, HasSubstr("term.a: ")) << sign;
      EXPECT_EQ(disk.At("term.a"), "term 1") << sign;
    }
  }
}

TEST_F(StartupTest, ACrashBetweenTheTermFilesRepeatsNoTerm) {
  ASSERT_EQ(Run().term, 1u);
  int renames = 0;
  disk.fate = [&](const StorageOp& op) {
    const bool crash = op.kind == StorageOp::Kind::kRename && ++renames == 2;
    return crash ? absl::DataLossError("power") : absl::OkStatus();
  };
  EXPECT_EQ(Run().exit_code, 1);
  disk.fate = nullptr;
  EXPECT_EQ(Run().term, 3u) << "2 stands in term.a, though nobody heard of it";
}

TEST_F(StartupTest, AWriteThatFailsAnywhereEndsIt) {
  int ops = 0;
  Run();
  disk.fate = [&](const StorageOp&) { return ++ops, absl::OkStatus(); };
  Run();
  for (int failing = 7; failing <= ops; ++failing) {  // the first six only look
    int op_number = 0;
    disk.fate = [&](const StorageOp&) {
      return ++op_number == failing ? absl::PermissionDeniedError("read-only") : absl::OkStatus();
    };
    const Startup::Outcome outcome = Run();
    EXPECT_EQ(outcome.exit_code, 1) << failing;
    EXPECT_THAT(outcome.why, HasSubstr("read-only"));
  }
}

TEST_F(StartupTest, CheckpointsAreNotWrittenOverByAccident) {
  PutCheckpoint({1, 2});
  const Startup::Outcome outcome = Run();
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(outcome.why, HasSubstr("--resume"));
  EXPECT_FALSE(outcome.over) << "nobody knows";
  EXPECT_FALSE(disk.Has("term.a")) << "nothing was changed";
}

TEST_F(StartupTest, AJobThatIsNotOverGoesOnWithoutBeingTold) {
  EXPECT_FALSE(Run().goes_on);
  PutCheckpoint({1, 2});
  const Startup::Outcome outcome = Run();
  ASSERT_EQ(outcome.exit_code, 0) << outcome.why;
  EXPECT_TRUE(outcome.goes_on);
  EXPECT_THAT(outcome.sources, SizeIs(1));
  EXPECT_EQ(journal->record().run, 71u) << "drawn by the first chief";
  EXPECT_EQ(journal->record().began_unix_ms, 5000);
  EXPECT_EQ(journal->record().chiefs, 2u);
}

TEST_F(StartupTest, AJobThatIsOverGoesOnOnlyIfTold) {
  Run();
  PutCheckpoint({1, 2});
  EndJob();
  const Startup::Outcome refused = Run();
  EXPECT_EQ(refused.exit_code, 1);
  EXPECT_FALSE(refused.over) << "told to resume, it would lead whoever waits";
  const Startup::Outcome outcome = Run(/*resume=*/true);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.why;
  EXPECT_EQ(journal->record().run, 71u);
  EXPECT_TRUE(Run().goes_on) << "it goes on since";
}

// A supervisor may start its chief once more, though it was killed on its way out.
TEST_F(StartupTest, AJobThatHasSucceededNeedsNoChief) {
  Run();
  EndJob("SUCCEEDED");
  const Startup::Outcome outcome = Run();
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_THAT(outcome.why, HasSubstr("has succeeded"));
  EXPECT_EQ(outcome.term, 0u);
  EXPECT_TRUE(outcome.over) << "whoever is still there may be told";
  EXPECT_EQ(Run(/*resume=*/true).exit_code, 0);
  EXPECT_EQ(Run(/*resume=*/true).term, 0u) << "told to resume or not";
  EXPECT_EQ(Run(/*resume=*/true, {"training.epochs=3"}).term, 2u);
}

TEST_F(StartupTest, AJobOfAnEarlierReleaseIsTheSameThoughItsTextKnewFewerFields) {
  Run();
  nlohmann::json text = nlohmann::json::parse(journal->record().job);
  ASSERT_EQ(text["training"].erase("pushEvery"), 1u);
  journal->record().job = text.dump();
  EndJob("SUCCEEDED");
  EXPECT_EQ(Run().exit_code, 0);
  EXPECT_TRUE(Run().over);
}

TEST_F(StartupTest, AChiefThatCannotSayWhereItIsHasNotLedTheJob) {
  Run();
  EndJob("SUCCEEDED");
  disk.fate = [](const StorageOp& op) {
    return op.target == "chief.json" ? absl::PermissionDeniedError("read-only") : absl::OkStatus();
  };
  EXPECT_EQ(Run(/*resume=*/true, {"training.epochs=3"}).exit_code, 1);
  disk.fate = nullptr;
  EXPECT_THAT(Run().why, HasSubstr("has succeeded")) << "it goes on for nobody";
}

TEST_F(StartupTest, WhatTheJobHasCostIsOfAllItsChiefsAndOfNoOtherRun) {
  Run();
  journal->costs().workers_lost = 3;
  EndJob();
  Run();
  EXPECT_EQ(journal->costs().workers_lost, 0u) << "the job began again";
  journal->costs().workers_lost = 4;
  PutCheckpoint({2, 1});
  EndJob();
  Run(/*resume=*/true);
  EXPECT_EQ(journal->costs().workers_lost, 4u);
}

TEST_F(StartupTest, AFailedJobWithoutCheckpointsBeginsAnewAsAnotherRun) {
  Run();
  EndJob();
  EXPECT_FALSE(Run().goes_on);
  EXPECT_EQ(journal->record().run, 72u) << "what servers still hold of the first is not this one's";
}

TEST_F(StartupTest, AJobThatIsNotOverKeepsItsPlan) {
  Run();
  const Startup::Outcome outcome = Run(/*resume=*/false, {"seed=9"});
  EXPECT_EQ(outcome.exit_code, 78);
  EXPECT_THAT(outcome.why,
              HasSubstr("which is not over, belongs to another plan; it differs in seed (1 there, 9 here)"));
  EXPECT_THAT(Run(false, {"training.epochs=1"}).why, HasSubstr("here) (may be raised, not lowered): set these back"));
  EXPECT_THAT(Run(false, {"model.layers.0.dense.units=9"}).why, HasSubstr("it differs in model ("));
  EXPECT_EQ(Run(false, {"training.epochs=5"}).exit_code, 0);
  EXPECT_EQ(*ParseCanonicalJob(journal->record().job), SmallJob({"training.epochs=5"}));
}

TEST_F(StartupTest, OneDamagedJournalCostsNothingAndIsNamedTwoAreNotGuessedAt) {
  Run();
  disk.At("journal.a")[9] ^= 1;
  EXPECT_TRUE(Run().goes_on);
  EXPECT_THAT(journal->damage(), HasSubstr("journal.a"));
  for (const char* file : {"journal.a", "journal.b"}) disk.At(file)[9] ^= 1;
  const Startup::Outcome outcome = Run();
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(outcome.why, HasSubstr("how far this folder's job came is lost"));
  EXPECT_EQ(Run(/*resume=*/true).exit_code, 1) << "there may have been a checkpoint";
  PutCheckpoint({1, 2});
  EXPECT_THAT(Run().why, HasSubstr("Add --resume"));
  EXPECT_EQ(Run(/*resume=*/true).exit_code, 0);
}

TEST_F(StartupTest, ADamagedManifestIsACheckpointToo) {
  disk.Put("checkpoints/1-2/MANIFEST", "junk");
  EXPECT_EQ(Run().exit_code, 1);
}

// To begin again in silence would be to lose the training.
TEST_F(StartupTest, WhereNoCheckpointIsWholeNobodyBeginsAnewUnlessHeGivesUpTheNewestByItsName) {
  disk.Put("checkpoints/1-2/MANIFEST", "junk");
  disk.Put("checkpoints/1-1/MANIFEST", "junk");
  for (const Round other : {Round(), Round{1, 1}, Round{1, 3}}) {
    const Startup::Outcome outcome = Run(/*resume=*/true, {}, other);
    EXPECT_EQ(outcome.exit_code, 1);
    EXPECT_THAT(outcome.why, HasSubstr("checkpoints/1-2/MANIFEST: "));
    EXPECT_THAT(outcome.why, HasSubstr("Bring its files back, or begin again: "));
    EXPECT_THAT(outcome.why, HasSubstr("--give_up=1-2"));
    EXPECT_FALSE(disk.Has("term.a")) << "nothing was changed";
  }
  const Startup::Outcome outcome = Run(/*resume=*/true, {}, Round{1, 2});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.why;
  EXPECT_THAT(outcome.sources, SizeIs(0));
  EXPECT_EQ(outcome.lost, "");
  EXPECT_EQ(Run().lost, "") << "whoever starts it again need not say so again";
  EXPECT_TRUE(disk.Has("checkpoints/1-2/MANIFEST"));
}

// The job began anew without it, and trains something else since.
TEST_F(StartupTest, WhatWasGivenUpIsNoSourceOnceItsFilesAreBack) {
  disk.Put("checkpoints/1-2/MANIFEST", "junk");
  ASSERT_EQ(Run(/*resume=*/true, {}, Round{1, 2}).exit_code, 0);
  PutCheckpoint({1, 2});
  EXPECT_THAT(Run().sources, SizeIs(0));
  PutCheckpoint({2, 1});
  const Startup::Outcome outcome = Run();
  ASSERT_THAT(outcome.sources, SizeIs(1)) << "nor what a slice falls back on";
  EXPECT_EQ(outcome.sources[0].round, (Round{2, 1}));
}

TEST_F(StartupTest, WhatCanBeUsedIsNotGivenUp) {
  PutCheckpoint({1, 2});
  disk.Put("checkpoints/1-3/MANIFEST", "junk");
  for (const Round round : {Round{1, 2}, Round{1, 3}}) {
    const Startup::Outcome outcome = Run(/*resume=*/true, {}, round);
    EXPECT_THAT(outcome.sources, SizeIs(1));
    EXPECT_THAT(outcome.findings, ElementsAre(HasSubstr("--give_up=" + ToString(round) + " is ignored")));
  }
}

// A mount that is gone, or a folder deleted by mistake.
TEST_F(StartupTest, TheJournalKnowsOfCheckpointsThatAreGone) {
  Run();
  PutCheckpoint({1, 2});
  EndJob();
  Run(/*resume=*/true);
  EndJob();
  disk.Carry(Remove(ManifestPath({1, 2})));
  for (const bool resume : {false, true}) {
    const Startup::Outcome outcome = Run(resume);
    EXPECT_EQ(outcome.exit_code, 1);
    EXPECT_THAT(outcome.why,
                HasSubstr("checkpoint 1-2, the newest that was here, cannot be used, nor can an older one: "
                          "checkpoints/1-2/MANIFEST is gone. Bring its files back"));
    EXPECT_FALSE(outcome.over) << "its files may come back";
    EXPECT_EQ(outcome.term, 0u);
  }
  EXPECT_EQ(Run(/*resume=*/false, {}, Round{1, 2}).exit_code, 0);
  EXPECT_EQ(journal->record().run, 75u) << "another run: nobody said to go on";
  journal->record().newest = {4, 1};
  EndJob();
  EXPECT_THAT(Run(/*resume=*/true, {}, Round{1, 2}).why, HasSubstr("--give_up=4-1"))
      << "each is given up by its own name";
}

TEST_F(StartupTest, AnOlderCheckpointIsGoneOnFromWhereTheNewestIsGone) {
  PutCheckpoint({1, 2});
  Run(/*resume=*/true);
  disk.Carry(Remove(ManifestPath({1, 2})));
  PutCheckpoint({1, 1});
  const Startup::Outcome outcome = Run(/*resume=*/true);
  EXPECT_EQ(outcome.lost, "");
  ASSERT_THAT(outcome.sources, SizeIs(1));
  EXPECT_EQ(journal->record().newest, (Round{1, 2}));
}

// Its ps may still hold what was trained.
TEST_F(StartupTest, AJobThatIsNotOverMayGoOnWithoutItsCheckpoints) {
  Run();
  PutCheckpoint({1, 2});
  Run();
  disk.Carry(Remove(ManifestPath({1, 2})));
  const Startup::Outcome outcome = Run();
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_TRUE(outcome.goes_on);
  EXPECT_THAT(outcome.lost, HasSubstr("checkpoints/1-2/MANIFEST is gone"));
  EXPECT_EQ(Run(/*resume=*/true, {}, Round{1, 2}).lost, "");
  EXPECT_EQ(journal->record().run, 71u) << "what a ps still holds goes on even so";
}

TEST_F(StartupTest, AManifestThatCannotBeReadEndsTheStart) {
  PutCheckpoint({1, 1});
  PutCheckpoint({1, 2});
  disk.fate = [](const StorageOp& op) {
    return op.path == ManifestPath({1, 2}) ? absl::PermissionDeniedError(op.path + ": permission denied")
                                           : absl::OkStatus();
  };
  const Startup::Outcome outcome = Run(/*resume=*/true);
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(outcome.why, HasSubstr("checkpoints/1-2/MANIFEST: permission denied"));
}

TEST_F(StartupTest, ResumesFromAllCheckpointsOfThePlanNewestFirst) {
  PutCheckpoint({1, 2});
  PutCheckpoint({1, 10});
  PutCheckpoint({1, 9}, /*train_examples=*/11);
  disk.Put("checkpoints/2-1/MANIFEST", "junk");
  disk.Put("checkpoints/2-2/ps-0.shard", "abandoned");
  const Startup::Outcome outcome = Run(/*resume=*/true);
  ASSERT_EQ(outcome.exit_code, 0) << outcome.why;
  ASSERT_THAT(outcome.sources, SizeIs(2));
  EXPECT_EQ(outcome.sources[0].round, (Round{1, 10}));
  EXPECT_EQ(outcome.sources[1].round, (Round{1, 2}));
  ASSERT_THAT(store->damaged(), SizeIs(1));
  EXPECT_THAT(store->damaged()[0].why, HasSubstr("checkpoints/2-1/MANIFEST"));
}

// Protocol hole A5: a term that stands in a folder's name was used, whatever the term files say.
TEST_F(StartupTest, TheTermIsAboveThatOfAnyRound) {
  PutCheckpoint({4, 2});
  disk.Put("checkpoints/6-1/ps-0.shard", "abandoned");
  EXPECT_EQ(Run(/*resume=*/true).term, 7u);
}

TEST_F(StartupTest, AnotherPlanIsRefused) {
  PutCheckpoint({1, 2}, 12, {"seed=9"});
  const Startup::Outcome outcome = Run(/*resume=*/true);
  EXPECT_EQ(outcome.exit_code, 78);
  EXPECT_THAT(outcome.why, HasSubstr("seed"));
  EXPECT_EQ(Run(true, {"seed=9", "training.epochs=5", "cluster.workerCount=3"}).exit_code, 0);
}

// Passed over, it would be a job that begins again in silence.
TEST_F(StartupTest, ACheckpointWithOtherSlicesIsRefused) {
  PutCheckpointOf({1, 2}, SmallJob(), 23);
  const Startup::Outcome outcome = Run(/*resume=*/true);
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(outcome.why, HasSubstr("checkpoint 1-2 holds 23 slices, and this job has 2: another release wrote it"));
  const auto bytes = static_cast<uint64_t>(GridOf(SmallJob().model)->slices[0].bytes());
  constexpr uint64_t kAnInterval = 16;
  PutCheckpointOf({1, 2}, SmallJob(), 2, 12, LeastRecordBytes(bytes, 0) + kAnInterval);
  EXPECT_THAT(Run(/*resume=*/true).why, HasSubstr("checkpoint 1-2 holds less than 1 slot of the optimizer for each"));
}

// Of 1.5 blocks, so that what workers ask for is there as they count it.
TEST_F(StartupTest, TheUsersCodeIsWholeBeforeAnybodyAsksForIt) {
  const std::string code(kCodeBlockBytes * 3 / 2, 'c');
  const std::string sha256 = Sha256Of({Payload::CopyOf(code.data(), code.size())});
  const std::vector<std::string> job = {
      absl::StrCat("python={module: task, sha256: ", sha256, ", bytes: ", code.size(), "}")};
  EXPECT_THAT(Run(false, job).why, HasSubstr("Python code cannot be used: python/code.tar.gz"));
  disk.Put(kCodeFile, code.substr(1) + "x");
  EXPECT_THAT(Run(false, job).why, HasSubstr("python/code.tar.gz is not what the job file names"));
  disk.Put(kCodeFile, code.substr(0, 7));
  EXPECT_EQ(Run(false, job).exit_code, 1);
  disk.Put(kCodeFile, code);
  EXPECT_EQ(Run(false, job).exit_code, 0);
}

TEST_F(StartupTest, WhatIsResumedWithoutACheckpointIsAnotherRun) {
  Run();
  EndJob();
  EXPECT_EQ(Run(/*resume=*/true, {"seed=9"}).exit_code, 0);
  EXPECT_EQ(journal->record().run, 72u) << "no ps may go on with what it holds of another plan";
}

TEST_F(StartupTest, ResumingNothingBeginsAnew) {
  const Startup::Outcome outcome = Run(/*resume=*/true);
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_TRUE(outcome.sources.empty());
}

}  // namespace
}  // namespace downpour
