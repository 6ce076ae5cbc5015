#include "tools/cli/table_export.h"

#include <charconv>

#include "absl/strings/str_cat.h"
#include "checkpoint/table_reader.h"
#include "job/job_file.h"
#include "tools/cli/new_file.h"
#include "tools/cli/safetensors.h"

namespace downpour {
namespace {

template <typename T>
absl::Span<const std::byte> AsBytes(const T& numbers) {
  return {reinterpret_cast<const std::byte*>(numbers.data()), numbers.size() * sizeof(numbers[0])};
}

// What one part has of a table: keys, and the values of one row after the other.
struct TableRows {
  std::vector<int64_t> ids;
  std::vector<float> values;
};

template <typename Use>
absl::Status ForEachPart(const Checkpoint& checkpoint, uint64_t table, const Use& use) {
  for (uint32_t bucket = 0; bucket < checkpoint.grid.buckets; ++bucket) {
    const auto take = [&](const TableSpec& spec, const TablePart& part) {
      if (spec.id == table) use(spec, part);
      return absl::OkStatus();
    };
    if (absl::Status status = ReadTableParts(checkpoint, bucket, take); !status.ok()) return status;
  }
  return absl::OkStatus();
}

template <typename Use>
absl::Status ForEachRows(const Checkpoint& checkpoint, uint64_t table, const Use& use) {
  TableRows rows;
  return ForEachPart(checkpoint, table, [&](const TableSpec& spec, const TablePart& part) {
    rows.ids.resize(part.header.rows);
    rows.values.resize(size_t{part.header.rows} * spec.width);
    const RowShape shape = ShapeOf(spec);
    for (uint32_t i = 0; i < part.header.rows; ++i) {
      rows.ids[i] = static_cast<int64_t>(part.Row(i).key);
      ReadValues(shape, part.Content(i), rows.values.data() + size_t{i} * spec.width);
    }
    use(rows);
  });
}

void AppendLine(int64_t id, absl::Span<const float> values, std::string* text) {
  absl::StrAppend(text, id);
  char digits[32];
  for (const float value : values) {
    const auto written = std::to_chars(std::begin(digits), std::end(digits), value);
    text->push_back(',');
    text->append(digits, written.ptr);
  }
  text->push_back('\n');
}

}  // namespace

absl::StatusOr<uint64_t> ExportTableAsCsv(const Checkpoint& checkpoint, uint64_t table, const std::string& path) {
  const auto width = static_cast<size_t>(checkpoint.job.model.tables[table].width);
  NewFile file(path);
  std::string text = "key";
  for (size_t i = 0; i < width; ++i) absl::StrAppend(&text, ",v", i);
  text.push_back('\n');
  uint64_t rows = 0, bytes = 0;
  const auto write = [&] {
    file.WriteAt(bytes, AsBytes(text));
    bytes += text.size();
    text.clear();
  };
  write();
  const absl::Status status = ForEachRows(checkpoint, table, [&](const TableRows& some) {
    for (size_t i = 0; i < some.ids.size(); ++i) {
      AppendLine(some.ids[i], absl::MakeConstSpan(some.values).subspan(i * width, width), &text);
    }
    rows += some.ids.size();
    write();
  });
  if (!status.ok()) return status;
  if (absl::Status written = file.Commit(); !written.ok()) return written;
  return rows;
}

absl::StatusOr<uint64_t> ExportTableAsSafetensors(const Checkpoint& checkpoint, uint64_t table,
                                                  const std::string& path) {
  uint64_t rows = 0;
  const auto count = [&rows](const TableSpec&, const TablePart& part) { rows += part.header.rows; };
  if (absl::Status status = ForEachPart(checkpoint, table, count); !status.ok()) return status;

  const ModelTable& spec = checkpoint.job.model.tables[table];
  const auto n = static_cast<int64_t>(rows);
  SafetensorsFile file(path, {{"ids", {n}, "I64"}, {"values", {n, spec.width}}},
                       {{"format", "downpour"},
                        {"job", CanonicalJob(checkpoint.job)},
                        {"checkpoint", ToString(checkpoint.manifest.round)},
                        {"table", spec.name}});
  const absl::Status status = ForEachRows(checkpoint, table, [&file](const TableRows& some) {
    file.Append(0, AsBytes(some.ids));
    file.Append(1, AsBytes(some.values));
  });
  if (!status.ok()) return status;
  if (absl::Status written = file.Commit(); !written.ok()) return written;
  return rows;
}

}  // namespace downpour
