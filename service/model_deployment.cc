// How versions come to answer: they are pinned, opened and warmed up, on threads of the service's own.

#include <algorithm>
#include <iostream>

#include "absl/strings/str_cat.h"
#include "predict/open_predictor.h"
#include "runtime/posix/process.h"
#include "service/model_service.h"
#include "service/prediction_bounds.h"

namespace downpour {
namespace {

// As one of Google's long-running operations tells it. What the disk or a peer refuses keeps its kind.
absl::Status WhyNotDeployed(const ModelVersion& version, const absl::Status& status) {
  return absl::Status(status.code(), absl::StrCat("the version ", version.name, " of ", version.model,
                                                  " cannot answer: ", std::string(status.message())));
}

}  // namespace

absl::Status ModelService::Pin(ModelVersion* version) const {
  const absl::StatusOr<FoundOrigin> origin = FindOrigin(version->origin, look_up_);
  if (!origin.ok()) return origin.status();
  if (origin->is_live && !IsLiveJobOver(origin->path)) {
    version->found = origin->path;
    return absl::OkStatus();
  }
  const absl::StatusOr<PinnedFiles> pinned = files_.Pin(*origin, version->model, version->name);
  if (!pinned.ok()) return pinned.status();
  version->files = pinned->files;
  version->found = pinned->found;
  return absl::OkStatus();
}

void ModelService::OpenPinned(const ModelVersion& version, const OnOpened& on_opened) {
  if (FollowsServers(version)) return OpenLive(version, /*run=*/0, on_opened);
  PredictorOptions options{.python = python_};
  options.python.log = files_.PathOf(version.model, version.name, kPythonLog);
  Opened predictor = OpenPredictor(files_.PathOf(version.model, version.name, version.files), options);
  if (predictor.ok() && (*predictor)->instances() != nullptr)
    return StartCode(version, *std::move(predictor), on_opened);
  if (predictor.ok()) {
    if (absl::Status warm = WarmUp(**predictor); !warm.ok()) predictor = std::move(warm);
  }
  on_opened(std::move(predictor));
}

void ModelService::StartCode(const ModelVersion& version, std::shared_ptr<const Predictor> predictor,
                             const OnOpened& on_opened) {
  const std::lock_guard hold(mutex_);
  for (CodeStart& start : code_starts_) {
    if (start.has_ended) start.thread.join();  // it needs the lock no more
  }
  code_starts_.remove_if([](const CodeStart& start) { return start.has_ended; });
  if (ends_) predictor->instances()->End();
  CodeStart& start = code_starts_.emplace_back(
      CodeStart{.model = version.model, .version = version.name, .predictor = std::move(predictor)});
  start.thread = std::thread([this, &start, on_opened] {
    absl::Status warm = WarmUp(*start.predictor);
    on_opened(warm.ok() ? Opened(start.predictor) : Opened(std::move(warm)));
    std::shared_ptr<const Predictor> ended;  // behind the lock: its processes may end with it
    const std::lock_guard held(mutex_);
    ended = std::move(start.predictor);
    start.has_ended = true;
  });
}

absl::Status ModelService::IsBeingDeployed(const std::string& model, const std::string& version) {
  return absl::UnavailableError(absl::StrCat("the version ", version, " of ", model, " is being deployed: ask again"));
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
  if (const absl::Status status = Pin(&version); !status.ok()) return FinishDeployment(task, version, status);
  // What will be opened after the next start, too.
  OpenPinned(version, [this, task, version](const Opened& opened) { FinishDeployment(task, version, opened); });
}

void ModelService::FinishDeployment(const Task& task, const ModelVersion& pinned, const Opened& opened) {
  const std::lock_guard hold(mutex_);
  if (ends_ && !opened.ok()) return;  // perhaps for that reason: the next service takes it up
  if (!opened.ok()) files_.Remove(pinned.model, pinned.name);
  const absl::StatusOr<VersionEntry*> entry = EntryOf(task.model, task.version);
  if (!entry.ok()) return;
  ModelVersion changed = (*entry)->version;  // its labels may be others by now
  ++changed.revision;
  Operation operation = operations_[task.operation];
  operation.ended_ms = UnixMs();
  Model model = models_[task.model].model;
  if (opened.ok()) {
    changed.state = VersionState::kReady;
    changed.files = pinned.files;
    changed.found = pinned.found;
    if (model.default_version.empty()) model.default_version = changed.name, ++model.revision;
  } else {
    changed.state = VersionState::kFailed;
    operation.status = WhyNotDeployed(changed, opened.status());
    changed.error = std::string(opened.status().message());
  }
  const absl::Status status = Write({.models = {model}, .versions = {changed}, .operations = {operation}});
  if (status.ok()) {
    if (opened.ok()) (*entry)->served = Serve(models_[task.model], **entry, *opened);
    Publish(task.model);
    return;
  }
  std::cerr << absl::StrCat("the job service: ", std::string(status.message()), "; the deployment is tried again\n");
  tasks_.push_back(task);
  changed_.notify_all();
}

void ModelService::Work() {
  std::unique_lock hold(mutex_);
  for (;;) {
    if (ends_) return;  // what is left is taken up by the next service
    const auto next = std::ranges::min_element(tasks_, {}, &Task::not_before);  // the first of several
    if (next == tasks_.end()) {
      changed_.wait(hold);
      continue;
    }
    if (next->not_before > std::chrono::steady_clock::now()) {
      changed_.wait_until(hold, next->not_before);
      continue;
    }
    const Task task = *next;
    tasks_.erase(next);
    if (task.end) {
      hold.unlock();
      EndLive(task);
      hold.lock();
      continue;
    }
    if (task.operation.empty()) {
      OpenNow(task.model, task.version, hold);
      continue;
    }
    hold.unlock();
    Deploy(task);
    hold.lock();
  }
}

void ModelService::OpenAll() {
  const std::lock_guard hold(mutex_);
  for (auto& [name, entry] : models_) {
    for (auto& [version_name, version] : entry.versions) {
      if (version.version.state != VersionState::kReady) continue;
      // The defaults first, and before what is yet to be deployed: others ask for them now.
      const bool is_default = version_name == entry.model.default_version;
      is_default ? tasks_.push_front({name, version_name}) : tasks_.push_back({name, version_name});
      version.is_awaited = true;
    }
  }
  changed_.notify_all();
}

bool ModelService::IsOpen() const {
  const std::lock_guard hold(mutex_);
  return std::ranges::none_of(models_, [](const auto& model) {
    return std::ranges::any_of(model.second.versions, [](const auto& version) { return version.second.is_awaited; });
  });
}

// Of a version that is ready. The lock is not held meanwhile.
void ModelService::OpenNow(const std::string& model, const std::string& version, std::unique_lock<std::mutex>& hold) {
  const absl::StatusOr<VersionEntry*> before = EntryOf(model, version);
  if (!before.ok() || (*before)->served || (*before)->is_being_opened) return;
  (*before)->is_being_opened = true;
  const ModelVersion record = (*before)->version;
  hold.unlock();
  if (FollowsServers(record) && HasLiveJobEnded(record.found)) {  // while no service ran
    OnOpenedAgain(record, TakeOver(record));
  } else {
    OpenPinned(record, [this, record](const Opened& opened) {
      // A job of which nothing is at work may be about to be started again, as behind a boot. Its feed has waited.
      const bool is_over = FollowsServers(record) && absl::IsNotFound(opened.status());
      is_over ? AddEnd(record, {.why = opened.status()}) : OnOpenedAgain(record, opened);
    });
  }
  hold.lock();
}

void ModelService::OnOpenedAgain(const ModelVersion& version, const Opened& opened) {
  const std::lock_guard hold(mutex_);
  const absl::StatusOr<VersionEntry*> entry = EntryOf(version.model, version.name);
  if (entry.ok() && (*entry)->version.created_ms == version.created_ms) {
    (*entry)->is_being_opened = (*entry)->is_awaited = false;
    (*entry)->why_not_open = opened.ok() ? absl::OkStatus() : WhyNotDeployed(version, opened.status());
    (*entry)->open_again_at = std::chrono::steady_clock::now() + kPause;
    if (opened.ok()) (*entry)->served = Serve(models_[version.model], **entry, *opened);
    Publish(version.model);
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
    if (ends_) return ServiceEnds();
    if (name.empty()) return NoneIsReady(StatusOf(**found));
    const absl::StatusOr<VersionEntry*> entry = EntryOf(model, name);
    if (!entry.ok()) return entry.status();
    if ((*entry)->served) return (*entry)->served;
    if ((*entry)->version.state == VersionState::kCreating) return IsBeingDeployed(model, name);
    if ((*entry)->version.state != VersionState::kReady) {
      return absl::FailedPreconditionError(absl::StrCat("the version ", name, " of ", model, " is ",
                                                        NameOf((*entry)->version.state),
                                                        " and cannot answer: ", (*entry)->version.error));
    }
    if (!(*entry)->is_being_opened) {
      const bool may_open = std::chrono::steady_clock::now() >= (*entry)->open_again_at;
      if (!may_open && !(*entry)->why_not_open.ok()) return (*entry)->why_not_open;
      OpenNow(model, name, hold);
    } else if (changed_.wait_until(hold, until) == std::cv_status::timeout) {
      return absl::UnavailableError(absl::StrCat("the version ", name, " of ", model, " is being opened: ask again"));
    }
  }
}

}  // namespace downpour
