#include "cluster/role_commands.h"

#include <unistd.h>

#include <cstdlib>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "cluster/job_folder.h"
#include "runtime/zmq/sockets.h"
#include "schema/host_port.h"

namespace downpour {
namespace {

constexpr const char* kServerPrefix = "ps-";
constexpr const char* kWorkerPrefix = "worker-";

ProcessSpec Process(const LocalCluster& cluster, const std::string& task, const std::string& program) {
  ProcessSpec spec;
  spec.name = task;
  spec.log = LogPath(cluster.job_dir, task);
  spec.argv = {program};
  spec.argv.push_back("--cluster=none");  // this cluster is the one that runs here, whatever the environment says
  spec.argv.push_back(absl::StrCat("--log_dir=", cluster.job_dir, "/logs"));
  if (!cluster.keys.empty()) spec.argv.push_back("--keys=" + cluster.keys);
  if (cluster.trace) spec.argv.push_back(absl::StrCat("--trace_dir=", cluster.job_dir, "/trace"));
  return spec;
}

// The same port as the chief before it, which was reached at `before`; its host may be spelt otherwise there.
std::string ChiefListen(const LocalCluster& cluster, const std::string& before) {
  if (before.empty() || IsIpc(cluster.listen)) return cluster.listen;
  return cluster.listen.substr(0, cluster.listen.rfind(':')) + before.substr(before.rfind(':'));
}

// Where no other host takes part a folder's mode says who may talk to a server, at no cost.
std::string ServerListen(const LocalCluster& cluster, const std::string& task) {
  if (!cluster.sockets.empty()) return absl::StrCat("ipc://", cluster.sockets, "/", task);
  return cluster.listen.substr(0, cluster.listen.rfind(':')) + ":0";
}

}  // namespace

absl::Status FindPrograms(const std::string& own_folder, LocalCluster* cluster) {
  const std::pair<const char*, std::string*> wanted[] = {
      {"chief", &cluster->chief_program}, {"ps", &cluster->ps_program}, {"worker", &cluster->worker_program}};
  for (const auto& [role, program] : wanted) {
    const std::string name = absl::StrCat("/downpour-", role);
    for (const std::string& folder : {own_folder, absl::StrCat(own_folder, "/../", role)}) {
      if (program->empty() && access((folder + name).c_str(), X_OK) == 0) *program = folder + name;
    }
    if (program->empty()) {
      return absl::NotFoundError(absl::StrCat("there is no ", own_folder, name, ": build or install all programs"));
    }
  }
  return absl::OkStatus();
}

ProcessSpec ChiefProcess(const LocalCluster& cluster, const std::string& before) {
  ProcessSpec spec = Process(cluster, kChiefTask, cluster.chief_program);
  spec.argv.insert(spec.argv.end(), {"--listen=" + ChiefListen(cluster, before), "--job=" + cluster.job_file,
                                     "--job_dir=" + cluster.job_dir, "--command=" + cluster.command, "--supervised"});
  if (cluster.resume) spec.argv.push_back("--resume");
  if (!cluster.give_up.empty()) spec.argv.push_back("--give_up=" + cluster.give_up);
  for (const std::string& pair : cluster.overrides) spec.argv.push_back("--set=" + pair);
  spec.argv.insert(spec.argv.end(), cluster.chief_flags.begin(), cluster.chief_flags.end());
  return spec;
}

ProcessSpec MemberProcess(const LocalCluster& cluster, const std::string& task, const std::string& chief_endpoint,
                          uint32_t attempt) {
  const bool server = IsServerTask(task);
  ProcessSpec spec = Process(cluster, task, server ? cluster.ps_program : cluster.worker_program);
  const std::string index = task.substr(task.rfind('-') + 1);
  spec.argv.insert(spec.argv.end(), {"--chief=" + chief_endpoint, "--index=" + index, "--launcher=" + cluster.launcher,
                                     absl::StrCat("--attempt=", attempt)});
  if (server) {
    spec.argv.insert(spec.argv.end(), {"--listen=" + ServerListen(cluster, task), "--job_dir=" + cluster.job_dir,
                                       absl::StrCat("--crash_notes=", cluster.job_dir, "/logs/", task, ".crashes")});
  }
  if (!server && !cluster.python.empty()) spec.argv.push_back("--python=" + cluster.python);
  spec.environment = {{"DOWNPOUR_METADATA_SERVER", ""}};  // the chief alone ends the job of a machine that goes
  if (!server && std::getenv("OMP_NUM_THREADS") == nullptr) spec.environment.push_back({"OMP_NUM_THREADS", "1"});
  return spec;
}

absl::Status CheckSockets(const std::string& folder, int servers) {
  const std::string longest = absl::StrCat("ipc://", folder, "/", kServerPrefix, servers - 1);
  if (CheckListenable(longest).ok()) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "the sockets of the job's ps cannot lie in ", folder, ", whose name is too long: a socket's path ",
      "has at most ", kMostSocketPath, " bytes. Let TMPDIR name a folder with a shorter one, such as /tmp"));
}

std::vector<std::string> MemberTasks(const LocalCluster& cluster) {
  std::vector<std::string> tasks;
  for (int i = 0; i < cluster.servers; ++i) tasks.push_back(absl::StrCat(kServerPrefix, i));
  for (int i = 0; i < cluster.workers; ++i) tasks.push_back(absl::StrCat(kWorkerPrefix, i));
  return tasks;
}

bool IsServerTask(const std::string& task) { return absl::StartsWith(task, kServerPrefix); }

}  // namespace downpour
