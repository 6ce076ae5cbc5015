// The rest of the user's program, where this worker was given it: the values for it, and how it ended.
//
//   work.Grant(grant);
//   work.Advance(now, session, grid, effects);             // asks for what is missing
//   work.Receive(record, grid);
//   if (work.HasAll(grid)) ...compute work.Begin()...
//   work.End(error);
//
// Order: the program runs once in a process. A newer attempt takes over what an older one began: its chief, or the one
//   before, did not hear how that ended.
// Shapes: values are float32, whatever the job's wire is. Rows of tables are not among them: they may be more than a
//   worker can hold.
//   All of them are of one checkpoint: at a record of another one those before are asked for again.
// Cost: kAtOnce records of at most kMaxRecordBytes under way.
// Errors: INVALID_ARGUMENT or DATA_LOSS for a record that is not that slice's; it is asked for again.
// Tests: tests/scenario/worker_runs_the_rest_of_the_program.txt, tests/sim.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "absl/status/status.h"
#include "job/slice_grid.h"
#include "runtime/compute.h"
#include "runtime/member_session.h"
#include "runtime/role.h"
#include "schema/message_work.h"

namespace downpour {

class EpilogueWork {
 public:
  static constexpr size_t kAtOnce = 4;
  static constexpr Duration kLongestWait = 30s;

  void Grant(const EpilogueGrant& grant);
  // From its grant to its end there is no other work here.
  bool active() const { return at_ == At::kFetching || at_ == At::kRunning; }
  bool running() const { return at_ == At::kRunning; }
  bool HasAll(const SliceGrid& grid) const { return at_ == At::kFetching && values_.size() == grid.dense(); }

  // Asks for records, and says again how the program ended.
  void Advance(Time now, MemberSession& session, const SliceGrid& grid, Effects& effects);
  absl::Status Receive(const RestoreSlice& record, const SliceGrid& grid);
  EpilogueStep Begin();
  void End(std::string error);

 private:
  enum class At { kRest, kFetching, kRunning, kEnded };
  At at_ = At::kRest;
  uint64_t attempt_ = 0;
  std::string history_;
  std::map<SliceId, Payload> values_;
  Round round_;      // the checkpoint of all of them
  size_t next_ = 0;  // of the variables' slices, in order: the first that was not asked for
  struct Asked {
    Time again;     // is when it is asked for once more
    Duration wait;  // to the time after that: a slow link has the first copies still to bring
  };
  std::map<SliceId, Asked> asked_;  // those under way
  std::string error_;
  Time next_report_{};
};

}  // namespace downpour
