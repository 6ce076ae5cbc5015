// Versions of jobs that are being trained: how they follow a job's servers, and what takes their place when it ends.

#include <iostream>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "service/model_service.h"

namespace downpour {

bool ModelService::FollowsServers(const ModelVersion& version) {
  return IsLiveOrigin(version.origin) && version.files.empty();
}

void ModelService::AddEnd(const ModelVersion& version, const LiveEnd& end,
                          std::chrono::steady_clock::time_point not_before) {
  const std::lock_guard hold(mutex_);
  tasks_.push_back(
      {.model = version.model, .version = version.name, .operation = "", .end = end, .not_before = not_before});
  changed_.notify_all();
}

void ModelService::OpenLive(const ModelVersion& version, uint64_t run, const OnOpened& on_opened) {
  LiveEvents events{.on_first = on_opened, .on_end = [this, version](const LiveEnd& end) { AddEnd(version, end); }};
  absl::StatusOr<std::unique_ptr<LiveFeed>> feed = LiveFeed::Open(version.found, {.run = run}, std::move(events));
  if (!feed.ok()) return on_opened(feed.status());
  std::list<std::unique_ptr<LiveFeed>> ended;  // behind the lock, which their threads may wait for
  const std::lock_guard hold(mutex_);
  for (auto it = feeds_.begin(); it != feeds_.end();) {
    const auto next = std::next(it);
    if ((*it)->has_ended()) ended.splice(ended.end(), feeds_, it);
    it = next;
  }
  if (ends_) (*feed)->Stop();
  feeds_.push_back(*std::move(feed));
}

// Meanwhile the last values answer.
void ModelService::FollowAgain(const ModelVersion& version, uint64_t run) {
  OpenLive(version, run, [this, version, run](const Opened& opened) {
    if (opened.ok()) return OnOpenedAgain(version, opened);
    AddEnd(version, {.why = opened.status(), .run = run}, std::chrono::steady_clock::now() + kPause);
  });
}

// Where there is no checkpoint, its last values go on answering, until this service ends.
void ModelService::EndLive(const Task& task) {
  std::unique_lock hold(mutex_);
  const absl::StatusOr<VersionEntry*> before = EntryOf(task.model, task.version);
  if (!before.ok() || !FollowsServers((*before)->version)) return;  // it was deleted meanwhile
  const ModelVersion version = (*before)->version;
  const bool is_open = (*before)->served != nullptr;
  hold.unlock();
  const bool is_over = IsLiveJobOver(version.found);
  if (is_open && !is_over && absl::IsUnavailable(task.end->why)) {
    // As where its chief could not be dialled for a while.
    std::cerr << absl::StrCat("the job service: the version ", version.name, " of ", version.model,
                              " is to follow its job again: ", std::string(task.end->why.message()), "\n");
    return FollowAgain(version, task.end->run);
  }
  const Opened opened = is_open || is_over ? TakeOver(version) : Opened(task.end->why);
  if (opened.ok() || !is_open) return OnOpenedAgain(version, opened);
  std::cerr << absl::StrCat(
      "the job service: the version ", version.name, " of ", version.model,
      " answers by the last values of its job, which has ended: ", std::string(opened.status().message()), "\n");
}

ModelService::Opened ModelService::TakeOver(const ModelVersion& version) {
  ModelVersion pinned = version;
  if (absl::Status status = Pin(&pinned); !status.ok()) return status;
  if (pinned.files.empty()) return absl::FailedPreconditionError("another run of its job is in the job's folder");
  Opened opened = absl::UnavailableError("");
  OpenPinned(pinned, [&opened](const Opened& now) { opened = now; });  // of a job file's model: before it returns
  if (!opened.ok()) return opened;
  const std::lock_guard hold(mutex_);
  const absl::StatusOr<VersionEntry*> entry = EntryOf(version.model, version.name);
  if (!entry.ok() || (*entry)->version.created_ms != version.created_ms) {
    return absl::NotFoundError("the version was deleted");
  }
  ModelVersion changed = (*entry)->version;  // its labels may be others by now
  ++changed.revision;
  changed.files = pinned.files;
  changed.found = pinned.found;
  if (absl::Status status = Write({.versions = {changed}}); !status.ok()) return status;
  return opened;
}

}  // namespace downpour
