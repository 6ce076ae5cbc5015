// A Dataset of files with records: opened by an index of each file, read by pieces, never held in memory whole.
//
// Shapes: examples are the records of all files in their order, without those that are left out. docs/DATA.md says how
//   files are found, indexed and read.
// Cost: opening scans each file once that has no index that fits; 40 bytes of memory for each 128 records. Reading
//   keeps values that were read last, and reads ahead, as piece_cache.h has it.
// Threads: reading may happen on several threads. Reading ahead has threads of its own.
// Errors: those of opening and reading, each with file and line or offset. DATA_LOSS for a file that changed after it
//   was opened. INVALID_ARGUMENT for more unreadable records than data.skip.
// Tests: tests/unit/data/record_dataset_test.cc, tests/process/test_data_files.py.
#pragma once

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "data/dataset.h"

namespace downpour {

absl::StatusOr<std::unique_ptr<Dataset>> OpenRecordDataset(const DataSpec& data, const SetFiles& files);

}  // namespace downpour
