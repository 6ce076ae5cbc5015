// JSON lines as records (data/record_format.h): an object on each line.
//
// Shapes: a field is a key of the object; `a.b` is key a.b, or key b of the object in a. Values are numbers, text,
//   truths, null (nothing) and arrays of numbers, truths and null. An integer is exact from -2^63 to 2^63 - 1; in
//   arrays to 2^53.
// Cost: one pass of simdjson over a line, whatever is wanted of it; memory of up to 14 times the longest line.
// Errors: of a record also what is no JSON, or no object (NaN and Infinity are none), more than 1024 levels, a wanted
//   key that stands twice, an object or an array of other values as a wanted field.
// Source: RFC 8259 and jsonlines.org; what pandas writes by to_json(orient="records", lines=True).
// Tests: tests/unit/data/jsonl_records_test.cc, tests/process/test_data_files.py.
#pragma once

#include <memory>
#include <string_view>

#include "absl/status/statusor.h"
#include "data/record_format.h"

namespace downpour {

absl::StatusOr<std::unique_ptr<RecordFile>> OpenJsonRecords(const DataSpec& data, const ByteSource& source);

bool LooksLikeJson(std::string_view beginning);

}  // namespace downpour
