#include "service/lifecycle.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <random>

#include "absl/strings/str_cat.h"

namespace downpour {
namespace {

using testing::HasSubstr;

Job In(JobState state) { return {.name = "a", .state = state}; }

TEST(LifecycleTest, ARunIsStartedOnlyWhereNobodyLeftAMark) {
  const Job job = In(JobState::kPreparing);
  EXPECT_EQ(ActFor(job, {}), Act::kStart);
  EXPECT_EQ(ActFor(job, {.alive = true}), Act::kNone) << "a shim is about to leave its mark";
  EXPECT_EQ(ActFor(job, {.started = true}), Act::kNone);
  EXPECT_EQ(ActFor(In(JobState::kQueued), {}), Act::kNone);
  EXPECT_EQ(ActFor(In(JobState::kCancelling), {}), Act::kNone);
}

TEST(LifecycleTest, WhileWhoKnowsDoesNotAnswerNothingIsDecided) {
  for (const JobState state : {JobState::kPreparing, JobState::kRunning, JobState::kCancelling}) {
    for (const RunSeen& seen :
         {RunSeen{.unknown = "no answer"}, RunSeen{.alive = true, .started = true, .unknown = "x"}}) {
      Job job = In(state);
      EXPECT_FALSE(Observe(seen, 9, &job)) << NameOf(state);
      EXPECT_EQ(job.state, state);
      EXPECT_EQ(ActFor(job, seen), Act::kNone) << NameOf(state);
    }
  }
}

TEST(LifecycleTest, WhatWaitsInAnotherSchedulerIsNotRunning) {
  const RunSeen waits{.alive = true, .started = true, .queued = true};
  Job job = In(JobState::kPreparing);
  EXPECT_FALSE(Observe(waits, 9, &job));
  EXPECT_EQ(ActFor(job, waits), Act::kNone);
  EXPECT_EQ(ActFor(In(JobState::kCancelling), waits), Act::kStop) << "it is taken out of that queue";
  EXPECT_TRUE(Observe({.alive = true, .started = true}, 9, &job));
  EXPECT_EQ(job.state, JobState::kRunning);
}

TEST(LifecycleTest, AnOrphanedRunIsReattachedAndNotStarted) {
  const RunSeen seen{.alive = true, .started = true, .orphaned = true};
  for (const JobState state : {JobState::kRunning, JobState::kCancelling}) {
    EXPECT_EQ(ActFor(In(state), seen), Act::kReattach) << NameOf(state);
  }
  EXPECT_EQ(ActFor(In(JobState::kSucceeded), seen), Act::kNone);
}

TEST(LifecycleTest, HowItEnded) {
  struct Case {
    JobState state;
    RunSeen seen;
    JobState after;
    std::string error;
  };
  const Case cases[] = {
      {JobState::kRunning, {.started = true, .exit_code = 0}, JobState::kSucceeded, ""},
      {JobState::kRunning, {.started = true, .exit_code = 3}, JobState::kFailed, "exit code 3"},
      {JobState::kRunning, {.started = true, .exit_code = 1, .error = "no data"}, JobState::kFailed, "no data"},
      {JobState::kRunning, {.started = true}, JobState::kFailed, "was killed"},
      {JobState::kRunning, {}, JobState::kFailed, "was killed"},
      {JobState::kPreparing, {.started = true, .exit_code = 0}, JobState::kSucceeded, ""},
      {JobState::kRunning, {.started = true, .cancelled = true, .error = "scancel"}, JobState::kCancelled, "scancel"},
      {JobState::kPreparing, {.started = true, .cancelled = true}, JobState::kCancelled, ""},
      {JobState::kCancelling, {}, JobState::kCancelled, ""},
      {JobState::kCancelling, {.started = true, .exit_code = 143}, JobState::kCancelled, ""},
      {JobState::kCancelling, {.started = true, .exit_code = 0}, JobState::kSucceeded, ""},
  };
  for (const Case& c : cases) {
    Job job = In(c.state);
    EXPECT_TRUE(Observe(c.seen, 9, &job));
    EXPECT_EQ(NameOf(job.state), NameOf(c.after));
    EXPECT_THAT(job.error, HasSubstr(c.error));
    EXPECT_EQ(job.ended_ms, 9);
    EXPECT_GT(job.revision, 1u);
    EXPECT_FALSE(Observe(c.seen, 10, &job)) << "it is over";
  }
}

TEST(LifecycleTest, ARunThatNobodySawHasItsOwnTimes) {
  struct Case {
    int64_t began, ended;          // as its marks say
    int64_t started_ms, ended_ms;  // of a job that was made at 5 and is looked at at 9
  };
  for (const Case& c : {Case{6, 8, 6, 8}, Case{0, 0, 9, 9}, Case{0, 8, 9, 9}, Case{6, 0, 6, 9}, Case{2, 3, 5, 5},
                        Case{20, 30, 9, 9}, Case{7, 6, 7, 7}}) {
    Job job = In(JobState::kPreparing);
    job.created_ms = 5;
    Job seen_running = job;
    const RunSeen over{.started = true, .exit_code = 0, .started_ms = c.began, .ended_ms = c.ended};
    EXPECT_TRUE(Observe(over, 9, &job));
    EXPECT_EQ(job.state, JobState::kSucceeded);
    EXPECT_EQ(std::pair(job.started_ms, job.ended_ms), std::pair(c.started_ms, c.ended_ms))
        << c.began << " " << c.ended;
    EXPECT_TRUE(Observe({.alive = true, .started = true, .started_ms = c.began}, 9, &seen_running));
    EXPECT_EQ(seen_running.started_ms, c.started_ms);
    EXPECT_TRUE(Observe(over, 9, &seen_running));
    EXPECT_EQ(seen_running.ended_ms, c.ended_ms);
  }
}

TEST(LifecycleTest, Cancelling) {
  Job waiting = In(JobState::kQueued);
  EXPECT_TRUE(Cancel(5, &waiting).ok());
  EXPECT_EQ(waiting.state, JobState::kCancelled);
  EXPECT_EQ(waiting.ended_ms, 5);
  Job running = In(JobState::kRunning);
  EXPECT_TRUE(Cancel(5, &running).ok());
  EXPECT_TRUE(Cancel(6, &running).ok()) << "asked twice";
  EXPECT_EQ(running.state, JobState::kCancelling);
  EXPECT_EQ(ActFor(running, {.alive = true, .started = true}), Act::kStop);
  Job over = In(JobState::kSucceeded);
  EXPECT_EQ(Cancel(5, &over).code(), absl::StatusCode::kFailedPrecondition);
}

TEST(LifecycleTest, WhatCannotBeginFails) {
  Job job = In(JobState::kPreparing);
  Refuse("no package", 4, &job);
  EXPECT_EQ(job.state, JobState::kFailed);
  EXPECT_EQ(job.error, "no package");
  Job cancelling = In(JobState::kCancelling);
  Refuse("no package", 4, &cancelling);
  EXPECT_EQ(cancelling.state, JobState::kCancelling) << "it will be CANCELLED";
  Job waiting = In(JobState::kQueued);
  Refuse("too large", 4, &waiting);
  EXPECT_EQ(waiting.state, JobState::kFailed);
}

// A machine on which runs are started and end while a service looks on, is killed and comes back at any moment.
class Walk {
 public:
  explicit Walk(unsigned seed) : random_(seed) {}

