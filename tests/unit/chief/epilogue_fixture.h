// A job with a program of the user's own, for tests of what stands behind its fit().
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "chief/epilogue.h"
#include "schema/sha256.h"
#include "tests/unit/chief/chief_role_fixture.h"

namespace downpour {

class EpilogueTest : public ChiefRoleTest {
 protected:
  void Begin() {
    const std::string code = "code";
    JobSpec& job = job_;
    job.python = {.module = "trainer.task",
                  .sha256 = Sha256Of({Payload::CopyOf(code.data(), code.size())}),
                  .bytes = static_cast<int64_t>(code.size()),
                  .args = {}};
    auto disk = std::make_shared<MemoryDisk>();
    disk->Put(kCodeFile, code);
    cluster = std::make_unique<ChiefHarness>(job, false, disk);
    cluster->Start();
    cluster->RunToRunning();
  }
  // Evaluated, and in a checkpoint.
  void Train() {
    Begin();
    TrainAndEvaluate();
    cluster->Wait(1s);
  }
  // Round 1-1 has the first lease, and 1-2 all of them.
  void TrainByTwoRounds() {
    job_.checkpoint.every = 5s;
    job_.checkpoint.keep = 3;
    Begin();
    cluster->Finish(first(), cluster->Ask(first(), 1).at(0));
    cluster->Wait(6s);
    ASSERT_TRUE(cluster->disk->Has(ManifestPath({1, 1})));
    TrainAndEvaluate();
    cluster->Wait(6s);
    ASSERT_TRUE(cluster->disk->Has(ManifestPath({1, 2})));
    ASSERT_FALSE(cluster->Sent<EpilogueGrant>(first()).empty());
  }
  void DamageTheNewestRound() { cluster->disk->At(ShardPath({1, 2}, "ps-1.shard"))[40] ^= 1; }
  // Another process is in its place, and prepares.
  void Replace(FakeMember& worker) {
    cluster->Say(worker.control, Leave{worker.id, "its process was killed"});
    worker.join.nonce += 1000;
    cluster->JoinWorker(worker.join.index);
  }
  void ReplacePs() {
    FakeMember& ps = cluster->ps[1];
    cluster->Say(ps.control, Leave{ps.id, "killed"});
    ps.slices.clear();
    ps.join.was = Incarnation::kNone;
    ps.join.nonce += 1000;
    cluster->JoinPs(1);
  }
  bool IsTrained() { return cluster->role->committed().CoversRange(0, 6); }

  JobSpec job_ = SmallJob();
  FakeMember& first() { return cluster->worker[0]; }
  FakeMember& second() { return cluster->worker[1]; }
  uint64_t Attempt(const FakeMember& worker) { return cluster->Sent<EpilogueGrant>(worker).back().attempt; }
  void Say(const FakeMember& worker, uint64_t attempt, const std::string& error = "") {
    cluster->Say(worker.control, EpilogueDone{worker.id, attempt, error});
  }
  std::string State() { return cluster->Status()["state"]; }
  std::string Error() { return cluster->Status()["errorMessage"]; }
};

}  // namespace downpour
