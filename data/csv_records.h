// CSV as records (data/record_format.h).
//
// Shapes: as data/csv.h has them. Fields are named by `fields`, else by the header, else c0, c1 and so on. With a
//   header the first record is the one after it: records before it with another number of fields than most are a
//   preamble.
// Cost: a record without quotes is cut by two searches, and read in one pass.
// Errors: of a record also another number of fields than most have.
// Tests: tests/unit/data/csv_records_test.cc.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "data/record_format.h"

namespace downpour {

absl::StatusOr<std::unique_ptr<RecordFile>> OpenCsvRecords(const DataSpec& data, const ByteSource& source);

// Criteo's logs of clicks as they are published: fields between tabs without a header, named label, I1 to I13 and C1 to
// C26. Those of tests lack the label. Source: https://ailab.criteo.com/ressources (the Kaggle and the terabyte set).
absl::StatusOr<std::unique_ptr<RecordFile>> OpenCriteoRecords(const DataSpec& data, const ByteSource& source);

// c0, c1 and so on.
std::vector<std::string> NumberedFields(size_t count);

}  // namespace downpour
