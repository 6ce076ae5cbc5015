// ModelService: the models that a service answers from, their versions, and the threads on which versions are deployed.
//
//   absl::StatusOr<std::unique_ptr<ModelService>> models = ModelService::Open(look_up);
//   (*models)->CreateModel(model);
//   (*models)->CreateVersion(version);            // an operation; the version answers once it has ended
//   std::shared_ptr<const ServedVersion> served = (*models)->Take("m", /*version=*/"").value();
//   served->predictor->Predict(batch);            // this version to its end, whatever becomes of the model meanwhile
//
// Order: what a call did is on the disk when it returns. A version's files are pinned (deployed_files.h), opened and
//   have answered a first row before it is READY, or the default. The first version that is ready is the default.
//   One that could not be opened is tried again when it is asked for after kPause.
//   A live version has no files of its own while its job trains. Once that is over its last checkpoint is pinned and
//   takes its place. Until then, and where there is none, the last values that were read go on answering. Where a job
//   that trains on is not reached for a while, it is followed again after kPause, time and again.
// Cost: of Take a lock and two look-ups, and never a wait for the disk, to which others may write meanwhile. A version
//   is opened when it is first asked for, or by OpenAll. Versions are opened one after the other, apart from the user's
//   code: that may take minutes to start, so it does on a thread of its own.
// Errors: ALREADY_EXISTS, NOT_FOUND with the name; FAILED_PRECONDITION for the default version while there are others,
//   for a model with versions, and for a version that is not ready; ABORTED for an outdated etag; of Take UNAVAILABLE
//   for a version that is being deployed, or is not open within kPatience, and once End was called; those of
//   ModelStore, DeployedFiles and OpenPredictor.
// Threads: any.
// Tests: tests/process/test_predictions.py.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "predict/live_feed.h"
#include "predict/predictor.h"
#include "predict/python_serving.h"
#include "service/deployed_files.h"
#include "service/model_store.h"
#include "service/prediction_meter.h"

namespace downpour {

// A version that answers.
struct ServedVersion {
  std::string model, version;
  std::shared_ptr<const Predictor> predictor;
  std::shared_ptr<PredictionMeter> meter;
  bool logs_requests = false;
};

struct VersionStatus {
  ModelVersion version;
  bool is_default = false;
  bool is_open = false;
  bool is_live = false;                    // it follows the servers of a job in training, or would if it were open
  std::optional<double> age_seconds = {};  // of its values, of one that follows servers
  std::shared_ptr<const PredictionMeter> meter;
};

struct ModelStatus {
  Model model;
  std::vector<VersionStatus> versions;   // by name
  const VersionStatus* Default() const;  // null: there is none
};

class ModelService {
 public:
  static constexpr auto kPatience = std::chrono::seconds(10), kPause = std::chrono::seconds(10);
  static constexpr size_t kMostModels = 1000, kMostVersions = 1000;  // of all models together

  // `python`: how models of the user's code are run; each version has a log of its own.
  static absl::StatusOr<std::unique_ptr<ModelService>> Open(OriginLookup look_up, PythonServing python = {});
  ~ModelService();
  // No version is opened or waited for from now on. Whoever waits for the user's code waits no longer.
  void End();

  absl::StatusOr<ModelStatus> CreateModel(Model model);
  absl::StatusOr<ModelStatus> Find(const std::string& model) const;
  absl::StatusOr<VersionStatus> FindVersion(const std::string& model, const std::string& version) const;
  std::vector<ModelStatus> All() const;  // by name
  using ChangeModel = std::function<absl::Status(Model*)>;
  using ChangeVersion = std::function<absl::Status(ModelVersion*)>;
  absl::StatusOr<Operation> UpdateModel(const std::string& model, const ChangeModel& change);
  absl::StatusOr<Operation> DeleteModel(const std::string& model);

  // Returns at once, with an operation that is under way.
  absl::StatusOr<Operation> CreateVersion(ModelVersion version);
  absl::StatusOr<Operation> UpdateVersion(const std::string& model, const std::string& version,
                                          const ChangeVersion& change);
  absl::StatusOr<Operation> DeleteVersion(const std::string& model, const std::string& version);
  absl::StatusOr<VersionStatus> SetDefault(const std::string& model, const std::string& version);

  absl::StatusOr<Operation> FindOperation(const std::string& name) const;
  std::vector<Operation> Operations() const;  // newest first
  // As it is once it has ended, or that time is over.
  absl::StatusOr<Operation> WaitFor(const std::string& operation, std::chrono::milliseconds most) const;

  // Empty version: the default one.
  absl::StatusOr<std::shared_ptr<const ServedVersion>> Take(const std::string& model, const std::string& version);
  // Where the files of a version that is ready lie. Empty version: the default one.
  absl::StatusOr<std::string> PlaceOf(const std::string& model, const std::string& version) const;
  // Begins to open all versions that are ready, and returns.
  void OpenAll();
  bool IsOpen() const;  // all that OpenAll began with
  const std::string& root() const { return look_up_.root; }

