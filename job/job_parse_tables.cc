// What the job file says of tables and of the layers that read them.
#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "job/job_parse.h"
#include "schema/text.h"

namespace downpour {
namespace {

constexpr size_t kMostEmbedded = 1024;  // columns of one layer
constexpr int64_t kMostPushes = int64_t{1} << 24;

// zeros, or {uniform: 0.05}.
void ReadInitializer(MapReader& reader, JobErrors& errors, double* initial) {
  const YamlNode* node = reader.Find("initializer");
  if (node == nullptr) return;
  if (node->Is(YamlNode::Kind::kScalar)) {
    if (node->text == kZeros) {
      *initial = 0;
    } else {
      reader.Fail(*node, "initializer", absl::StrCat("is ", Describe(*node), ", but must be zeros or a map"),
                  "write {uniform: 0.05}, for draws between -0.05 and 0.05");
    }
    return;
  }
  MapReader inner(*node, reader.PathOf("initializer"), errors);
  if (inner.Require("uniform") != nullptr) {
    inner.Number(
        "uniform", [](double v) { return v >= 1e-37 && v <= 1e30; },
        "between 1e-37 and 1e30, since it is computed with as a 32-bit float", initial);
  }
  inner.Finish();
}

ModelTable ReadTable(const YamlNode& node, const std::string& path, JobErrors& errors) {
  ModelTable table;
  MapReader reader(node, path, errors);
  if (reader.Require("name") != nullptr) reader.Name("name", &table.name);
  if (reader.Require("width") != nullptr) reader.Integer("width", 1, kMostTableWidth, &table.width);
  if (const YamlNode* optimizer = reader.Find("optimizer")) {
    ReadTableOptimizer(*optimizer, reader.PathOf("optimizer"), errors, &table);
  }
  ReadInitializer(reader, errors, &table.initial);
  reader.Integer("admitAfter", 1, kMostPushes, &table.admit_after);
  reader.Integer("evictAfter", 0, kMostPushes, &table.evict_after);
  reader.Integer("maxRows", 0, kMostCount, &table.max_rows);
  reader.Choice("precision", kTablePrecisions, &table.halves);
  reader.Finish();
  return table;
}

// Adds a column to those of an embedding.
void TakeColumn(const YamlNode& node, const std::string& path, const DataSpec& data, JobErrors& errors,
                EmbeddingSpec* embedding) {
  std::string name;
  if (!ReadName(node, path, errors, &name)) return;
  if (std::ranges::find(embedding->columns, name) != embedding->columns.end()) {
    return errors.Add(node, path, absl::StrCat(name, " stands there twice"));
  }
  if (!data.columns.empty()) {  // else that is told
    const NamedColumn named = FindNamedColumn(data, name);
    if (named.column == nullptr) return errors.Add(node, path, named.what, named.remedy);
    if (named.column->kind == ColumnKind::kNumber) {
      errors.Add(node, path, absl::StrCat("column ", name, " is a number, and a table has rows of categories or keys"),
                 "give the column buckets, a vocabulary, a hash or a key, or let an input of the model have it");
    }
  }
  embedding->columns.push_back(std::move(name));
}

}  // namespace

void ReadTables(MapReader& model, const DataSpec& data, JobErrors& errors, ModelSpec* spec) {
  const YamlNode* node = model.Find("tables");
  model.Integer("tableBuckets", 1, kMostTableBuckets, &spec->table_buckets);
  if (node == nullptr) return model.FailOnlyWith("tableBuckets", "tables", "this model has none");
  if (!data.has_records() && data.format != kPythonFormat) {
    model.Fail(*node, "tables", "are read by columns of data, but data.format is " + data.format,
               "use one with records, such as csv or parquet");
  }
  const std::string path = model.PathOf("tables");
  std::set<std::string> names;
  for (const YamlNode& item : ItemsOf(node, path, kMostTables, errors)) {
    const std::string at = absl::StrCat(path, ".", spec->tables.size());
    spec->tables.push_back(ReadTable(item, at, errors));
    const std::string& name = spec->tables.back().name;
    if (!name.empty() && !names.insert(name).second) {
      errors.Add(item, at + ".name", absl::StrCat("two tables are named ", name));
    }
  }
}

void ReadEmbedding(MapReader& reader, const DataSpec& data, JobErrors& errors, EmbeddingSpec* embedding) {
  if (reader.Require("table") != nullptr) reader.Name("table", &embedding->table);
  const YamlNode* one = reader.Find("column");
  const YamlNode* several = reader.Find("columns");
  if (one != nullptr && several != nullptr) {
    reader.Fail(*several, "columns", "stands beside column", "leave one of them out");
  } else if (one != nullptr) {
    TakeColumn(*one, reader.PathOf("column"), data, errors, embedding);
  } else if (several != nullptr) {
    const std::string path = reader.PathOf("columns");
    for (const YamlNode& item : ItemsOf(several, path, kMostEmbedded, errors)) {
      TakeColumn(item, absl::StrCat(path, ".", &item - several->items.data()), data, errors, embedding);
    }
  } else if (reader.node().Is(YamlNode::Kind::kMap)) {
    reader.Fail(reader.node(), "column", "is missing: which of data.columns it reads; or columns, for several");
  }
  reader.Choice("pooling", kPoolings, &embedding->pooling);
  reader.Choice("join", kEmbeddingJoins, &embedding->adds);
}

void CheckTablesAreRead(const YamlNode& tables, const std::string& path, const ModelSpec& model, JobErrors& errors) {
  for (size_t i = 0; i < model.tables.size(); ++i) {
    const std::string& name = model.tables[i].name;
    const bool is_read = std::ranges::any_of(model.layers, [&](const LayerSpec& layer) {
      const auto* embedding = std::get_if<EmbeddingSpec>(&layer.op);
      return embedding != nullptr && embedding->table == name;
    });
    if (is_read) continue;
    errors.Add(tables.items[i], absl::StrCat(path, ".", i), absl::StrCat("no layer reads table ", name),
               absl::StrCat("add one, {embedding: {table: ", name, ", column: ...}}, or leave the table out"));
  }
}

void CheckTables(const YamlNode& root, const JobSpec& job, JobErrors& errors) {
  if (!job.model.has_tables()) return;
  const auto refuse = [&](const char* key, const std::string& what, const std::string& remedy) {
    const std::string rows = "does not go with model.tables in this version: ";
    errors.Add(*root.Find("training")->Find(key), absl::StrCat("training.", key), rows + what, remedy);
  };
  if (job.training.consistency == Consistency::kSync) {
    refuse("consistency", "sync sums up a group's gradients of whole slices", "use async or ssp");
  }
  if (job.training.local_steps > 0) {
    refuse("localSteps", "a worker has no rows of its own to take steps with", "leave it out, or use pushEvery");
  }
  if (job.training.pull_ahead) {
    refuse("pullAhead", "rows are pulled once the keys of a step are known", "leave it out");
  }
}

}  // namespace downpour
