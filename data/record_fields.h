// What formats share whose records are lines, or name their fields themselves.
//
// Cost: KnownFields reads the first 200 records, or 1 MiB, and takes memory for their names.
// Tests: tests/unit/data/record_fields_test.cc.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "data/byte_source.h"
#include "data/record_format.h"
#include "job/data_spec.h"

namespace downpour {

struct FieldHash {
  using is_transparent = void;
  size_t operator()(std::string_view name) const { return std::hash<std::string_view>()(name); }
};
// Where each wanted field has its place.
using FieldPlaces = std::unordered_map<std::string, size_t, FieldHash, std::equal_to<>>;

// A record that ends with its line. A line with nothing but blanks on it, or with `comment` first, is none.
CutRecord CutLine(std::string_view text, bool at_end, char comment = '\n');

// The first unpacked bytes of a file, 64 KiB at most.
absl::StatusOr<std::string> BeginningOf(const ByteSource& source);
// How many of them are a byte order mark, which is no part of the first record.
uint64_t ByteOrderMark(std::string_view beginning);

// KnownFields: which fields the first records have, so that a name that was mistyped is no column of missing values.
class KnownFields {
 public:
  KnownFields() = default;
  // Errors: those of cutting the file into records. A record that cannot be read is left out.
  static absl::StatusOr<KnownFields> Of(const DataSpec& data, const ByteSource& source, const RecordFile& file);

  // NOT_FOUND for a field that none of the first records has, and that no column has a default for.
  absl::Status Check(const std::string& file, absl::Span<const std::string> wanted) const;

 private:
  std::vector<std::string> names_;      // in the order in which they came; empty: there are no records
  std::set<std::string> with_default_;  // fields of columns
};

}  // namespace downpour
