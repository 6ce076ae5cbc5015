// Libsvm text (svmlight) as records (data/record_format.h): `label index:value index:value ...`.
//
// Shapes: field `label` is the first word, as text. Field `features` is the dense row of indices 1 to the width that
//   data.columns gives it; field 17 is the value of index 17. An index that a record lacks is 0. Where indices count
//   from 0, as scikit-learn writes them unless told otherwise, the row is `features0` instead, or field 0 is wanted.
//   qid:N is ignored, as is all from a # on.
// Cost: one pass over a line; memory of the row.
// Errors: of a record also an index that does not rise, that is 0 where indices count from 1, or beyond the width; a
//   value that is no finite number.
// Source: the README of LIBSVM, svmlight.joachims.org.
// Tests: tests/unit/data/libsvm_records_test.cc, tests/process/test_data_files.py.
#pragma once

#include <memory>
#include <string_view>

#include "absl/status/statusor.h"
#include "data/record_format.h"

namespace downpour {

absl::StatusOr<std::unique_ptr<RecordFile>> OpenLibsvmRecords(const DataSpec& data, const ByteSource& source);

bool LooksLikeLibsvm(std::string_view beginning);

}  // namespace downpour
