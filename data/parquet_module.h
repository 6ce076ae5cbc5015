// Parquet, which is read by Apache Arrow's own libraries as they come with pyarrow from PyPI. The code that calls them
// is a module of its own, so that programs run where they are not installed, and are built there.
//
// Shapes: a field is named by the names of its groups with dots between: `address.city`. What only marks a list or a
//   map (`list.element`, `key_value`) is left out. Lists of lists become one list. A group's values are numbers, whole
//   numbers, truths or texts; dates and times are whole numbers as the file has them, decimals are numbers.
// Cost: a page of each wanted field at a time, and its dictionary: kMostParquetBytes at most in all of a process.
// Errors: NOT_FOUND for a module that is missing, or whose libraries are, with what to install; FAILED_PRECONDITION for
//   libraries of another release than those that it was built with.
// Source: https://parquet.apache.org/docs/file-format. The ABI of Arrow changes with each of its releases.
// Tests: tests/unit/data/parquet_module_test.cc, tests/parquet.
#pragma once

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "data/row_groups.h"

namespace downpour {

inline constexpr int64_t kMostParquetBytes = int64_t{512} << 20;

struct ParquetModule {
  const char* release;
  const char* arrow_built;  // as 26.0.1: the libraries that it was built with,
  const char* arrow_here;   // and those that were loaded with it
  RowGroupOpener open;
};

// The name under which a module offers itself: const ParquetModule* (*)().
inline constexpr char kParquetModuleEntry[] = "DownpourParquetModule";
inline constexpr char kParquetModuleFile[] = "downpour-parquet.so";

absl::StatusOr<const ParquetModule*> LoadParquetModule();

// Loads the module, if need be, and opens a file by it.
absl::StatusOr<std::unique_ptr<RowGroups>> OpenParquet(std::shared_ptr<const ByteSource> source);

bool LooksLikeParquet(std::string_view beginning);

}  // namespace downpour
