// The steps of ParseJob, between the tree of a YAML text and a JobSpec.
//
// Errors: all at once, in JobErrors, each with its place; what is wrong stays as it was.
// Tests: tests/unit/job/job_file_test.cc.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "job/job.h"
#include "job/job_reader.h"
#include "job/yaml_tree.h"

namespace downpour {

inline constexpr int64_t kMostEpochs = 1'000'000;
inline constexpr size_t kMostEarlier = 10000;  // entries of training.earlier
inline constexpr int64_t kMostCount = int64_t{1} << 40;
inline constexpr const char* kOneCopy = "there is one copy of each parameter";  // why training.replicas went

// Sets dotted.key=value pairs in the tree, each in turn; keys and maps on the way are made where they are absent, a
// number goes into a list, and an empty value takes the key away.
void ApplyOverrides(const std::vector<std::string>& overrides, YamlNode& root, JobErrors& errors);

void ReadJob(const YamlNode& root, JobErrors& errors, JobSpec* job);
// Overrides are held against the variables of `model`, unless that has errors of its own.
void ReadOptimizer(const YamlNode& node, const ModelSpec& model, JobErrors& errors, OptimizerSpec* optimizer);
// Of the rows of one table: sgd, adagrad, adam or ftrl, without clipping and overrides.
void ReadTableOptimizer(const YamlNode& node, const std::string& path, JobErrors& errors, ModelTable* table);
void ReadOuter(const YamlNode& node, JobErrors& errors, OptimizerSpec* outer);
inline constexpr size_t kMostMetrics = 16;
// Each is held against `model`, unless that has errors of its own.
void ReadMetrics(const YamlNode* node, const std::string& path, const JobSpec& job, JobErrors& errors,
                 std::vector<MetricSpec>* metrics);
// By which evaluations can be compared: which way is better is known.
std::vector<std::string> ComparableMetrics(const JobSpec& job);
// `job`: all else of it.
void ReadStopEarly(const YamlNode& node, const JobSpec& job, JobErrors& errors, std::optional<StopEarlySpec>* stop);
void ReadPython(const YamlNode& node, JobErrors& errors, PythonSpec* python);
void ReadOwnVariables(MapReader& model, const DataSpec& data, JobErrors& errors, ModelSpec* own);
// A job has a module of its own, variables of its own and data of its own, or none of them.
void CheckOwnModel(const YamlNode& root, const JobSpec& job, JobErrors& errors);
// `data`: which has the columns that inputs may name.
void ReadModel(const YamlNode& node, const std::string& path, const DataSpec& data, JobErrors& errors,
               ModelSpec* model);
enum class LabelIs { kNeeded, kOptional };  // of records
void ReadData(const YamlNode& node, JobErrors& errors, DataSpec* data, LabelIs label = LabelIs::kNeeded);
// What the label is, which the model's loss and outputs tell. `node`: data.label.
void CheckLabel(const YamlNode& node, const ModelSpec& model, JobErrors& errors, LabelSpec* label);
// The columns of an input of data with records, which give it its shape.
void ReadInputColumns(MapReader& reader, const DataSpec& data, JobErrors& errors, InputSpec* input);

// One of data.columns by its name. Without it `what` says that there is none, and `remedy` which one was meant.
struct NamedColumn {
  const ColumnSpec* column = nullptr;
  std::string what, remedy;
};
NamedColumn FindNamedColumn(const DataSpec& data, const std::string& name);

// model.tables and model.tableBuckets.
void ReadTables(MapReader& model, const DataSpec& data, JobErrors& errors, ModelSpec* spec);
// The settings of an embedding layer, whose columns are held against those of `data`.
void ReadEmbedding(MapReader& reader, const DataSpec& data, JobErrors& errors, EmbeddingSpec* embedding);
// `tables`: their list, at `path`. Each is to be read by some layer, all of which are known.
void CheckTablesAreRead(const YamlNode& tables, const std::string& path, const ModelSpec& model, JobErrors& errors);
// What of a job does not go with tables. `job`: all of it.
void CheckTables(const YamlNode& root, const JobSpec& job, JobErrors& errors);

}  // namespace downpour
