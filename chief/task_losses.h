// TaskLosses: what follows when a process is lost to the job: it fell silent, or was replaced, or is a ps that left, or
// a worker that left though nobody told it to, or is refused for good.
//
//   losses.Tick();                                            // who fell silent
//   losses.Lost(task, "it was started again");
//   losses.RefuseForGood(task, RefusalCode::kEjected, why);
//
// Order: the leases of a lost worker are open at once, and its loss is a failure that people read of. The slices of a
//   lost ps are for chief/recovery.h.
// Tests: tests/unit/chief/chief_role_test.cc, chief_work_test.cc, chief_recovery_test.cc.
#pragma once

#include <string>

#include "chief/folder/journal.h"
#include "chief/known/failure_log.h"
#include "chief/known/membership.h"
#include "chief/known/step_context.h"
#include "chief/recovery.h"
#include "chief/shutdown.h"
#include "chief/work.h"

namespace downpour {

class TaskLosses {
 public:
  struct Parts {
    StepContext& context;
    Journal& journal;
    FailureLog& failures;
    Membership& members;
    Recovery& recovery;
    Work& work;
    Shutdown& shutdown;
  };
  explicit TaskLosses(const Parts& chief) : chief_(chief) {}

  void Tick();
  // `how` completes "ps-0 is gone: ".
  void Lost(const Task& task, const std::string& how);
  void RefuseForGood(Task& task, RefusalCode code, const std::string& why);

 private:
  const Parts chief_;
};

}  // namespace downpour
