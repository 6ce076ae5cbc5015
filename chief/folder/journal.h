// What must outlive the chief and cannot be had from the slices' reports: which job this folder is used for, since
// when, on which data, how far its checkpoints came, whether it is over, and what it has cost. The term is not in it
// (startup.h), nor is any grant, commit or placement: those follow from what slices report in the next term (protocol
// rules core 1, A3, A11, schema/PROTOCOL.md).
//
//   journal.Load([&] { if (journal.found()) ...journal.record()... });
//   journal.record().data = shape;
//   ...Advance until journal.durable()...     // before anything is said that rests on it
//
// Order: an entry is written whole, in two copies (sealed_copies.h); the newer one that is whole counts.
// Cost: an entry for each change of the record, and one a second while only the costs rise. Of commits there is one at
//   once for the first, and one every 5 s after it.
// Errors: error() while it cannot be written; it is tried again every control_retry. damage() of what was found.
// Tests: tests/unit/chief/journal_test.cc.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>

#include "absl/status/statusor.h"
#include "chief/folder/storage.h"
#include "chief/known/best_record.h"
#include "chief/known/checkpoint_interval.h"
#include "chief/known/data_plan.h"
#include "chief/known/early_stopping.h"
#include "chief/known/job_clock.h"
#include "chief/known/job_costs.h"
#include "runtime/options.h"
#include "schema/ids.h"

namespace downpour {

// What others are told rests on it.
struct JobRecord {
  uint64_t run = 0;  // drawn when the job began here
  int64_t began_unix_ms = 0;
  uint64_t chiefs = 0;            // processes that led it so far
  std::string job;                // canonical text, overrides and all
  std::optional<DataShape> data;  // since some worker found it
  bool data_grow = false;         // they are those of before, and no worker has said yet whether further files follow
  uint32_t workers = 0;           // as many as it was scaled to; 0: as its text says
  EarlyStop early;                // what evaluations said of when to end
  BestRecord best;                // the checkpoint that is kept since its evaluation was the best
  std::string master = {};        // the task that runs the rest of the program; empty: none was given it
  std::string evaluated = {};     // what was known of the last values when that was given; as Evaluation::TextOf
  std::string ended;              // as `state` in docs/STATUS.md; empty: it goes on
  std::string why;                // it ended
  // Of the folder, whichever run wrote them. Checkpoints are found by reading; this tells that there was something to
  // find.
  Round newest;     // of all that became durable here; {0, 0}: none did
  Round abandoned;  // a person said to begin again without this one and those before it
  bool operator==(const JobRecord&) const = default;
};

struct JournalEntry {
  uint64_t number = 0;  // rises with each entry of a folder; 0: none yet
  JobRecord record;
  JobCosts costs;
  uint64_t batches_committed = 0;      // some seconds ago: what is fewer in the next term is computed again
  CheckpointHistory checkpoints = {};  // when this entry was written, for whatever reason
  ClockMark clock = {};                // likewise
  bool operator==(const JournalEntry&) const = default;
};

// As JSON. Errors: DATA_LOSS for a text that no chief wrote.
std::string EncodeEntry(const JournalEntry& entry);
absl::StatusOr<JournalEntry> DecodeEntry(const std::string& text);

class Journal {
 public:
  static constexpr Duration kCostsEvery = 1s;
  static constexpr Duration kCommitsEvery = 5s;

  Journal(StepContext& context, Storage& storage, const Timing& timing)
      : context_(context), storage_(storage), timing_(timing) {}

  void Load(std::function<void()> then);  // also how old the job is (job_clock.h)
  bool found() const { return entry_.number > 0; }
  const std::string& damage() const { return damage_; }  // of either copy; empty if there is none

  JobRecord& record() { return entry_.record; }
  const JobRecord& record() const { return entry_.record; }
  JobCosts& costs() { return entry_.costs; }
  const JobCosts& costs() const { return entry_.costs; }
  uint64_t batches_committed() const { return entry_.batches_committed; }
  void NoteCommitted(uint64_t batches) { entry_.batches_committed = batches; }
  const CheckpointHistory& checkpoint_history() const { return entry_.checkpoints; }
  void NoteCheckpoints(const CheckpointHistory& history) { entry_.checkpoints = history; }
  void BeginRun(JobRecord record);  // to which nothing belongs that cost another one
  void Save(std::function<void(const absl::Status&)> then);

  // Writes what changed.
  void Advance();
  bool durable() const { return durable_ && durable_->record == entry_.record; }  // the costs apart
  // The best checkpoints that a copy on disk may name: a write under way, or a failed one, may have changed one copy.
  const std::set<Round>& best_on_disk() const { return best_on_disk_; }
  uint32_t durable_workers() const { return durable_ ? durable_->record.workers : 0; }
  const std::string& error() const { return error_; }

 private:
  StepContext& context_;
  Storage& storage_;
  const Timing timing_;
  JournalEntry entry_;
  std::optional<JournalEntry> durable_;
  std::set<Round> best_on_disk_;  // of the last whole write, and of all that were begun since
  bool writing_ = false;
  Time next_try_{};
  Time next_costs_{};
  Time next_commits_{};
  std::string damage_;
  std::string error_;
};

}  // namespace downpour
