#include "service/slurm_queue.h"

#include <gtest/gtest.h>

namespace downpour {
namespace {

TEST(SlurmQueueTest, LinesAsSqueuePrintsThem) {
  const std::vector<SlurmJob> jobs = ParseSqueue(
      "12|PENDING|downpour-a-1|Resources|/srv/a|b\n"
      "slurm_load_jobs error\n"
      "13|RUNNING|downpour-b-2|None|/srv/b\n"
      "x|RUNNING|downpour-c-3|None|/srv/c\n");
  ASSERT_EQ(jobs.size(), 2u);
  EXPECT_EQ(jobs[0].id, "12");
  EXPECT_EQ(jobs[0].state, "PENDING");
  EXPECT_EQ(jobs[0].name, "downpour-a-1");
  EXPECT_EQ(jobs[0].reason, "Resources");
  EXPECT_EQ(jobs[0].folder, "/srv/a|b");
  EXPECT_EQ(jobs[1].id, "13");
}

TEST(SlurmQueueTest, OnlyWhatIsKnownToBeOverIs) {
  for (const char* state : {"COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL", "OUT_OF_MEMORY", "PREEMPTED"}) {
    EXPECT_TRUE(IsOver({.id = "1", .state = state, .name = "", .reason = "", .folder = ""})) << state;
  }
  for (const char* state : {"PENDING", "RUNNING", "COMPLETING", "CONFIGURING", "SUSPENDED", "REQUEUED", "ANYTHING"}) {
    EXPECT_FALSE(IsOver({.id = "1", .state = state, .name = "", .reason = "", .folder = ""})) << state;
  }
}

}  // namespace
}  // namespace downpour
