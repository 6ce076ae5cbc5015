// ParquetColumn: the values of one column of a row group, from its first row on.
//
// Shapes: a column below repeated groups is a list in each row; lists of lists are one list in their order.
// Cost: a page, the dictionary, and what Read gives. Skipping rows of a column without lists passes over the pages that
//   lie before the target: their headers are read, and nothing is unpacked.
// Errors: throws parquet::ParquetException, as Arrow does, also for what does not fit what the footer says.
#pragma once

#include <parquet/column_reader.h>

#include <cstdint>
#include <memory>

#include "data/field_column.h"

namespace downpour {

// Which of a row's values are too many for any column.
inline constexpr size_t kMostValuesOfRead = size_t{1} << 24;
inline constexpr size_t kMostTextOfRead = size_t{256} << 20;

class ParquetColumn {
 public:
  virtual ~ParquetColumn() = default;
  // Null: a kind of value that no column can be made of.
  static std::unique_ptr<ParquetColumn> Make(const parquet::ColumnDescriptor* column,
                                             std::unique_ptr<parquet::PageReader> pages, arrow::MemoryPool* pool);

  virtual void Skip(uint64_t rows) = 0;
  virtual void Read(uint32_t rows, FieldColumn* to) = 0;
};

}  // namespace downpour
