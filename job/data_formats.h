// Names of data.format that data_spec.h does not have: docs/DATA.md.
#pragma once

#include <string>

#include "job/data_spec.h"

namespace downpour {

inline constexpr char kParquetFormat[] = "parquet";
inline constexpr char kCriteoFormat[] = "criteo";    // 13 integers and 26 words between tabs
inline constexpr char kCifar10Format[] = "cifar10";  // images of 32 x 32, as are the next, in binary
inline constexpr char kCifar100Format[] = "cifar100";

// Whether one field may have several values.
inline bool HasLists(const DataSpec& data) { return data.format != kCsvFormat && data.format != kCriteoFormat; }

}  // namespace downpour
