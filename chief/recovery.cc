#include "chief/recovery.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace downpour {

void Recovery::Expect() {
  expecting_ = true;
  for (const Task& task : parts_.members.tasks()) {
    if (task.role != TaskRole::kPs) continue;
    gone_[task.name] = {absl::StrCat(task.name, " did not come back since the chief was started again")};
  }
}

// In order is only an end soon after it was let go: what it takes in while it stays is in no checkpoint.
void Recovery::Lost(const Task& server, const std::string& why) {
  gone_[server.name] = {
      absl::StrCat(server.name, " (host ", server.process.host, ", process ", server.process.pid, ") is gone: ", why),
      server.may_leave() && server.heard < *server.let_go + timing_.dead_after};
}

bool Recovery::here() const {
  const auto& servers = parts_.assignment.servers();
  return std::all_of(servers.begin(), servers.end(), [this](const Assignment::Server& server) {
    const Task* task = parts_.members.Find(server.incarnation);
    return task != nullptr && task->alive();
  });
}

bool Recovery::ReplacementsWait() const {
  const std::vector<Task*> alive = parts_.members.Alive(TaskRole::kPs);
  return std::any_of(alive.begin(), alive.end(),
                     [this](const Task* task) { return !parts_.assignment.IsServer(task->incarnation); });
}

void Recovery::Tick() {
  if (!expecting_ && !parts_.assignment.placed()) return;
  const Duration patience = std::max(job_.timing.server_wait, timing_.dead_after);
  // By name: who came in its place may have left again before the slices were its own.
  for (const Task& task : parts_.members.tasks()) {
    const Duration away = parts_.turn.now - task.heard;
    if (task.role != TaskRole::kPs || task.alive() || away < patience) continue;
    failure_ = absl::UnavailableError(
        absl::StrFormat("%s; nobody came in its place for %.0f s", gone_[task.name].why, Seconds(away)));
    return;
  }
}

void Recovery::Advance() {
  if (!parts_.assignment.placed()) return;
  if (!here()) parts_.rounds.GiveUp("a ps is gone");
  if (!ReplacementsWait()) {
    unusable_since_.reset();
    return;
  }
  if (loading_ || parts_.rounds.active() || parts_.turn.now < next_load_) return;
  loading_ = true;
  parts_.store.Load([this](const absl::Status& status) { Replace(status); });
}

// A checkpoint that cannot be read may be whole, and newer than those that can.
void Recovery::Replace(const absl::Status& checkpoints_loaded) {
  loading_ = false;
  if (!checkpoints_loaded.ok()) return LoadAgain(Words(checkpoints_loaded));
  std::vector<Manifest> checkpoints =
      OfPlan(parts_.store.valid(), job_, parts_.data.shape(), parts_.journal.record().given_up);
  if (const absl::Status status = Judge(checkpoints); !status.ok()) return LoadAgain(Words(status));
  for (const CheckpointStore::Damaged& damaged : parts_.store.damaged()) parts_.failures.Add("chief", damaged.why);
  const std::vector<Task*> servers = parts_.members.Alive(TaskRole::kPs);
  for (const Task* task : servers) {
    if (!parts_.assignment.IsServer(task->incarnation)) Count(*task);
  }
  parts_.assignment.Replace(servers, std::move(checkpoints));
}

// Initial values where a checkpoint is known to be would lose the training in silence.
absl::Status Recovery::Judge(const std::vector<Manifest>& checkpoints) const {
  const JobRecord& record = parts_.journal.record();
  const Round newest = std::max(record.newest, parts_.store.newest());
  if (!checkpoints.empty() || newest <= record.given_up) return absl::OkStatus();
  return absl::DataLossError(parts_.store.WhyNot(newest));
}

void Recovery::LoadAgain(const std::string& why) {
  const Time now = parts_.turn.now;
  next_load_ = now + timing_.dead_after;
  if (!unusable_since_) {
    unusable_since_ = now;
    parts_.failures.Add("chief", absl::StrCat("slices wait for checkpoints: ", why));
  }
  const Duration waited = now - *unusable_since_;
  if (waited < job_.timing.server_wait) return;
  failure_ = absl::DataLossError(absl::StrFormat("no checkpoint can be used for %.0f s: %s", Seconds(waited), why));
}

void Recovery::Count(const Task& successor) {
  const Gone& gone = gone_[successor.name];
  parts_.turn.out.Info(absl::StrCat(successor.name, " (process ", successor.process.pid, " on ", successor.process.host,
                                    ") takes over its slices; ", gone.why));
  if (gone.in_order) return;
  ++parts_.journal.toll().servers_lost;
  Losses& losses = losses_[successor.name];
  if (const uint64_t commits = parts_.ledger.commits(); losses.commits != commits) {
    losses = {};
    losses.commits = commits;
  }
  if (losses.count++ == 0) losses.first = gone.why;
  if (losses.count < kMostLosses) return;
  failure_ = absl::UnavailableError(absl::StrCat(losses.count, " processes in a row ended as ", successor.name,
                                                 " while no lease was committed. The first: ", losses.first));
}

}  // namespace downpour
