#include "runtime/descriptor_need.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace downpour {
namespace {

using testing::HasSubstr;

ClusterSpec Cluster(int64_t servers, int64_t workers) {
  ClusterSpec cluster;
  cluster.parameter_server_count = servers;
  cluster.worker_count = workers;
  return cluster;
}

TEST(DescriptorNeedTest, EachRoleCountsTheConnectionsItHas) {
  EXPECT_EQ(DescriptorNeed(TaskRole::kChief, Cluster(1024, 100)), 128 + 2 * 1024 + 100u);
  EXPECT_EQ(DescriptorNeed(TaskRole::kPs, Cluster(1024, 100)), 128 + 2 * 4 + 2 * 100u);
  EXPECT_EQ(DescriptorNeed(TaskRole::kWorker, Cluster(1024, 100)), 128 + 4 * 1025 + 1024u);
}

TEST(DescriptorNeedTest, TooFewAreToldWithTheRemedy) {
  const ClusterSpec cluster = Cluster(600, 2);
  EXPECT_TRUE(CheckDescriptors(TaskRole::kWorker, cluster, 3132).ok());
  EXPECT_TRUE(CheckDescriptors(TaskRole::kWorker, cluster, 0).ok()) << "not known";
  const absl::Status status = CheckDescriptors(TaskRole::kWorker, cluster, 3131);
  EXPECT_TRUE(absl::IsResourceExhausted(status));
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("with 600 ps and 2 workers this task needs 3132 open files, and may have 3131: start it where "
                        "`ulimit -n 3132` works, or with LimitNOFILE=3132 in its systemd unit"));
}

}  // namespace
}  // namespace downpour
