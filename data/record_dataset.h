// A Dataset of files with records: opened by an index of each file, read by pieces, never held in memory whole.
//
// Shapes: examples are the records of all files in their order, without those that are left out. docs/DATA.md says how
//   files are found, indexed and read.
// Cost: opening scans each file once that has no index that fits; 40 bytes of memory for each 128 records. Reading
//   keeps kKeptBytes of values that were read last.
// Threads: reading may happen on several threads.
// Errors: those of opening and reading, each with file and line or offset. DATA_LOSS for a file that changed after it
//   was opened. INVALID_ARGUMENT for more unreadable records than data.skip.
// Tests: tests/unit/data/record_dataset_test.cc, tests/process/test_data_files.py.
#pragma once

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "data/dataset.h"

namespace downpour {

inline constexpr size_t kKeptBytes = size_t{64} << 20;

absl::StatusOr<std::unique_ptr<Dataset>> OpenRecordDataset(const DataSpec& data, const SetFiles& files);

}  // namespace downpour
