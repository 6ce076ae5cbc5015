#include "chief/shutdown.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "chief/status.h"
#include "runtime/exit_code.h"
#include "schema/text.h"

namespace downpour {

std::string Shutdown::HowToGoOn() const {
  return downpour::HowToGoOn(chief_.rounds.DescribeLast(), CommandToStart(chief_.options, chief_.life.diverged));
}

void Shutdown::Fail(const absl::Status& why) {
  std::string remedy = absl::IsDataLoss(why) ? RemedyOfLoss(chief_.journal.record().newest) : HowToGoOn();
  // No start has those data again by itself.
  if (absl::IsFailedPrecondition(why)) {
    const bool of_code = chief_.job.data.format == kPythonFormat;
    const std::string back = of_code ? "Have the Python code give downpour.fit the examples of then"
                                     : "Put these files back on each host as they were";
    const std::string look = of_code ? "" : "; downpour doctor prints their fingerprints";
    remedy =
        absl::StrCat(back, ", or begin again with the new ones in another job folder", look,
                     of_code ? ". With the data as they were: " : ". With them, and data.train as it was: ", remedy);
  }
  Begin(JobState::kFailed, absl::StrCat(MessageOf(why), ". ", remedy),
        absl::IsFailedPrecondition(why) ? kExitBadJobFile : kExitFailed);
}

void Shutdown::Cancel(const std::string& why, int exit_code) {
  Begin(JobState::kCancelled, absl::StrCat(why, ". ", HowToGoOn()), exit_code);
}

void Shutdown::Begin(JobState state, const std::string& why, int exit_code) {
  if (chief_.life.ended()) return;
  const bool succeeded = state == JobState::kSucceeded;
  chief_.life.state = state;
  chief_.life.error = succeeded ? "" : why;
  chief_.life.exit_code = exit_code;
  why_ = why;
  words_ = {.succeeded = succeeded, .why = why, .cancelled = state == JobState::kCancelled};
  chief_.rounds.Stop();
  // Whoever reads of the end in the journal finds the summary too, if only with the counts so far.
  chief_.storage.Run(ReplaceFile(kSummaryFile, SummaryText(view_)), [this](const StorageDone&) {
    chief_.journal.record().ended = NameOf(chief_.life.state);
    chief_.journal.record().why = why_;
    chief_.journal.Advance();
  });
  goodbye_by_ = chief_.context.now + kGoodbye;
  watched_until_ = chief_.context.now + kWatchersHear;
  next_goodbye_ = chief_.context.now;
  if (state == JobState::kFailed) chief_.context.out.Error(why_);
  Advance();
}

void Shutdown::Decline(const Startup::Outcome& outcome) {
  chief_.life.state = outcome.exit_code == kExitDone ? JobState::kSucceeded : JobState::kFailed;
  chief_.life.error = why_ = outcome.why;
  chief_.life.exit_code = outcome.exit_code;
  const JobRecord& record = chief_.journal.record();
  words_ = {.succeeded = record.ended == NameOf(JobState::kSucceeded),
            .why = record.why,
            .cancelled = record.ended == NameOf(JobState::kCancelled)};
  goodbye_by_ = chief_.context.now + (outcome.over ? kGoodbye : Duration::zero());
}

void Shutdown::Interrupt(const std::string& why, int exit_code) {
  if (!chief_.life.ended()) {
    why_ = why;
    chief_.life.exit_code = exit_code;
  }
  Quit();
}

void Shutdown::Advance() {
  if (!chief_.life.ready()) {  // nothing was led: there is nobody to count, and nothing to write
    if (chief_.context.now >= goodbye_by_) Quit();
    return;
  }
  TellWatchers();
  if (summary_done_) return QuitOnceWatchersKnow();
  if (summary_begun_) return;
  chief_.members.TakeSilent(chief_.context.now);
  std::vector<Task*> members = chief_.members.Alive(TaskRole::kPs);
  for (Task* worker : chief_.members.Alive(TaskRole::kWorker)) members.push_back(worker);
  const bool refusals_heard = chief_.context.now >= refusal_grace_until_;
  const bool nothing_left = members.empty() && refusals_heard && !chief_.rounds.active() && EndIsOnDisk();
  // Two writings of one file would spoil each other: the last summary waits for the one that Begin began.
  const bool out_of_time = chief_.context.now >= goodbye_by_ && FirstSummaryDone();
  if (nothing_left || out_of_time) return WriteSummary();
  if (chief_.context.now < next_goodbye_ || !MayTellOfTheEnd()) return;
  next_goodbye_ = chief_.context.now + chief_.options.timing.control_retry;
  for (const Task* task : members) Tell(task->control);
}

bool Shutdown::FirstSummaryDone() const { return !chief_.journal.record().ended.empty(); }

bool Shutdown::EndIsOnDisk() const { return FirstSummaryDone() && chief_.journal.durable(); }

bool Shutdown::MayTellOfTheEnd() const {
  return EndIsOnDisk() || goodbye_by_ - chief_.context.now <= chief_.options.timing.control_retry;
}

void Shutdown::Tell(PeerId member) {
  if (MayTellOfTheEnd()) chief_.context.out.SendTo(member, words_);
}

void Shutdown::GrantRefusalGrace() { refusal_grace_until_ = chief_.context.now + kRefusalGrace; }

void Shutdown::WriteSummary() {
  summary_begun_ = true;
  // Once is enough: one that does not hear it asks again, or gives up as without a chief.
  for (const Spare& spare : chief_.spares.Waiting(chief_.context.now)) Tell(spare.peer);
  chief_.storage.Run(ReplaceFile(kSummaryFile, SummaryText(view_)), [this](const StorageDone& done) {
    if (!done.status.ok())
      chief_.context.out.Error(absl::StrCat(kSummaryFile, " cannot be written: ", done.status.ToString()));
    summary_done_ = true;
    QuitOnceWatchersKnow();
  });
}

// Again and again: a message may be lost, and so may the watcher's word that it came.
void Shutdown::TellWatchers() {
  if (chief_.context.now < next_telling_ || !MayTellOfTheEnd()) return;
  const std::vector<PeerId> watchers = chief_.watchers.Waiting(chief_.context.now);
  if (watchers.empty()) return;
  next_telling_ = chief_.context.now + chief_.options.timing.control_retry;
  const std::string status = StatusText(view_);
  for (const PeerId watcher : watchers) chief_.context.out.SendTo(watcher, StatusReply{status});
}

void Shutdown::QuitOnceWatchersKnow() {
  const Time now = chief_.context.now;
  if (now >= watched_until_ || chief_.watchers.Waiting(now).empty()) Quit();
}

void Shutdown::Quit() {
  if (std::exchange(exited_, true)) return;
  chief_.context.out.Add(Exit{chief_.life.exit_code, why_, chief_.life.state == JobState::kCancelled});
}

}  // namespace downpour
