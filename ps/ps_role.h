// A parameter server as a state machine: joins the chief, installs the slices it is assigned, answers push, pull and
// probe, hands out slice records. See schema/PROTOCOL.md for the conversations.
//
// Errors: it ends by an Exit alone, with a code of runtime/exit_code.h and one sentence. What workers get wrong is
//   answered or counted (TaskStats), what a record lacks is reported.
// Tests: tests/unit/ps/ps_role_test.cc, tests/scenario/ps_*.txt.
#pragma once

#include <memory>
#include <vector>

#include "ps/report_parts.h"
#include "ps/snapshot.h"
#include "runtime/applying.h"
#include "runtime/member_session.h"
#include "runtime/options.h"
#include "runtime/role.h"

namespace downpour {

struct PsOptions {
  MemberOptions member;
  bool has_job_dir = false;  // storage operations reach the job folder
  Window window;
  std::vector<PushName> crashes;  // at which processes of this task crashed before
  // Of one message of a report. Simulator: also 1, a slice in each.
  uint64_t report_part_bytes = kReportPartBytes;
  // Of one part of a bucket's record. Simulator: also a row or few in each.
  size_t record_part_bytes = kRecordPartBytes;
};

struct ServedSlice;  // ps/guarded_state.h

class PsRole final : public Role {
 public:
  explicit PsRole(PsOptions options);
  ~PsRole() override;
  void Step(Time now, Input input, Effects& effects) override;

  // For invariants and tests.
  Incarnation incarnation() const;               // kNone until welcomed
  const ServedSlice* Find(SliceId slice) const;  // null if this ps does not hold it
  const TaskStats& stats() const;
  uint64_t run() const;              // 0 until welcomed
  const Applying& applying() const;  // for whoever notes crashes

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace downpour
