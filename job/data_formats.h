// Names of data.format that data_spec.h does not have: docs/DATA.md.
#pragma once

#include <string>

#include "job/data_spec.h"

namespace downpour {

inline constexpr char kParquetFormat[] = "parquet";

// Whether one field may have several values.
inline bool HasLists(const DataSpec& data) { return data.format != kCsvFormat; }

}  // namespace downpour
