#include "chief/departures.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

namespace downpour {

void Departures::Tick() {
  const auto& durable = chief_.rounds.durable();
  const bool others_wait = waiting_;
  any_ = waiting_ = under_way_ = false;
  std::vector<Task*> saved;
  for (Task* server : chief_.members.Alive(TaskRole::kPs)) {
    if (server->leaving.empty()) continue;
    any_ |= !server->may_leave() || chief_.context.now < *server->let_go + chief_.timing.dead_after;
    if (server->may_leave()) continue;
    if (!server->leaves_after) NoteLeaving(*server, others_wait);
    if (HasNothing(*server)) {
      LetGo(*server);
    } else if (durable && durable->round > *server->leaves_after) {
      saved.push_back(server);
    } else {
      waiting_ = true;
      under_way_ |= chief_.rounds.active() && chief_.rounds.newest() > *server->leaves_after;
    }
  }
  for (Task* server : saved) {
    if (waiting_ && HasTime(*server)) continue;
    LetGo(*server);
  }
  const std::string before = std::exchange(blocked_by_, waiting_ ? BlockedBy() : "");
  if (blocked_by_ != before && !blocked_by_.empty()) {
    chief_.context.out.Warn("a ps that was told to stop stays, to be let go: " + blocked_by_);
  }
}

void Departures::Clear() {
  any_ = waiting_ = under_way_ = false;
  blocked_by_.clear();
}

// To stay for others: a round of theirs.
bool Departures::HasTime(const Task& server) const {
  return chief_.context.now + chief_.timing.dead_after < server.leaving_since + kPsLeavesWithin;
}

// At once: what it counts from now on is computed again.
void Departures::LetGo(Task& server) {
  server.let_go = chief_.context.now;
  chief_.context.out.SendTo(server.control, HeartbeatReply{.may_leave = true, .to = server.incarnation});
}

// The words of those that are told at once are all here within a heartbeat. A round that is due for others is not put
// off by one more word.
void Departures::NoteLeaving(Task& server, bool others_wait) {
  server.leaves_after = chief_.rounds.newest();
  const Time soon = chief_.context.now + chief_.timing.heartbeat;
  if ((next_round_ <= chief_.context.now && !others_wait) || next_round_ > soon) next_round_ = soon;
}

// A round needs the ps of every slice.
std::string Departures::BlockedBy() const {
  for (const auto& [id, server] : chief_.placement.servers()) {
    const Task& task = *chief_.members.FindNamed(server.name);
    if (!task.alive()) return absl::StrCat("no checkpoint can be made while ", task.name, " is gone");
    if (task.incarnation != id.incarnation || chief_.restore.MissingOf(id).slices != 0) {
      return absl::StrCat("no checkpoint can be made before ", task.name, " has its slices");
    }
  }
  return "";
}

bool Departures::round_due() const { return waiting_ && !under_way_ && chief_.context.now >= next_round_; }

void Departures::RoundBegins() {
  under_way_ = true;
  next_round_ = chief_.context.now + chief_.timing.dead_after;
}

// That was trained since a checkpoint: it came with nothing, and has no slice, or no worker was told of any yet.
bool Departures::HasNothing(const Task& server) const {
  const ServerId* holder = chief_.placement.Find(server.incarnation);
  if (holder != nullptr && chief_.placement.At(*holder).slices.empty()) return true;
  return !server.holds && (holder == nullptr || !chief_.ledger.is_open());
}

}  // namespace downpour
