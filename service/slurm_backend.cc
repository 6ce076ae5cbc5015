#include "service/slurm_backend.h"

#include <algorithm>
#include <filesystem>
#include <set>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "cluster/job_folder.h"
#include "runtime/posix/whole_file.h"
#include "schema/text.h"
#include "service/ask_program.h"
#include "service/slurm_batch.h"

namespace downpour {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMostSlurmWords = 1000;

std::string WordsIn(const std::string& path) {
  const std::string text = ReadTextFile(path).value_or("");
  return OneLine(std::string(absl::StripAsciiWhitespace(text)), kMostSlurmWords);
}

absl::Status MarkStop(const RunFolder& folder) {
  return WriteWhole(folder.Own("stop"), "", 0644, WhereThere::kReplace);
}

// How Slurm ended it, where the run itself did not tell; empty for ends that are the run's own.
std::string WhySlurmEndedIt(const SlurmJob& job) {
  const auto why = [&](const std::string& what, const std::string& remedy) {
    return absl::StrCat("Slurm ended its job ", job.id, ": ", what, ". ", remedy);
  };
  if (job.state == "TIMEOUT" || job.state == "DEADLINE") {
    return why("its time limit was over", "Give jobs more time by `downpour serve --sbatch-option=--time=...`");
  }
  if (job.state == "OUT_OF_MEMORY") {
    return why("it took more memory than it was given", "Give jobs more by `downpour serve --sbatch-option=--mem=...`");
  }
  if (job.state == "NODE_FAIL" || job.state == "BOOT_FAIL") return why("its node failed", "Submit it again");
  if (job.state == "PREEMPTED") return why("another job took its place", "Submit it again");
  if (job.state == "CANCELLED") return why("it was cancelled by scancel", "Submit it again");
  return "";
}

std::string WaitsInSlurm(const SlurmJob& job, bool has_begun) {
  if (job.state != "PENDING") return has_begun ? "" : absl::StrCat("job ", job.id, " of Slurm is ", job.state);
  return absl::StrCat(has_begun ? "was put back into the queue of Slurm, and continues from its last checkpoint: job "
                                : "waits in the queue of Slurm: job ",
                      job.id, ", ", job.reason);
}

}  // namespace

bool SaysNoContact(const std::string& words) {
  constexpr const char* kNoContact[] = {
      "contact slurm controller", "timed out",       "Zero Bytes",        "standby mode", "temporarily unable",
      "authentication error",     "connect failure", "Connection refused"};
  return std::any_of(std::begin(kNoContact), std::end(kNoContact),
                     [&](const char* part) { return absl::StrContains(words, part); });
}

RunSeen SeenInSlurm(const SlurmJob* job, const RunSeen& left, const RunFolder& folder) {
  RunSeen seen;
  const bool submitted = fs::exists(folder.Own("submitted"));
  const std::string refused = WordsIn(folder.Own("refused"));
  seen.started = left.started || submitted || job != nullptr;
  seen.started_ms = left.started_ms;
  if (job != nullptr && !IsOver(*job)) {
    seen.alive = true;
    seen.queued = !left.started;
    seen.message = WaitsInSlurm(*job, left.started);
    return seen;
  }
  if (!seen.started) {
    if (refused.empty() || SaysNoContact(refused)) return seen;
    seen.started = true;
    seen.exit_code = 1;
    seen.error = refused;
    return seen;
  }
  seen.exit_code = left.exit_code;
  seen.ended_ms = left.ended_ms;
  // The script's own code, where a shared file system is late to show the file.
  if (!seen.exit_code && job != nullptr && job->state == "COMPLETED") seen.exit_code = 0;
  if (seen.exit_code == 0) return seen;
  seen.cancelled = job != nullptr && job->state == "CANCELLED";
  if (job != nullptr) seen.error = WhySlurmEndedIt(*job);
  if (fs::exists(folder.Own("out_of_time"))) {
    seen.error =
        absl::StrCat("the time limit of Slurm was near, and no checkpoint had come since the run was started. ",
                     "Give jobs more time by `downpour serve --sbatch-option=--time=...`, or have checkpoints "
                     "more often");
  }
  if (seen.error.empty() && !left.started) seen.error = "Slurm does not know its job any more, which never began";
  if (seen.error.empty()) seen.error = left.error;
  return seen;
}

void SlurmBackend::Refresh() {
  if (has_jobs_) queue_.Refresh();
}

