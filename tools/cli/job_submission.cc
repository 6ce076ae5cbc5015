#include "tools/cli/job_submission.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "cluster/private_folder.h"
#include "job/job_file.h"
#include "job/job_names.h"
#include "job/job_settings.h"
#include "job/yaml_tree.h"
#include "runtime/posix/job_file.h"
#include "service/job.h"
#include "service/object_store.h"
#include "service/service_client.h"
#include "service/training_input.h"
#include "tools/cli/job_warnings.h"
#include "tools/cli/python_packages.h"

namespace downpour {
namespace {

using nlohmann::json;

json LabelsOf(const JobSubmission& submission) {
  json labels = json::object();
  for (const std::string& label : submission.labels) {
    const std::pair<std::string, std::string> pair = absl::StrSplit(label, absl::MaxSplits('=', 1));
    labels[pair.first] = pair.second;
  }
  return labels;
}

// The code in the service's store, as URIs: what lies there already, and one archive of the rest. Its name is new each
// time, so no job's code ever changes.
absl::StatusOr<json> Upload(const JobSubmission& submission, PythonCode code, const ServiceClient& service) {
  json uris = json::array();
  for (const std::string& package : code.packages) {
    if (absl::StartsWith(package, "gs://")) uris.push_back(package);
  }
  std::erase_if(code.packages, [](const std::string& package) { return absl::StartsWith(package, "gs://"); });
  if (!uris.empty() && code.packages.empty() && code.package_path.empty()) return uris;
  const absl::StatusOr<PrivateFolder> scratch = PrivateFolder::Make();
  if (!scratch.ok()) return scratch.status();
  const absl::StatusOr<Payload> packed = GatherCode(code, scratch->path());
  if (!packed.ok()) return packed.status();
  const auto now = std::chrono::system_clock::now().time_since_epoch().count();
  const std::string name = absl::StrCat(submission.name, "/", now, "/package-0.tar.gz");
  const std::string text(reinterpret_cast<const char*>(packed->data()), packed->size());
  const absl::StatusOr<json> stored = service.Ask(
      "POST", absl::StrCat("/upload/storage/v1/b/", kPackagesBucket, "/o?uploadType=media&name=", name), text);
  if (!stored.ok()) return absl::AbortedError(stored.status().message());  // the service's word, not the job's fault
  uris.push_back(absl::StrCat("gs://", kPackagesBucket, "/", name));
  return uris;
}

// What --config says.
struct Config {
  json input = json::object();             // its trainingInput
  std::vector<std::string> settings = {};  // its section downpour, as --set takes them
};

absl::StatusOr<Config> ReadConfig(const std::string& path) {
  Config config;
  if (path.empty()) return config;
  const absl::StatusOr<std::string> text = ReadJobText(path);
  if (!text.ok()) return absl::InvalidArgumentError(absl::StrCat(path, ": ", std::string(text.status().message())));
  const YamlTree tree = ReadYaml(*text);
  JobErrors errors(path);
  for (const YamlError& error : tree.errors) errors.Add(error);
  const YamlNode* section = tree.root.Find(kSettingsSection);
  if (section != nullptr) {
    for (PlacedEntry& setting : SettingsIn(*section, errors)) config.settings.push_back(std::move(setting.entry));
  }
  if (errors.count() > 0) return absl::InvalidArgumentError(ToString(errors.Take().front()));
  const YamlNode* input = tree.root.Find("trainingInput");
  const bool is_map = input != nullptr && input->Is(YamlNode::Kind::kMap);
  if (is_map) {
    config.input = JsonOf(*input);
    const absl::Status good = NormaliseTrainingInput(AsWritten(*input), &config.input);
    if (!good.ok()) return absl::InvalidArgumentError(absl::StrCat(path, ": ", std::string(good.message())));
  }
  if (is_map || (input == nullptr && section != nullptr)) return config;
  return absl::InvalidArgumentError(absl::StrCat(path, ": trainingInput is missing, or no map"));
}

// The field downpour of settings, the later ones of which beat the earlier.
json FieldOf(const std::vector<std::string>& settings) {
  std::map<std::string, json> field;  // so that what stands in a value comes behind it
  for (const std::string& setting : settings) {
    const std::string key = KeyOfSetting(setting);
    std::erase_if(field, [&](const auto& before) { return before.first.starts_with(key + "."); });
    field[key] = JsonOf(ReadYaml(setting.substr(key.size() + 1)).root);
  }
  return field;
}

// What the job file and the settings say of a job of Python code, relative paths made absolute. `text`: the file's.
JobFileResult ReadBesideCode(const JobSubmission& submission, const std::vector<std::string>& settings,
                             std::string* text) {
  const std::string& file = submission.job.job_file;
  if (!file.empty()) {
    *text = ReadJobText(file).value_or("");  // LoadJobFileOfCode says why not
    return LoadJobFileOfCode(file, settings);
  }
  JobFileResult read = ParseJobOfCode(json{{"name", "job"}}.dump(), "", settings);
  std::error_code ignored;
  const std::string here = std::filesystem::current_path(ignored);
  ResolveDataPaths(here, here, &read);
  return read;
}

// The size that is asked for: by the command line, else by --config, else by the job file.
void SetTier(const JobSubmission& submission, json* input, std::vector<std::string>* settings) {
  const bool has_file = !submission.job.job_file.empty();
  const std::string chosen = TierNamed(submission.job.scale_tier);
  if (chosen.empty()) {
    const bool has_size = input->contains("workerCount") || input->contains("parameterServerCount");
    if (input->contains("scaleTier") && (*input)["scaleTier"].is_string()) {
      (*input)["scaleTier"] = TierNamed((*input)["scaleTier"].get<std::string>());
    } else if (!has_file && !has_size && !input->contains("scaleTier")) {
      (*input)["scaleTier"] = "BASIC";
    }
  } else if (chosen == kCustomTier && has_file) {  // with the file's counts
    settings->push_back(absl::StrCat("cluster.scaleTier=", chosen));
  } else {
    (*input)["scaleTier"] = chosen;
    if (chosen == kCustomTier) return;
    for (const char* count : {"workerCount", "parameterServerCount"}) input->erase(count);
  }
}

absl::Status AddCode(const JobSubmission& submission, const PythonCode& code, const Config& config,
                     const ServiceClient& service, Streams streams, json* body) {
  json input = config.input;
  std::vector<std::string> settings = config.settings;
  SetTier(submission, &input, &settings);
  settings.insert(settings.end(), submission.job.settings.begin(), submission.job.settings.end());
  std::string text;
  const JobFileResult read = ReadBesideCode(submission, settings, &text);
  for (const JobError& error : read.errors) streams.err << ToString(error) << "\n";
  if (!read.ok()) return absl::InvalidArgumentError("the job's settings have errors: mend them first");
  if (const std::string& path = read.job.model.initialize_from; !path.empty()) {
    settings.push_back(absl::StrCat("model.initializeFrom=", json(path).dump()));
  }
  const absl::StatusOr<json> packages = Upload(submission, code, service);
  if (!packages.ok()) return packages.status();
  input.update({{"pythonModule", code.module}, {"packageUris", *packages}});
  if (!code.args.empty()) input["args"] = code.args;
  if (!submission.bucket_folder.empty()) input["jobDir"] = submission.bucket_folder;
  (*body)["trainingInput"] = std::move(input);
  if (!text.empty()) (*body)["jobFile"] = text;
  if (!settings.empty()) (*body)[kSettingsSection] = FieldOf(settings);
  return absl::OkStatus();
}

absl::Status AddJobFile(const JobSubmission& submission, const Config& config, Streams streams, json* body) {
  JobOptions options = submission.job;
  options.config_file = submission.config;
  const ChosenJob chosen = LoadChosenJob(options, "jobs submit", streams);
  if (!chosen.parsed.ok()) return absl::InvalidArgumentError("the job file has errors: mend it first");
  const DataFacts facts = LookAtData(chosen.parsed);
  TellWarnings("jobs submit", chosen.parsed, facts, streams);
  for (const JobError& error : facts.errors) streams.err << ToString(error) << "\n";
  if (!facts.errors.empty()) return absl::InvalidArgumentError("the job's data have errors: mend them first");
  (*body)["jobFile"] = CanonicalJob(chosen.parsed.job);
  json input = config.input;
  // The job file has the size. A GPU stands in the tier alone.
  const bool asks_gpu = input.contains("scaleTier") && input["scaleTier"] == "BASIC_GPU" && options.scale_tier.empty();
  for (const char* size : kSizeOfInput) input.erase(size);
  if (asks_gpu) input["scaleTier"] = "BASIC_GPU";
  if (!input.empty()) (*body)["trainingInput"] = std::move(input);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<json> BodyOf(const JobSubmission& submission, const PythonCode& code, const ServiceClient& service,
                            Streams streams) {
  json body = {{"jobId", submission.name}};
  if (!submission.labels.empty()) body["labels"] = LabelsOf(submission);
  const absl::StatusOr<Config> config = ReadConfig(submission.config);
  if (!config.ok()) return config.status();
  const absl::Status added = code.module.empty() ? AddJobFile(submission, *config, streams, &body)
                                                 : AddCode(submission, code, *config, service, streams, &body);
  if (!added.ok()) return added;
  return body;
}

std::string WhyNoSubmission(const JobSubmission& submission, const PythonCode& code) {
  if (!IsJobName(submission.name)) {
    return absl::StrCat(submission.name, " is no name of a job: it must be a letter, then letters, digits and _");
  }
  for (const std::string& label : submission.labels) {
    if (!absl::StrContains(label, '=')) return absl::StrCat("--labels ", label, ": say KEY=VALUE");
  }
  if (const absl::Status labels = ReadLabels(LabelsOf(submission)).status(); !labels.ok()) {
    return absl::StrCat("--", std::string(labels.message()));
  }
  if (std::string why = WhyNoCode(code); !why.empty()) return why;
  for (const std::string& setting : submission.job.settings) {
    if (KeyOfSetting(setting).empty()) return absl::StrCat("--set ", setting, ": say KEY=VALUE, as training.epochs=3");
  }
  if (!code.module.empty() || !submission.job.job_file.empty()) return "";
  return "there is no job: give --file JOB.yaml, or --module-name and --package-path of Python code";
}

}  // namespace downpour
