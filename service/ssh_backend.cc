#include "service/ssh_backend.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "cluster/job_folder.h"

namespace downpour {
namespace {

namespace fs = std::filesystem;

// Of the job's folder on the hosts: a later job of the same name has another one.
std::string FolderNameOf(const Job& job) {
  std::string name = absl::StrCat(job.name, "-", job.created_ms);
  std::replace(name.begin(), name.end(), '/', '.');
  return name;
}

}  // namespace

Turns SshBackend::Queue(const std::vector<Job>& unfinished) {
  Turns turns;
  std::string holder;
  for (const Job& job : unfinished) {
    if (job.state != JobState::kQueued && !IsTuning(job)) holder = job.name;
  }
  for (const Job& job : unfinished) {
    if (job.state != JobState::kQueued) continue;
    if (IsTuning(job)) {  // its trials hold the hosts
      turns.admitted.push_back(job.name);
    } else if (!holder.empty()) {
      turns.waits[job.name] =
          absl::StrCat("waits for the hosts, which ", holder, " has before it", PlaceInQueue(turns.waits.size() + 1));
    } else {
      turns.admitted.push_back(job.name);
      holder = job.name;
    }
  }
  return turns;
}

RunSeen SshBackend::Look(const Job&, const RunFolder& folder) {
  RunSeen seen = folder.Look();
  // Whoever follows may end at any point: what counts is what he has left.
  const bool begun = fs::exists(folder.job_dir() + "/cluster.begun");
  const absl::StatusOr<std::string> ended = ReadTextFile(folder.job_dir() + "/cluster.ended");
  seen.orphaned = seen.started && !seen.alive && (!seen.exit_code || (begun && !ended.ok()));
  int code = 0;
  if (ended.ok() && seen.exit_code && absl::SimpleAtoi(*ended, &code)) seen.exit_code = code;
  if (!seen.orphaned) return seen;
  seen.alive = true;
  seen.exit_code.reset();
  seen.error.clear();
  seen.message = "who followed its run on the hosts was killed; another one begins to";
  return seen;
}

std::vector<std::string> SshBackend::CommandOf(const RunOrder& order, const RunFolder& folder) const {
  // A host's place for the programs is that of deploy/cluster: the folder of a build, or where they are installed.
  std::string programs = settings_.program.substr(0, settings_.program.rfind('/'));
  if (programs.ends_with("/tools")) programs.resize(programs.rfind('/'));
  std::vector<std::string> command = {"/usr/bin/env",     "python3",
                                      settings_.launcher, "run",
                                      settings_.hosts,    order.job_file,
                                      "--name",           FolderNameOf(order.job),
                                      "--job-dir",        folder.job_dir(),
                                      "--install",        programs,
                                      "--port",           absl::StrCat(settings_.chief_port)};
  if (order.job.trial) {
    command.insert(command.begin() + 1, absl::StrCat("CLOUD_ML_TRIAL_ID=", TrialNumber(order.job.name)));
  }
  if (!settings_.ssh_config.empty()) command.insert(command.end(), {"--ssh-config", settings_.ssh_config});
  if (!order.results.empty()) command.insert(command.end(), {"--results", order.results});
  if (order.job.state == JobState::kCancelling) command.push_back("--end");
  AppendOrder(settings_, order, &command);
  return command;
}

absl::Status SshBackend::Start(const RunOrder& order, const RunFolder& folder) {
  return folder.Start(CommandOf(order, folder), /*again=*/order.job.state != JobState::kPreparing);
}

absl::Status SshBackend::Stop(const Job&, const RunFolder& folder) { return folder.Stop(); }

}  // namespace downpour