 private:
  struct VersionEntry {
    ModelVersion version;
    std::shared_ptr<const ServedVersion> served = {};  // none: not open
    std::shared_ptr<PredictionMeter> meter = std::make_shared<PredictionMeter>();
    bool is_being_opened = false;
    bool is_awaited = false;  // by OpenAll
    absl::Status why_not_open = absl::OkStatus();
    std::chrono::steady_clock::time_point open_again_at = {};  // of one that could not be opened
  };
  struct ModelEntry {
    Model model;
    std::map<std::string, VersionEntry> versions;
  };
  // What of a model can be taken at once.
  struct OpenVersions {
    std::string default_version;
    std::map<std::string, std::shared_ptr<const ServedVersion>> versions;
  };
  struct Task {
    std::string model, version;
    std::string operation = {};       // empty: it is to be opened alone, or
    std::optional<LiveEnd> end = {};  // a live version's feed has ended so
    std::chrono::steady_clock::time_point not_before = {};
  };
  using Opened = absl::StatusOr<std::shared_ptr<const Predictor>>;
  using OnOpened = std::function<void(Opened)>;
  // Of the user's code, which answers its first row on a thread of its own.
  struct CodeStart {
    std::string model, version;
    std::shared_ptr<const Predictor> predictor;  // until it has ended
    bool has_ended = false;
    std::thread thread = {};
  };

  ModelService(OriginLookup look_up, PythonServing python, std::unique_ptr<ModelStore> store)
      : look_up_(std::move(look_up)), python_(std::move(python)), files_(look_up_.root), store_(std::move(store)) {}
  static absl::Status NoneIsReady(const ModelStatus& model);
  static absl::Status IsBeingDeployed(const std::string& model, const std::string& version);
  absl::Status TakeUp();
  void Work();
  void Deploy(const Task& task);
  void FinishDeployment(const Task& task, const ModelVersion& pinned, const Opened& opened);
  absl::Status Pin(ModelVersion* version) const;
  // Calls it once the version has answered a first row, or cannot: before this returns, or from another thread.
  void OpenPinned(const ModelVersion& version, const OnOpened& on_opened);
  void StartCode(const ModelVersion& version, std::shared_ptr<const Predictor> predictor, const OnOpened& on_opened);
  // Whether the version follows its job's servers: its origin says so, and that job is not known to be over.
  static bool FollowsServers(const ModelVersion& version);
  // `run`: of which training; 0: whichever is in the job's folder.
  void OpenLive(const ModelVersion& version, uint64_t run, const OnOpened& on_opened);
  void FollowAgain(const ModelVersion& version, uint64_t run);
  void AddEnd(const ModelVersion& version, const LiveEnd& end, std::chrono::steady_clock::time_point not_before = {});
  // By its job's last checkpoint: a predictor of that, which answers from now on.
  Opened TakeOver(const ModelVersion& version);
  void EndLive(const Task& task);
  void OnOpenedAgain(const ModelVersion& version, const Opened& opened);
  void OpenNow(const std::string& model, const std::string& version, std::unique_lock<std::mutex>& hold);

  // With the lock held.
  void EndStart(const std::string& model, const std::string& version, std::unique_lock<std::mutex>& hold);
  absl::StatusOr<ModelEntry*> EntryOf(const std::string& model);
  absl::StatusOr<VersionEntry*> EntryOf(const std::string& model, const std::string& version);
  Operation NewOperation(OperationType type, const std::string& model, const std::string& version);
  absl::Status Write(const ModelChanges& changes);
  // What was written of the model, or opened, is taken from now on.
  void Publish(const std::string& model);
  static ModelStatus StatusOf(const ModelEntry& entry);
  std::shared_ptr<const ServedVersion> TakeOpen(const std::string& model, const std::string& version) const;
  std::shared_ptr<const ServedVersion> Serve(const ModelEntry& model, const VersionEntry& version,
                                             std::shared_ptr<const Predictor> predictor) const;

  const OriginLookup look_up_;
  const PythonServing python_;
  const DeployedFiles files_;
  mutable std::mutex open_mutex_;  // held for a look alone; within mutex_
  std::map<std::string, OpenVersions> open_;
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;  // tasks, operations and what is open
  std::unique_ptr<ModelStore> store_;
  std::map<std::string, ModelEntry> models_;
  std::map<std::string, Operation> operations_;
  std::deque<std::string> newest_operations_;  // their names, the newest last
  std::deque<Task> tasks_;
  std::list<CodeStart> code_starts_;
  std::list<std::unique_ptr<LiveFeed>> feeds_;  // each ends with its predictor
  bool ends_ = false;
  std::thread works_;  // last: it uses the others
};

}  // namespace downpour
