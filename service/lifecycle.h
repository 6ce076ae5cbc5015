// Lifecycle: how a job of the service goes from one state to the next, without I/O.
//
//   for (const std::string& name : turns.admitted) Admit(now, &job);   // and store it
//   const RunSeen seen = ...;                        // what is there of the job's run
//   if (Observe(seen, now, &job)) ...store it...
//   switch (ActFor(job, seen)) ...
//
//   QUEUED --Admit--> PREPARING --Observe--> RUNNING --Observe--> SUCCEEDED or FAILED
//   QUEUED --Cancel--> CANCELLED;  PREPARING, RUNNING --Cancel--> CANCELLING --Observe--> CANCELLED
//   RUNNING --StopEarly--> CANCELLING --Observe--> SUCCEEDED, of a trial
//   A tuning job has no run: Tune moves it, by its trials, where Observe moves others.
//
// Order: a state is stored before what it stands for is done. So a service that was killed finds what it meant to do,
//   and what is there of the run says whether it was done.
// Errors: FAILED_PRECONDITION for a job that is over.
// Tests: tests/unit/service/lifecycle_test.cc, tuning_lifecycle_test.cc.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "service/job.h"
#include "service/tuning_spec.h"

namespace downpour {

// What is there of a job's run, as its backend sees it (backend.h). On this machine a run is started by a shim, which
// leaves a mark that only one can leave, and then an exit code. Whatever belongs to the run holds the run's lock.
struct RunSeen {
  bool alive = false;        // looked at first: what a dead run left does not change
  bool started = false;      // a shim left its mark, so nobody may start the run again
  bool queued = false;       // alive in the queue of another scheduler, which has not begun it
  bool orphaned = false;     // alive on its hosts, but its shim is dead: it is to be reattached
  bool cancelled = false;    // ended by somebody who was asked to end it, though not by this service
  std::string unknown = {};  // who knows of it does not answer, with its words: nothing is decided
  std::string message = {};  // why a living one is not further
  std::optional<int> exit_code = {};
  std::string error = {};  // what the run said last
  // When it began and ended by its own marks, in milliseconds since 1970; 0: not known. It may be over before anybody
  // looks at it, and no service may have been there.
  int64_t started_ms = 0, ended_ms = 0;
  // Of a trial that is dead:
  std::optional<double> objective = {};
  int64_t step = 0;
};

void Admit(int64_t now_ms, Job* job);
absl::Status Cancel(int64_t now_ms, Job* job);
// The job cannot begin, for this reason.
void Refuse(const std::string& why, int64_t now_ms, Job* job);
// Returns whether the job has changed.
bool Observe(const RunSeen& seen, int64_t now_ms, Job* job);

// A trial that is not worth its time.
void StopEarly(int64_t now_ms, Job* trial);

// What a tuning job does next. Its trials are in the order of their numbers.
struct TuningAct {
  bool changed = false;                // the job
  bool proposes = false;               // one more trial, whose number is the next
  std::vector<std::string> cancelled;  // trials to cancel
};
inline constexpr int kMostFailedAtFirst = 3;
// `hopeless`: why no trial can ever be judged; empty: nothing is known of that. The others are cancelled, and the job
// fails with these words.
TuningAct Tune(const TuningSpec& spec, const std::vector<Job>& trials, int64_t now_ms, Job* job,
               const std::string& hopeless = "");
// How many failed, and why the first of them did; empty: none has.
std::string WordsOnFailures(const std::vector<Job>& trials);

enum class Act { kNone, kStart, kReattach, kStop };
Act ActFor(const Job& job, const RunSeen& seen);

}  // namespace downpour
