// From the job's end to the last member let go.
//
//   shutdown.Succeed();                     // or Fail, or Cancel; or Decline: there is nothing to lead
//   if (life.ended()) shutdown.Advance();   // after each input
//   if (shutdown.exited()) ...the chief is gone...
//
// Order: the end is on disk, first in summary.json, then in the journal, before anybody is told; if that cannot be,
//   they are told at last. All members are told until each said goodbye or died, and so is who asks to join, for
//   kGoodbye at most; then summary.json is written with the last counts. Watchers (watchers.h) are told until
//   they know it, for kWatchersHear at most; then the chief exits. One that finds that the job has succeeded when it
//   starts says so likewise, and leaves summary.json as it is.
// Errors: none; a summary that cannot be written is a line in the log.
// Tests: tests/unit/chief/chief_role_test.cc, chief_restart_test.cc, chief_resume_test.cc, status_test.cc,
//   chief_end_test.cc.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "chief/checkpoint_rounds.h"
#include "chief/chief_view.h"
#include "chief/folder/journal.h"
#include "chief/folder/storage.h"
#include "chief/known/job_life.h"
#include "chief/known/membership.h"
#include "chief/known/spares.h"
#include "chief/known/step_context.h"
#include "chief/known/watchers.h"
#include "chief/startup.h"

namespace downpour {

class Shutdown {
 public:
  static constexpr Duration kGoodbye = 3s;
  // Whoever is refused for good sends no Leave, and has lost what it did not read before the chief is gone.
  static constexpr Duration kRefusalGrace = 1s;
  // From the end on, for watchers that do not say that they know it: a supervisor gives a chief 30 s in all, of which
  // the last checkpoint has 20.
  static constexpr Duration kWatchersHear = 5s;

  struct Parts {
    StepContext& context;
    const ChiefOptions& options;
    const JobSpec& job;
    JobLife& life;
    Storage& storage;
    Journal& journal;
    Membership& members;
    CheckpointRounds& rounds;
    Watchers& watchers;
    const Spares& spares;
  };
  // `view`: of which the summary and the last status are made.
  Shutdown(const Parts& chief, const ChiefView& view) : chief_(chief), view_(view) {}

  // The end. Several things may go wrong in one step; the first is the reason.
  void Succeed() { Begin(JobState::kSucceeded, "the job has succeeded", 0); }
  // FAILED_PRECONDITION: the job has to be another; DATA_LOSS: no checkpoint of it can be used.
  void Fail(const absl::Status& why);
  void Cancel(const std::string& why, int exit_code);
  // At the start, instead of all of these. Members of a job that is over may not have heard of it yet, and ask.
  void Decline(const Startup::Outcome& outcome);
  // Before there is anything to lead: at once. A job that was over keeps its own end.
  void Interrupt(const std::string& why, int exit_code);

  void Advance();
  void Tell(PeerId member);  // once the job has ended
  void GrantRefusalGrace();  // of what was told just now to somebody who is refused for good

  bool exited() const { return exited_; }

 private:
  void Begin(JobState state, const std::string& why, int exit_code);
  std::string HowToGoOn() const;
  bool FirstSummaryDone() const;
  bool EndIsOnDisk() const;
  bool MayTellOfTheEnd() const;
  void WriteSummary();
  void TellWatchers();
  void QuitOnceWatchersKnow();
  void Quit();

  const Parts chief_;
  const ChiefView& view_;
  std::string why_;
  JobEnd words_;  // to members
  Time goodbye_by_{};
  Time next_goodbye_{};
  Time refusal_grace_until_{};
  Time next_telling_{};  // of watchers
  Time watched_until_{};
  bool summary_begun_ = false;
  bool summary_done_ = false;
  bool exited_ = false;
};

}  // namespace downpour
