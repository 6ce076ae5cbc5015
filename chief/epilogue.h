// The rest of the user's program, which stands behind its fit(): given to one worker once the job is trained, as the
// job's last piece of work. Its end is the job's.
//
//   if (evaluated && all_durable) epilogue.Advance();     // after each input, once the job is trained
//   if (!epilogue.failure().ok()) ...the job has failed...
//   if (epilogue.IsOver()) ...it may succeed...
//
// Order: an attempt is given to the first worker that is there, once it is ready, and to another one when that is gone,
//   with a higher number. Only the newest attempt's end counts: a worker that was held for dead may run its program
//   still. The chief gives it the values, out of the checkpoint of the job's end, or of the best one where
//   training.stopEarly chose it. The journal has the task and the last evaluation before that task hears of an attempt.
//   A chief that follows evaluates nothing again, and gives an attempt of its own, to that task if it comes again. A
//   worker whose program runs, or has ended, takes it for that program's. If leases are opened again meanwhile, a
//   program that has its values goes on with them, and counts; no attempt begins before those leases are trained.
// Cost: records are read as they are asked for, and kept nowhere. kMostAttempts by one chief.
// Errors: failure() is ABORTED where the program failed or its values cannot be read.
// Source: protocol rule A12, conversation 10 (schema/PROTOCOL.md).
// Tests: tests/unit/chief/epilogue_test.cc, tests/sim.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "chief/checkpoint_rounds.h"
#include "chief/folder/journal.h"
#include "chief/folder/storage.h"
#include "chief/known/epoch_table.h"
#include "chief/known/evaluation.h"
#include "chief/known/membership.h"
#include "chief/known/step_context.h"
#include "job/job.h"
#include "runtime/options.h"
#include "schema/checkpoint_format.h"

namespace downpour {

class Epilogue {
 public:
  static constexpr int kMostAttempts = 6;
  static constexpr int kReadsOfOneFile = 6;        // or of one record, before its disk is given up
  static constexpr Duration kWaitsForFirst = 60s;  // or for the one that had it; then any that is ready will do

  struct Parts {
    StepContext& context;
    const JobSpec& job;
    const Timing& timing;
    Journal& journal;
    Storage& storage;
    Membership& members;
    const CheckpointRounds& rounds;
    const Evaluation& evaluation;
    const EpochTable& epochs;
  };
  explicit Epilogue(const Parts& chief) : chief_(chief) {}

  // While the job is trained, evaluated, and in a durable checkpoint.
  void Advance(uint32_t term);
  // While it is so no more: leases are open again.
  void Suspend();
  // INVALID_ARGUMENT for what no honest worker says. A late word is none.
  absl::Status Receive(const Task& worker, const RecordRequest& request);
  absl::Status Receive(const Task& worker, const EpilogueDone& done);

  // By this chief. From then on a ps or another worker may go away: all is durable, unless leases are opened again.
  bool begun() const { return attempts_ > 0; }
  // A job without a program of the user's own has none.
  bool IsOver() const { return chief_.job.python.module.empty() || over_; }
  const absl::Status& failure() const { return failure_; }
  // For people: who runs it, ran it, or is next to; null: nobody.
  const Task* master() const;

 private:
  const Task* worker() const;  // who runs it; null: nobody
  std::vector<Task*> Candidates() const;
  Round Chosen() const;
  void ReadManifest();
  void Begin(uint32_t term);
  void Grant();
  void SendRecord(Incarnation worker, uint64_t attempt, SliceId slice, const StorageDone& read);
  void ReadFailed(Round round, const std::string& what, const absl::Status& why);
  void Fail(const std::string& why);

  const Parts chief_;
  std::optional<Manifest> manifest_;  // of the chosen round
  Round reading_;                     // its manifest
  Time next_read_{};
  Incarnation worker_ = Incarnation::kNone;  // of the newest attempt
  std::string history_;                      // that it is given, until it has the grant
  uint64_t attempt_ = 0;
  uint32_t attempts_ = 0;
  Time waiting_since_{};  // for somebody to give it to
  Time next_grant_{};
  bool suspended_ = false;                   // since leases are open again
  std::map<std::string, int> failed_reads_;  // of a file or record, since it was read whole
  std::set<SliceId> records_under_way_;      // from the disk, for this attempt
  bool over_ = false;
  absl::Status failure_;
};

}  // namespace downpour
