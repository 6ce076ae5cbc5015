// FailureLog: the newest failures of the job, for people; each is a line of the chief's log as well.
//
//   FailureLog failures(context, journal.costs());
//   failures.Add("ps-1", "it was started again");
//
// Order: oldest first. The journal keeps them for the next chief.
// Tests: tests/unit/chief/status_test.cc, journal_test.cc.
#pragma once

#include <cstddef>
#include <deque>
#include <string>

#include "chief/known/job_costs.h"
#include "chief/known/step_context.h"

namespace downpour {

class FailureLog {
 public:
  static constexpr size_t kMost = 50;
  static constexpr size_t kMaxLength = 1024;  // bytes of `what`

  // Adds to the failures of `costs`.
  FailureLog(StepContext& context, JobCosts& costs) : context_(context), costs_(costs) {}

  void Add(const std::string& task, const std::string& what);
  const std::deque<Failure>& list() const { return costs_.failures; }

 private:
  StepContext& context_;
  JobCosts& costs_;
};

}  // namespace downpour
