#include "service/submission.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "cluster/job_folder.h"
#include "runtime/posix/process.h"
#include "runtime/posix/whole_file.h"
#include "schema/text.h"

namespace downpour {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr const char* kId = "submission";
constexpr const char* kJob = "submission.json";
// What shows that something was begun in a folder. Each backend leaves one of the two last before anything runs.
constexpr const char* kTraces[] = {"job.json", "started", "submitted"};

std::string IdIn(const RunFolder& folder) { return ReadTextFile(folder.Own(kId)).value_or(""); }

bool IsBegun(const RunFolder& folder) {
  std::error_code ignored;
  return std::ranges::any_of(kTraces, [&](const char* file) { return fs::exists(folder.Own(file), ignored); });
}

absl::Status WriteJob(const Job& job, const RunFolder& folder) {
  const json text = {{"id", job.id},
                     {"labels", job.labels},
                     {"trainingInput", json::parse(job.training_input)},
                     {"jobFile", job.job_file},
                     {"downpour", json::parse(job.settings)},
                     {"state", NameOf(job.state)},
                     {"error", job.error},
                     {"createdMs", job.created_ms},
                     {"startedMs", job.started_ms},
                     {"endedMs", job.ended_ms},
                     {"trial", TextOf(job.trial)}};
  const std::string dumped = text.dump(-1, ' ', false, json::error_handler_t::replace);
  return WriteWhole(folder.Own(kJob), dumped, 0600, WhereThere::kReplace);
}

// As of any client, since user's code may write where the file lies.
absl::StatusOr<Job> ReadWrittenJob(const std::string& name, const RunFolder& folder) {
  const absl::StatusOr<std::string> text = ReadTextFile(folder.Own(kJob));
  if (!text.ok()) return text.status();
  const absl::StatusOr<json> parsed = ParseJson(*text);
  if (!parsed.ok()) return parsed.status();
  try {
    json body = {{"jobId", name.substr(0, name.find('/'))},
                 {"labels", parsed->at("labels")},
                 {"trainingInput", parsed->at("trainingInput")},
                 {"downpour", parsed->at("downpour")}};
    if (body["trainingInput"].contains("predictionInput")) {  // which is all of such a job's input
      const json input = body["trainingInput"];
      body.erase("trainingInput");
      body.erase("downpour");
      body.update(input);
    }
    if (parsed->at("jobFile") != "") body["jobFile"] = parsed->at("jobFile");
    absl::StatusOr<Job> job = ReadJob(body.dump());
    if (!job.ok()) return job.status();
    job->name = name;
    parsed->at("id").get_to(job->id);
    job->state = StateNamed(parsed->at("state").get<std::string>()).value_or(JobState::kQueued);
    parsed->at("error").get_to(job->error);
    parsed->at("createdMs").get_to(job->created_ms);
    parsed->at("startedMs").get_to(job->started_ms);
    parsed->at("endedMs").get_to(job->ended_ms);
    job->trial = TrialOf(parsed->at("trial").get<std::string>());
    const bool is_whole = job->id == IdIn(folder) && job->trial.has_value() == (TrialNumber(name) != 0);
    return is_whole ? job : absl::DataLossError("it is another submission's");
  } catch (const json::exception& error) {
    return absl::DataLossError(error.what());
  }
}

// As far as its folder shows. Its run, if there is one, is looked at as that of any other job.
Job AsFound(Job job, const RunFolder& folder) {
  if ((IsOver(job.state) && job.ended_ms != 0) || job.state == JobState::kCancelling) return job;
  job.state = IsBegun(folder) ? JobState::kPreparing : JobState::kQueued;
  job.error.clear();
  job.started_ms = job.ended_ms = 0;
  return job;
}

class LostJobs {
 public:
  LostJobs(std::string root, JobStore* store) : root_(std::move(root)), store_(store) {}

  absl::StatusOr<std::vector<std::string>> TakeUp() {
    for (const std::string& name : ByAge(NamesIn(root_ + "/jobs"))) {
      if (const absl::Status status = TakeUp(name); !status.ok()) return status;
      const absl::StatusOr<Job> job = store_->Find(name);
      if (!job.ok() || !IsTuning(*job) || IsOver(job->state)) continue;
      for (const std::string& trial : NamesIn(JobFolderOf(root_, name) + "/trials")) {
        if (TrialNumber(absl::StrCat(name, "/", trial)) == 0) continue;
        if (const absl::Status status = TakeUp(absl::StrCat(name, "/", trial)); !status.ok()) return status;
      }
    }
    return std::move(found_);
  }

