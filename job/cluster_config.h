// Where the tasks of a cluster are and which of them this is, as other launchers say it: TF_CONFIG, ps-lite's DMLC_*
// variables, Slurm's.
//
//   const ClusterConfigResult told = ParseTfConfig(text, "TF_CONFIG");
//   const absl::StatusOr<LaunchSettings> settings = SettleLaunch(TaskType::kWorker, {told.config}, std::nullopt);
//
// Shapes: TF_CONFIG's `cluster` holds lists, or maps from an index to an address, under chief (or master), worker, ps
//   and evaluator, or under the pools workerpool0 to workerpool3. Its first worker is where the chief runs if it names
//   none. A master trains as well: it is our chief with one more worker beside it, numbered after the others.
// Errors: every error at once, with its place; keys that launchers add at the top are none, other tasks in `cluster`
//   are.
// Source: TensorFlow's TFConfigClusterResolver; AI Platform's and Vertex AI's CLUSTER_SPEC; dmlc/ps-lite, page "env";
//   the man page of srun; PyTorch's torchrun.
// Tests: tests/unit/job/cluster_config_test.cc.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "job/job_file.h"

namespace downpour {

enum class TaskType { kChief, kWorker, kPs, kEvaluator };

struct ClusterTask {
  TaskType type = TaskType::kChief;
  std::optional<int64_t> index;
  bool is_master = false;  // a chief that trains
};

using Addresses = std::map<int64_t, std::string>;  // HOST:PORT by index

// What one source says; what it does not say is empty.
struct ClusterConfig {
  std::string origin;  // TF_CONFIG, a file's name
  Addresses chief, worker, ps;
  std::optional<int64_t> worker_count, ps_count;
  std::optional<ClusterTask> task;
  std::string own_host;
  std::optional<int64_t> rank;  // of this process if it is a worker, where nothing says what it is
  bool resume = false;          // started again by a launcher that wants the job to go on
};

struct ClusterConfigResult {
  ClusterConfig config;
  std::vector<JobError> errors;
  std::vector<JobError> warnings;  // of what is not read
};

// An empty text says nothing, as TensorFlow has it.
ClusterConfigResult ParseTfConfig(const std::string& text, const std::string& origin);

using Environment = std::map<std::string, std::string>;

// DMLC_ROLE, DMLC_PS_ROOT_URI and _PORT, DMLC_NUM_WORKER and _SERVER, DMLC_NODE_HOST. Of the others those are warned of
// by which ps-lite would go elsewhere.
ClusterConfigResult ParseDmlc(const Environment& environment);

// The chief is at MASTER_ADDR:MASTER_PORT, a worker's number is RANK, of WORLD_SIZE.
ClusterConfigResult ParseTorchrun(const Environment& environment);
inline constexpr int kTorchrunPort = 29500;  // where MASTER_PORT is absent

// The chief runs on the first node of the job, at kSlurmChiefPort; tasks take free numbers. SLURM_JOB_NODELIST,
// SLURMD_NODENAME, SLURM_RESTART_COUNT.
ClusterConfigResult ParseSlurm(const Environment& environment);
inline constexpr int kSlurmChiefPort = 7000;

// ---- What it comes to for one role ----------------------------------------------------------------------------------

struct Told {
  std::string value;
  std::string origin;
};

// Flags of the role binaries by name, and `set`, an override of the job's cluster section for the chief.
using LaunchSettings = std::map<std::string, Told>;

// `sources`: the strongest first; each setting comes from the first that says it.
// `given_index` is a flag's, which beats them all.
// Errors: INVALID_ARGUMENT where a source says that this process is another kind of task.
absl::StatusOr<LaunchSettings> SettleLaunch(TaskType role, const std::vector<ClusterConfig>& sources,
                                            std::optional<int64_t> given_index);

const char* NameOf(TaskType type);

}  // namespace downpour
