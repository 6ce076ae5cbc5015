// The sample jobs and docs/JOB_FILE.md against the parser, both ways.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "job/job_file.h"
#include "job/job_names.h"
#include "job/slice_grid.h"
#include "tests/source_tree.h"

namespace downpour {
namespace {

using testing::IsEmpty;

const std::filesystem::path kRoot = SourcePath("");

std::string ReadFile(const std::filesystem::path& path) {
  std::ifstream file(path);
  EXPECT_TRUE(file) << path;
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

// Only what must be there, and a layer of each kind.
constexpr char kLeast[] = R"(name: least
model:
  inputs: [{name: in, shape: [4]}]
  layers:
    - dense: {units: 4}
    - activation: {function: relu}
    - dropout: {rate: 0.5}
    - {add: {}, from: [in, dropout_0]}
    - {multiply: {}, from: [in, add_0]}
    - {dot: {}, from: [in, multiply_0]}
    - {concat: {}, from: [in, dot_0]}
training:
  earlier: [{epochs: 1, examples: 1, fingerprint: 0}]
  optimizer: {overrides: [{variables: dense_0/bias, learningRate: 1}]}
data:
  train: {images: a, labels: b}
)";
constexpr char kLeastOfPython[] = R"(name: least
python:
  module: t
  sha256: ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad
  bytes: 3
  metrics: [{name: m}]
model: {variables: [{name: v, shape: []}], initializeFrom: f}
data: {format: python, trainExamples: 1}
)";
constexpr char kLeastOfRecords[] = R"(name: least
model:
  inputs: [{name: x}]
  layers: [{dense: {units: 2}}]
data:
  format: csv
  train: a.csv
  columns: [{name: x}]
  label: {column: y}
)";
constexpr char kLeastOfTables[] = R"(name: least
model:
  tables: [{name: t, width: 2}]
  layers: [{embedding: {table: t, column: x}}, {dense: {units: 2}}]
data:
  format: csv
  train: a.csv
  columns: [{name: x, key: integer}]
  label: {column: y}
)";
const std::map<std::string, int> kLayerOf = {{"dense", 0},    {"activation", 1}, {"dropout", 2}, {"add", 3},
                                             {"multiply", 4}, {"dot", 5},        {"concat", 6},  {"embedding", 0}};

const char* LeastFor(const std::string& key) {
  if (absl::StartsWith(key, "model.variables") || absl::StartsWith(key, "python.metrics")) return kLeastOfPython;
  if (absl::StartsWith(key, "model.table") || absl::StrContains(key, ".embedding")) return kLeastOfTables;
  const bool of_records = absl::StartsWith(key, "data.columns") || absl::StartsWith(key, "data.label") ||
                          key == "data.skip" || key == "data.blockExamples" || key == "data.order" ||
                          key == "data.decimal";
  return of_records ? kLeastOfRecords : kLeast;
}

std::string ErrorsText(const std::string& entry) {
  std::string text;
  for (const JobError& error : ParseJob(LeastFor(entry), "least", {entry}).errors) {
    text += ToString(error) + "\n";
  }
  return text;
}

struct DocRow {
  std::string key;
  std::string default_text;  // what stands in backquotes, if anything does
};

std::vector<DocRow> DocRows() {
  std::vector<DocRow> rows;
  const std::vector<std::string> lines = absl::StrSplit(ReadFile(kRoot / "docs/JOB_FILE.md"), '\n');
  for (const std::string& line : lines) {
    const std::vector<std::string> cells = absl::StrSplit(line, '|');
    if (cells.size() != 7 || !absl::StartsWith(cells[1], " `")) continue;
    const std::vector<std::string> key = absl::StrSplit(cells[1], '`');
    const std::vector<std::string> value = absl::StrSplit(cells[3], '`');
    const bool whole_cell = value.size() == 3 && value[0] == " ";
    rows.push_back({key[1], whole_cell ? value[1] : ""});
  }
  return rows;
}

// A documented key as --set names it: its layer is the one of its kind.
std::string PathOf(std::string key) {
  for (const auto& [kind, index] : kLayerOf) {
    const std::string prefix = "model.layers.*." + kind;
    if (absl::StartsWith(key, prefix)) key.replace(13, 1, std::to_string(index));
  }
  return absl::StrReplaceAll(key, {{"*", "0"}});
}

TEST(JobDocs, EveryDocumentedKeyIsKnown) {
  const std::vector<DocRow> rows = DocRows();
  EXPECT_GT(rows.size(), 30u);
  for (const DocRow& row : rows) {
    // A value of a wrong type, so that a known key has something else to complain about.
    const std::string errors = ErrorsText(PathOf(row.key) + "=[[]]");
    EXPECT_FALSE(absl::StrContains(errors, "unknown key")) << errors;
    EXPECT_TRUE(absl::StrContains(errors, PathOf(row.key))) << row.key << ":\n" << errors;
  }
}

