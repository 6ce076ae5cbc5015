#include "tools/cli/table_delta.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>
#include <numeric>
#include <unordered_map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "checkpoint/table_reader.h"
#include "cluster/human_units.h"
#include "cluster/text_table.h"
#include "job/job_file.h"
#include "tools/cli/exported_rows.h"
#include "tools/cli/safetensors.h"

namespace downpour {
namespace {

// The earlier checkpoint's rows of one bucket.
class EarlierRows {
 public:
  void Add(const TableSpec& spec, const TablePart& part) {
    const RowShape shape = ShapeOf(spec);
    for (uint32_t i = 0; i < part.header.rows; ++i) {
      places_.emplace(part.Row(i).key, places_.size());
      values_.resize(places_.size() * spec.width);
      ReadValues(shape, part.Content(i), values_.data() + values_.size() - spec.width);
    }
  }
  // The values of that row, which is not gone; null: there was none.
  const float* Take(uint64_t key, size_t width) {
    const auto found = places_.find(key);
    if (found == places_.end()) return nullptr;
    const float* const values = values_.data() + found->second * width;
    places_.erase(found);
    return values;
  }
  std::vector<int64_t> Left() const {
    std::vector<int64_t> keys;
    for (const auto& [key, place] : places_) keys.push_back(static_cast<int64_t>(key));
    std::sort(keys.begin(), keys.end());
    return keys;
  }

 private:
  std::unordered_map<uint64_t, size_t> places_;
  std::vector<float> values_;
};

double Distance(absl::Span<const float> a, const float* b) {
  double squares = 0;
  for (size_t i = 0; i < a.size(); ++i) squares += (double{a[i]} - b[i]) * (double{a[i]} - b[i]);
  return std::sqrt(squares);
}

// Whether the row is other than it was, and how much.
bool Note(const float* before, absl::Span<const float> now, uint64_t key, TableDelta* delta) {
  if (before == nullptr) return ++delta->born, true;
  if (std::memcmp(before, now.data(), now.size() * sizeof(float)) == 0) return ++delta->same, false;
  ++delta->changed;
  const double distance = Distance(now, before);
  delta->moved += distance;
  if (distance > delta->most_moved) {
    delta->most_moved = distance;
    delta->most_moved_key = key;
  }
  return true;
}

ExportedRows Changes(const TableSpec& spec, const TablePart& part, EarlierRows* earlier, TableDelta* delta) {
  ExportedRows changes;
  std::vector<float> values(spec.width);
  for (uint32_t i = 0; i < part.header.rows; ++i) {
    const uint64_t key = part.Row(i).key;
    ReadValues(ShapeOf(spec), part.Content(i), values.data());
    if (!Note(earlier->Take(key, spec.width), values, key, delta)) continue;
    changes.ids.push_back(static_cast<int64_t>(key));
    changes.values.insert(changes.values.end(), values.begin(), values.end());
  }
  return changes;
}

absl::Status CheckAlike(const Checkpoint& before, const Checkpoint& after, uint64_t table) {
  const ModelTable& now = after.job.model.tables[table];
  const std::vector<ModelTable>& tables = before.job.model.tables;
  if (table < tables.size() && tables[table].name == now.name && tables[table].width == now.width &&
      before.grid.buckets == after.grid.buckets) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat(before.path, " does not have table ", now.name, " as ", after.path, " has it"));
}

// Of those tables, by their places: `use(rows)` with those that are new or other, a part at a time, and `gone(keys)`
// once for each bucket. Returns the deltas of all tables of the job.
template <typename Use, typename Gone>
absl::StatusOr<std::vector<TableDelta>> ForEachChange(const Checkpoint& before, const Checkpoint& after,
                                                      const std::vector<uint64_t>& tables, const Use& use,
                                                      const Gone& gone) {
  std::vector<TableDelta> deltas(after.job.model.tables.size());
  std::vector<bool> wanted(deltas.size());
  for (const uint64_t table : tables) {
    if (absl::Status status = CheckAlike(before, after, table); !status.ok()) return status;
    wanted[table] = true;
  }
  for (uint32_t bucket = 0; bucket < after.grid.buckets; ++bucket) {
    std::vector<EarlierRows> earlier(deltas.size());
    const auto keep = [&](const TableSpec& spec, const TablePart& part) {
      if (spec.id < wanted.size() && wanted[spec.id]) earlier[spec.id].Add(spec, part);
      return absl::OkStatus();
    };
    if (absl::Status status = ReadTableParts(before, bucket, keep); !status.ok()) return status;
    const auto compare = [&](const TableSpec& spec, const TablePart& part) {
      if (wanted[spec.id]) use(Changes(spec, part, &earlier[spec.id], &deltas[spec.id]));
      return absl::OkStatus();
    };
    if (absl::Status status = ReadTableParts(after, bucket, compare); !status.ok()) return status;
    for (const uint64_t table : tables) {
      const std::vector<int64_t> left = earlier[table].Left();
      deltas[table].gone += left.size();
      gone(left);
    }
  }
  return deltas;
}

absl::StatusOr<TableDelta> WriteCsv(const Checkpoint& before, const Checkpoint& after, uint64_t table,
                                    const std::string& path) {
  ExportedRowsCsv file(path, static_cast<size_t>(after.job.model.tables[table].width));
  const auto deltas = ForEachChange(
      before, after, {table}, [&file](const ExportedRows& rows) { file.Add(rows); },
      [&file](const std::vector<int64_t>& keys) { file.AddGone(keys); });
  if (!deltas.ok()) return deltas.status();
  if (absl::Status written = file.Commit(); !written.ok()) return written;
  return (*deltas)[table];
}

absl::StatusOr<TableDelta> WriteSafetensors(const Checkpoint& before, const Checkpoint& after, uint64_t table,
                                            const std::string& path) {
  const auto count = ForEachChange(
      before, after, {table}, [](const ExportedRows&) {}, [](const std::vector<int64_t>&) {});
  if (!count.ok()) return count.status();
  const TableDelta& delta = (*count)[table];
  const ModelTable& spec = after.job.model.tables[table];
  const auto n = static_cast<int64_t>(delta.born + delta.changed);
  SafetensorsFile file(
      path, {{"ids", {n}, "I64"}, {"values", {n, spec.width}}, {"gone", {static_cast<int64_t>(delta.gone)}, "I64"}},
      {{"format", "downpour"},
       {"job", CanonicalJob(after.job)},
       {"checkpoint", ToString(after.manifest.round)},
       {"since", ToString(before.manifest.round)},
       {"table", spec.name}});
  const auto again = ForEachChange(
      before, after, {table},
      [&file](const ExportedRows& rows) {
        file.Append(0, AsBytes(rows.ids));
        file.Append(1, AsBytes(rows.values));
      },
      [&file](const std::vector<int64_t>& keys) { file.Append(2, AsBytes(keys)); });
  if (!again.ok()) return again.status();
  if (absl::Status written = file.Commit(); !written.ok()) return written;
  return delta;
}

}  // namespace

