#include "tools/cli/table_stats.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "checkpoint/table_reader.h"
#include "cluster/human_units.h"
#include "cluster/text_table.h"
#include "job/job_names.h"

namespace downpour {
namespace {

double NormOf(absl::Span<const float> values) {
  double squares = 0;
  for (const float value : values) squares += double{value} * value;
  return std::sqrt(squares);
}

void AddPart(const TableSpec& table, const TablePart& part, RowStats* stats) {
  const RowShape shape = ShapeOf(table);
  std::vector<float> values(shape.width);
  for (uint32_t i = 0; i < part.header.rows; ++i) {
    ReadValues(shape, part.Content(i), values.data());
    const double norm = NormOf(values);
    stats->norms += norm;
    if (norm <= stats->largest_norm && stats->rows + i > 0) continue;
    stats->largest_norm = norm;
    stats->largest_key = part.Row(i).key;
  }
  stats->rows += part.header.rows;
  stats->bytes += uint64_t{part.header.rows} * shape.bytes();
  stats->counted += part.header.counts;
  if (part.header.is_last != 0) stats->unborn += part.header.unborn;  // each part of a bucket says it
}

std::string CountOf(uint64_t n) { return HumanCount(static_cast<double>(n)); }

}  // namespace

absl::StatusOr<std::vector<RowStats>> StatsOfTables(const Checkpoint& checkpoint) {
  std::vector<RowStats> stats(checkpoint.job.model.tables.size());
  for (uint32_t bucket = 0; bucket < checkpoint.grid.buckets; ++bucket) {
    const auto add = [&](const TableSpec& table, const TablePart& part) {
      AddPart(table, part, &stats[table.id]);
      return absl::OkStatus();
    };
    if (absl::Status status = ReadTableParts(checkpoint, bucket, add); !status.ok()) return status;
  }
  return stats;
}

std::string StatsTable(const Checkpoint& checkpoint, const std::vector<RowStats>& stats) {
  std::vector<std::vector<std::string>> rows = {
      {"TABLE", "OPTIMIZER", "WIDTH", "ROWS", "BYTES", "MEAN NORM", "LARGEST", "OF KEY", "COUNTED", "UNBORN"}};
  for (size_t i = 0; i < stats.size(); ++i) {
    const ModelTable& table = checkpoint.job.model.tables[i];
    const RowStats& of = stats[i];
    const bool any = of.rows > 0;
    rows.push_back({table.name, NameIn(kOptimizers, table.optimizer.kind), absl::StrCat(table.width), CountOf(of.rows),
                    HumanBytes(static_cast<double>(of.bytes)), any ? absl::StrFormat("%.4g", of.mean_norm()) : "-",
                    any ? absl::StrFormat("%.4g", of.largest_norm) : "-",
                    any ? absl::StrCat(static_cast<int64_t>(of.largest_key)) : "-", CountOf(of.counted),
                    CountOf(of.unborn)});
  }
  return TextTable(rows, /*first_number=*/2, /*last_number=*/9);
}

std::string StatsJson(const Checkpoint& checkpoint, const std::vector<RowStats>& stats) {
  nlohmann::json tables = nlohmann::json::array();
  for (size_t i = 0; i < stats.size(); ++i) {
    const ModelTable& table = checkpoint.job.model.tables[i];
    const RowStats& of = stats[i];
    nlohmann::json json = {{"name", table.name},     {"optimizer", NameIn(kOptimizers, table.optimizer.kind)},
                           {"width", table.width},   {"rows", of.rows},
                           {"bytes", of.bytes},      {"keysCounted", of.counted},
                           {"keysUnborn", of.unborn}};
    if (of.rows > 0) {
      json["meanNorm"] = of.mean_norm();
      json["largestNorm"] = of.largest_norm;
      json["largestNormKey"] = static_cast<int64_t>(of.largest_key);
    }
    tables.push_back(std::move(json));
  }
  return nlohmann::json({{"checkpoint", ToString(checkpoint.manifest.round)}, {"tables", std::move(tables)}}).dump(2) +
         "\n";
}

}  // namespace downpour
