// RecordScanner: the records of a file from the first to the last.
//
//   RecordScanner scanner(*source, **file);
//   std::string_view record;
//   while (*scanner.Next(&record)) ...
//
// Cost: one pass; memory of the longest record, at most twice kMostRecord.
// Errors: those of the source and of RecordFile::Cut, with file and place; INVALID_ARGUMENT for a record of more than
//   kMostRecord.
// Tests: tests/unit/data/csv_records_test.cc.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "data/byte_source.h"
#include "data/byte_stream.h"
#include "data/record_format.h"

namespace downpour {

class RecordScanner {
 public:
  // Both outlive this.
  RecordScanner(const ByteSource& source, const RecordFile& file)
      : source_(source), file_(file), stream_(source), next_line_(file.first_line()) {}

  // As Next, but gives what is no record as well, so that all bytes from RecordFile::begin() on come once.
  absl::StatusOr<bool> NextRun(std::string_view* run, bool* is_record);
  // False at the end. The record stays until the next call. What has failed goes on failing.
  absl::StatusOr<bool> Next(std::string_view* record);

  // Of what was read last: where it begins in the unpacked bytes, and on which line.
  uint64_t offset() const { return offset_; }
  uint64_t line() const { return line_; }

 private:
  absl::Status Fill();

  const ByteSource& source_;
  const RecordFile& file_;
  ByteStream stream_;
  std::string text_;  // read, and from at_ on no record yet
  size_t at_ = 0;
  bool at_end_ = false;  // of the source
  uint64_t offset_ = 0, line_ = 0, next_line_;
};

// FILE:LINE, or "FILE at byte OFFSET" where `line` is 0, as a file without lines has it.
std::string RecordPlace(const std::string& file, uint64_t offset, uint64_t line);
// `status` with the place before its words.
absl::Status AtPlace(const std::string& place, const absl::Status& status);

}  // namespace downpour
