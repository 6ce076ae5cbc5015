// The checkpoint of the best evaluation: named in the journal, kept beside the newest, and gone once a better one is
// durable.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "chief/folder/journal.h"
#include "chief/folder/sealed_copies.h"
#include "tests/unit/chief/chief_role_fixture.h"

namespace downpour {
namespace {

using ::testing::HasSubstr;

class BestCheckpointTest : public ChiefRoleTest {
 protected:
  static std::vector<std::string> Settings(const std::string& more = "checkpoint.keep=1") {
    return {"training.epochs=8", "checkpoint.keep=1", "checkpoint.every=2s", "checkpoint.best=loss", more};
  }
  // All of an epoch, and its evaluation. A lease more is held at the end.
  void TrainOneEpoch(double loss) {
    FakeMember& worker = cluster->worker[0];
    for (int i = 0; i < 3; ++i) {
      for (const LeaseId lease : cluster->Ask(worker, 1)) cluster->Finish(worker, lease);
    }
    cluster->Forget();
    cluster->Ask(worker, 1, Held());
    cluster->Wait(100ms);
    cluster->evaluated_loss = loss;
    cluster->Evaluate(worker);
    cluster->Wait(100ms);
  }
  std::vector<LeaseId> Held() {
    std::vector<LeaseId> held;
    for (const auto& [lease, worker] : cluster->role->holders()) held.push_back(lease);
    return held;
  }
  nlohmann::json Best() { return cluster->Status()["checkpoint"].value("best", nlohmann::json()); }
  BestRecord Journalled() {
    const auto text = Unsealed(cluster->disk->At("journal.b"));
    return text.ok() ? DecodeEntry(*text)->record.best : BestRecord();
  }
  bool IsThere(const nlohmann::json& round) {
    return cluster->disk->Has("checkpoints/" + round.get<std::string>() + "/MANIFEST");
  }
  int64_t Kept() {
    const std::vector<std::string> paths = cluster->disk->Paths();
    return std::count_if(paths.begin(), paths.end(), [](const auto& path) { return path.ends_with("/MANIFEST"); });
  }
  // Another chief in the folder; the servers kept what they held.
  void Restart(const std::vector<std::string>& settings) {
    auto next = std::make_unique<ChiefHarness>(SmallJob(settings), false, cluster->disk);
    next->now = cluster->now;
    for (int i = 0; i < 2; ++i) {
      next->ps[i].join = cluster->ps[i].join;
      next->ps[i].join.run = ChiefHarness::kRun;
      next->ps[i].join.was = cluster->ps[i].id;
      next->ps[i].slices = cluster->ps[i].slices;
    }
    cluster = std::move(next);
    cluster->Start();
    cluster->RunToRunning();
  }
};

TEST_F(BestCheckpointTest, ARoundBeginsWithTheEvaluationAndIsItsCheckpoint) {
  StartRunning(Settings("checkpoint.every=1h"));
  EXPECT_TRUE(Best().is_null()) << "nothing is evaluated yet";
  TrainOneEpoch(0.5);
  EXPECT_EQ(Best()["round"], "1-1") << "though the next one was an hour away";
  EXPECT_EQ(Best()["metric"], "loss");
  EXPECT_EQ(Best()["value"], 0.5);
  EXPECT_EQ(Best()["epoch"], 1);
  EXPECT_EQ(Journalled().round, (Round{1, 1}));
}

TEST_F(BestCheckpointTest, TheVersionsOfBothTellHowFarTheValueIsFromTheCheckpoint) {
  StartRunning(Settings("checkpoint.every=1h"));
  uint64_t next = 70;
  for (FakeMember& server : cluster->ps) {
    for (auto& [id, state] : server.slices) state.version = ++next;
  }
  TrainOneEpoch(0.5);
  EXPECT_EQ(Best()["evaluated"], (nlohmann::json{{"oldestVersion", 3}, {"newestVersion", 4}}));
  EXPECT_EQ(Best()["kept"], (nlohmann::json{{"oldestVersion", 71}, {"newestVersion", next}}));
  EXPECT_EQ(Journalled().evaluated, (VersionSpan{3, 4}));
  EXPECT_EQ(Journalled().kept, (VersionSpan{71, next}));
}

TEST_F(BestCheckpointTest, StaysWhileOthersComeAndGoesForABetterOne) {
  StartRunning(Settings());
  TrainOneEpoch(0.5);
  const nlohmann::json first = Best()["round"];
  cluster->Wait(10s);
  ASSERT_NE(cluster->Status()["checkpoint"]["round"], first);
  EXPECT_TRUE(IsThere(first)) << "keep is 1, and that is the newest";
  TrainOneEpoch(0.7);
  EXPECT_EQ(Best()["round"], first) << "worse";
  TrainOneEpoch(0.5);
  EXPECT_EQ(Best()["round"], first) << "of equals the first";
  EXPECT_TRUE(IsThere(first));
  TrainOneEpoch(0.4);
  EXPECT_NE(Best()["round"], first);
  EXPECT_EQ(Best()["value"], 0.4);
  EXPECT_TRUE(IsThere(Best()["round"]));
  EXPECT_FALSE(IsThere(first)) << "the journal has the better one";
}

TEST_F(BestCheckpointTest, TheOneBeforeStaysUntilTheJournalNamesTheBetter) {
  StartRunning(Settings());
  TrainOneEpoch(0.5);
  const nlohmann::json first = Best()["round"];
  cluster->Wait(10s);
  cluster->disk->fate = [](const StorageOp& op) {
    const bool is_journal = op.path.starts_with("journal") || op.target.starts_with("journal");
    return is_journal ? absl::UnknownError("drawn to fail") : absl::OkStatus();
  };
  TrainOneEpoch(0.4);
  cluster->Wait(5s);
  ASSERT_NE(Best()["round"], first);
  EXPECT_TRUE(IsThere(first)) << "a chief that begins now would look for it";
  EXPECT_TRUE(IsThere(Best()["round"]));
  cluster->disk->fate = nullptr;
  cluster->Wait(5s);
  EXPECT_FALSE(IsThere(first));
}

// One copy of the journal has the new name already, and then the write fails. Whichever copy is read, what it names is
// there.
TEST_F(BestCheckpointTest, WhatEitherCopyOfTheJournalNamesStays) {
  StartRunning(Settings());
  TrainOneEpoch(0.5);
  cluster->Wait(10s);
  cluster->disk->fate = [](const StorageOp& op) {
    const bool second = op.path.starts_with("journal.b") || op.target.starts_with("journal.b");
    return second ? absl::UnknownError("drawn to fail") : absl::OkStatus();
  };
  TrainOneEpoch(0.4);
  cluster->Wait(5s);
  TrainOneEpoch(0.3);
  cluster->Wait(5s);
  for (const char* copy : {"journal.a", "journal.b"}) {
    const auto text = Unsealed(cluster->disk->At(copy));
    ASSERT_TRUE(text.ok()) << copy;
    EXPECT_TRUE(IsThere(ToString(DecodeEntry(*text)->record.best.round))) << copy;
  }
}

// A round after that would hold values which nobody evaluated.
TEST_F(BestCheckpointTest, AnEvaluationOfBeforeSlicesWentBackGetsNoRound) {
  StartRunning(Settings("checkpoint.every=1h"));
  cluster->disk->fate = [](const StorageOp& op) {
    return op.path.ends_with(".shard") ? absl::UnknownError("drawn to fail") : absl::OkStatus();
  };
  TrainOneEpoch(0.5);
  FakeMember& restarted = cluster->ps[0];
  restarted.alive = false;
  cluster->Wait(6s);
  cluster->disk->fate = nullptr;
  restarted.alive = true;
  restarted.slices.clear();
  ++restarted.join.nonce;
  cluster->JoinPs(0);
  cluster->Wait(15s);
  EXPECT_TRUE(Best().is_null()) << Best();
}

TEST_F(BestCheckpointTest, OfTheEndItIsTheLastRoundAndTheSummaryNamesIt) {
  StartRunning({"training.evaluateEveryEpochs=0", "checkpoint.best=loss"});
  cluster->evaluated_loss = 0.25;
  TrainAndEvaluate();
  cluster->Wait(1s);
  ASSERT_EQ(cluster->role->state(), JobState::kSucceeded) << cluster->Status()["errorMessage"];
  SayGoodbye();
  cluster->Wait(1s);
  EXPECT_EQ(Summary()["bestCheckpoint"]["path"], Summary()["checkpoint"]);
  EXPECT_EQ(Summary()["bestCheckpoint"]["value"], 0.25);
}

TEST_F(BestCheckpointTest, AnAbandonedRoundLeavesItToTheNextOne) {
  StartRunning(Settings("checkpoint.every=1h"));
  cluster->disk->fate = [](const StorageOp& op) {
    return op.path.ends_with(".shard") ? absl::UnknownError("drawn to fail") : absl::OkStatus();
  };
  TrainOneEpoch(0.5);
  EXPECT_TRUE(Best().is_null());
  cluster->disk->fate = nullptr;
  cluster->Wait(15s);
  EXPECT_EQ(Best()["value"], 0.5);
  EXPECT_TRUE(IsThere(Best()["round"]));
}

TEST_F(BestCheckpointTest, ItsRoundStaysUntilTheEvaluationIsOver) {
  StartRunning(Settings("checkpoint.every=1s"));
  FakeMember& worker = cluster->worker[0];
  for (int i = 0; i < 3; ++i) {
    for (const LeaseId lease : cluster->Ask(worker, 1)) cluster->Finish(worker, lease);
  }
  cluster->Ask(worker, 1, Held());
  cluster->Wait(20s);
  cluster->evaluated_loss = 0.5;
  cluster->Evaluate(worker);
  cluster->Wait(100ms);
  ASSERT_FALSE(Best().is_null());
  EXPECT_TRUE(IsThere(Best()["round"]));
  EXPECT_LE(ParseRound(Best()["round"].get<std::string>())->n, 2u) << "the one that began with the evaluation";
  EXPECT_GT(ParseRound(cluster->Status()["checkpoint"]["round"].get<std::string>())->n, 10u) << "others followed";
}

// Its evaluator is lost. The next one evaluates later values, and the round of before is near neither.
TEST_F(BestCheckpointTest, AnEvaluationThatBeginsAgainLetsItsFirstRoundGo) {
  StartRunning(Settings("checkpoint.every=1s"));
  FakeMember& lost = cluster->worker[0];
  for (int i = 0; i < 3; ++i) {
    for (const LeaseId lease : cluster->Ask(lost, 1)) cluster->Finish(lost, lease);
  }
  cluster->Ask(lost, 1, Held());
  cluster->Wait(5s);
  EXPECT_EQ(Kept(), 2) << "the round that began with it, and the newest";
  lost.alive = false;
  cluster->Wait(10s);
  ASSERT_EQ(cluster->TaskStatus("worker-0")["state"], "LOST");
  EXPECT_EQ(Kept(), 1) << "nobody will say what that round was worth";
  const nlohmann::json before = cluster->Status()["checkpoint"]["round"];
  cluster->Ask(cluster->worker[1], 1);
  cluster->evaluated_loss = 0.5;
  cluster->Evaluate(cluster->worker[1]);
  cluster->Wait(5s);
  ASSERT_EQ(Best()["value"], 0.5);
  EXPECT_GT(ParseRound(Best()["round"].get<std::string>())->n, ParseRound(before.get<std::string>())->n);
}

TEST_F(BestCheckpointTest, ALaterChiefKeepsItAndComparesWithIt) {
  StartRunning(Settings());
  TrainOneEpoch(0.5);
  const nlohmann::json first = Best()["round"];
  cluster->Wait(5s);
  Restart(Settings());
  EXPECT_EQ(Best()["round"], first);
  cluster->Wait(5s);
  EXPECT_TRUE(IsThere(first));
  TrainOneEpoch(0.6);
  EXPECT_EQ(Best()["round"], first);
}

TEST_F(BestCheckpointTest, OneThatIsLostIsNamedNoMore) {
  StartRunning(Settings());
  TrainOneEpoch(0.5);
  const std::string first = Best()["round"];
  cluster->Wait(5s);
  ASSERT_NE(cluster->Status()["checkpoint"]["round"], first);
  cluster->disk->At("checkpoints/" + first + "/MANIFEST") = "damaged";
  Restart(Settings());
  EXPECT_TRUE(Best().is_null());
  EXPECT_THAT(cluster->Status()["failures"].dump(), HasSubstr("the best checkpoint, " + first + ", is lost"));
  TrainOneEpoch(0.9);
  EXPECT_EQ(Best()["value"], 0.9) << "the best of those that are there";
}

TEST_F(BestCheckpointTest, ByAnotherMetricAllBeginsAnew) {
  StartRunning(Settings());
  TrainOneEpoch(0.5);
  Restart(Settings("checkpoint.best=accuracy"));
  EXPECT_TRUE(Best().is_null());
  TrainOneEpoch(0.5);
  EXPECT_EQ(Best()["metric"], "accuracy");
  EXPECT_EQ(Best()["value"], 0.5);
}

TEST_F(BestCheckpointTest, NoneIsKeptWhereTheFileSaysSo) {
  StartRunning(Settings("checkpoint.best=none"));
  TrainOneEpoch(0.5);
  EXPECT_TRUE(Best().is_null());
}

TEST_F(BestCheckpointTest, ALossThatIsNotFiniteIsNeverTheBest) {
  StartRunning(Settings());
  TrainOneEpoch(std::numeric_limits<double>::infinity());
  EXPECT_TRUE(Best().is_null());
  TrainOneEpoch(0.5);
  EXPECT_EQ(Best()["value"], 0.5);
}

TEST_F(BestCheckpointTest, WithoutRoundsThereIsTheLastOne) {
  StartRunning({"checkpoint.every=0s", "training.epochs=2", "checkpoint.best=loss"});
  TrainOneEpoch(0.1);
  EXPECT_TRUE(Best().is_null()) << "the file wants no other round than the last";
  for (const LeaseId lease : Held()) cluster->Finish(cluster->worker[0], lease);
  cluster->evaluated_loss = 0.2;
  TrainAndEvaluate();
  cluster->Wait(1s);
  EXPECT_EQ(Best()["value"], 0.2);
}

}  // namespace
}  // namespace downpour
