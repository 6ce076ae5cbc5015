// What the environment and --cluster=FILE say of this task, filled into the flags that the command line left alone.
//
//   if (auto exit_code = ParseFlags(argc, argv, usage)) return *exit_code;
//   if (auto exit_code = FillFlags(usage, TaskType::kWorker)) return *exit_code;
//
// Order: a flag beats --cluster=FILE, which beats TF_CONFIG, CLUSTER_SPEC, DMLC_*, MASTER_* and SLURM_*, which come in
//   this order; they beat the job file. --cluster=none leaves all of them unread.
// Errors: every error of every source on stderr, then exit code 2; before them warnings of what is not read.
// Tests: tests/unit/runtime/process/cluster_environment_test.cc.
#pragma once

#include <istream>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "job/cluster_config.h"
#include "runtime/process/flags.h"

namespace downpour {

std::optional<int> FillFlags(const Usage& usage, TaskType role);

// All sources that say something, the strongest first.
struct LaunchSources {
  std::vector<ClusterConfig> configs;
  std::vector<JobError> errors;
  std::vector<JobError> warnings;
};
// `cluster`: the value of --cluster.
LaunchSources ReadLaunchSources(const std::string& cluster, const Environment& environment);

// Of what a task's own name resolves to (numbers) the address to listen on: the first at which others reach it.
// Errors: FAILED_PRECONDITION where that is loopback alone, as Debian's /etc/hosts has a host's own name; localhost is
//   what it says.
absl::StatusOr<std::string> ChooseOwnAddress(const std::string& name, const std::vector<std::string>& addresses);

// Where a task listens that such a source told so: its host as a number, since ZeroMQ resolves only what it dials.
// Errors: INVALID_ARGUMENT where it does not resolve, or others would not reach it there.
absl::StatusOr<std::string> OwnEndpoint(const Told& told);

// What a hosts file has for a name, as numbers: /etc/hosts.
std::vector<std::string> NumbersInHosts(std::istream& file, const std::string& name);
// Whether OwnEndpoint would refuse it, as far as `hosts` tells: nobody else is asked, who may be slow to answer.
absl::Status CheckOwnEndpoint(const Told& told, std::istream& hosts);

Environment ProcessEnvironment();

// Whether overrides of a job say all of how large its cluster is, so that what the environment says of it counts for
// nothing; one number alone beats that number.
bool SizesCluster(const std::vector<std::string>& overrides);

}  // namespace downpour