absl::StatusOr<std::vector<TableDelta>> CompareTables(const Checkpoint& before, const Checkpoint& after) {
  std::vector<uint64_t> all(after.job.model.tables.size());
  std::iota(all.begin(), all.end(), uint64_t{0});
  return ForEachChange(
      before, after, all, [](const ExportedRows&) {}, [](const std::vector<int64_t>&) {});
}

absl::StatusOr<TableDelta> WriteDelta(const Checkpoint& before, const Checkpoint& after, uint64_t table,
                                      DeltaFormat format, const std::string& path) {
  return format == DeltaFormat::kCsv ? WriteCsv(before, after, table, path)
                                     : WriteSafetensors(before, after, table, path);
}

std::string DeltasTable(const Checkpoint& after, const std::vector<TableDelta>& deltas) {
  std::vector<std::vector<std::string>> rows = {
      {"TABLE", "NEW", "CHANGED", "SAME", "GONE", "MEAN CHANGE", "LARGEST", "OF KEY"}};
  for (size_t i = 0; i < deltas.size(); ++i) {
    const TableDelta& of = deltas[i];
    const auto count = [](uint64_t n) { return HumanCount(static_cast<double>(n)); };
    const auto number = [&of](double n) { return of.changed > 0 ? absl::StrFormat("%.4g", n) : "-"; };
    rows.push_back({after.job.model.tables[i].name, count(of.born), count(of.changed), count(of.same), count(of.gone),
                    number(of.mean_moved()), number(of.most_moved),
                    of.changed > 0 ? absl::StrCat(static_cast<int64_t>(of.most_moved_key)) : "-"});
  }
  return TextTable(rows, /*first_number=*/1, /*last_number=*/7);
}

std::string DeltasJson(const Checkpoint& before, const Checkpoint& after, const std::vector<TableDelta>& deltas) {
  nlohmann::json tables = nlohmann::json::array();
  for (size_t i = 0; i < deltas.size(); ++i) {
    const TableDelta& of = deltas[i];
    nlohmann::json json = {{"name", after.job.model.tables[i].name},
                           {"new", of.born},
                           {"changed", of.changed},
                           {"same", of.same},
                           {"gone", of.gone}};
    if (of.changed > 0) {
      json["meanChange"] = of.mean_moved();
      json["largestChange"] = of.most_moved;
      json["largestChangeKey"] = static_cast<int64_t>(of.most_moved_key);
    }
    tables.push_back(std::move(json));
  }
  const nlohmann::json all = {{"since", ToString(before.manifest.round)},
                              {"checkpoint", ToString(after.manifest.round)},
                              {"tables", std::move(tables)}};
  return all.dump(2) + "\n";
}

}  // namespace downpour
