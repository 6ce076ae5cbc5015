// A whole job in a few calls, for tests of its life.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <utility>
#include <string>
#include <vector>

#include "tests/unit/chief/chief_harness.h"

namespace downpour {

class ChiefRoleTest : public ::testing::Test {
 protected:
  void StartRunning(const std::vector<std::string>& overrides = {}) {
    cluster = std::make_unique<ChiefHarness>(SmallJob(overrides));
    cluster->Start();
    cluster->RunToRunning();
  }
  void TrainAndEvaluate() {
    cluster->FinishAll(cluster->worker[0]);
    cluster->Ask(cluster->worker[0], 2);
    cluster->Evaluate(cluster->worker[0]);
  }
  // Members say goodbye, as they do when told of the end.
  void SayGoodbye() {
    for (FakeMember* member : {&cluster->ps[0], &cluster->ps[1], &cluster->worker[0], &cluster->worker[1]}) {
      member->alive = false;
      cluster->Say(member->control, Leave{member->id, "the job is over"});
    }
  }
  nlohmann::json Summary() { return nlohmann::json::parse(cluster->disk->At("summary.json")); }
  // Another chief in the same folder, whom the same processes join with what they hold.
  void Restart(JobSpec job = SmallJob()) {
    auto next = std::make_unique<ChiefHarness>(std::move(job), false, cluster->disk);
    next->now = cluster->now;
    const FakeMember* before[] = {&cluster->ps[0], &cluster->ps[1], &cluster->worker[0], &cluster->worker[1]};
    FakeMember* after[] = {&next->ps[0], &next->ps[1], &next->worker[0], &next->worker[1]};
    for (int i = 0; i < 4; ++i) {
      after[i]->join = before[i]->join;
      after[i]->join.run = ChiefHarness::kRun;
      after[i]->join.was = before[i]->id;
      after[i]->slices = before[i]->slices;
    }
    cluster = std::move(next);
    cluster->Start();
  }
  std::unique_ptr<ChiefHarness> cluster;
};

}  // namespace downpour
