#include "service/model_service.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "runtime/posix/process.h"
#include "schema/text.h"
#include "service/job.h"

namespace downpour {
namespace {

constexpr auto kEndsWithin = std::chrono::seconds(5);  // code whose start is ended

std::string Shown(const std::string& name) { return OneLine(name, 128); }

absl::Status NoModel(const std::string& model) {
  return absl::NotFoundError(
      absl::StrCat("there is no model ", Shown(model), ": `downpour models list` names them all"));
}

absl::Status NoVersion(const std::string& model, const std::string& version) {
  return absl::NotFoundError(absl::StrCat("the model ", Shown(model), " has no version ", Shown(version),
                                          ": `downpour models describe` names them all"));
}

absl::Status NotReady(const ModelVersion& version) {
  return absl::FailedPreconditionError(
      absl::StrCat("the version ", version.name, " of ", version.model, " is ", NameOf(version.state),
                   version.error.empty() ? ": wait for its operation" : absl::StrCat(": ", version.error)));
}

}  // namespace

const VersionStatus* ModelStatus::Default() const {
  const auto found = std::ranges::find_if(versions, [](const VersionStatus& it) { return it.is_default; });
  return found == versions.end() ? nullptr : &*found;
}

absl::StatusOr<std::unique_ptr<ModelService>> ModelService::Open(OriginLookup look_up, PythonServing python) {
  absl::StatusOr<std::unique_ptr<ModelStore>> store = ModelStore::Open(look_up.root + "/jobs.sqlite");
  if (!store.ok()) return store.status();
  std::unique_ptr<ModelService> service(new ModelService(std::move(look_up), std::move(python), *std::move(store)));
  if (const absl::Status status = service->TakeUp(); !status.ok()) return status;
  service->works_ = std::thread([it = service.get()] { it->Work(); });
  return service;
}

ModelService::~ModelService() {
  End();
  if (works_.joinable()) works_.join();
  for (CodeStart& start : code_starts_) start.thread.join();
  feeds_.clear();  // waits for their threads, which may call this until then
}

void ModelService::End() {
  const std::lock_guard hold(mutex_);
  ends_ = true;
  for (const CodeStart& start : code_starts_) {
    if (start.predictor) start.predictor->instances()->End();
  }
  for (const auto& [name, model] : models_) {
    for (const auto& [version_name, version] : model.versions) {
      const InstancePredictor* code = version.served ? version.served->predictor->instances() : nullptr;
      if (code != nullptr) code->End();
    }
  }
  for (const std::unique_ptr<LiveFeed>& feed : feeds_) feed->Stop();
  changed_.notify_all();
}

// What the store has, as another service left it, perhaps in the middle of a deployment.
absl::Status ModelService::TakeUp() {
  absl::StatusOr<ModelRecords> all = store_->Load();
  if (!all.ok()) return all.status();
  for (Model& model : all->models) models_[model.name].model = model;
  std::vector<std::pair<std::string, std::string>> known;
  for (ModelVersion& version : all->versions) {
    known.emplace_back(version.model, version.name);
    models_[version.model].versions[version.name].version = version;
  }
  files_.RemoveOthers(known);
  for (Operation& operation : all->operations) {
    if (operation.ended_ms == 0) tasks_.push_back({operation.model, operation.version, operation.name});
    newest_operations_.push_back(operation.name);
    operations_[operation.name] = std::move(operation);
  }
  return absl::OkStatus();
}

absl::StatusOr<ModelService::ModelEntry*> ModelService::EntryOf(const std::string& model) {
  const auto found = models_.find(model);
  if (found == models_.end()) return NoModel(model);
  return &found->second;
}

absl::StatusOr<ModelService::VersionEntry*> ModelService::EntryOf(const std::string& model,
                                                                  const std::string& version) {
  const absl::StatusOr<ModelEntry*> entry = EntryOf(model);
  if (!entry.ok()) return entry.status();
  const auto found = (*entry)->versions.find(version);
  if (found == (*entry)->versions.end()) return NoVersion(model, version);
  return &found->second;
}

ModelStatus ModelService::StatusOf(const ModelEntry& entry) {
  ModelStatus status{.model = entry.model, .versions = {}};
  for (const auto& [name, version] : entry.versions) {
    status.versions.push_back({.version = version.version,
                               .is_default = name == entry.model.default_version,
                               .is_open = version.served != nullptr,
                               .is_live = FollowsServers(version.version),
                               .age_seconds = version.served ? version.served->predictor->age_seconds() : std::nullopt,
                               .meter = version.meter});
  }
  return status;
}

Operation ModelService::NewOperation(OperationType type, const std::string& model, const std::string& version) {
  const int64_t now = UnixMs();
  return {.name = absl::StrCat("op_", NewSubmissionId()),
          .type = type,
          .model = model,
          .version = version,
          .created_ms = now,
          .ended_ms = type == OperationType::kCreateVersion ? 0 : now};
}

// First on the disk, then here.
absl::Status ModelService::Write(const ModelChanges& changes) {
  if (const absl::Status status = store_->Write(changes); !status.ok()) return status;
  for (const Model& model : changes.models) models_[model.name].model = model;
  for (const ModelVersion& version : changes.versions) models_[version.model].versions[version.name].version = version;
  for (const auto& [model, version] : changes.removed_versions) models_[model].versions.erase(version);
  for (const std::string& name : changes.removed_models) models_.erase(name);
  for (const Model& model : changes.models) Publish(model.name);
  for (const auto& [model, version] : changes.removed_versions) Publish(model);
  for (const std::string& name : changes.removed_models) Publish(name);
  for (const Operation& operation : changes.operations) {
    if (!operations_.contains(operation.name)) newest_operations_.push_back(operation.name);
    operations_[operation.name] = operation;
  }
  while (newest_operations_.size() > static_cast<size_t>(ModelStore::kMostOperations)) {
    operations_.erase(newest_operations_.front());
    newest_operations_.pop_front();
  }
  changed_.notify_all();
  return absl::OkStatus();
}

absl::StatusOr<ModelStatus> ModelService::CreateModel(Model model) {
  const std::lock_guard hold(mutex_);
  if (models_.contains(model.name)) {
    return absl::AlreadyExistsError(absl::StrCat("there is a model ", model.name, " already: choose another name"));
  }
  if (models_.size() >= kMostModels) {
    return absl::ResourceExhaustedError(
        absl::StrCat("a service has at most ", kMostModels, " models: delete one first"));
  }
  model.created_ms = UnixMs();
  if (const absl::Status status = Write({.models = {model}}); !status.ok()) return status;
  return StatusOf(models_[model.name]);
}

absl::StatusOr<ModelStatus> ModelService::Find(const std::string& model) const {
  const std::lock_guard hold(mutex_);
  const auto found = models_.find(model);
  if (found == models_.end()) return NoModel(model);
  return StatusOf(found->second);
}

absl::StatusOr<VersionStatus> ModelService::FindVersion(const std::string& model, const std::string& version) const {
  const absl::StatusOr<ModelStatus> status = Find(model);
  if (!status.ok()) return status.status();
  for (const VersionStatus& one : status->versions) {
    if (one.version.name == version) return one;
  }
  return NoVersion(model, version);
}

std::vector<ModelStatus> ModelService::All() const {
  const std::lock_guard hold(mutex_);
  std::vector<ModelStatus> all;
  for (const auto& [name, entry] : models_) all.push_back(StatusOf(entry));
  return all;
}

absl::StatusOr<Operation> ModelService::UpdateModel(const std::string& model, const ChangeModel& change) {
  const std::lock_guard hold(mutex_);
  const absl::StatusOr<ModelEntry*> entry = EntryOf(model);
  if (!entry.ok()) return entry.status();
  Model changed = (*entry)->model;
  if (const absl::Status status = change(&changed); !status.ok()) return status;
  const Operation operation = NewOperation(OperationType::kUpdateModel, model, "");
  const absl::Status status = Write({.models = {changed}, .operations = {operation}});
  if (!status.ok()) return status;
  return operation;
}

absl::StatusOr<Operation> ModelService::DeleteModel(const std::string& model) {
  const std::lock_guard hold(mutex_);
  const absl::StatusOr<ModelEntry*> entry = EntryOf(model);
  if (!entry.ok()) return entry.status();
  if (!(*entry)->versions.empty()) {
    return absl::FailedPreconditionError(absl::StrCat("the model ", model, " has ",
                                                      Counted((*entry)->versions.size(), "version"),
                                                      ": delete its versions first, the default one last"));
  }
  const Operation operation = NewOperation(OperationType::kDeleteModel, model, "");
  const absl::Status status = Write({.operations = {operation}, .removed_models = {model}});
  if (!status.ok()) return status;
  files_.RemoveModel(model);
  return operation;
}

absl::StatusOr<Operation> ModelService::CreateVersion(ModelVersion version) {
  const std::lock_guard hold(mutex_);
  const absl::StatusOr<ModelEntry*> entry = EntryOf(version.model);
  if (!entry.ok()) return entry.status();
  if ((*entry)->versions.contains(version.name)) {
    return absl::AlreadyExistsError(absl::StrCat("the model ", version.model, " has a version ", version.name,
                                                 " already: choose another name, or delete that one first"));
  }
  size_t count = 0;
  for (const auto& [name, other] : models_) count += other.versions.size();
  if (count >= kMostVersions) {
    return absl::ResourceExhaustedError(
        absl::StrCat("a service has at most ", kMostVersions, " versions: delete one first"));
  }
  version.created_ms = UnixMs();
  const Operation operation = NewOperation(OperationType::kCreateVersion, version.model, version.name);
  const absl::Status status = Write({.versions = {version}, .operations = {operation}});
  if (!status.ok()) return status;
  tasks_.push_back({version.model, version.name, operation.name});
  changed_.notify_all();
  return operation;
}

absl::StatusOr<Operation> ModelService::UpdateVersion(const std::string& model, const std::string& version,
                                                      const ChangeVersion& change) {
  const std::lock_guard hold(mutex_);
  const absl::StatusOr<VersionEntry*> entry = EntryOf(model, version);
  if (!entry.ok()) return entry.status();
  ModelVersion changed = (*entry)->version;
  if (const absl::Status status = change(&changed); !status.ok()) return status;
  const Operation operation = NewOperation(OperationType::kUpdateVersion, model, version);
  const absl::Status status = Write({.versions = {changed}, .operations = {operation}});
  if (!status.ok()) return status;
  return operation;
}

// Code that never comes to its model would hold the version's name for as long as a start may take.
void ModelService::EndStart(const std::string& model, const std::string& version, std::unique_lock<std::mutex>& hold) {
  const auto is_creating = [&] {
    const absl::StatusOr<VersionEntry*> entry = EntryOf(model, version);
    return entry.ok() && (*entry)->version.state == VersionState::kCreating;
  };
  for (const CodeStart& start : code_starts_) {
    if (!is_creating()) return;
    if (start.model != model || start.version != version || !start.predictor) continue;
    start.predictor->instances()->End();
    changed_.wait_for(hold, kEndsWithin, [&] { return !is_creating(); });
    return;  // the list may be another one by now
  }
}

absl::StatusOr<Operation> ModelService::DeleteVersion(const std::string& model, const std::string& version) {
  std::unique_lock hold(mutex_);
  EndStart(model, version, hold);
  const absl::StatusOr<VersionEntry*> found = EntryOf(model, version);
  if (!found.ok()) return found.status();
  ModelEntry& entry = models_[model];
  if ((*found)->version.state == VersionState::kCreating) return NotReady((*found)->version);
  const bool is_default = entry.model.default_version == version;
  if (is_default && entry.versions.size() > 1) {
    return absl::FailedPreconditionError(absl::StrCat("the version ", version, " is the default of ", model,
                                                      ", which has others: make another one the default first"));
  }
  Model changed = entry.model;
  if (is_default) changed.default_version.clear(), ++changed.revision;
  const Operation operation = NewOperation(OperationType::kDeleteVersion, model, version);
  const absl::Status status =
      Write({.models = {changed}, .operations = {operation}, .removed_versions = {{model, version}}});
  if (!status.ok()) return status;
  files_.Remove(model, version);  // those who read it have it in memory
  return operation;
}

absl::StatusOr<VersionStatus> ModelService::SetDefault(const std::string& model, const std::string& version) {
  {
    const std::lock_guard hold(mutex_);
    const absl::StatusOr<VersionEntry*> entry = EntryOf(model, version);
    if (!entry.ok()) return entry.status();
    if ((*entry)->version.state != VersionState::kReady) return NotReady((*entry)->version);
  }
  // One that cannot be opened again does not take the place of one that answers.
  if (const auto served = Take(model, version); !served.ok()) return served.status();
  {
    const std::lock_guard hold(mutex_);
    const absl::StatusOr<ModelEntry*> entry = EntryOf(model);
    if (!entry.ok()) return entry.status();
    if (!(*entry)->versions.contains(version)) return NoVersion(model, version);
    Model changed = (*entry)->model;
    changed.default_version = version;
    ++changed.revision;
    if (const absl::Status status = Write({.models = {changed}}); !status.ok()) return status;
  }
  return FindVersion(model, version);
}

absl::Status ModelService::NoneIsReady(const ModelStatus& model) {
  for (const VersionStatus& one : model.versions) {
    if (one.version.state == VersionState::kCreating) return IsBeingDeployed(model.model.name, one.version.name);
  }
  return absl::FailedPreconditionError(
      absl::StrCat("the model ", model.model.name, " has no version that is ready: deploy one first"));
}

absl::StatusOr<std::string> ModelService::PlaceOf(const std::string& model, const std::string& version) const {
  const absl::StatusOr<ModelStatus> status = Find(model);
  if (!status.ok()) return status.status();
  const std::string& name = version.empty() ? status->model.default_version : version;
  if (name.empty()) return NoneIsReady(*status);
  const absl::StatusOr<VersionStatus> found = FindVersion(model, name);
  if (!found.ok()) return found.status();
  if (found->version.state != VersionState::kReady) return NotReady(found->version);
  if (found->is_live) {
    return absl::FailedPreconditionError(absl::StrCat("the version ", name, " of ", model,
                                                      " follows a job that trains, and has no files to predict ",
                                                      "from: name another version, or deploy the job without --live"));
  }
  return files_.PathOf(model, name, found->version.files);
}

absl::StatusOr<Operation> ModelService::FindOperation(const std::string& name) const {
  return WaitFor(name, std::chrono::milliseconds(0));
}

std::vector<Operation> ModelService::Operations() const {
  const std::lock_guard hold(mutex_);
  std::vector<Operation> all;
  for (auto name = newest_operations_.rbegin(); name != newest_operations_.rend(); ++name) {
    all.push_back(operations_.at(*name));
  }
  return all;
}

absl::StatusOr<Operation> ModelService::WaitFor(const std::string& name, std::chrono::milliseconds most) const {
  std::unique_lock hold(mutex_);
  const auto has_ended = [&] {
    const auto found = operations_.find(name);
    return found == operations_.end() || found->second.ended_ms != 0;
  };
  changed_.wait_for(hold, most, has_ended);
  const auto found = operations_.find(name);
  if (found != operations_.end()) return found->second;
  return absl::NotFoundError(
      absl::StrCat("there is no operation ", Shown(name), ": the newest ", ModelStore::kMostOperations, " are kept"));
}

}  // namespace downpour
