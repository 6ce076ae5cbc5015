// What must outlive the chief and cannot be had from the slices' reports: which job this folder is used for, since when,
// on which data, and whether it is over. The term is not in it (startup.h), nor is any grant, commit or placement: those
// follow from what slices report in the next term (protocol rules core 1, A3, A11, schema/PROTOCOL.md).
//
//   journal.Load([&] { if (journal.found()) ...journal.record()... });
//   journal.record().data = shape;
//   ...Advance until journal.durable()...     // before anything is said that rests on it
//
// Order: a record is written whole into journal.a, then into journal.b, each by a synced rename, so that one of them is
//   always whole; the newer one that is counts.
// Errors: error() while it cannot be written; it is tried again every control_retry. damage() of what was found.
// Tests: tests/unit/chief/journal_test.cc.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "chief/data_plan.h"
#include "chief/storage.h"
#include "runtime/options.h"

namespace downpour {

struct JobRecord {
  uint64_t run = 0;  // drawn when the job began here
  int64_t began_unix_ms = 0;
  uint64_t chiefs = 0;            // processes that led it so far
  std::string job;                // canonical text, overrides and all
  std::optional<DataShape> data;  // since some worker found it
  std::string ended;              // as `state` in docs/STATUS.md; empty: it goes on
  bool operator==(const JobRecord&) const = default;
};

// One line: JSON and its checksum. `number` rises with each record of a folder.
std::string EncodeJobRecord(const JobRecord& record, uint64_t number);
// Errors: DATA_LOSS.
absl::StatusOr<std::pair<uint64_t, JobRecord>> DecodeJobRecord(const std::string& text);

class Journal {
 public:
  Journal(Turn& turn, Storage& storage, const Timing& timing) : turn_(turn), storage_(storage), timing_(timing) {}

  void Load(std::function<void()> then);
  bool found() const { return number_ > 0; }
  const std::string& damage() const { return damage_; }  // of either file; empty if there is none

  JobRecord& record() { return record_; }
  const JobRecord& record() const { return record_; }
  void Save(std::function<void(const absl::Status&)> then);

  // Writes the record if it changed.
  void Advance();
  bool durable() const { return durable_ == record_; }
  const std::string& error() const { return error_; }

 private:
  void Read(const std::string& file, std::function<void()> then);

  Turn& turn_;
  Storage& storage_;
  const Timing timing_;
  uint64_t number_ = 0;  // of the last record
  JobRecord record_;
  std::optional<JobRecord> durable_;
  bool writing_ = false;
  Time next_try_{};
  std::string damage_;
  std::string error_;
};

}  // namespace downpour
