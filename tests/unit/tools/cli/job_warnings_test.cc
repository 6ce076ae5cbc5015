// What is worth a warning for the number of a job's examples.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/tools/cli/made_checkpoint.h"
#include "tests/unit/tools/cli/mnist_job.h"
#include "tests/unit/tools/cli/run_tool.h"

namespace downpour {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

TEST(JobWarnings, MoreWorkersThanLeasesAndABatchOfAllAreTold) {
  const std::string dir = FreshFolder("check_crowded");
  PutFile(dir + "/job.yaml", MnistJob(/*leases=*/""));
  WritePair(dir + "/images", dir + "/labels", 1000, 28, 1000);
  const auto check = [&](const std::string& setting, const std::string& other = "training.leaseBatches=4") {
    return RunDownpour({"check", dir + "/job.yaml", "--set", setting, "--set", other});
  };
  EXPECT_THAT(check("cluster.workerCount=4").err, IsEmpty());
  EXPECT_THAT(check("cluster.workerCount=5").err,
              HasSubstr("warning: --set: cluster.workerCount: 5 workers share 4 leases an epoch: they compute several "
                        "epochs at once; take 4 workers at most, or --set training.leaseBatches=3\n"));
  EXPECT_THAT(check("cluster.workerCount=17").err, HasSubstr("take 4 workers at most\n"));
  EXPECT_THAT(check("cluster.workerCount=17", "training.consistency=sync").err,
              HasSubstr("16 leases an epoch: at most 16 have work at once; "));
  EXPECT_THAT(check("cluster.workerCount=5", "training={epochs: 1, leaseBatches: 4}").err,
              HasSubstr("4 leases an epoch: at most 4 have work at once; take 4 workers at most, or --set "))
      << "there is no other epoch";
  EXPECT_THAT(check("cluster.workerCount=5", "training={epochs: 1, leaseBatches: 4, pushEvery: 4}").err,
              HasSubstr("take 4 workers at most\n"))
      << "a lease has a whole step";
  EXPECT_THAT(check("cluster.workerCount=5", "training={epochs: 1, consistency: ssp, pushEvery: 4}").err,
              HasSubstr("take 4 workers at most\n"))
      << "a lease is a step";
  EXPECT_THAT(check("training.batchSize=1001", "cluster.workerCount=1").err,
              HasSubstr("training.batchSize: a batch of 1001 takes all 1000 examples: an epoch is one step; take a "
                        "smaller one, such as 64\n"));
  EXPECT_THAT(check("training.batchSize=1000", "cluster.workerCount=1").err, IsEmpty());
  WritePair(dir + "/images", dir + "/labels", 40, 28, 40);
  EXPECT_THAT(check("training.batchSize=64", "cluster.workerCount=1").err, HasSubstr("take a smaller one\n"));
}

TEST(JobWarnings, OfSyncItSaysHowManyUpdatesAnEpochHas) {
  const std::string dir = FreshFolder("check_sync");
  PutFile(dir + "/job.yaml", MnistJob(/*leases=*/""));
  WritePair(dir + "/images", dir + "/labels", 1100, 28, 1100);
  const auto out = [&](const std::string& setting) {
    return RunDownpour({"check", dir + "/job.yaml", "--set", setting}).out;
  };
  EXPECT_THAT(out("training.consistency=sync"),
              AllOf(HasSubstr("18 steps in 18 leases"), HasSubstr("steps of 4 workers are one update: 5 updates per")));
  EXPECT_THAT(out("training.consistency=ssp"), Not(HasSubstr("one update")));
}

}  // namespace
}  // namespace downpour
