// The chief's conversations through Step alone, with hand-made messages.
#include "chief/chief_role.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/chief/chief_harness.h"

namespace downpour {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class ChiefRoleTest : public ::testing::Test {
 protected:
  void StartRunning(const std::vector<std::string>& overrides = {}) {
    cluster = std::make_unique<ChiefHarness>(SmallJob(overrides));
    cluster->Start();
    cluster->RunToRunning();
  }
  void Succeed() {
    cluster->FinishAll(cluster->worker[0]);
    cluster->Ask(cluster->worker[0], 2);
    cluster->Evaluate(cluster->worker[0]);
    cluster->Wait(100ms);
  }
  std::unique_ptr<ChiefHarness> cluster;
};

TEST_F(ChiefRoleTest, RunsAJobToItsEnd) {
  StartRunning();
  Succeed();
  EXPECT_EQ(cluster->role->state(), JobState::kSucceeded) << cluster->Status().dump(1);
  EXPECT_FALSE(cluster->Sent<JobEnd>(cluster->worker[0]).empty());
}

}  // namespace
}  // namespace downpour