 private:
  // Of folders, shorter ones first, so that trial 10 comes behind trial 9.
  static std::vector<std::string> NamesIn(const std::string& path) {
    std::vector<std::string> names;
    std::error_code error;
    for (fs::directory_iterator it(path, error), end; !error && it != end; it.increment(error)) {
      if (it->is_directory(error)) names.push_back(it->path().filename());
    }
    std::sort(names.begin(), names.end(), [](const std::string& a, const std::string& b) {
      return std::pair(a.size(), a) < std::pair(b.size(), b);
    });
    return names;
  }

  // Names of jobs, the lost ones in the order of their submission, in which they wait their turn.
  std::vector<std::string> ByAge(const std::vector<std::string>& names) const {
    std::vector<std::pair<int64_t, std::string>> aged;
    for (const std::string& name : names) {
      if (!IsJobName(name)) continue;
      const bool is_lost = !store_->Find(name).ok();
      const absl::StatusOr<Job> lost =
          is_lost ? ReadWrittenJob(name, RunFolder(JobFolderOf(root_, name))) : absl::NotFoundError("");
      aged.emplace_back(lost.ok() ? lost->created_ms : 0, name);
    }
    std::ranges::stable_sort(aged, {}, &std::pair<int64_t, std::string>::first);
    std::vector<std::string> sorted;
    for (auto& [created_ms, name] : aged) sorted.push_back(std::move(name));
    return sorted;
  }

  absl::Status TakeUp(const std::string& name) {
    const RunFolder folder(JobFolderOf(root_, name));
    const absl::StatusOr<Job> known = store_->Find(name);
    if (!known.ok() && !absl::IsNotFound(known.status())) return known.status();
    if (known.ok() && IsFolderOf(*known, folder)) return absl::OkStatus();
    absl::StatusOr<Job> lost = ReadWrittenJob(name, folder);
    // The row is of the later submission, whose folder was taken away.
    const bool is_older = known.ok() && lost.ok() && lost->created_ms < known->created_ms;
    if (!lost.ok()) return LeaveAside(name, folder, std::string(lost.status().message()));
    if (is_older) return LeaveAside(name, folder, "it is of an earlier submission");
    if (known.ok()) {
      if (const absl::Status removed = store_->Remove(name); !removed.ok()) return removed;
    }
    const Job job = AsFound(*std::move(lost), folder);
    const std::string what = absl::StrCat("was found in ", folder.job_dir(), ", and the store of jobs ",
                                          known.ok() ? "had an earlier one of that name" : "did not know it");
    folder.Note('W', absl::StrCat("the job ", what, ": it is in the list again"));
    found_.push_back(absl::StrCat("the job ", name, " ", what, ": it is in the list again"));
    return store_->Insert(job);
  }

  absl::Status LeaveAside(const std::string& name, const RunFolder& folder, const std::string& why) {
    if (TrialNumber(name) != 0) return absl::OkStatus();
    const char* alive = folder.Look().alive ? " Its run is alive: downpour stop --job-dir ends it." : "";
    found_.push_back(absl::StrCat(
        "the folder ", folder.job_dir(), " is of a job that the store does not know, and cannot be ", "taken up (",
        OneLine(why, 200), "): it is left as it is. Move it away before a job has ", "the name ", name, ".", alive));
    return absl::OkStatus();
  }

  const std::string root_;
  JobStore* const store_;
  std::vector<std::string> found_;
};

}  // namespace

bool IsFolderOf(const Job& job, const RunFolder& folder) {
  const std::string id = IdIn(folder);
  return id == job.id || (id.empty() && !IsBegun(folder));
}

absl::Status ClaimFolder(const Job& job, const RunFolder& folder) {
  if (!IsFolderOf(job, folder)) {
    return absl::AlreadyExistsError(absl::StrCat("its folder ", folder.job_dir(),
                                                 " is of another submission: move that away, and submit it again"));
  }
  if (const absl::Status made = folder.Make(); !made.ok()) return made;
  if (IdIn(folder) == job.id) return absl::OkStatus();
  if (const absl::Status written = WriteJob(job, folder); !written.ok()) return written;
  return WriteWhole(folder.Own(kId), job.id, 0600, WhereThere::kReplace);
}

absl::Status KeepJob(const Job& job, const RunFolder& folder, JobStore* store) {
  const bool is_kept = IsOver(job.state) || job.state == JobState::kCancelling;
  if (is_kept && !job.id.empty() && IdIn(folder) == job.id) {
    if (const absl::Status written = WriteJob(job, folder); !written.ok()) return written;
  }
  return store->Update(job);
}

absl::StatusOr<std::vector<std::string>> TakeUpLostJobs(const std::string& root, JobStore* store) {
  return LostJobs(root, store).TakeUp();
}

}  // namespace downpour
