#include "tools/job_options.h"

#include <CLI/CLI.hpp>
#include <algorithm>

#include "absl/strings/ascii.h"
#include "runtime/posix_job_file.h"
#include "schema/job_names.h"

namespace downpour {
namespace {

std::string TierSetting(std::string tier) {
  std::replace(tier.begin(), tier.end(), '-', '_');
  tier = absl::AsciiStrToUpper(tier);
  // CUSTOM keeps the counts of the file.
  return tier == kCustomTier ? "cluster.scaleTier=" + tier : "cluster={scaleTier: " + tier + "}";
}

void Append(const std::vector<std::string>& from, std::vector<std::string>* to) {
  to->insert(to->end(), from.begin(), from.end());
}

}  // namespace

void AddJobOptions(CLI::App& app, JobOptions* options) {
  app.add_option("job", options->job_file, "The job file")->required()->type_name("JOB.yaml");
  app.add_option("--set", options->settings, "Override an entry of the job file: training.epochs=3")
      ->allow_extra_args(false)
      ->type_name("KEY=VALUE");
  app.add_option("--scale-tier", options->scale_tier, "How many tasks: basic, standard-1, premium-1, custom")
      ->type_name("TIER");
  app.add_option("--config", options->config_file, "A config.yaml of AI Platform; its trainingInput beats the job file")
      ->type_name("FILE");
}

ChosenJob LoadChosenJob(const JobOptions& options, const std::string& verb, Streams streams) {
  ChosenJob chosen;
  ConfigFileResult config;
  if (!options.config_file.empty()) config = LoadConfigFile(options.config_file);
  Append(config.overrides, &chosen.overrides);
  if (!options.scale_tier.empty()) chosen.overrides.push_back(TierSetting(options.scale_tier));
  Append(options.settings, &chosen.overrides);

  JobFileResult& parsed = chosen.parsed = LoadJobFile(options.job_file, chosen.overrides);
  parsed.errors.insert(parsed.errors.begin(), config.errors.begin(), config.errors.end());
  parsed.warnings.insert(parsed.warnings.begin(), config.warnings.begin(), config.warnings.end());
  chosen.job_dir = config.job_dir.empty() ? parsed.job_dir : config.job_dir;
  for (const JobError& warning : parsed.warnings) {
    streams.err << "downpour " << verb << ": warning: " << ToString(warning) << "\n";
  }
  for (const JobError& error : parsed.errors) streams.err << ToString(error) << "\n";
  return chosen;
}

}  // namespace downpour
