// JobService: the jobs under one root, and the rounds in which they are started, watched and stopped.
//
//   absl::StatusOr<std::unique_ptr<JobService>> service = JobService::Open({.root = "/srv/jobs", ...});
//   (*service)->Submit(body);
//   for (;;) (*service)->Work();   // on a thread of its own, or now and then
//
// Shapes: ROOT/jobs.sqlite, ROOT/storage (gs://), ROOT/lock (held by one service). ROOT/jobs/NAME is a job folder; a
//   tuning job's has those of its trials, trials/1, trials/2, ... A package in gs://packages, where `downpour jobs
//   submit` puts it, goes with the last job that names it.
// Order: a job's state is on the disk before what it stands for is done (lifecycle.h).
// Errors: ALREADY_EXISTS of Open where another process has the root, of Submit where a job or
//   a folder has the name. Of the others: those of Job, JobStore, Lifecycle.
// Threads: any; Work on one at a time.
// Tests: tests/process/test_job_service.py.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "predict/python_serving.h"
#include "runtime/posix/fd.h"
#include "service/backend.h"
#include "service/batch_prediction.h"
#include "service/deployed_files.h"
#include "service/job_store.h"
#include "service/object_store.h"
#include "service/open_backend.h"
#include "service/run_folder.h"
#include "service/tuner.h"

namespace downpour {

struct ServiceSettings {
  std::string root;
  BackendSettings backend = {};
  // The root's last service says by which backend its jobs run. Where there was none, these settings do.
  bool recalls_backend = false;
  // Looks for a second, as KeepLock does, whether the one that has the root has it for a moment alone.
  bool waits_for_root = false;
  // Opens the models that are deployed at once, and not each when it is asked for.
  bool opens_models = false;
  // How models of Python code answer, by the backend's interpreter.
  PythonServing python_models = {};
};

class JobService {
 public:
  static absl::StatusOr<std::unique_ptr<JobService>> Open(ServiceSettings settings);

  // What can never be a job leaves no package of its own, gs://packages/JOB/...
  // Errors: also FAILED_PRECONDITION where a package is missing.
  absl::StatusOr<Job> Submit(std::string_view body);
  absl::StatusOr<Job> Find(const std::string& name);
  absl::StatusOr<std::vector<Job>> All();  // in the order of their submission, without trials
  absl::StatusOr<std::vector<Job>> Trials(const std::string& tuning);
  absl::Status Cancel(const std::string& name);
  absl::StatusOr<Job> SetLabels(const std::string& name, const Labels& labels, const std::string& etag);
  // Of a job that is over, with its folder.
  absl::Status Delete(const std::string& name);

  // One round: admits what has its turn, starts and stops runs, and takes note of those that ended.
  absl::Status Work();

  const ObjectStore& objects() const { return objects_; }
  // Where the model of a batch prediction lies, and which of its checkpoints. Set before the first Work and Submit.
  using FindModel = std::function<absl::StatusOr<FoundOrigin>(const BatchInput&)>;
  void FindModelsBy(FindModel find) { find_model_ = std::move(find); }
  // A sentence for each folder that the store did not know as the root was opened (submission.h).
  const std::vector<std::string>& found() const { return found_; }
  RunFolder FolderOf(const std::string& name) const;

 private:
  absl::StatusOr<Job> Accept(std::string_view body);
  JobService(ServiceSettings settings, UniqueFd lock, std::unique_ptr<JobStore> store)
      : settings_(std::move(settings)),
        lock_(std::move(lock)),
        store_(std::move(store)),
        objects_(settings_.root),
        backend_(OpenBackend(settings_.backend)),
        tuner_(settings_.root, store_.get(), &mutex_) {}
  absl::Status Keep(const Job& job);
  absl::Status AdmitThoseWhoseTurnItIs();
  // Of those in gs://packages. What the job uses that `goes` does not count.
  absl::Status RemoveUnusedPackages(const std::vector<std::string>& uris, const std::string& goes);
  // The job has no run yet.
  absl::Status RefuseToStart(const std::string& why, Job* job);
  void Complete(Job* job) const;
  void NoteMessage(const Job& job, const std::string& message);
  void ReportToSearch(const Job& trial);
  absl::Status WorkOn(const std::string& name);
  absl::Status Start(const Job& job);
  absl::Status Reattach(const Job& job);
  absl::Status Stage(const Job& job) const;
  absl::StatusOr<RunOrder> OrderOf(const Job& job) const;
  absl::StatusOr<BatchPlan> PlanOf(const Job& job) const;
  absl::StatusOr<std::vector<std::string>> FilesOf(const std::string& uri) const;
  void SayWhatIsNotHonoured(const Job& job) const;

  const ServiceSettings settings_;
  const UniqueFd lock_;
  std::mutex mutex_;  // of the store
  std::unique_ptr<JobStore> store_;
  const ObjectStore objects_;
  const std::unique_ptr<RunBackend> backend_;  // of the thread that works
  Tuner tuner_;
  FindModel find_model_;
  std::vector<std::string> found_;
  std::map<std::string, std::string> messages_;  // Job::state_message of unfinished jobs; guarded by mutex_
};

}  // namespace downpour