TEST(JobDocs, EveryKnownKeyIsDocumented) {
  std::map<std::string, std::set<std::string>> children;  // by dotted path of the map
  for (const DocRow& row : DocRows()) {
    std::string path;
    const std::vector<std::string> steps = absl::StrSplit(row.key, '.');
    for (const std::string& step : steps) {
      if (step != "*") children[path].insert(step);
      path += (path.empty() ? "" : ".") + step;
    }
  }
  for (const auto& [path, documented] : children) {
    const std::string errors = ErrorsText(PathOf(path + (path.empty() ? "zzzzzz=1" : ".zzzzzz=1")));
    const std::string marker = "unknown key; known here: ";
    const size_t at = errors.find(marker);
    ASSERT_NE(at, std::string::npos) << path << ":\n" << errors;
    const std::string list = errors.substr(at + marker.size(), errors.find('\n', at) - at - marker.size());
    EXPECT_EQ(absl::StrJoin(std::set<std::string>(absl::StrSplit(list, ", ")), ", "), absl::StrJoin(documented, ", "))
        << "in " << path;
  }
}

TEST(JobDocs, DocumentedDefaultsAreTheParsers) {
  int checked = 0;
  for (const DocRow& row : DocRows()) {
    if (row.default_text.empty()) continue;
    std::vector<std::string> overrides;
    for (const auto& kind : kOptimizers) {
      for (const OptimizerNumber& number : NumbersOf(kind.value)) {
        const bool is_its = row.key == absl::StrCat("training.optimizer.", number.key);
        if (is_its) overrides = {absl::StrCat("training.optimizer.name=", kind.name)};
      }
    }
    for (const auto& kind : kTableOptimizers) {
      for (const OptimizerNumber& number : NumbersOf(kind.value)) {
        const bool is_its = row.key == absl::StrCat("model.tables.*.optimizer.", number.key);
        if (is_its) overrides = {absl::StrCat("model.tables.0.optimizer.name=", kind.name)};
      }
    }
    const std::string schedule = PathOf(row.key.substr(0, row.key.find(".schedule"))) + ".schedule";
    if (absl::StrContains(row.key, "schedule.decay")) overrides = {schedule + "={name: step, stepEvery: 9}"};
    if (absl::StrContains(row.key, "schedule.finalShare") || absl::StrContains(row.key, "schedule.totalSteps")) {
      overrides = {schedule + ".name=cosine"};
    }
    if (absl::StrContains(row.key, "sspBound")) overrides = {"training.consistency=ssp"};
    if (absl::StrContains(row.key, "backupWorkers")) overrides = {"training.consistency=sync"};
    if (absl::StrContains(row.key, "training.outer")) overrides = {"training.localSteps=4"};
    if (absl::StrContains(row.key, "outer.momentum")) overrides.push_back("training.outer.name=nesterov");
    if (absl::StrContains(row.key, "stopEarly")) {
      overrides = {"data.eval={images: c, labels: d}", "training.stopEarly={}"};
    }
    const std::string without = CanonicalJob(ParseJob(LeastFor(row.key), "least", overrides).job);
    overrides.push_back(PathOf(row.key) + "=" + row.default_text);
    const JobFileResult with = ParseJob(LeastFor(row.key), "least", overrides);
    ASSERT_THAT(with.errors, IsEmpty()) << ToString(with.errors[0]);
    EXPECT_EQ(CanonicalJob(with.job), without) << row.key;
    ++checked;
  }
  EXPECT_GT(checked, 15);
}

TEST(JobSamples, EachParsesAndItsModelHasAGrid) {
  int samples = 0;
  for (const auto& entry : std::filesystem::directory_iterator(kRoot / "deploy/jobs")) {
    if (entry.path().extension() != ".yaml") continue;
    ++samples;
    const JobFileResult result = ParseJob(ReadFile(entry.path()), entry.path().filename());
    for (const JobError& error : result.errors) ADD_FAILURE() << ToString(error);
    EXPECT_EQ(result.job.name, entry.path().stem().string());
    EXPECT_GT(GridOf(result.job.model).value().size(), 0u);
  }
  EXPECT_GE(samples, 2);
}

TEST(JobSamples, TheMnistJobIsTheReferenceModel) {
  const JobSpec job = ParseJob(ReadFile(kRoot / "deploy/jobs/mnist-mlp.yaml"), "mnist-mlp.yaml").job;
  EXPECT_EQ(job.cluster, (ClusterSpec{"CUSTOM", 4, 2}));
  EXPECT_EQ(job.training.batch_size, 64);
  EXPECT_EQ(job.training.epochs, 10);
  EXPECT_EQ(job.training.optimizer.learning_rate, 0.02);
  int64_t parameters = 0;
  const std::vector<VariableSpec> variables = InferVariables(job.model).value();
  for (const VariableSpec& variable : variables) parameters += variable.elements();
  EXPECT_EQ(parameters, 235146);
}

}  // namespace
}  // namespace downpour
