#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "service/backend.h"
#include "service/lifecycle.h"

namespace downpour {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

Job TrialIn(JobState state, int number, const std::string& error = "") {
  return {.name = TrialName("t", number), .state = state, .error = error, .trial = Trial{}};
}
Job TuningIn(JobState state) { return {.name = "t", .training_input = R"({"hyperparameters":{}})", .state = state}; }
TuningSpec Wanted(int trials, int parallel, int failed = 0) {
  return {.most_trials = trials, .most_parallel = parallel, .most_failed = failed};
}

TEST(TuningLifecycleTest, ATuningJobTakesNoCoresAndWaitsItsTurnAllTheSame) {
  Job large{.name = "large", .training_input = R"({"scaleTier":"STANDARD_1"})"};
  for (const JobState state : {JobState::kQueued, JobState::kRunning}) {
    const std::vector<Job> jobs = {TuningIn(state), large};
    const std::vector<Room> needs = {NeedOf(jobs[0], {}), NeedOf(jobs[1], {})};
    EXPECT_EQ(needs[0].cores, 0);
    EXPECT_THAT(TakeTurns(jobs, needs, {.cores = 8}).admitted, Contains("large")) << NameOf(state);
  }
}

TEST(TuningLifecycleTest, TrialsAreProposedUpToTheirNumberAndNotMoreAtATime) {
  Job job = TuningIn(JobState::kPreparing);
  EXPECT_TRUE(Tune(Wanted(3, 2), {}, 5, &job).changed);
  EXPECT_EQ(job.state, JobState::kRunning);
  EXPECT_EQ(job.started_ms, 5);
  std::vector<Job> trials;
  EXPECT_TRUE(Tune(Wanted(3, 2), trials, 5, &job).proposes);
  trials.push_back(TrialIn(JobState::kQueued, 1));
  EXPECT_TRUE(Tune(Wanted(3, 2), trials, 5, &job).proposes);
  trials.push_back(TrialIn(JobState::kCancelling, 2));
  EXPECT_FALSE(Tune(Wanted(3, 2), trials, 5, &job).proposes) << "two are at work";
  trials[0].state = JobState::kSucceeded;
  EXPECT_TRUE(Tune(Wanted(3, 2), trials, 5, &job).proposes);
  trials[1].state = JobState::kSucceeded;
  trials.push_back(TrialIn(JobState::kRunning, 3));
  EXPECT_FALSE(Tune(Wanted(3, 2), trials, 5, &job).proposes) << "there are three";
  EXPECT_EQ(job.state, JobState::kRunning);
  trials[2].state = JobState::kFailed;
  EXPECT_TRUE(Tune(Wanted(3, 2), trials, 9, &job).changed);
  EXPECT_EQ(job.state, JobState::kSucceeded);
  EXPECT_EQ(job.ended_ms, 9);
}

TEST(TuningLifecycleTest, ACancelledJobEndsWhenItsTrialsHave) {
  Job job = TuningIn(JobState::kRunning);
  std::vector<Job> trials = {TrialIn(JobState::kSucceeded, 1), TrialIn(JobState::kRunning, 2),
                             TrialIn(JobState::kCancelling, 3), TrialIn(JobState::kQueued, 4)};
  ASSERT_TRUE(Cancel(1, &job).ok());
  TuningAct act = Tune(Wanted(9, 9), trials, 2, &job);
  EXPECT_THAT(act.cancelled, ElementsAre("t/2", "t/4"));
  EXPECT_FALSE(act.proposes);
  EXPECT_EQ(job.state, JobState::kCancelling);
  for (Job& trial : trials) trial.state = JobState::kCancelled;
  act = Tune(Wanted(9, 9), trials, 3, &job);
  EXPECT_THAT(act.cancelled, IsEmpty());
  EXPECT_EQ(job.state, JobState::kCancelled);
  EXPECT_THAT(job.error, HasSubstr("request"));
}

TEST(TuningLifecycleTest, AfterTooManyFailuresTheOthersAreCancelledAndTheJobFailsByTheFirst) {
  Job job = TuningIn(JobState::kRunning);
  std::vector<Job> trials = {TrialIn(JobState::kSucceeded, 1), TrialIn(JobState::kFailed, 2, "no such layer"),
                             TrialIn(JobState::kRunning, 3)};
  EXPECT_TRUE(Tune(Wanted(9, 2, 2), trials, 1, &job).proposes);
  trials.push_back(TrialIn(JobState::kFailed, 4, "later"));
  EXPECT_THAT(Tune(Wanted(9, 2, 2), trials, 1, &job).cancelled, ElementsAre("t/3"));
  EXPECT_EQ(job.state, JobState::kRunning);
  trials[2].state = JobState::kCancelled;
  EXPECT_TRUE(Tune(Wanted(9, 2, 2), trials, 1, &job).changed);
  EXPECT_EQ(job.state, JobState::kFailed);
  EXPECT_THAT(job.error, HasSubstr("2 of 4 trials failed; trial 2: no such layer"));
}

TEST(TuningLifecycleTest, WithoutALimitItFailsWhileNoneSucceeded) {
  std::vector<Job> trials = {TrialIn(JobState::kFailed, 1), TrialIn(JobState::kFailed, 2)};
  Job job = TuningIn(JobState::kRunning);
  EXPECT_TRUE(Tune(Wanted(9, 1), trials, 1, &job).proposes);
  trials.push_back(TrialIn(JobState::kFailed, 3));
  Job other = job;
  Tune(Wanted(9, 1), trials, 1, &job);
  EXPECT_EQ(job.state, JobState::kFailed);
  trials[0].state = JobState::kSucceeded;
  trials.push_back(TrialIn(JobState::kFailed, 4));
  EXPECT_TRUE(Tune(Wanted(9, 1), trials, 1, &other).proposes);
}

TEST(TuningLifecycleTest, ASearchThatCannotBeJudgedEndsWithItsFirstTrial) {
  Job job = TuningIn(JobState::kRunning);
  std::vector<Job> trials = {TrialIn(JobState::kRunning, 1)};
  const std::string why = "hyperparameterMetricTag is auc, but the Python code of trial 1 evaluates loss";
  const TuningAct act = Tune(Wanted(9, 2, 5), trials, 1, &job, why);
  EXPECT_THAT(act.cancelled, ElementsAre("t/1"));
  EXPECT_FALSE(act.proposes);
  trials[0].state = JobState::kCancelled;
  Tune(Wanted(9, 2, 5), trials, 2, &job, why);
  EXPECT_EQ(job.state, JobState::kFailed);
  EXPECT_EQ(job.error, why);
}

TEST(TuningLifecycleTest, WhatFailedIsToldWhileTheSearchGoesOn) {
  EXPECT_EQ(WordsOnFailures({TrialIn(JobState::kSucceeded, 1), TrialIn(JobState::kCancelled, 2)}), "");
  EXPECT_EQ(WordsOnFailures({TrialIn(JobState::kSucceeded, 1), TrialIn(JobState::kFailed, 2, "no such layer"),
                             TrialIn(JobState::kFailed, 3, "later")}),
            "2 of 3 trials failed; trial 2: no such layer");
}

TEST(TuningLifecycleTest, ATrialSucceedsByItsMetric) {
  struct Case {
    JobState state;
    bool stopped_early;
    RunSeen seen;
    JobState after;
    bool is_stopped_early;
  };
  const Case cases[] = {
      {JobState::kRunning, false, {.started = true, .exit_code = 0, .objective = 0.5}, JobState::kSucceeded, false},
      {JobState::kRunning, false, {.started = true, .exit_code = 0, .error = "no auc"}, JobState::kFailed, false},
      {JobState::kRunning,
       false,
       {.started = true, .exit_code = 1, .error = "x", .objective = 0.5},
       JobState::kFailed,
       false},
      {JobState::kCancelling, true, {.started = true, .exit_code = 6, .objective = 0.5}, JobState::kSucceeded, true},
      {JobState::kCancelling, true, {.started = true, .exit_code = 0, .objective = 0.5}, JobState::kSucceeded, false},
      {JobState::kCancelling, true, {.started = true, .exit_code = 6}, JobState::kCancelled, true},
      {JobState::kCancelling, false, {.started = true, .exit_code = 6, .objective = 0.5}, JobState::kCancelled, false},
  };
  for (const Case& c : cases) {
    Job trial = TrialIn(c.state, 1);
    trial.trial->stopped_early = c.stopped_early;
    EXPECT_TRUE(Observe(c.seen, 7, &trial));
    EXPECT_EQ(trial.state, c.after);
    EXPECT_EQ(trial.trial->stopped_early, c.is_stopped_early);
    EXPECT_EQ(trial.trial->objective, c.seen.objective);
  }
}

TEST(TuningLifecycleTest, OnlyARunningTrialIsStoppedEarly) {
  Job running = TrialIn(JobState::kRunning, 1), over = TrialIn(JobState::kSucceeded, 1);
  StopEarly(1, &running);
  EXPECT_EQ(running.state, JobState::kCancelling);
  EXPECT_TRUE(running.trial->stopped_early);
  StopEarly(1, &over);
  EXPECT_EQ(over.state, JobState::kSucceeded);
  EXPECT_FALSE(over.trial->stopped_early);
}

// A service that is killed at any point, and its clients' cancels, against what must hold of the trials.
TEST(TuningLifecycleTest, HoweverItGoesEachTrialIsThereOnceAndTheJobEnds) {
  for (uint32_t seed = 0; seed < 500; ++seed) {
    std::mt19937 rng(seed);
    const TuningSpec spec =
        Wanted(1 + static_cast<int>(rng() % 6), 1 + static_cast<int>(rng() % 3), static_cast<int>(rng() % 3));
    Job job = TuningIn(JobState::kPreparing);
    std::vector<Job> trials;
    for (int round = 0; round < 400 && !IsOver(job.state); ++round) {
      Job said = job;
      const TuningAct act = Tune(spec, trials, round, &said);
      if (rng() % 3 == 0) continue;  // killed before anything was stored
      if (act.changed) job = said;
      for (Job& trial : trials) {
        const bool is_cancelled = std::count(act.cancelled.begin(), act.cancelled.end(), trial.name) > 0;
        const bool is_killed = rng() % 2 == 0;
        if (is_cancelled && !is_killed) (void)Cancel(round, &trial);
      }
      if (act.proposes) trials.push_back(TrialIn(JobState::kQueued, static_cast<int>(trials.size()) + 1));
      if (rng() % 30 == 0) (void)Cancel(round, &job);
      int unfinished = 0;
      for (Job& trial : trials) {
        if (rng() % 2 == 0) Admit(round, &trial);
        const RunSeen seen = {.alive = rng() % 2 == 0,
                              .started = rng() % 2 == 0,
                              .exit_code = static_cast<int>(rng() % 2),
                              .objective = 1};
        if (!IsOver(trial.state)) Observe(seen, round, &trial);
        unfinished += IsOver(trial.state) ? 0 : 1;
      }
      ASSERT_LE(unfinished, spec.most_parallel) << seed;
      ASSERT_LE(static_cast<int>(trials.size()), spec.most_trials) << seed;
    }
    EXPECT_TRUE(IsOver(job.state)) << seed;
    for (const Job& trial : trials) EXPECT_TRUE(IsOver(trial.state)) << seed << " " << trial.name;
  }
}

}  // namespace
}  // namespace downpour
