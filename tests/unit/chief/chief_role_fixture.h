// A whole job in a few calls, for tests of its life.
#pragma once

#include <gtest/gtest.h>

#include <memory>
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
  std::unique_ptr<ChiefHarness> cluster;
};

}  // namespace downpour
