// Opens one file of a data set, of whichever kind it is.
//
// Tests: tests/unit/data/record_dataset_test.cc, row_group_file_test.cc.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "data/indexed_file.h"

namespace downpour {

// Takes the index beside the file, if that fits, or else makes one; `anew`: makes one in any case.
absl::StatusOr<std::unique_ptr<IndexedFile>> OpenIndexedFile(const DataSpec& data, const std::string& path,
                                                             bool anew = false);

}  // namespace downpour