Turns SlurmBackend::Queue(const std::vector<Job>& unfinished) {
  Turns turns;
  std::set<std::string> names;
  for (const Job& job : unfinished) {
    names.insert(job.name);
    if (job.state == JobState::kQueued) turns.admitted.push_back(job.name);
  }
  has_jobs_ = !unfinished.empty();
  std::erase_if(absent_, [&](const auto& absent) { return !names.contains(absent.first); });
  std::erase_if(begun_, [&](const auto& begun) { return !names.contains(begun.first); });
  return turns;
}

RunSeen SlurmBackend::Look(const Job& job, const RunFolder& folder) {
  // A submission that Slurm takes up late, after the job is over, finds the file and does not begin.
  if (job.state == JobState::kCancelling && !fs::exists(folder.Own("stop"))) (void)MarkStop(folder);
  const RunSeen left = folder.Look();  // its lock before the queue: what is submitted is in a newer answer
  if (left.alive) {
    absent_.erase(job.name);
    return {.alive = true, .queued = true, .message = "is being submitted to Slurm"};
  }
  if (queue_.round() == 0) return {.unknown = "Slurm has not been asked yet"};
  if (!queue_.answers()) {
    RunSeen seen{.unknown = absl::StrCat("Slurm does not answer: ", queue_.words())};
    seen.message = seen.unknown;
    return seen;
  }
  const SlurmJob* known = queue_.Find(SlurmNameOf(job), folder.job_dir());
  if (known != nullptr) {
    absent_.erase(job.name);
  } else {
    // A mark that was not there before may be of a submission that is younger than the answer.
    const bool marked = left.started || fs::exists(folder.Own("submitted"));
    const auto [first, is_new] = absent_.try_emplace(job.name, Absence{queue_.round(), marked});
    if (first->second.marked != marked) first->second = {queue_.round(), marked};
    if (is_new || first->second.round == queue_.round()) return {.unknown = "Slurm is asked again"};
  }
  RunSeen seen = SeenInSlurm(known, left, folder);
  // The answer may be older than the script's mark: what waits in it has begun since, and was not put back.
  if (left.started) {
    const auto first = begun_.try_emplace(job.name, queue_.round()).first;
    if (first->second == queue_.round()) seen.message.clear();
  }
  return seen;
}

absl::Status SlurmBackend::Start(const RunOrder& order, const RunFolder& folder) {
  absent_.erase(order.job.name);
  begun_.erase(order.job.name);
  const std::vector<std::string> reachable = {"--listen", "0.0.0.0:0"};  // by the service, for the status
  std::vector<std::string> begin = RunCommand(settings_, order, folder, reachable);
  std::vector<std::string> resume = RunCommand(settings_, order, folder, {"--listen", "0.0.0.0:0", "--resume"});
  if (order.job.trial) {
    const std::string trial = absl::StrCat("CLOUD_ML_TRIAL_ID=", TrialNumber(order.job.name));
    for (std::vector<std::string>* command : {&begin, &resume}) {
      command->insert(command->begin(), {"/usr/bin/env", trial});
    }
  }
  const absl::Status written =
      WriteWhole(folder.Own("batch.sh"), BatchScript(begin, resume, folder), 0700, WhereThere::kReplace);
  if (!written.ok()) return written;
  return folder.Spawn(kSubmit, SbatchCommand(order, NeedOf(order.job, settings_), settings_, folder));
}

absl::Status SlurmBackend::Stop(const Job& job, const RunFolder& folder) {
  const SlurmJob* known = queue_.answers() ? queue_.Find(SlurmNameOf(job), folder.job_dir()) : nullptr;
  if (known == nullptr) return absl::UnavailableError("Slurm does not say which job it is");
  // A script that begins just now finds the file, whatever becomes of the signal.
  if (const absl::Status marked = MarkStop(folder); !marked.ok()) return marked;
  if (known->state == "SUSPENDED") return absl::UnavailableError("Slurm has suspended its job, which hears no signal");
  constexpr int kSeconds = 30;
  // The one that has its turn between the two is running by the second.
  for (const std::vector<std::string>& command :
       {std::vector<std::string>{"scancel", "--state=PENDING", known->id},
        std::vector<std::string>{"scancel", "--state=RUNNING", "--batch", "--signal=USR1", known->id}}) {
    const Said said = AskProgram(command, kSeconds);
    if (said.code != 0) return absl::UnavailableError(absl::StrCat("scancel: ", OneLine(said.out, kMostSlurmWords)));
  }
  return absl::OkStatus();
}

}  // namespace downpour
