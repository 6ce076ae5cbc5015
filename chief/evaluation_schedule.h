// EvaluationSchedule: when the model is evaluated: after each training.evaluateEveryEpochs epochs, and at the end.
//
//   schedule.Begin(eval_examples);    // the job runs
//   schedule.Advance();               // after each input while it runs
//   if (schedule.IsOver()) ...the final values are evaluated...
//
// Order: the last evaluation begins when every lease is committed, so it is of the final values. If leases are opened
//   again after that, there is another last one.
// Tests: tests/unit/chief/chief_work_test.cc, chief_recovery_test.cc.
#pragma once

#include <cstdint>

#include "chief/folder/journal.h"
#include "chief/known/evaluation.h"
#include "chief/known/lease_ledger.h"
#include "chief/work.h"
#include "job/job.h"

namespace downpour {

class EvaluationSchedule {
 public:
  struct Parts {
    const JobSpec& job;
    Journal& journal;
    const LeaseLedger& ledger;
    Evaluation& evaluation;
    Work& work;
  };
  explicit EvaluationSchedule(const Parts& chief) : chief_(chief) {}

  // Where the chief before had the final values evaluated, and has begun the rest of the program with them, they are
  // not evaluated again: the device of who runs that, or has run it, is of no use until it has begun from the start.
  void Begin(uint64_t eval_examples);
  void Advance();
  // Leases that were committed are open again.
  void Reopen();

  // That of the final values is in.
  bool IsOver() const { return final_begun_ && !chief_.evaluation.active(); }
  // The loss of the last one is not finite.
  bool Diverged() const;

 private:
  const Parts chief_;
  uint64_t evaluated_epochs_ = 0;  // committed when the last evaluation began, or when this chief did
  bool final_begun_ = false;       // the one of the final values, and nothing was opened again since
};

}  // namespace downpour