  // Returns the state after at most `steps`.
  JobState Run(int steps) {
    for (int i = 0; i < steps && !IsOver(stored_.state); ++i) {
      if (Draw(40) == 0) (void)CancelStored();
      MoveTheWorld();
      Serve();
    }
    return stored_.state;
  }
  int starts() const { return starts_; }
  bool alive() const { return seen_.alive; }

 private:
  unsigned Draw(unsigned n) { return random_() % n; }
  bool Killed() { return Draw(5) == 0; }  // the service, here

  absl::Status CancelStored() {
    Job job = stored_;
    const absl::Status status = Cancel(1, &job);
    if (!Killed()) stored_ = job;
    return status;
  }

  void MoveTheWorld() {
    if (!seen_.alive) return;
    if (!seen_.started) {
      if (Draw(2) == 0) seen_.started = true, ++starts_;
    } else if (Draw(stopping_ ? 3 : 12) == 0) {
      seen_.alive = false;
      if (Draw(3) != 0) seen_.exit_code = stopping_ ? 143 : Draw(2);
    }
  }

  // One round of the service: what it decided is stored, or it was killed before that.
  void Serve() {
    Job job = stored_;
    if (job.state == JobState::kQueued) {
      Admit(2, &job);
      if (Killed()) return;
      stored_ = job;
    }
    if (Observe(seen_, 3, &job)) {
      if (Killed()) return;
      stored_ = job;
    }
    const Act act = ActFor(job, seen_);
    if (Killed()) return;
    if (act == Act::kStart) seen_.alive = true;  // the shim holds the lock from its first moment
    if (act == Act::kStop) stopping_ = true;
  }

  std::mt19937 random_;
  Job stored_{.name = "a"};
  RunSeen seen_;
  bool stopping_ = false;
  int starts_ = 0;
};

TEST(LifecycleTest, NoJobIsLostOrStartedTwiceWheneverTheServiceIsKilled) {
  std::map<std::string, int> ends;
  for (unsigned seed = 0; seed < 5000; ++seed) {
    Walk walk(seed);
    const JobState end = walk.Run(1000);
    ASSERT_TRUE(IsOver(end)) << "seed " << seed << ": " << NameOf(end);
    ASSERT_LE(walk.starts(), 1) << "seed " << seed;
    ASSERT_FALSE(walk.alive()) << "seed " << seed << ": " << NameOf(end) << " with a run that lives";
    if (end != JobState::kCancelled) {
      ASSERT_EQ(walk.starts(), 1) << "seed " << seed;
    }
    ++ends[NameOf(end)];
  }
  EXPECT_EQ(ends.size(), 3u) << "each end was reached";
}

}  // namespace
}  // namespace downpour
