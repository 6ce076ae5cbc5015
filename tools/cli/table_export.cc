#include "tools/cli/table_export.h"

#include "checkpoint/table_reader.h"
#include "job/job_file.h"
#include "tools/cli/safetensors.h"
#include "tools/cli/exported_rows.h"

namespace downpour {
namespace {

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
  ExportedRows rows;
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

}  // namespace

absl::StatusOr<uint64_t> ExportTableAsCsv(const Checkpoint& checkpoint, uint64_t table, const std::string& path) {
  ExportedRowsCsv file(path, static_cast<size_t>(checkpoint.job.model.tables[table].width));
  uint64_t rows = 0;
  const absl::Status status = ForEachRows(checkpoint, table, [&](const ExportedRows& some) {
    file.Add(some);
    rows += some.ids.size();
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
  const absl::Status status = ForEachRows(checkpoint, table, [&file](const ExportedRows& some) {
    file.Append(0, AsBytes(some.ids));
    file.Append(1, AsBytes(some.values));
  });
  if (!status.ok()) return status;
  if (absl::Status written = file.Commit(); !written.ok()) return written;
  return rows;
}

}  // namespace downpour
