// The module: what data/parquet_module.h says.
#include <arrow/config.h>
#include <arrow/util/config.h>
#include <parquet/exception.h>
#include <parquet/file_reader.h>
#include <parquet/metadata.h>

#include <algorithm>
#include <memory>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "data/parquet/arrow_source.h"
#include "data/parquet/parquet_column.h"
#include "data/parquet_module.h"
#include "schema/text.h"

namespace downpour {
namespace {

constexpr int64_t kReadAtOnce = int64_t{256} << 10;  // bytes of a column
constexpr int32_t kMostNames = 1 << 20;              // and other things that a footer counts
constexpr size_t kShown = 200;                       // bytes of what Arrow says

arrow::MemoryPool* Pool() {
  // The system's, since others keep what was given back.
  static arrow::ProxyMemoryPool& counted = *new arrow::ProxyMemoryPool(arrow::system_memory_pool());
  static arrow::CappedMemoryPool& pool = *new arrow::CappedMemoryPool(&counted, kMostParquetBytes);
  return &pool;
}

// Calls run(), and gives what Arrow throws as a status. `file`: what it read from.
template <typename Run>
absl::Status Caught(const ArrowSource& file, const Run& run) {
  try {
    run();
    return absl::OkStatus();
  } catch (const std::bad_alloc&) {
    return absl::ResourceExhaustedError("the file needs more memory than there is");
  } catch (const std::exception& error) {
    if (absl::Status failure = file.failure(); !failure.ok()) return failure;
    const std::string said = error.what();
    if (said.find("ut of memory") != std::string::npos || said.find("malloc of size") != std::string::npos) {
      return absl::ResourceExhaustedError(absl::StrCat("the file's pages or its footer need more than ",
                                                       kMostParquetBytes >> 20,
                                                       " MiB of memory at once: write smaller pages"));
    }
    return absl::DataLossError(absl::StrCat("the file is damaged, or is no Parquet: ", OneLine(said, kShown)));
  }
}

// The names from the outermost group on, without those that only mark lists and maps.
std::string NameOf(const parquet::ColumnDescriptor& column) {
  std::vector<const parquet::schema::Node*> path;
  for (const auto* node = column.schema_node().get(); node->parent() != nullptr; node = node->parent()) {
    path.push_back(node);
  }
  std::string name;
  bool marks = false;  // the next one is what a list has, by a name that nobody chose
  for (auto at = path.rbegin(); at != path.rend(); ++at) {
    const parquet::schema::Node& node = **at;
    const auto& above = node.parent()->logical_type();
    const bool is_of_list = node.is_repeated() && above != nullptr && above->is_list();
    const bool is_of_map = node.is_repeated() && above != nullptr && above->is_map();
    if (!is_of_list && !is_of_map && !std::exchange(marks, false))
      absl::StrAppend(&name, name.empty() ? "" : ".", node.name());
    if (is_of_list) marks = node.is_group() && static_cast<const parquet::schema::GroupNode&>(node).field_count() == 1;
  }
  return name;
}

class Cursor final : public RowGroupCursor {
 public:
  Cursor(std::shared_ptr<ArrowSource> file, std::shared_ptr<parquet::ParquetFileReader> reader)
      : file_(std::move(file)), reader_(std::move(reader)) {}

  absl::Status Open(int group, absl::Span<const int> columns, absl::Span<const std::string> names) {
    std::string strange;
    absl::Status status = Caught(*file_, [&] {
      group_ = reader_->RowGroup(group);
      for (size_t i = 0; i < columns.size(); ++i) {
        const parquet::ColumnDescriptor* column = reader_->metadata()->schema()->Column(columns[i]);
        columns_.push_back(ParquetColumn::Make(column, group_->GetColumnPageReader(columns[i]), Pool()));
        names_.emplace_back(names[i]);
        if (columns_.back() == nullptr) strange = names[i];
      }
    });
    if (!status.ok() || strange.empty()) return status;
    return absl::InvalidArgumentError(absl::StrCat("field '", strange, "' has values of a kind that is not read"));
  }

  absl::Status Skip(uint64_t rows) override {
    return ForEach([&](size_t i) { columns_[i]->Skip(rows); });
  }
  absl::Status Read(uint32_t rows, absl::Span<FieldColumn> columns) override {
    return ForEach([&](size_t i) { columns_[i]->Read(rows, &columns[i]); });
  }

 private:
  template <typename Take>
  absl::Status ForEach(const Take& take) {
    for (size_t i = 0; i < columns_.size(); ++i) {
      const absl::Status status = Caught(*file_, [&] { take(i); });
      if (absl::IsDataLoss(status) && file_->failure().ok()) {
        return absl::DataLossError(absl::StrCat("field '", OneLine(names_[i], kShown), "': ", status.message()));
      }
      if (!status.ok()) return status;
    }
    return absl::OkStatus();
  }

