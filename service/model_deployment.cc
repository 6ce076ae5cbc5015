// How versions come to answer: they are pinned, opened and warmed up, on a thread of the service's own.

#include <iostream>

#include "absl/strings/str_cat.h"
#include "predict/open_predictor.h"
#include "runtime/posix/process.h"
#include "service/model_service.h"

namespace downpour {
namespace {

// As one of Google's long-running operations tells it. What the disk or a peer refuses keeps its kind.
absl::Status WhyNotDeployed(const ModelVersion& version, const absl::Status& status) {
  return absl::Status(status.code(), absl::StrCat("the version ", version.name, " of ", version.model,
                                                  " cannot answer: ", std::string(status.message())));
}

}  // namespace

absl::StatusOr<std::shared_ptr<const Predictor>> ModelService::OpenPinned(const ModelVersion& version) const {
  PredictorOptions options{.python = python_};
  options.python.log = files_.PathOf(version.model, version.name, kPythonLog);
  absl::StatusOr<std::shared_ptr<const Predictor>> predictor =
      OpenPredictor(files_.PathOf(version.model, version.name, version.files), options);
  if (!predictor.ok()) return predictor.status();
  if (const absl::Status warm = WarmUp(**predictor); !warm.ok()) return warm;
  return predictor;
}

absl::StatusOr<std::shared_ptr<const Predictor>> ModelService::PinAndOpen(ModelVersion* version) const {
  const absl::StatusOr<FoundOrigin> origin = FindOrigin(version->origin, look_up_);
  if (!origin.ok()) return origin.status();
  const absl::StatusOr<PinnedFiles> pinned = files_.Pin(*origin, version->model, version->name);
  if (!pinned.ok()) return pinned.status();
  version->files = pinned->files;
  version->found = pinned->found;
  return OpenPinned(*version);  // what will be opened after the next start, too
}

std::shared_ptr<const ServedVersion> ModelService::Serve(const ModelEntry& model, const VersionEntry& version,
                                                         std::shared_ptr<const Predictor> predictor) const {
  return std::make_shared<ServedVersion>(ServedVersion{.model = model.model.name,
                                                       .version = version.version.name,
                                                       .predictor = std::move(predictor),
                                                       .meter = version.meter,
                                                       .logs_requests = model.model.logs_requests});
}

void ModelService::Deploy(const Task& task) {
  std::unique_lock hold(mutex_);
  const absl::StatusOr<VersionEntry*> before = EntryOf(task.model, task.version);
  if (!before.ok()) return;  // a version that is being created cannot be deleted: its store was changed by hand
  ModelVersion version = (*before)->version;
  hold.unlock();
  const absl::StatusOr<std::shared_ptr<const Predictor>> predictor = PinAndOpen(&version);
  if (!predictor.ok()) files_.Remove(version.model, version.name);
  hold.lock();
  const absl::StatusOr<VersionEntry*> entry = EntryOf(task.model, task.version);
  if (!entry.ok()) return;
  ModelVersion changed = (*entry)->version;  // its labels may be others by now
  ++changed.revision;
  Operation operation = operations_[task.operation];
  operation.ended_ms = UnixMs();
  Model model = models_[task.model].model;
  if (predictor.ok()) {
    changed.state = VersionState::kReady;
    changed.files = version.files;
    changed.found = version.found;
    if (model.default_version.empty()) model.default_version = changed.name, ++model.revision;
  } else {
    changed.state = VersionState::kFailed;
    operation.status = WhyNotDeployed(changed, predictor.status());
    changed.error = std::string(predictor.status().message());
  }
  const absl::Status status = Write({.models = {model}, .versions = {changed}, .operations = {operation}});
  if (status.ok()) {
    if (predictor.ok()) (*entry)->served = Serve(models_[task.model], **entry, *predictor);
    Publish(task.model);
    return;
  }
  std::cerr << absl::StrCat("the job service: ", std::string(status.message()), "; the deployment is tried again\n");
  tasks_.push_back(task);
}

void ModelService::Work() {
  std::unique_lock hold(mutex_);
  for (;;) {
    changed_.wait(hold, [&] { return ends_ || !tasks_.empty(); });
    if (ends_) return;  // what is left is taken up by the next service
    const Task task = tasks_.front();
    tasks_.pop_front();
    if (task.operation.empty()) {
      OpenNow(task.model, task.version, hold);
      --to_open_;
      continue;
    }
    hold.unlock();
    Deploy(task);
    hold.lock();
  }
}

void ModelService::OpenAll() {
  const std::lock_guard hold(mutex_);
  for (const auto& [name, entry] : models_) {
    for (const auto& [version_name, version] : entry.versions) {
      if (version.version.state != VersionState::kReady) continue;
      // The defaults first, and before what is yet to be deployed: others ask for them now.
      const bool is_default = version_name == entry.model.default_version;
      is_default ? tasks_.push_front({name, version_name}) : tasks_.push_back({name, version_name});
      ++to_open_;
    }
  }
  changed_.notify_all();
}

bool ModelService::IsOpen() const {
  const std::lock_guard hold(mutex_);
  return to_open_ == 0;
}

// Of a version that is ready. The lock is not held meanwhile.
void ModelService::OpenNow(const std::string& model, const std::string& version, std::unique_lock<std::mutex>& hold) {
  const absl::StatusOr<VersionEntry*> before = EntryOf(model, version);
  if (!before.ok() || (*before)->served || (*before)->is_being_opened) return;
  (*before)->is_being_opened = true;
  const ModelVersion record = (*before)->version;
  hold.unlock();
  absl::StatusOr<std::shared_ptr<const Predictor>> predictor = OpenPinned(record);
  hold.lock();
  const absl::StatusOr<VersionEntry*> entry = EntryOf(model, version);
  if (entry.ok() && (*entry)->version.created_ms == record.created_ms) {
    (*entry)->is_being_opened = false;
    (*entry)->why_not_open = predictor.ok() ? absl::OkStatus() : WhyNotDeployed(record, predictor.status());
    if (predictor.ok()) (*entry)->served = Serve(models_[model], **entry, *std::move(predictor));
    Publish(model);
  }
  changed_.notify_all();
}

void ModelService::Publish(const std::string& model) {
  OpenVersions open;
  if (const auto found = models_.find(model); found != models_.end()) {
    open.default_version = found->second.model.default_version;
    for (const auto& [name, version] : found->second.versions) {
      if (version.served) open.versions[name] = version.served;
    }
  }
  const std::lock_guard hold(open_mutex_);
  OpenVersions& now = open_[model];
  std::swap(now, open);  // what nobody asks for any more ends behind the lock
  if (now.versions.empty()) open_.erase(model);
}

std::shared_ptr<const ServedVersion> ModelService::TakeOpen(const std::string& model,
                                                            const std::string& version) const {
  const std::lock_guard hold(open_mutex_);
  const auto found = open_.find(model);
  if (found == open_.end()) return nullptr;
  const auto served = found->second.versions.find(version.empty() ? found->second.default_version : version);
  return served == found->second.versions.end() ? nullptr : served->second;
}

absl::StatusOr<std::shared_ptr<const ServedVersion>> ModelService::Take(const std::string& model,
                                                                        const std::string& version) {
  if (std::shared_ptr<const ServedVersion> served = TakeOpen(model, version)) return served;
  const auto until = std::chrono::steady_clock::now() + kPatience;
  std::unique_lock hold(mutex_);
  for (;;) {
    const absl::StatusOr<ModelEntry*> found = EntryOf(model);
    if (!found.ok()) return found.status();
    const std::string name = version.empty() ? (*found)->model.default_version : version;
    if (name.empty()) return NoneIsReady(model);
    const absl::StatusOr<VersionEntry*> entry = EntryOf(model, name);
    if (!entry.ok()) return entry.status();
    if ((*entry)->served) return (*entry)->served;
    if ((*entry)->version.state != VersionState::kReady) {
      return absl::FailedPreconditionError(
          absl::StrCat("the version ", name, " of ", model, " is ", NameOf((*entry)->version.state),
                       " and cannot answer ", (*entry)->version.error.empty() ? "yet" : (*entry)->version.error));
    }
    if (!(*entry)->is_being_opened) {
      OpenNow(model, name, hold);
      const absl::StatusOr<VersionEntry*> now = EntryOf(model, name);
      if (now.ok() && !(*now)->why_not_open.ok()) return (*now)->why_not_open;
    } else if (changed_.wait_until(hold, until) == std::cv_status::timeout) {
      return absl::UnavailableError(absl::StrCat("the version ", name, " of ", model, " is being opened: ask again"));
    }
  }
}

}  // namespace downpour
