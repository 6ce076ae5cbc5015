// BestCheckpoint: which checkpoint is kept beside the newest ones, since its evaluation was the best.
//
//   chief.best.Observe();      // after each input: what evaluations and rounds came to
//
// An evaluation is of values that one worker pulled at one moment. A checkpoint holds each slice at a moment of its
// own. So an evaluation's checkpoint is a near one: of the rounds that begin once the evaluation has begun, and before
// the next one does, the first that becomes durable. A round begins with each evaluation, unless checkpoint.every is 0.
// Of the evaluation at the end, whose values stand still, it is the last round, which holds just these values.
//
// So the value is not quite the checkpoint's. The versions of both stand beside it, and tell how far they are apart.
//
// The best checkpoint is that of the best evaluation, by checkpoint.best, among those that have one. Of equals it is
// the first. One whose value is not finite is never the best.
//
// Order: a checkpoint is named once it is durable and its value is known. The journal names it then, and the one
//   before is kept until that is on disk. So what the newest journal names is there, whatever the chief dies of.
// Errors: none. Where its manifest is missing or damaged when a chief starts, the journal forgets it, and the failures
//   say so.
// Tests: tests/unit/chief/best_checkpoint_test.cc, chief_crash_test.cc.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "chief/known/best_record.h"
#include "job/job.h"
#include "schema/ids.h"

namespace downpour {

class CheckpointInterval;
class CheckpointRounds;
class CheckpointStore;
class Evaluation;
class FailureLog;
class Journal;
struct JobLife;
struct StepContext;

class BestCheckpoint {
 public:
  struct Parts {
    StepContext& context;
    const JobSpec& job;
    const JobLife& life;
    Journal& journal;
    FailureLog& failures;
    const CheckpointStore& store;
    const Evaluation& evaluation;
    CheckpointRounds& rounds;
    CheckpointInterval& interval;
  };
  explicit BestCheckpoint(const Parts& chief) : chief_(chief) {}

  void Observe();
  // Slices went back to an older state: no later round is near an evaluation of before.
  void ForgetEvaluations() { candidates_.clear(); }

 private:
  struct Candidate {
    uint64_t evaluation = 0;  // as Evaluation::round() has it
    bool frozen = false;      // of values that stand still
    uint64_t epoch = 0;
    Round after;                  // rounds with later names are its own, up to the next candidate's
    std::optional<double> value;  // since the evaluation is over
    std::optional<Round> round;   // durable
    VersionSpan evaluated = {};   // with the value
    VersionSpan kept = {};        // with the round
  };
  // Of what the journal names only that counts which is there, and by the same metric.
  void Begin();
  void TakeEvaluation();
  void TakeRound();
  void Choose();
  void Pin();
  bool IsBetter(double value) const;
  bool MayGetRound(size_t candidate) const;

  const Parts chief_;
  bool begun_ = false;
  std::vector<Candidate> candidates_;  // ascending: the last one's evaluation, and those whose rounds are under way
  Round seen_;                         // the newest durable round that was looked at
};

}  // namespace downpour