  const std::shared_ptr<ArrowSource> file_;
  const std::shared_ptr<parquet::ParquetFileReader> reader_;
  std::shared_ptr<parquet::RowGroupReader> group_;
  std::vector<std::unique_ptr<ParquetColumn>> columns_;
  std::vector<std::string> names_;
};

class ParquetGroups final : public RowGroups {
 public:
  absl::Status Open(std::shared_ptr<const ByteSource> source) {
    file_ = std::make_shared<ArrowSource>(std::move(source), Pool());
    parquet::ReaderProperties properties(Pool());
    properties.enable_buffered_stream();
    properties.set_buffer_size(kReadAtOnce);
    properties.set_thrift_container_size_limit(kMostNames);
    absl::Status status = Caught(*file_, [&] { reader_ = parquet::ParquetFileReader::Open(file_, properties); });
    return status.ok() ? Look() : status;
  }

  const std::vector<std::string>& fields() const override { return names_; }
  const std::string& layout() const override { return layout_; }
  const std::vector<RowGroupSize>& groups() const override { return groups_; }

  absl::StatusOr<std::unique_ptr<RowGroupCursor>> NewCursor(size_t group,
                                                            absl::Span<const std::string> fields) const override {
    std::vector<int> columns;
    for (const std::string& field : fields) {
      columns.push_back(static_cast<int>(std::find(names_.begin(), names_.end(), field) - names_.begin()));
    }
    auto cursor = std::make_unique<Cursor>(file_, reader_);
    if (absl::Status status = cursor->Open(static_cast<int>(group), columns, fields); !status.ok()) return status;
    return cursor;
  }

 private:
  absl::Status Look() {
    absl::Status lies;
    const absl::Status status = Caught(*file_, [&] { lies = LookAtFooter(*reader_->metadata()); });
    return status.ok() ? lies : status;
  }

  absl::Status LookAtFooter(const parquet::FileMetaData& footer) {
    const parquet::SchemaDescriptor& schema = *footer.schema();
    for (int i = 0; i < schema.num_columns(); ++i) {
      const parquet::ColumnDescriptor& column = *schema.Column(i);
      names_.push_back(NameOf(column));
      absl::StrAppend(&layout_, names_.back(), " ", static_cast<int>(column.physical_type()), " ",
                      column.max_definition_level(), " ", column.max_repetition_level(), "\n");
    }
    int64_t rows = 0;
    for (int i = 0; i < footer.num_row_groups(); ++i) {
      const auto group = footer.RowGroup(i);
      if (group->num_rows() < 0 || group->num_rows() > footer.num_rows() - rows) {
        return absl::DataLossError(absl::StrCat("its footer says that there are ", footer.num_rows(),
                                                " rows, and row group ", i, " has others"));
      }
      rows += group->num_rows();
      RowGroupSize& size = groups_.emplace_back();
      size.rows = static_cast<uint64_t>(group->num_rows());
      size.bytes = static_cast<uint64_t>(std::max<int64_t>(0, group->total_byte_size()));
      for (int one = 0; one < group->num_columns() && one < schema.num_columns(); ++one) {
        const int64_t values = group->ColumnChunk(one)->num_values();
        if (schema.Column(one)->max_repetition_level() == 0 && values != group->num_rows()) {
          return absl::DataLossError(absl::StrCat("its footer says that row group ", i, " has ", group->num_rows(),
                                                  " rows and ", values, " values of '",
                                                  OneLine(names_[static_cast<size_t>(one)], kShown), "'"));
        }
        size.values += static_cast<uint64_t>(std::max<int64_t>(0, values));
      }
    }
    if (rows == footer.num_rows()) return absl::OkStatus();
    return absl::DataLossError(
        absl::StrCat("its footer says that there are ", footer.num_rows(), " rows, and its groups have ", rows));
  }

  std::shared_ptr<ArrowSource> file_;
  std::shared_ptr<parquet::ParquetFileReader> reader_;
  std::vector<std::string> names_;
  std::string layout_;
  std::vector<RowGroupSize> groups_;
};

absl::StatusOr<std::unique_ptr<RowGroups>> Open(std::shared_ptr<const ByteSource> source) {
  auto groups = std::make_unique<ParquetGroups>();
  if (absl::Status status = groups->Open(std::move(source)); !status.ok()) return status;
  return groups;
}

}  // namespace
}  // namespace downpour

extern "C" __attribute__((visibility("default"))) const downpour::ParquetModule* DownpourParquetModule() {
  static const std::string& here = *new std::string(arrow::GetBuildInfo().version_string);
  static const downpour::ParquetModule module{DOWNPOUR_VERSION, ARROW_VERSION_STRING, here.c_str(), &downpour::Open};
  return &module;
}
