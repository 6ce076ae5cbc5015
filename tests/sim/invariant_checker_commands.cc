// What people told the chief, held against what it does about it.
#include <utility>

#include "absl/strings/str_cat.h"
#include "chief/folder/journal.h"
#include "tests/sim/invariant_checker.h"

namespace downpour {

// A number of workers is in the journal before anything rests on it, and no later chief has another.
void InvariantChecker::CheckWorkers(const Process& process) {
  const ChiefRole& chief = *process.chief;
  if (chief.term() == 0) return;
  const auto means = [this](uint32_t journalled) {
    return journalled == 0 ? oracle_->job().cluster.worker_count : int64_t{journalled};
  };
  if (chief.worker_count() != means(workers_) && chief.worker_count() != means(workers_before_)) {
    Add(process, absl::StrCat("wants ", chief.worker_count(), " workers, and the journal says ", workers_));
  }
  if (chief.commands() > commands_[process.life]) {
    const bool is_next = command_.has_value() && command_->term == chief.term() &&
                         command_->number == chief.commands() && chief.commands() == commands_[process.life] + 1;
    if (is_next && command_->secret != kSecret) Add(process, "obeys one that does not know its secret");
    if (!is_next) Add(process, "obeys a command that is for another chief, or was overtaken");
    if (is_next && !obeyed_.emplace(process.life, command_->nonce).second) {
      Add(process, "obeys a command twice, since it was numbered again");
    }
    commands_[process.life] = chief.commands();
  }
  command_.reset();
}

// A chief may go by the number of before until it hears that the journal has the new one: that takes some steps, or as
// long as a write is repeated that failed in its end. One that begins reads it.
void InvariantChecker::OnJournalled(const JobRecord& record) {
  if (std::exchange(chiefs_, record.chiefs) != record.chiefs) {
    workers_before_ = record.workers;
  } else if (record.workers != workers_) {
    workers_before_ = workers_;
  }
  workers_ = record.workers;
  ends_after_ = record.early.epochs;
}

uint64_t InvariantChecker::goal() const {
  return ends_after_ == 0 ? LeasesOfJob() : oracle_->plan().EpochBegin(ends_after_);
}

uint64_t InvariantChecker::LeasesOfJob() const {
  return oracle_->plan().EpochBegin(static_cast<uint64_t>(world_->plan().job.training.epochs));
}

void InvariantChecker::Check(const Process& process, PeerId, const ControlReply& reply) {
  const bool declines = reply.verdict != ControlVerdict::kAccepted;
  if (declines && obeyed_.contains({process.life, reply.nonce})) Add(process, "declines a command that it obeys");
  if (declines || process.chief->state() >= JobState::kSucceeded) return;
  if (process.chief->state() == JobState::kCancelling) return;
  // A first answer tells of what the journal has now. One that is said again may come while the next number is on its
  // way into the chief, which goes by the one before until then.
  const bool again = !answered_.emplace(process.life, reply.nonce).second;
  if (asked_for_[reply.nonce] == ControlKind::kCheckpoint) {
    const Round newest = committed_at_start_.empty() ? Round() : committed_at_start_.rbegin()->first;
    if (!again) owed_ = {process.life, newest};
    return;
  }
  const int64_t wanted = process.chief->worker_count();
  if (again && wanted == int64_t{workers_before_}) return;
  if (workers_ == 0 || wanted != int64_t{workers_}) {
    Add(process, "accepts a number of workers that its journal does not have");
  }
}

}  // namespace downpour
