// A job that is ahead of its checkpoints, and ps that die.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "tests/unit/chief/chief_role_fixture.h"

namespace downpour {

class ChiefRecoveryTest : public ChiefRoleTest {
 protected:
  // Two leases are committed and in checkpoint 1-1, two more only in the slices.
  void RunAhead() {
    StartRunning();
    worker = &cluster->worker[0];
    Commit(2);
    cluster->Wait(11s);
    ASSERT_EQ(cluster->Status()["checkpoint"]["leasesCommitted"], 2);
    Commit(2);
    ASSERT_EQ(cluster->role->committed().Count(), 4u);
    cluster->Forget();
  }
  void Commit(int leases) {
    for (int i = 0; i < leases; ++i) cluster->Finish(*worker, cluster->Ask(*worker, 1).at(0));
  }
  // The process is no more; another one of the same launcher, or of none, takes its place.
  void Die(int index) {
    FakeMember& server = cluster->ps[index];
    server.alive = false;
    server.slices.clear();
  }
  void Restart(int index) {
    FakeMember& server = cluster->ps[index];
    server.alive = true;
    server.slices.clear();
    server.join.nonce += 1000;
    ++server.join.pid;
    ++server.join.attempt;
    cluster->JoinPs(index);
  }
  // Of ps-1, in that round.
  void RestartOnDamagedRecord(const std::string& round) {
    Die(1);
    cluster->disk->At("checkpoints/" + round + "/ps-1.shard")[20] ^= 1;
    cluster->Wait(6s);
    Restart(1);
    cluster->Wait(1s);
  }
  // Round 1-2 holds all leases, by a record that is damaged, and the job ends once they are committed again.
  void EndOnDamagedRecord() {
    cluster->FinishAll(*worker);
    cluster->Wait(6s);
    ASSERT_EQ(cluster->Status()["checkpoint"]["round"], "1-2");
    ASSERT_EQ(cluster->Status()["checkpoint"]["leasesCommitted"], 6);
    RestartOnDamagedRecord("1-2");
    ASSERT_EQ(cluster->role->committed().Count(), 2u);
    TrainAndEvaluate();
    cluster->Wait(6s);
    EXPECT_EQ(cluster->role->state(), JobState::kSucceeded);
  }
  // Until the fate of the disk is set again.
  void HideCheckpoints() {
    cluster->disk->fate = [](const StorageOp& op) {
      return op.kind == StorageOp::Kind::kList ? absl::PermissionDeniedError("permission denied") : absl::OkStatus();
    };
  }
  void Supervised() {
    for (FakeMember& server : cluster->ps) server.join.launcher = "run-1";
  }
  FakeMember* worker = nullptr;
};

}  // namespace downpour
