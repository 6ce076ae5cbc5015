// The index of a file with records: where each piece of it lies, so that any record is found without reading those
// before it.
//
//   auto index = ScanRecords(kCsvFormat, *source, **file);
//   const size_t piece = index->PieceOf(record);
//
// Shapes: pieces lie one behind the other from the first record to the file's end, each with up to kPieceRecords
//   records, and no more once it has kPieceBytes.
// Cost: of a scan one pass in the memory of RecordScanner; 40 bytes of memory for each piece.
// Tests: tests/unit/data/record_dataset_test.cc.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "data/byte_source.h"
#include "data/record_format.h"

namespace downpour {

inline constexpr uint32_t kPieceRecords = 128;
inline constexpr uint32_t kPieceBytes = 1 << 18;  // and up to kMostRecord more

struct Piece {
  uint64_t offset = 0;    // in the unpacked bytes
  uint64_t first = 0;     // record of the file
  uint64_t line = 0;      // on which it begins; 0: the file has no lines
  uint64_t checksum = 0;  // HashWord of its bytes
  uint32_t bytes = 0;
  uint32_t records = 0;
  bool operator==(const Piece&) const = default;
};

// Of the records that Read or a column refuse: which ones these are depends on the columns.
struct LeftOut {
  uint64_t reading = 0;           // what decided it: RecordDataset
  std::vector<uint64_t> records;  // of the file, rising
  bool operator==(const LeftOut&) const = default;
};

struct RecordIndex {
  uint64_t size = 0, version = 0;  // of the source, packed or not
  std::string cutting;             // the format's name, RecordFile::begin() and cutting()
  std::vector<Piece> pieces;
  LeftOut left_out;

  // 0 where no piece has any, as of files by columns, whose pieces are their bytes, and which count records themselves.
  uint64_t records() const { return pieces.empty() ? 0 : pieces.back().first + pieces.back().records; }
  size_t PieceOf(uint64_t record) const;  // record < records()
  bool operator==(const RecordIndex&) const = default;
};

// As RecordIndex::cutting has it.
std::string CuttingOf(const std::string& format, const RecordFile& file);

// Reads `source` from its beginning to its end. Errors: those of RecordScanner.
absl::StatusOr<RecordIndex> ScanRecords(const std::string& format, const ByteSource& source, const RecordFile& file);

}  // namespace downpour
