// What the job file says of a model in the user's Python code.
#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "job/job_names.h"
#include "job/job_parse.h"
#include "job/variables.h"
#include "schema/text.h"

namespace downpour {
namespace {

constexpr size_t kMostArguments = 1'000;
constexpr size_t kMostVariables = 20'000;
constexpr size_t kMostVariableDimensions = 16;
constexpr size_t kLongestVariable = 200;
constexpr int64_t kMostClasses = int64_t{1} << 31;

// What Python's import takes: names between dots.
bool IsModuleName(const std::string& name) {
  const std::vector<std::string> parts = absl::StrSplit(name, '.');
  return name.size() <= kLongestVariable && std::ranges::all_of(parts, [](const std::string& part) {
           const auto allowed = [](char c) { return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '_'; };
           return !part.empty() && !absl::ascii_isdigit(static_cast<unsigned char>(part[0])) &&
                  std::ranges::all_of(part, allowed);
         });
}

bool IsSha256(const std::string& text) {
  return text.size() == 64 && text.find_first_not_of("0123456789abcdef") == std::string::npos;
}

OwnVariableSpec ReadVariable(const YamlNode& node, const std::string& path, JobErrors& errors) {
  OwnVariableSpec variable;
  MapReader reader(node, path, errors);
  if (reader.Require("name") != nullptr && reader.Text("name", &variable.name) &&
      (variable.name.empty() || variable.name.size() > kLongestVariable || !IsText(variable.name))) {
    reader.Fail(*node.Find("name"), "name",
                absl::StrCat("a variable's name is UTF-8 of 1 to ", kLongestVariable, " bytes"));
  }
  const std::string shape = reader.PathOf("shape");
  for (const YamlNode& item : MaybeItemsOf(reader.Require("shape"), shape, kMostVariableDimensions, errors)) {
    int64_t size = 1;
    ReadInteger(item, absl::StrCat(shape, ".", variable.shape.size()), errors, 1, kMaxModelElements, &size);
    variable.shape.push_back(size);
  }
  reader.Flag("trainable", &variable.trainable);
  reader.Finish();
  return variable;
}

MetricSpec ReadOwnMetric(const YamlNode& node, const std::string& path, JobErrors& errors) {
  MetricSpec metric = {.kind = MetricKind::kMean};
  MapReader reader(node, path, errors);
  const YamlNode* name = reader.Require("name");
  if (name != nullptr) ReadName(*name, reader.PathOf("name"), errors, &metric.name);
  reader.Choice("kind", kOwnMetrics, &metric.kind);
  if (metric.kind == MetricKind::kMean || metric.kind == MetricKind::kRatio) {
    reader.Choice("better", kBetter, &metric.better);
  } else {
    reader.FailOnlyWith("better", "kind: mean or ratio", "of this kind it is known");
  }
  reader.Finish();
  return metric;
}

}  // namespace

void ReadPython(const YamlNode& node, JobErrors& errors, PythonSpec* python) {
  MapReader reader(node, "python", errors);
  if (reader.Require("module") != nullptr && reader.Text("module", &python->module) && !IsModuleName(python->module)) {
    reader.Fail(*node.Find("module"), "module", "is no name of a Python module, such as trainer.task");
  }
  if (reader.Require("sha256") != nullptr && reader.Text("sha256", &python->sha256) && !IsSha256(python->sha256)) {
    reader.Fail(*node.Find("sha256"), "sha256", "is no SHA-256 in 64 hexadecimal digits");
  }
  if (reader.Require("bytes") != nullptr) reader.Integer("bytes", 1, kMostCodeBytes, &python->bytes);
  const std::string args = reader.PathOf("args");
  for (const YamlNode& item : MaybeItemsOf(reader.Find("args"), args, kMostArguments, errors)) {
    std::string word;
    if (ReadArgument(item, absl::StrCat(args, ".", python->args.size()), errors, &word)) python->args.push_back(word);
  }
  const std::string metrics = reader.PathOf("metrics");
  for (const YamlNode& item : MaybeItemsOf(reader.Find("metrics"), metrics, kMostMetrics, errors)) {
    const MetricSpec metric = ReadOwnMetric(item, absl::StrCat(metrics, ".", python->metrics.size()), errors);
    if (std::ranges::find(python->metrics, metric.name, &MetricSpec::name) != python->metrics.end()) {
      errors.Add(item, metrics, absl::StrCat("two metrics are named ", metric.name));
    }
    python->metrics.push_back(metric);
  }
  reader.Finish();
}

void ReadOwnVariables(MapReader& model, const DataSpec& data, JobErrors& errors, ModelSpec* own) {
  own->loss = Loss::kOwn;
  model.Require("initializeFrom");  // nothing else says how they begin
  for (const char* key : {"inputs", "layers", "loss"}) {
    model.FailOnlyWith(key, "layers", "this model has variables, which the user's Python code computes");
  }
  const YamlNode* node = model.Find("variables");
  const std::string path = model.PathOf("variables");
  std::set<std::string> names;
  for (const YamlNode& item : ItemsOf(node, path, kMostVariables, errors)) {
    const std::string at = absl::StrCat(path, ".", own->variables.size());
    own->variables.push_back(ReadVariable(item, at, errors));
    if (!names.insert(own->variables.back().name).second) errors.Add(item, at, "another variable has the same name");
  }
  if (CountElements(own->variables) < 0) {
    errors.Add(*node, path, absl::StrCat("hold more than ", kMaxModelElements, " numbers"));
  }
  model.Integer("classes", 0, kMostClasses, &own->classes);
  ReadTables(model, data, errors, own);
}

void CheckOwnModel(const YamlNode& root, const JobSpec& job, JobErrors& errors) {
  const bool has_module = root.Find("python") != nullptr, has_data = job.data.format == kPythonFormat;
  if (job.model.is_own() && !has_module) {
    errors.Add(root, "python", "is missing: model.variables are those of a Python module",
               "start the job by downpour run --module-name");
  }
  if (root.Find("model") == nullptr || root.Find("data") == nullptr || job.model.is_own() == has_data) return;
  errors.Add(*root.Find("data"), "data.format",
             has_data ? "is python, but the model has layers, which are not computed in Python"
                      : "is not python, but model.variables are those of a Python module",
             has_data ? "use idx" : "use python");
}

}  // namespace downpour
