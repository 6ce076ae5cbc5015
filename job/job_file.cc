#include "job/job_file.h"

#include <filesystem>

#include "absl/strings/str_cat.h"
#include "job/data_place.h"
#include "job/job_parse.h"
#include "job/job_training_input.h"
#include "schema/codec.h"
#include "schema/text.h"

namespace downpour {

namespace {

void AddOrigins(const YamlNode& node, const std::string& path, const std::string& file, JobFileResult* result) {
  if (node.items.empty() && node.entries.empty()) {
    result->origins[path] = node.overridden ? kSetByHand : absl::StrCat(file, ":", node.line);
  }
  const std::string prefix = path.empty() ? "" : path + ".";
  for (size_t i = 0; i < node.items.size(); ++i) AddOrigins(node.items[i], absl::StrCat(prefix, i), file, result);
  for (const YamlEntry& entry : node.entries) AddOrigins(entry.value, prefix + entry.key, file, result);
}

// Earlier releases wrote it into every canonical job, as the one value that they took.
void DropReplicas(const std::string& file, YamlNode* root, std::vector<JobError>* warnings) {
  YamlNode* training = root->Find("training");
  const YamlNode* replicas = training == nullptr ? nullptr : training->Find("replicas");
  if (replicas == nullptr || !replicas->Is(YamlNode::Kind::kScalar) || replicas->quoted || replicas->text != "1")
    return;
  const bool by_hand = replicas->overridden;
  warnings->push_back({.file = by_hand ? kSetByHand : file,
                       .line = by_hand ? 0 : replicas->line,
                       .column = by_hand ? 0 : replicas->column,
                       .key = "training.replicas",
                       .what = absl::StrCat("has no meaning any more: ", kOneCopy),
                       .remedy = "leave it out"});
  std::erase_if(training->entries, [](const YamlEntry& entry) { return entry.key == "replicas"; });
}

}  // namespace

std::string PlaceOf(const JobError& error) {
  return error.line > 0 ? absl::StrCat(error.file, ":", error.line, ":", error.column) : error.file;
}

std::string ToString(const JobError& error) {
  std::string text = PlaceOf(error);
  if (!error.key.empty()) absl::StrAppend(&text, text.empty() ? "" : ": ", error.key);
  absl::StrAppend(&text, text.empty() ? "" : ": ", error.what, error.remedy.empty() ? "" : "; ", error.remedy);
  return CleanText(text, text.size());  // names of files stand in it as they are
}

JobFileResult ParseJob(const std::string& text, const std::string& file, const std::vector<std::string>& overrides,
                       const ReadNamedFile& read) {
  JobFileResult result;
  JobErrors errors(file);
  YamlTree tree = ReadYaml(text);
  for (const YamlError& error : tree.errors) errors.Add(error);
  const bool readable = tree.errors.empty() || !tree.root.Is(YamlNode::Kind::kNull);
  if (readable) {
    std::vector<std::string> settings;
    if (tree.root.Find("trainingInput") != nullptr) {
      TrainingInput input = ReplaceTrainingInput(tree.root, file, errors);
      for (PlacedEntry& argument : input.arguments) settings.push_back(std::move(argument.entry));
      result.warnings = std::move(input.warnings);
      result.job_dir = std::move(input.job_dir);
    }
    settings.insert(settings.end(), overrides.begin(), overrides.end());
    ApplyOverrides(settings, tree.root, errors);
    DropReplicas(file, &tree.root, &result.warnings);
    AddOrigins(tree.root, "", file, &result);
    PutWordsInPlaceOfFiles(tree.root.Find("data"), read, errors);
    ReadJob(tree.root, errors, &result.job);
  }
  if (errors.count() == 0 && CanonicalJob(result.job).size() > kMaxJobTextBytes) {
    errors.Add(tree.root, "", absl::StrCat("with every default filled in the job exceeds ", kMaxJobTextBytes, " bytes"),
               "where that is by long vocabularies, use hash, or a key and a table");
  }
  result.errors = errors.Take();
  return result;
}

JobFileResult ParseJobOfCode(const std::string& text, const std::string& file,
                             const std::vector<std::string>& overrides, const ReadNamedFile& read) {
  // A stand-in for what is not known: a model with classes and an evaluation, so that a job may say what goes by them.
  std::vector<std::string> all = {
      absl::StrCat("python={module: m, bytes: 1, sha256: \"", std::string(64, '0'), "\"}"),
      "model.variables=[{name: v, shape: [1]}]", "model.classes=2",
      absl::StrCat("data={format: ", kPythonFormat, ", trainExamples: 1, evalExamples: 1}")};
  all.insert(all.end(), overrides.begin(), overrides.end());
  JobFileResult result = ParseJob(text, file, all, read);
  std::erase_if(result.errors, [](const JobError& error) {
    return !error.of_itself && error.key != "name" && !error.key.starts_with("trainingInput");
  });
  return result;
}

DataSectionResult ParseDataSection(const std::string& text, const ReadNamedFile& read) {
  DataSectionResult result;
  JobErrors errors("");
  YamlTree tree = ReadYaml(text);
  for (const YamlError& error : tree.errors) errors.Add(error);
  PutWordsInPlaceOfFiles(&tree.root, read, errors);
  if (tree.errors.empty()) ReadData(tree.root, errors, &result.data, LabelIs::kOptional);
  if (result.data.format == kPythonFormat) {
    errors.Add(tree.root, "data.format", absl::StrCat(kPythonFormat, " has no files; name a format that has"));
  }
  result.errors = errors.Take();
  for (JobError& error : result.errors) error.line = 0;
  return result;
}

absl::StatusOr<JobSpec> ParseCanonicalJob(const std::string& text) {
  JobFileResult result = ParseJob(text, "job");
  if (!result.ok()) return absl::InvalidArgumentError(ToString(result.errors.front()));
  return std::move(result.job);
}

void ResolveDataPaths(const std::string& job_folder, const std::string& working_folder, JobFileResult* result) {
  DataSpec& data = result->job.data;
  std::vector<std::pair<std::string, std::string*>> paths = {
      {"model.initializeFrom", &result->job.model.initialize_from}};
  for (auto& [key, set] : {std::pair("data.train", &data.train), std::pair("data.eval", &data.eval)}) {
    paths.emplace_back(absl::StrCat(key, ".images"), &set->images);
    paths.emplace_back(absl::StrCat(key, ".labels"), &set->labels);
    for (std::string& file : set->files) paths.emplace_back(key, &file);
  }
  for (const auto& [key, path] : paths) {
    if (path->empty() || !SchemeOf(*path).empty()) continue;
    // Of files the key is that of their set, and where one comes from, all do.
    const auto origin = result->origins.lower_bound(key);
    const bool by_hand =
        origin != result->origins.end() && origin->first.starts_with(key) && origin->second == kSetByHand;
    const std::filesystem::path base = by_hand ? working_folder : job_folder;
    *path = (base / *path).lexically_normal().string();
    if (IsText(*path) && path->size() <= kMaxStringBytes) continue;
    const std::string fault =
        IsText(*path) ? absl::StrCat("longer than ", kMaxStringBytes, " bytes") : "not valid UTF-8";
    result->errors.push_back({.file = CleanText(base.string(), kMaxStringBytes),
                              .key = key,
                              .what = absl::StrCat("begins in this folder and so becomes a path that is ", fault,
                                                   ": use a folder of another name")});
  }
}

}  // namespace downpour
