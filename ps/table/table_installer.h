// TableInstaller: makes a bucket of records, whole or not at all.
//
//   TableInstaller installer(spec, copy);
//   if (absl::Status status = installer.Add(part.bytes()); !status.ok()) return status;   // for every part
//   absl::StatusOr<TableBucket> bucket = std::move(installer).Finish();
//
// Records may be of another number of buckets: then those of every bucket are given in which keys of this one lie, and
//   rows go where their keys belong. Each must have been written by a bucket of the same table, width and optimizer.
// Order: one bucket after the other; of each the newest record first, then the one that is its base, and so on to a
//   whole one; of each record its parts in their order. A place counts as the newest record that has it says.
// Cost: one pass over the parts, and 4 bytes for each place that a record with a base names.
// Errors: those of ReadTablePart. INVALID_ARGUMENT for a part that is not the next one, a record without its base, a
//   key that comes twice or belongs to another bucket, numbers that are not finite or squares below 0.
//   FAILED_PRECONDITION after an error. Nothing is served of what was added before.
// Tests: tests/unit/ps/table/table_installer_test.cc, tests/unit/ps/table/table_record_test.cc.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "ps/table/table_bucket.h"
#include "ps/table/table_part.h"
#include "ps/table/table_spec.h"

namespace downpour {

class TableInstaller {
 public:
  TableInstaller(const TableSpec& spec, uint64_t copy) : bucket_(spec, copy) {}

  absl::Status Add(absl::Span<const std::byte> part);
  // Whether nothing is missing of the buckets whose parts were added.
  bool whole() const { return !last_.has_value(); }
  absl::StatusOr<TableBucket> Finish() &&;

 private:
  // The numbers that the records of one bucket name: of places, or of admission counts.
  class Numbers {
   public:
    // False unless it is behind the one before, of the same record.
    bool Take(uint32_t number);
    // Whether a newer record has named the one that was taken just now.
    bool WasNewer() const { return next_ < newer_.size() && newer_[next_] == own_; }
    // The record that begins is one with a base: older ones will be asked about its numbers.
    void Begin(bool has_base);

   private:
    std::vector<uint32_t> newer_;  // of newer records
    std::vector<uint32_t> named_;  // of this one, if it has a base
    size_t next_ = 0;              // in newer_: the first that is not before own_
    int64_t own_ = -1;             // the last of this record
    bool has_base_ = false;
  };

  absl::Status Take(absl::Span<const std::byte> part);
  absl::Status CheckOrder(const TablePartHeader& header) const;
  void BeginBucket(const TablePartHeader& header);
  absl::Status TakePlaces(const TablePart& part);
  absl::Status TakeRow(const TablePartHeader& header, const RowEntry& entry, const std::byte* row);
  absl::Status TakeCounts(const TablePart& part);
  absl::Status CheckEntry(const TablePartHeader& header, uint64_t key, uint32_t last) const;
  bool IsWanted(uint64_t key) const;

  TableBucket bucket_;
  bool failed_ = false;
  std::optional<TablePartHeader> last_;  // the part before, as long as its bucket is not whole
  std::vector<bool> whole_;              // by bucket of the records
  Numbers places_, entries_;             // of the bucket at hand; entries of counts
  uint32_t shift_ = 0;                   // by which the pushes of the bucket at hand are later here
};

}  // namespace downpour
