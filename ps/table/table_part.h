// TablePart: a part of a bucket's record, as bytes.
//
//   TablePartWriter writer(header, spec, max_bytes);
//   while (writer.HasRoom()) writer.AddRow(number, place, row);
//   Payload part = std::move(writer).Finish(/*is_last=*/false);
//   absl::StatusOr<TablePart> read = ReadTablePart(part.bytes(), spec);
//
// Shapes: "DPTABLE1", the header, rows, numbers of empty places, admission counts, CRC-32C of all that. A row is its
//   place (4 bytes), last push (4), key (8) and ShapeOf(spec).bytes(). A count is its entry's number, last push, count
//   (4 each, 0 for an empty entry), nothing (4) and key (8). Little-endian. Places and entries ascend in a record.
// Errors: DATA_LOSS for bytes that are damaged or cut; INVALID_ARGUMENT for what no writer of ours makes, and for a
//   record of another table, width or optimizer. Nothing is allocated on the word of an unchecked length.
// Tests: tests/unit/ps/table/table_part_test.cc.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "ps/table/admission_counts.h"
#include "ps/table/row_pages.h"
#include "ps/table/table_spec.h"
#include "schema/payload.h"

namespace downpour {

// A moment between two pushes, of which there is a record. Numbers count a copy's points from 1.
struct RecordPoint {
  uint64_t copy = 0;    // of the bucket: from when its state was made or installed until it is dropped
  uint32_t number = 0;  // 0: none
  uint32_t clock = 0;   // pushes consumed
  bool operator==(const RecordPoint&) const = default;
};

struct TablePartHeader {
  uint64_t table = 0;
  RecordPoint point;
  uint64_t unborn = 0;  // pushes of keys that were not born for want of room
  uint32_t base = 0;    // the point of the same copy since which the record holds what changed; 0: it holds all
  uint32_t index = 0;   // of the part
  uint32_t is_last = 0;
  uint32_t width = 0;
  uint32_t form = 0;  // FormOf(spec)
  uint32_t bucket = 0;
  uint32_t buckets = 0;
  uint32_t born = 0;  // rows that the bucket had
  uint32_t rows = 0;  // in the part, as are the next two
  uint32_t empties = 0;
  uint32_t counts = 0;
  uint32_t unused = 0;
};

// Optimizer, its slots and the kind of values: a record of another one does not fit.
uint32_t FormOf(const TableSpec& spec);

struct RowEntry {
  uint32_t number = 0;  // of the place
  uint32_t last = 0;
  uint64_t key = 0;
};
struct CountEntry {
  uint32_t number = 0;  // of the entry
  uint32_t last = 0;
  uint32_t count = 0;
  uint32_t unused = 0;
  uint64_t key = 0;
};

class TablePartWriter {
 public:
  // CHECKs that a row fits.
  TablePartWriter(const TablePartHeader& header, const TableSpec& spec, size_t max_bytes);

  bool HasRoom() const { return bytes_ + most_bytes_ <= max_bytes_; }  // for one of either kind
  void AddRow(uint32_t number, const Place& place, const std::byte* row);
  void AddEmpty(uint32_t number);
  void AddCount(uint32_t number, const AdmissionCounts::Entry& entry);
  Payload Finish(bool is_last) &&;

 private:
  void Append(const void* from, size_t bytes);

  TablePartHeader header_;
  size_t row_bytes_;
  size_t most_bytes_;  // of a row or a count
  size_t max_bytes_;
  size_t bytes_;  // that the part has with what was added
  size_t end_;    // of what was written
  Payload part_;
  std::vector<uint32_t> empties_;
  std::vector<CountEntry> counts_;
};

// Views into the bytes that were read.
struct TablePart {
  TablePartHeader header;
  const std::byte* rows = nullptr;
  const std::byte* empties = nullptr;
  const std::byte* counts = nullptr;
  size_t row_bytes = 0;

  RowEntry Row(uint32_t i) const;
  const std::byte* Content(uint32_t i) const { return rows + i * row_bytes + sizeof(RowEntry); }
  uint32_t Empty(uint32_t i) const;
  CountEntry Count(uint32_t i) const;
};
absl::StatusOr<TablePart> ReadTablePart(absl::Span<const std::byte> bytes, const TableSpec& spec);

}  // namespace downpour
