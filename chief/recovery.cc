#include "chief/recovery.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace downpour {

void Recovery::Expect(int64_t servers) {
  expecting_ = true;
  servers_before_ = servers;
  for (const Task& task : chief_.members.tasks()) {
    if (task.role != TaskRole::kPs) continue;
    gone_[task.name] = {absl::StrCat(task.name, " did not come back since the chief was started again")};
  }
}

void Recovery::Placed() {
  const bool ran_before = expecting_ && chief_.journal.batches_committed() > 0;
  if (!ran_before) return;
  for (const Task* server : chief_.members.Alive(TaskRole::kPs)) {
    if (server->holds || server->index >= servers_before_) continue;
    ++chief_.journal.costs().servers_lost;
    chief_.failures.Add(server->name, "its process ended while no chief was there; another one is in its place");
  }
}

// In order is only an end soon after it was let go: what it takes in while it stays is in no checkpoint.
void Recovery::Lost(const Task& server, const std::string& why) {
  gone_[server.name] = {
      absl::StrCat(server.name, " (host ", server.process.host, ", process ", server.process.pid, ") is gone: ", why),
      server.may_leave() && server.heard < *server.let_go + chief_.timing.dead_after};
}

// Both are asked with each message: with 600 ps a look for each of them among all would be all that a chief does.
bool Recovery::here() const {
  const std::vector<Incarnation> servers = Servers(), alive = AliveServers();
  return std::includes(alive.begin(), alive.end(), servers.begin(), servers.end());
}

bool Recovery::ReplacementsWait() const {
  const std::vector<Incarnation> servers = Servers(), alive = AliveServers();
  return !std::includes(servers.begin(), servers.end(), alive.begin(), alive.end());
}

std::vector<Incarnation> Recovery::Servers() const {
  std::vector<Incarnation> servers;
  for (const auto& [id, server] : chief_.placement.servers()) servers.push_back(id.incarnation);
  std::sort(servers.begin(), servers.end());
  return servers;
}

std::vector<Incarnation> Recovery::AliveServers() const {
  std::vector<Incarnation> alive;
  for (const Task* task : chief_.members.Alive(TaskRole::kPs)) alive.push_back(task->incarnation);
  std::sort(alive.begin(), alive.end());
  return alive;
}

void Recovery::Tick() {
  if (!expecting_ && !chief_.placement.placed()) return;
  const Duration patience = std::max(chief_.job.timing.server_wait, chief_.timing.dead_after);
  // By name: who came in its place may have left again before the slices were its own.
  for (const Task& task : chief_.members.tasks()) {
    const Duration away = chief_.context.now - task.heard;
    // B11: silence alone only ends the job at last; it takes no slice away.
    if (task.role != TaskRole::kPs || task.alive() || away < patience) continue;
    failure_ = absl::UnavailableError(
        absl::StrFormat("%s; nobody came in its place for %.0f s", gone_[task.name].why, Seconds(away)));
    return;
  }
}

void Recovery::Advance() {
  if (!chief_.placement.placed()) return;
  // A4: the slices that come back may lack what the round calls committed.
  if (!here()) chief_.rounds.LoseAPs();
  if (!ReplacementsWait()) {
    unusable_since_.reset();
    return;
  }
  // A manifest being written may become the newest checkpoint: its end is waited for.
  if (loading_ || chief_.rounds.active() || chief_.context.now < next_load_) return;
  loading_ = true;
  chief_.store.Load([this](const absl::Status& status) { TakeOver(status); });
}

// A checkpoint that cannot be read may be whole, and newer than those that can.
void Recovery::TakeOver(const absl::Status& checkpoints_loaded) {
  loading_ = false;
  if (!checkpoints_loaded.ok()) return LoadAgain(MessageOf(checkpoints_loaded));
  std::vector<Manifest> checkpoints =
      OfPlan(chief_.store.valid(), chief_.job, chief_.data.shape(), chief_.journal.record().abandoned);
  if (const absl::Status status = Validate(checkpoints); !status.ok()) return LoadAgain(MessageOf(status));
  for (const CheckpointStore::Damaged& damaged : chief_.store.damaged()) chief_.failures.Add("chief", damaged.why);
  const std::vector<Task*> servers = chief_.members.Alive(TaskRole::kPs);
  for (const Task* task : servers) {
    if (chief_.placement.Find(task->incarnation) == nullptr) Count(*task);
  }
  chief_.assignment.TakeOver(servers, std::move(checkpoints));
}

// Initial values where a checkpoint is known to be would lose the training in silence.
absl::Status Recovery::Validate(const std::vector<Manifest>& checkpoints) const {
  const JobRecord& record = chief_.journal.record();
  const Round newest = std::max(record.newest, chief_.store.newest());
  if (!checkpoints.empty() || newest <= record.abandoned) return absl::OkStatus();
  return absl::DataLossError(chief_.store.WhyNot(newest));
}

void Recovery::LoadAgain(const std::string& why) {
  const Time now = chief_.context.now;
  next_load_ = now + chief_.timing.dead_after;
  if (!unusable_since_) {
    unusable_since_ = now;
    chief_.failures.Add("chief", absl::StrCat("slices wait for checkpoints: ", why));
  }
  const Duration waited = now - *unusable_since_;
  if (waited < chief_.job.timing.server_wait) return;
  failure_ = absl::DataLossError(absl::StrFormat("no checkpoint can be used for %.0f s: %s", Seconds(waited), why));
}

void Recovery::Count(const Task& successor) {
  const Gone& gone = gone_[successor.name];
  chief_.context.out.Info(absl::StrCat(successor.name, " (process ", successor.process.pid, " on ",
                                       successor.process.host, ") takes over its slices; ", gone.why));
  if (gone.in_order) return;
  ++chief_.journal.costs().servers_lost;
  Losses& losses = losses_[successor.name];
  if (const uint64_t commits = chief_.ledger.commits(); losses.commits != commits) {
    losses = {};
    losses.commits = commits;
  }
  if (losses.count++ == 0) losses.first = gone.why;
  if (losses.count < kMostLosses) return;
  failure_ = absl::UnavailableError(absl::StrCat(losses.count, " processes in a row ended as ", successor.name,
                                                 " while no lease was committed. The first: ", losses.first));
}

}  // namespace downpour
