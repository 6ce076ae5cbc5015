#include "service/job.h"

#include <algorithm>
#include <ctime>
#include <nlohmann/json.hpp>
#include <set>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "job/job_file.h"
#include "job/job_names.h"
#include "job/job_settings.h"
#include "job/nearest_name.h"
#include "runtime/posix/process.h"
#include "schema/bounded_json.h"
#include "schema/text.h"
#include "service/batch_input.h"
#include "service/training_input.h"
#include "service/tuning_spec.h"

namespace downpour {
namespace {

using nlohmann::json;

constexpr int kMostLevels = 32;
constexpr size_t kMostPackages = 100, kMostNameBytes = 128;
// Of trainingInput: what `downpour run` gets by its command line, not by the job file.
constexpr const char* kOfTheProgram[] = {"args", "hyperparameters", "jobDir", "packageUris", "pythonModule"};

// The parts of trainingInput whose machines compute, so that their accelerators count.
constexpr const char* kMachines[] = {"masterConfig", "workerConfig"};
constexpr int64_t kMostAccelerators = 1024;

constexpr const char* kStates[] = {"QUEUED", "PREPARING", "RUNNING", "SUCCEEDED", "FAILED", "CANCELLING", "CANCELLED"};

// As job files allow it: of at most 64 letters, without a trial's slash.
std::string RunName(const Job& job) {
  constexpr size_t kMost = 64;
  std::string name = job.name;
  std::replace(name.begin(), name.end(), '/', '.');
  return name.size() <= kMost ? name : name.substr(name.size() - kMost);
}

absl::Status Wrong(const std::string& key, const std::string& what) {
  return absl::InvalidArgumentError(absl::StrCat(key, " ", what));
}

absl::Status CheckTexts(const json& object, const std::string& key, size_t most) {
  if (!object.contains(key)) return absl::OkStatus();
  const json& list = object[key];
  if (list.size() > most) {
    return Wrong(absl::StrCat("trainingInput.", key), absl::StrCat("must be a list of at most ", most, " texts"));
  }
  // A text with a NUL in it ends early where it becomes an argument of a program.
  for (const json& item : list) {
    if (item.get_ref<const std::string&>().find('\0') != std::string::npos) {
      return Wrong(absl::StrCat("trainingInput.", key), "must hold no NUL");
    }
  }
  return absl::OkStatus();
}

// 64-bit numbers are text in AI Platform's JSON. Nothing for what is no number from 0.
std::optional<int64_t> CountIn(const json& value) {
  int64_t count = -1;
  const bool is_number = value.is_number_integer() || value.is_string();
  if (!is_number || !absl::SimpleAtoi(value.is_string() ? value.get<std::string>() : value.dump(), &count)) {
    return std::nullopt;
  }
  return count < 0 ? std::nullopt : std::optional(count);
}

// The acceleratorConfig of masterConfig or workerConfig; null where there is none, or it asks for TPUs.
json AcceleratorsOf(const json& input, const std::string& machine) {
  const json config = input.value(machine, json());
  const json accelerators = config.is_object() ? config.value("acceleratorConfig", json()) : json();
  if (!accelerators.is_object()) return json();
  const json type = accelerators.value("type", json());
  return type.is_string() && type.get<std::string>().starts_with("TPU") ? json() : accelerators;
}

absl::Status CheckAccelerators(const json& input) {
  for (const char* machine : kMachines) {
    const json accelerators = AcceleratorsOf(input, machine);
    if (accelerators.is_null()) continue;
    const std::optional<int64_t> count = CountIn(accelerators.value("count", json(0)));
    if (count && *count <= kMostAccelerators) continue;
    return Wrong(absl::StrCat("trainingInput.", machine, ".acceleratorConfig.count"),
                 absl::StrCat("must be a number from 0 to ", kMostAccelerators));
  }
  return absl::OkStatus();
}

absl::Status CheckInput(const json& input, bool has_job_file) {
  if (const absl::Status status = CheckTexts(input, "args", 10'000); !status.ok()) return status;
  if (const absl::Status status = CheckTexts(input, "packageUris", kMostPackages); !status.ok()) return status;
  if (const absl::Status status = CheckAccelerators(input); !status.ok()) return status;
  if (input.contains("hyperparameters")) {
    const absl::StatusOr<TuningSpec> spec = ReadTuningSpec(input["hyperparameters"]);
    if (!spec.ok()) return spec.status();
  }
  if (input.value("pythonModule", "").empty()) {
    if (has_job_file) return absl::OkStatus();
    return Wrong("trainingInput.pythonModule", "is missing: name the module to run, such as trainer.task");
  }
  if (!input.contains("packageUris") || input["packageUris"].empty()) {
    return Wrong("trainingInput.packageUris", "is missing: name the uploaded package, such as gs://BUCKET/p.tar.gz");
  }
  return absl::OkStatus();
}

// trainingInput as a job file may hold it, without what `downpour run` gets by its command line.
json RunInput(const Job& job) {
  json input = json::parse(job.training_input);
  for (const char* key : kOfTheProgram) input.erase(key);
  for (const char* machine : kMachines) {  // what counts here is not warned of
    if (AcceleratorsOf(input, machine).is_null()) continue;
    input[machine].erase("acceleratorConfig");
    if (input[machine].empty()) input.erase(machine);
  }
  return json{{"jobId", RunName(job)}, {"trainingInput", input}};
}

// What beats the job file, and what was wrong or without meaning as that was read.
struct Overrides {
  std::vector<std::string> entries = {};
  std::vector<JobError> errors = {}, warnings = {};
};

Overrides ReadOverrides(const Job& job) {
  Overrides read;
  const auto add = [&](const std::vector<PlacedEntry>& placed, JobErrors& errors) {
    for (const PlacedEntry& entry : placed) read.entries.push_back(entry.entry);
    for (JobError& error : errors.Take()) read.errors.push_back(std::move(error));
  };
  if (!job.job_file.empty()) {  // else it stands in what JobFileOf gives
    JobErrors errors("trainingInput");
    TrainingInput input = ReadTrainingInput(ReadYaml(RunInput(job).dump()).root, "trainingInput", errors, true);
    read.warnings = std::move(input.warnings);
    add(input.cluster_and_scheduling, errors);
  }
  JobErrors errors("");
  add(SettingsIn(ReadYaml(job.settings).root, errors), errors);
  if (!job.trial || HasModule(job)) return read;
  for (const auto& [name, value] : job.trial->values) read.entries.push_back(absl::StrCat(name, "=", value));
  return read;
}

// What is wrong with a setting that is said beside the job file, at its place there: a parameter of the search stands
// for it, or the field downpour has it.
JobError InItsField(const TuningSpec& spec, JobError error) {
  if (error.file != kSetByHand) return error;
  error.file = kSettingsSection;
  for (size_t i = 0; i < spec.parameters.size(); ++i) {
    const std::string& name = spec.parameters[i].name;
    if (name != error.key && !name.starts_with(error.key + ".")) continue;
    error.file = absl::StrCat("trainingInput.hyperparameters.params[", i, "].parameterName");
  }
  return error;
}

// A job file says which settings and metrics there are. Of Python code that is known when a trial has run.
absl::Status CheckTuning(const Job& job) {
  if (!IsTuning(job) || HasModule(job)) return absl::OkStatus();
  const TuningSpec spec = ReadTuningSpec(json::parse(job.training_input)["hyperparameters"]).value();
  for (const double unit : {0.0, 1.0}) {
    Job trial = job;
    trial.trial = Trial{.values = ValuesAt(spec, std::vector<double>(spec.parameters.size(), unit))};
    const JobFileResult read = ReadInput(trial);
    if (!read.ok()) return absl::InvalidArgumentError(ToString(InItsField(spec, read.errors.front())));
  }
  const std::string why = WhyNoMetric(spec.metric, ReadInput(job).job, "the job");
  return why.empty() ? absl::OkStatus() : Wrong("trainingInput.hyperparameters.hyperparameterMetricTag", why);
}

}  // namespace

std::string NameOf(JobState state) { return kStates[static_cast<int>(state)]; }

std::optional<JobState> StateNamed(std::string_view name) {
  const auto found = std::find(std::begin(kStates), std::end(kStates), name);
  if (found == std::end(kStates)) return std::nullopt;
  return static_cast<JobState>(found - std::begin(kStates));
}

bool IsOver(JobState state) {
  return state == JobState::kSucceeded || state == JobState::kFailed || state == JobState::kCancelled;
}

absl::StatusOr<json> ParseJson(std::string_view text) {
  absl::StatusOr<json> parsed = ParseBoundedJson(text, kMostLevels);
  if (absl::IsOutOfRange(parsed.status())) return absl::InvalidArgumentError(parsed.status().message());
  if (!parsed.ok()) return absl::InvalidArgumentError("the request's body is no JSON");
  return parsed;
}

bool IsJobName(const std::string& name) {
  const auto is_word = [](char c) { return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '_'; };
  return !name.empty() && name.size() <= kMostNameBytes && absl::ascii_isalpha(static_cast<unsigned char>(name[0])) &&
         std::all_of(name.begin(), name.end(), is_word);
}

absl::StatusOr<Job> ReadJob(std::string_view body) {
  const absl::StatusOr<json> parsed = ParseJson(body);
  if (!parsed.ok()) return parsed.status();
  if (!parsed->is_object()) return absl::InvalidArgumentError("a job must be an object");
  Job job;
  for (const auto& [key, value] : parsed->items()) {
    if (key == "jobId" && value.is_string()) {
      job.name = value.get<std::string>();
    } else if (key == "labels") {
      absl::StatusOr<Labels> labels = ReadLabels(value);
      if (!labels.ok()) return labels.status();
      job.labels = *std::move(labels);
    } else if (key == "jobFile" && value.is_string() && value.get_ref<const std::string&>().size() < kMaxJobTextBytes) {
      job.job_file = value.get<std::string>();
    } else if (key == kSettingsSection && value.is_object() && value.dump().size() < kMaxJobTextBytes) {
      job.settings = value.dump();
    } else if (key == "trainingInput") {
      json input = value;
      const absl::Status status = NormaliseTrainingInput(AsWritten(body).value(key, json()), &input);
      if (!status.ok()) return status;
      job.training_input = input.dump(-1, ' ', false, json::error_handler_t::replace);
    } else if (key == "predictionInput") {
      const absl::StatusOr<BatchInput> batch = ReadBatchInput(value);
      if (!batch.ok()) return batch.status();
      job.training_input = json{{key, value}}.dump(-1, ' ', false, json::error_handler_t::replace);
    } else {
      const std::vector<std::string> known = {"jobId", "labels", "trainingInput", "jobFile", kSettingsSection};
      const std::string hint = absl::c_linear_search(known, key) ? "" : DidYouMean(key, known);
      return Wrong(OneLine(key, 100),
                   "is not understood here: a job has jobId, labels, trainingInput, jobFile and downpour" + hint);
    }
  }
  if (!IsJobName(job.name)) {
    return Wrong("jobId", absl::StrCat("must be a letter, then letters, digits and _, of at most ", kMostNameBytes));
  }
  if (parsed->contains("predictionInput")) {
    for (const char* other : {"trainingInput", "jobFile", kSettingsSection}) {
      if (parsed->contains(other)) return Wrong(other, "does not go with predictionInput: a job trains or predicts");
    }
    return job;
  }
  const absl::Status input = CheckInput(json::parse(job.training_input), !job.job_file.empty());
  if (!input.ok()) return input;
  const JobFileResult read = ReadInput(job);
  if (!read.ok()) return absl::InvalidArgumentError(ToString(InItsField(TuningSpec(), read.errors.front())));
  if (const absl::Status tuning = CheckTuning(job); !tuning.ok()) return tuning;
  return job;
}

json ResourceOf(const Job& job) {
  json resource = {{"jobId", job.name},
                   {"state", NameOf(job.state)},
                   {"createTime", TimeText(job.created_ms)},
                   {"etag", absl::Base64Escape(absl::StrCat(job.created_ms, " ", job.revision))}};
  const json input = json::parse(job.training_input);
  if (IsPrediction(job))
    resource.update(input);
  else
    resource["trainingInput"] = input;
  if (!job.labels.empty()) resource["labels"] = job.labels;
  if (!job.job_file.empty()) resource["jobFile"] = job.job_file;
  if (job.settings != Job().settings) resource[kSettingsSection] = json::parse(job.settings);
  if (job.started_ms != 0) resource["startTime"] = TimeText(job.started_ms);
  if (job.ended_ms != 0) resource["endTime"] = TimeText(job.ended_ms);
  if (!job.error.empty()) resource["errorMessage"] = job.error;
  if (!job.state_message.empty()) resource["stateMessage"] = job.state_message;
  return resource;
}

std::string MarkOf(const Job& job, std::string_view mark) { return absl::StrFormat("%d.%s", job.created_ms, mark); }

bool IsMark(std::string_view text) {
  const size_t digits = std::min(text.find('.'), text.size());
  int64_t created_ms = 0;
  return digits < text.size() && absl::SimpleAtoi(absl::string_view(text.data(), digits), &created_ms);
}

std::optional<std::string> ReadMark(const Job& job, std::string_view mark) {
  const std::string own = MarkOf(job, "");
  if (!mark.starts_with(own)) return std::nullopt;
  return std::string(mark.substr(own.size()));
}

bool IsPrediction(const Job& job) { return json::parse(job.training_input).contains("predictionInput"); }

bool HasModule(const Job& job) { return !json::parse(job.training_input).value("pythonModule", "").empty(); }

bool IsTuning(const Job& job) { return json::parse(job.training_input).contains("hyperparameters"); }

std::string TrialName(const std::string& job, int number) { return absl::StrCat(job, "/", number); }

int TrialNumber(const std::string& name) {
  const size_t slash = name.find('/');
  int number = 0;
  return slash != std::string::npos && absl::SimpleAtoi(name.substr(slash + 1), &number) ? number : 0;
}

std::string TextOf(const std::optional<Trial>& trial) {
  if (!trial) return "";
  json text = {{"values", trial->values},
               {"units", trial->units},
               {"metric", trial->metric},
               {"step", trial->step},
               {"stoppedEarly", trial->stopped_early}};
  if (trial->objective) text["objective"] = *trial->objective;
  return text.dump(-1, ' ', false, json::error_handler_t::replace);
}

std::optional<Trial> TrialOf(const std::string& text) {
  if (text.empty()) return std::nullopt;
  const json said = json::parse(text);
  Trial trial{.values = said.at("values").get<std::map<std::string, std::string>>(),
              .units = said.at("units").get<std::vector<double>>(),
              .metric = said.at("metric"),
              .step = said.at("step"),
              .stopped_early = said.at("stoppedEarly")};
  if (said.contains("objective")) trial.objective = said.at("objective").get<double>();
  return trial;
}

std::string TimeText(int64_t unix_ms) {
  const std::time_t seconds = unix_ms / 1000;
  std::tm utc{};
  gmtime_r(&seconds, &utc);
  char text[32];
  std::strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%S", &utc);
  return absl::StrFormat("%s.%03dZ", text, unix_ms % 1000);
}

std::vector<std::string> EvaluatedMetrics(const JobSpec& job) {
  std::vector<std::string> metrics;
  if (!job.data.has_eval()) return metrics;
  if (job.model.has_accuracy()) metrics.push_back("accuracy");
  metrics.push_back("loss");
  for (const MetricSpec& metric : job.training.metrics) metrics.push_back(NameOf(metric));
  return metrics;
}

std::string WhyNoMetric(const std::string& metric, const JobSpec& job, const std::string& who) {
  const std::vector<std::string> metrics = EvaluatedMetrics(job);
  if (absl::c_linear_search(metrics, metric)) return "";
  const std::string had = metrics.empty() ? "nothing, for want of data" : absl::StrJoin(metrics, ", ");
  return absl::StrCat("is ", OneLine(metric, 100), ", but ", who, " evaluates ", had);
}

std::string JobFileOf(const Job& job) {
  if (!job.job_file.empty()) return job.job_file;
  const json input = json::parse(job.training_input);
  json size = json::object();
  for (const char* key : kSizeOfInput) {
    if (input.contains(key)) size[key] = input[key];
  }
  return json{{"jobId", RunName(job)}, {"trainingInput", size}}.dump();
}

std::vector<std::string> OverridesOf(const Job& job) { return ReadOverrides(job).entries; }

JobFileResult ReadInput(const Job& job) {
  if (IsPrediction(job)) return {};
  Overrides beside = ReadOverrides(job);
  const bool has_file = !job.job_file.empty();
  const std::string text = has_file ? job.job_file : RunInput(job).dump(),
                    place = has_file ? "jobFile" : "trainingInput";
  JobFileResult read =
      HasModule(job) ? ParseJobOfCode(text, place, beside.entries) : ParseJob(text, place, beside.entries);
  const std::string& initial = read.job.model.initialize_from;
  if (HasModule(job) && !initial.empty() && !initial.starts_with('/')) {
    const std::string key = "model.initializeFrom";
    read.errors.push_back({.file = read.origins[key],
                           .key = key,
                           .what = absl::StrCat("is ", OneLine(initial, 100), ", which is no absolute path"),
                           .remedy = "name the file as the machine has it that runs the job"});
  }
  read.errors.insert(read.errors.begin(), beside.errors.begin(), beside.errors.end());
  read.warnings.insert(read.warnings.begin(), beside.warnings.begin(), beside.warnings.end());
  return read;
}

int CoresOf(const Job& job) {
  if (IsTuning(job)) return 0;
  if (IsPrediction(job)) return 1;
  const JobFileResult size = ReadInput(job);
  return static_cast<int>(size.job.cluster.worker_count + size.job.cluster.parameter_server_count);
}

int GpusOf(const Job& job) {
  const json input = json::parse(job.training_input);
  if (IsTuning(job) || IsPrediction(job)) return 0;
  if (input.value("scaleTier", "") == "BASIC_GPU") return 1;
  const auto count = [&](const char* machine) {
    const json accelerators = AcceleratorsOf(input, machine);
    return accelerators.is_null() ? 0 : CountIn(accelerators.value("count", json(0))).value_or(0);
  };
  // AI Platform's master trains, and its workers are those beside it.
  const int64_t workers = ReadInput(job).job.cluster.worker_count - 1;
  return static_cast<int>(count("masterConfig") + std::max<int64_t>(workers, 0) * count("workerConfig"));
}

std::string NewSubmissionId() { return absl::StrFormat("%016x", RandomNonce()); }

}  // namespace downpour
