#include "tools/cli/job_options.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <map>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "cluster/human_units.h"
#include "job/job_names.h"
#include "job/job_settings.h"
#include "job/nearest_name.h"
#include "runtime/posix/job_file.h"
#include "schema/text.h"
#include "tools/cli/data_facts.h"
#include "worker/python/question_size.h"

namespace downpour {
namespace {

constexpr const char* kTierOption = "--scale-tier";

std::string TierSetting(const std::string& tier) {
  // CUSTOM keeps the counts of the file.
  return tier == kCustomTier ? "cluster.scaleTier=" + tier : "cluster={scaleTier: " + tier + "}";
}

// What is wrong with a word of the command line; empty: nothing.
std::string WhyNoTier(const std::string& word) {
  const std::vector<std::string> tiers = KnownTiers();
  const std::string named = TierNamed(word);
  if (std::find(tiers.begin(), tiers.end(), named) != tiers.end()) return "";
  return absl::StrCat("there is no tier ", word, ", only ", absl::StrJoin(tiers, ", "), DidYouMean(named, tiers));
}
std::string WhyNoSetting(const std::string& word) {
  return KeyOfSetting(word).empty() ? word + " is not of the form training.epochs=3" : "";
}

// Entries that beat the job file's, the later ones the earlier, each with who says so.
struct Override {
  std::string entry;
  std::string origin;
};
std::vector<Override> OverridesOf(const JobOptions& options, const std::vector<PlacedEntry>& of_config) {
  std::vector<Override> overrides;
  for (const std::string& entry : options.of_code.entries) overrides.push_back({entry, kModuleOption});
  for (const PlacedEntry& placed : of_config) {
    overrides.push_back({placed.entry, absl::StrCat(options.config_file, ":", placed.line)});
  }
  if (!options.scale_tier.empty()) {
    overrides.push_back({TierSetting(WhatTierIsHere(TierNamed(options.scale_tier)).name), kTierOption});
  }
  for (const std::string& entry : options.settings) overrides.push_back({entry, kSetByHand});
  return overrides;
}

// Who said what the parser knows as said by hand: the last one to set the key, or what it stands in.
std::string OriginOf(const std::string& key, const std::vector<Override>& overrides) {
  const auto sets = [&](const Override& override) {
    const std::string path = override.entry.substr(0, override.entry.find('='));
    return key == path || key.starts_with(path + ".");
  };
  const auto last = std::find_if(overrides.rbegin(), overrides.rend(), sets);
  return last == overrides.rend() ? kSetByHand : last->origin;
}

// A relative path is one from the folder of the file that names it.
absl::StatusOr<std::string> PathOfPackage(const std::string& uri, const std::string& file, Store store) {
  namespace fs = std::filesystem;
  const std::string scheme = "://";
  const size_t end = uri.find(scheme);
  const std::string kind = end == std::string::npos ? "file" : uri.substr(0, end);
  if (kind == "gs" && store == Store::kOfService) return uri;
  if (kind != "file") {
    return absl::InvalidArgumentError(absl::StrCat(
        CleanText(uri, 200), " cannot be had here: name a file of this machine, or submit the job to a service, whose ",
        "store gs:// is"));
  }
  const std::string named = end == std::string::npos ? uri : uri.substr(end + scheme.size());
  std::error_code error;
  const fs::path path = (fs::absolute(file, error).parent_path() / named).lexically_normal();
  if (fs::is_regular_file(path, error)) return path.string();
  return absl::InvalidArgumentError(absl::StrCat("there is no file ", CleanText(path.string(), 400)));
}

// Those that nobody else says. A kind of optimizer brings its own numbers, and examples in any order lie in no blocks.
std::vector<Override> DefaultsOfCode(const JobOptions& options, const std::vector<Override>& overrides) {
  std::vector<Override> defaults;
  if (options.of_code.defaults.empty()) return defaults;
  std::vector<std::string> entries;
  for (const Override& override : overrides) entries.push_back(override.entry);
  const JobFileResult parsed = LoadJobFile(options.job_file, entries);
  const std::map<std::string, std::string>& said = parsed.origins;
  const bool names_optimizer = said.contains("training.optimizer.name");
  const bool has_no_blocks = said.contains("data.order") && parsed.job.data.order == DataOrder::kExamples;
  for (const std::string& entry : options.of_code.defaults) {
    const std::string key = entry.substr(0, entry.find('='));
    const auto at = said.lower_bound(key);
    const bool is_said = at != said.end() && (at->first == key || at->first.starts_with(key + "."));
    if (is_said || (names_optimizer && key.starts_with("training.optimizer."))) continue;
    if (has_no_blocks && key == "data.blockExamples") continue;
    defaults.push_back({entry, kModuleOption});
  }
  return defaults;
}

// Metrics that the job names and its code does not compute.
void CheckMetrics(const PythonJob& of_code, JobFileResult* parsed) {
  const auto at = parsed->origins.lower_bound("training.metrics");
  for (const MetricSpec& metric : parsed->job.training.metrics) {
    if (std::ranges::find(of_code.metrics, metric.name) != of_code.metrics.end()) continue;
    const std::string known =
        of_code.metrics.empty() ? "and no other" : absl::StrCat("only ", absl::StrJoin(of_code.metrics, ", "));
    parsed->errors.push_back(
        {.file = at == parsed->origins.end() ? kModuleOption : at->second,
         .key = "training.metrics",
         .what = absl::StrCat("the Python code computes no metric ", metric.name, ", ", known),
         .remedy = absl::StrCat("leave it out, or give downpour.fit a function for it in metrics=")});
  }
}

// An epoch's last batch may have one example, and others have as many as the job says.
void CheckSmallestBatch(const PythonJob& of_code, JobFileResult* parsed) {
  const int64_t examples = parsed->job.data.train_examples, size = parsed->job.training.batch_size;
  if (of_code.takes_one_example || (size != 1 && examples % size != 1)) return;
  const auto at = parsed->origins.find("training.batchSize");
  parsed->errors.push_back(
      {.file = at == parsed->origins.end() ? kModuleOption : at->second,
       .key = "training.batchSize",
       .what = absl::StrCat("with ", size, " of ", examples, " examples there are batches of one example, and the ",
                            "model's batch norm needs 2 or more to train"),
       .remedy = "take another, or leave an example out of train="});
}

// Each worker would fail at such a step.
void CheckQuestions(JobFileResult* parsed) {
  const uint64_t bytes = LargestQuestion(parsed->job);
  if (bytes <= kMostQuestionBytes) return;
  parsed->errors.push_back(
      PlacedAt(*parsed, "training.pushEvery",
               absl::StrCat("a push of ", ExamplesOfQuestion(parsed->job), " examples takes a question of up to ",
                            HumanBytes(static_cast<double>(bytes)), " to the Python code, which hears ",
                            HumanBytes(kMostQuestionBytes), " at most"),
               "take fewer batches for a push, or smaller ones"));
}

// The model and the data, of which a job file of Python code has none.
std::string HowToNameIt(const std::string& verb) {
  const char* where = verb == "jobs submit" ? ", and no --file" : verb == "config" ? " to downpour check" : "";
  return absl::StrCat("write it into the file, or, where Python code makes it, give ", kModuleOption,
                      " trainer.task --package-path trainer", where);
}

}  // namespace

std::string TierNamed(std::string tier) {
  std::replace(tier.begin(), tier.end(), '-', '_');
  return absl::AsciiStrToUpper(tier);
}

void AddJobOptions(CLI::App& app, JobOptions* options) {
  app.add_option("job", options->job_file, "The job file")->required()->type_name("JOB.yaml");
  app.add_option("--set", options->settings, "Override an entry of the job file: training.epochs=3")
      ->allow_extra_args(false)
      ->check(WhyNoSetting, "")
      ->type_name("KEY=VALUE");
  app.add_option(kTierOption, options->scale_tier, "How many tasks: basic, standard-1, premium-1, custom")
      ->check(WhyNoTier, "")
      ->type_name("TIER");
  app.add_option("--config", options->config_file,
                 "A config.yaml of AI Platform; its trainingInput and its downpour beat the job file")
      ->type_name("FILE");
}

absl::StatusOr<CodeOfFiles> AddCodeOfFiles(const JobOptions& options, PythonCode code, Store store) {
  CodeOfFiles result;
  const bool has_module = !code.module.empty();
  const std::string file = options.config_file.empty() ? options.job_file : options.config_file;
  TrainingCode said;
  if (options.config_file.empty()) {
    said = LoadCodeOfJobFile(options.job_file, has_module);
    if (said.has_job_dir) result.job_dir = LoadJobFile(options.job_file).job_dir;
  } else {
    ConfigFileResult config = LoadConfigFile(options.config_file, has_module);
    // LoadChosenJob tells them all. Whether the code has no module is not known.
    if (!config.errors.empty()) return CodeOfFiles{.code = has_module ? std::move(code) : PythonCode()};
    said = std::move(config.code);
    result.job_dir = std::move(config.job_dir);
  }
  if (!has_module) code.module = said.module;
  if (!code.module.empty() && code.args.empty()) code.args = said.args;
  if (!code.module.empty() && code.package_path.empty() && code.packages.empty()) {
    for (const auto& [uri, line] : said.packages) {
      absl::StatusOr<std::string> path = PathOfPackage(uri, file, store);
      if (!path.ok()) {
        return absl::InvalidArgumentError(
            absl::StrCat(file, ":", line, ": trainingInput.packageUris: ", std::string(path.status().message())));
      }
      code.packages.push_back(*std::move(path));
    }
  }
  result.has_job_dir = said.has_job_dir && !code.module.empty();
  result.code = std::move(code);
  return result;
}

int DescribeCode(const std::string& verb, const std::string& folder, const PythonCode& code, JobOptions* options,
                 Streams streams) {
  absl::StatusOr<CodeOfFiles> of_files = AddCodeOfFiles(*options, code, Store::kNone);
  if (!of_files.ok()) return Complain(streams, verb, std::string(of_files.status().message()), kExitBadJobFile);
  PythonCode& whole = of_files->code;
  if (const std::string why = WhyNoCode(whole); !why.empty()) return Complain(streams, verb, why, kExitBadCommandLine);
  if (whole.module.empty()) return kExitDone;
  if (of_files->has_job_dir) whole.args.insert(whole.args.end(), {"--job-dir", of_files->job_dir});
  const std::string made = PythonFolder(folder);
  std::filesystem::create_directory(made);
  absl::StatusOr<PythonJob> python = DescribePythonCode(whole, KnownOf(*options), made, folder);
  if (!python.ok()) {
    return Complain(streams, verb, std::string(python.status().message()), ExitCodeOfCode(python.status()));
  }
  options->of_code = *std::move(python);
  return kExitDone;
}

JobSpec KnownOf(const JobOptions& options) {
  std::vector<std::string> entries;
  const auto config = options.config_file.empty() ? ConfigFileResult() : LoadConfigFile(options.config_file, true);
  for (const Override& override : OverridesOf(options, config.overrides)) entries.push_back(override.entry);
  return LoadJobFile(options.job_file, entries).job;
}

ChosenJob LoadChosenJob(const JobOptions& options, const std::string& verb, Streams streams) {
  ChosenJob chosen;
  ConfigFileResult config;
  const bool has_module = !options.of_code.entries.empty();
  if (!options.config_file.empty()) config = LoadConfigFile(options.config_file, has_module);
  // A service searches.
  const auto is_searched = [&](const JobError& warning) { return warning.key == "trainingInput.hyperparameters"; };
  if (verb == "jobs submit") std::erase_if(config.warnings, is_searched);
  std::vector<Override> overrides = OverridesOf(options, config.overrides);
  const std::vector<Override> defaults = DefaultsOfCode(options, overrides);
  overrides.insert(overrides.begin(), defaults.begin(), defaults.end());
  for (const Override& override : overrides) chosen.overrides.push_back(override.entry);

  JobFileResult& parsed = chosen.parsed = LoadJobFile(options.job_file, chosen.overrides);
  for (auto& [key, origin] : parsed.origins) {
    if (origin == kSetByHand) origin = OriginOf(key, overrides);
  }
  for (JobError& error : parsed.errors) {
    if (error.file == kSetByHand) error.file = OriginOf(error.key, overrides);
  }
  if (has_module) CheckMetrics(options.of_code, &parsed);
  if (has_module && parsed.ok()) CheckSmallestBatch(options.of_code, &parsed);
  if (parsed.ok() && parsed.job.model.is_own()) CheckQuestions(&parsed);
  const auto is_missing = [](const std::string& key) {
    return [key](const JobError& error) { return error.key == key && error.what == "is missing"; };
  };
  const bool may_be_code = !has_module && std::any_of(parsed.errors.begin(), parsed.errors.end(), is_missing("model"));
  for (JobError& error : parsed.errors) {
    if (is_missing("model")(error) && may_be_code) error.remedy = HowToNameIt(verb);
    if (!is_missing("data")(error) || has_module) continue;
    error.remedy =
        may_be_code
            ? HowToNameIt(verb)
            : "name its files: data: {train: {images: FILE, labels: FILE}}, or data: {format: csv, train: FILE, ...}";
  }
  parsed.errors.insert(parsed.errors.begin(), config.errors.begin(), config.errors.end());
  parsed.warnings.insert(parsed.warnings.begin(), config.warnings.begin(), config.warnings.end());
  if (const std::string why = WhatTierIsHere(TierNamed(options.scale_tier)).why; !why.empty()) {
    parsed.warnings.push_back({.file = kTierOption, .key = "", .what = why});
  }
  chosen.job_dir = config.job_dir.empty() ? parsed.job_dir : config.job_dir;
  for (const JobError& warning : parsed.warnings) {
    streams.err << "downpour " << verb << ": warning: " << ToString(warning) << "\n";
  }
  for (const JobError& error : parsed.errors) streams.err << ToString(error) << "\n";
  return chosen;
}

}  // namespace downpour
