#include "runtime/posix/job_file.h"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "job/job_settings.h"
#include "job/job_training_input.h"

namespace downpour {
namespace {

// Of AI Platform's job: what stands at the top of its file, most of it written by the service.
constexpr const char* kJobFields[] = {
    "createTime",      "endTime",          "errorMessage", "etag",  "jobId",         "jobPosition",   "labels",
    "predictionInput", "predictionOutput", "startTime",    "state", "trainingInput", "trainingOutput"};

JobError Unreadable(const std::string& path, const absl::Status& status) {
  return {path, 0, 0, "", std::string(status.message())};
}

JobFileResult Load(const std::string& path, const std::vector<std::string>& overrides, decltype(ParseJob) parse) {
  const absl::StatusOr<std::string> text = ReadJobText(path);
  if (!text.ok()) {
    JobFileResult unreadable;
    unreadable.errors.push_back(Unreadable(path, text.status()));
    return unreadable;
  }
  std::error_code ignored;  // a working folder that was removed: paths stay as they were written
  const std::filesystem::path folder = std::filesystem::absolute(path, ignored).parent_path();
  const std::filesystem::path working = std::filesystem::current_path(ignored);
  const auto read = [&](const std::string& named, bool by_hand) {
    return ReadNamedText((by_hand ? working : folder) / named);
  };
  JobFileResult result = parse(*text, path, overrides, read);
  ResolveDataPaths(folder.string(), working.string(), &result);
  return result;
}

}  // namespace

absl::StatusOr<std::string> ReadJobText(const std::string& path) {
  std::string text(kMaxJobTextBytes + 1, '\0');  // one more than is allowed shows that there is too much
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (!file.is_open() || file.bad()) {
    return absl::UnavailableError(absl::StrCat("cannot be read: ", std::strerror(errno)));
  }
  text.resize(static_cast<size_t>(file.gcount()));
  return text;
}

absl::StatusOr<std::string> ReadNamedText(const std::string& path) {
  std::error_code error;
  const std::filesystem::file_status status = std::filesystem::status(path, error);
  if (!error && std::filesystem::exists(status) && !std::filesystem::is_regular_file(status)) {
    return absl::InvalidArgumentError("is no regular file");
  }
  return ReadJobText(path);
}

JobFileResult LoadJobFile(const std::string& path, const std::vector<std::string>& overrides) {
  return Load(path, overrides, ParseJob);
}

JobFileResult LoadJobFileOfCode(const std::string& path, const std::vector<std::string>& overrides) {
  return Load(path, overrides, ParseJobOfCode);
}

ConfigFileResult LoadConfigFile(const std::string& path, bool has_module) {
  ConfigFileResult result;
  const absl::StatusOr<std::string> text = ReadJobText(path);
  if (!text.ok()) {
    result.errors.push_back(Unreadable(path, text.status()));
    return result;
  }
  const YamlTree tree = ReadYaml(*text);
  JobErrors errors(path);
  for (const YamlError& error : tree.errors) errors.Add(error);
  if (tree.root.Is(YamlNode::Kind::kMap)) {
    MapReader reader(tree.root, "", errors);
    for (const char* key : kJobFields) reader.Find(key);
    reader.Find(kSettingsSection);
    reader.Finish();
  }
  const YamlNode* settings = tree.root.Find(kSettingsSection);
  TrainingInput input;
  if (settings == nullptr || tree.root.Find("trainingInput") != nullptr) {
    input = ReadTrainingInput(tree.root, path, errors, has_module);
  }
  result.overrides = std::move(input.cluster_and_scheduling);
  if (settings != nullptr) {
    for (PlacedEntry& setting : SettingsIn(*settings, errors)) result.overrides.push_back(std::move(setting));
  }
  result.overrides.insert(result.overrides.end(), input.arguments.begin(), input.arguments.end());
  result.code = std::move(input.code);
  result.job_dir = std::move(input.job_dir);
  result.warnings = std::move(input.warnings);
  result.errors = errors.Take();
  return result;
}

TrainingCode LoadCodeOfJobFile(const std::string& path, bool has_module) {
  const absl::StatusOr<std::string> text = ReadJobText(path);
  if (!text.ok()) return {};
  const YamlTree tree = ReadYaml(*text);
  JobErrors errors(path);  // which ParseJob tells
  if (!tree.errors.empty() || tree.root.Find("trainingInput") == nullptr) return {};
  return ReadTrainingInput(tree.root, path, errors, has_module).code;
}

}  // namespace downpour
