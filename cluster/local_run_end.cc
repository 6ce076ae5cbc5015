// How a run ends: by a signal, by what it gives up for, or as its chief says.
#include <zmq.h>

#include <algorithm>
#include <csignal>
#include <fstream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "cluster/human_units.h"
#include "cluster/job_folder.h"
#include "cluster/local_run.h"
#include "cluster/poll_timeout.h"
#include "runtime/exit_code.h"
#include "runtime/log_line.h"
#include "runtime/options.h"
#include "runtime/posix/process.h"
#include "runtime/process/stop_signals.h"
#include "schema/text.h"

namespace downpour {

void LocalRun::OnSignal(int signal) {
  if (result_.stop_signal != 0) {
    if (Clock::now() < stopping_since_ + kOneWish) return;
    talk_.Say("downpour run: stopped at once");
    due_.clear();
    supervisor_.KillAll();
    return;
  }
  result_.stop_signal = signal;
  stopping_since_ = Clock::now();
  const bool chief_is_due = due_.contains(kChiefTask) && StartsALastChief();
  std::erase_if(due_, [&](const auto& due) { return due.first != kChiefTask || !chief_is_due; });
  if (chief_is_due) due_[kChiefTask].when = Clock::now();
  AskChiefToEnd(signal);
  talk_.Say("downpour run: stopping; once more to stop at once");
}

// Where the chief died at that moment: its ps hold what no checkpoint has, and only a chief writes one. Not where one
// of them is dead as well: what it held is lost, and a chief would wait for it in vain.
bool LocalRun::StartsALastChief() {
  const std::vector<std::string> members = MemberTasks(cluster_);
  const bool every_ps = std::all_of(members.begin(), members.end(), [this](const std::string& task) {
    return !IsServerTask(task) || supervisor_.IsRunning(task);
  });
  const bool in_time = Clock::now() < stopping_since_ + pace_.last_chiefs_within;
  return chief_ && every_ps && in_time && last_chiefs_++ < kMostLastChiefs;
}

// Of a chief that was killed after it wrote how the job ended.
bool LocalRun::TakeWordOf(Ending ending) {
  const std::optional<ChiefLocation> location = announcement_.Last();
  if (!location) return false;
  const absl::StatusOr<FoundSummary> found = ReadSummaryOf(cluster_.job_dir, location->term);
  if (!found.ok()) return false;
  const bool is_success = found->summary.state == "SUCCEEDED";
  if (is_success != (ending == Ending::kSuccess)) return false;
  result_.chief_exit = is_success ? kExitDone : static_cast<int>(found->summary.exit_code.value_or(kExitFailed));
  due_.clear();
  return true;
}

void LocalRun::GiveUp(const std::string& cause) {
  if (!HasGivenUp()) NameCause(cause);
  due_.clear();
  AskChiefToEnd(SIGTERM);
}

void LocalRun::NameCause(const std::string& cause) {
  result_.cause = cause;
  talk_.Say("downpour run: " + cause);
  // The others only know that they were told to end. Where it cannot be written it has been said, at least.
  std::ofstream(LogPath(cluster_.job_dir, "run"), std::ios::app)
      << LogPrefix('E', UnixMs()) << " the job is ended: " << Printable(cause) << "\n";
}

void LocalRun::AskChiefToEnd(int signal) {
  if (!supervisor_.IsRunning(kChiefTask) || std::exchange(chief_asked_to_end_, true)) return;
  supervisor_.Send(kChiefTask, signal == SIGINT ? SIGINT : SIGTERM);
}

void LocalRun::LetMembersLeave() {
  const auto deadline = Clock::now() + pace_.members_leave_within;
  // Without a chief that said so nobody knows that it is over.
  while (result_.chief_exit && supervisor_.running() > 0 && Clock::now() < deadline) {
    zmq_pollitem_t item = {nullptr, supervisor_.fd(), ZMQ_POLLIN, 0};
    zmq_poll(&item, 1, PollTimeout(deadline - Clock::now()));
    if (!supervisor_.Collect().signals.empty()) break;
  }
  supervisor_.KillAll();
}

// Of a stop that no chief lived to see through. What was committed since the last answer is not counted.
void LocalRun::CountDropped() {
  if (result_.stop_signal == 0 || result_.chief_exit) return;
  const std::optional<Manifest> newest = NewestWholeManifest(cluster_.job_dir);
  const uint64_t kept = newest ? newest->committed.Count() : 0;
  const uint64_t committed = status_.progress.leases_committed.value_or(0);
  result_.leases_dropped = committed - std::min(committed, kept);
}

// A chief that was asked to end knows of no failure; why it was asked is told in its summary.
void LocalRun::ReadSummary() {
  const std::optional<ChiefLocation> location = announcement_.Last();
  if (!location) return;
  if (!result_.cause.empty()) {
    const std::string why =
        absl::StrCat(result_.cause, ". ", HowToGoOn(NewestCheckpoint(cluster_.job_dir), cluster_.command));
    const absl::Status recorded = RecordFailure(cluster_.job_dir, location->term, why);
    if (!recorded.ok()) talk_.Say("downpour run: " + std::string(recorded.message()));
  }
  const absl::StatusOr<FoundSummary> found = ReadSummaryOf(cluster_.job_dir, location->term);
  if (found.ok()) result_.summary = found->summary;
}

}  // namespace downpour
