#include <CLI/CLI.hpp>
#include <algorithm>
#include <fstream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "cluster/output_options.h"
#include "job/job_names.h"
#include "runtime/posix/keys.h"
#include "runtime/process/cluster_environment.h"
#include "tools/cli/job_options.h"
#include "tools/cli/verbs.h"

namespace downpour {
namespace {

struct ConfigOptions {
  JobOptions job;
  std::string role;
  std::string cluster;
  std::map<std::string, std::string> flags;  // of the role binary, by name
  bool origin = false;
  bool json = false;
};

struct Row {
  std::string name, value, origin;
};
constexpr const char* kDefault = "default";

void PrintRows(const std::vector<Row>& rows, bool origin, std::ostream& out) {
  size_t name_width = 0, value_width = 0;
  for (const Row& row : rows) {
    name_width = std::max(name_width, row.name.size());
    value_width = std::max(value_width, row.value.size());
  }
  for (const Row& row : rows) {
    out << row.name << std::string(name_width - row.name.size() + 2, ' ') << row.value;
    if (origin) out << std::string(value_width - row.value.size() + 2, ' ') << row.origin;
    out << "\n";
  }
}

// The role that was asked for, or the one that a source says this task has.
std::pair<TaskType, std::string> RoleOf(const ConfigOptions& options, const std::vector<ClusterConfig>& sources) {
  for (TaskType role : {TaskType::kChief, TaskType::kPs, TaskType::kWorker}) {
    if (options.role == NameOf(role)) return {role, "--role"};
  }
  for (const ClusterConfig& source : sources) {
    if (source.task) return {source.task->type, source.origin};
  }
  return {options.job.job_file.empty() ? TaskType::kWorker : TaskType::kChief, kDefault};
}

// The flags of a role binary that say where it stands.
std::vector<Row> FlagRows(TaskType role, const ConfigOptions& options, const LaunchSettings& settings) {
  std::vector<Row> rows = {{"chief", "", kDefault}, {"index", "-1", kDefault}};
  if (role == TaskType::kChief) rows = {{"resume", "false", kDefault}};
  if (role != TaskType::kWorker) rows.push_back({"listen", "127.0.0.1:0", kDefault});
  const std::string named = KeysFolder("", "");
  rows.push_back({"keys", named, named.empty() ? kDefault : "DOWNPOUR_KEYS"});
  for (Row& row : rows) {
    const auto told = settings.find(row.name);
    const auto given = options.flags.find(row.name);
    if (told != settings.end()) row = {row.name, told->second.value, told->second.origin};
    if (given != options.flags.end()) row = {row.name, given->second, "--" + row.name};
  }
  return rows;
}

// Every entry of the job, as the chief sees it, and the counts that a tier stands for. `sized_by`: who fixed the
// cluster's size, if not the file; `given` beats it.
std::vector<Row> JobRows(const JobFileResult& parsed, const std::string& sized_by,
                         const std::vector<std::string>& given) {
  std::vector<Row> rows;
  const ClusterSpec& cluster = parsed.job.cluster;
  nlohmann::json entries = nlohmann::json::parse(CanonicalJob(parsed.job)).flatten();
  entries["/cluster/workerCount"] = cluster.worker_count;
  entries["/cluster/parameterServerCount"] = cluster.parameter_server_count;
  for (const auto& [pointer, value] : entries.items()) {
    const std::string key = absl::StrReplaceAll(pointer.substr(1), {{"/", "."}});
    const bool is_size = key.starts_with("cluster.");
    const auto origin = parsed.origins.find(is_size && cluster.scale_tier != kCustomTier ? "cluster.scaleTier" : key);
    std::string from = origin == parsed.origins.end() ? kDefault : origin->second;
    const bool is_given =
        std::ranges::any_of(given, [&key](const std::string& item) { return item.starts_with(key + "="); });
    if (!sized_by.empty() && is_size && !is_given) from = sized_by;
    rows.push_back({key, value.is_string() ? value.get<std::string>() : value.dump(), from});
  }
  return rows;
}

int Show(ConfigOptions options, Streams streams) {
  const LaunchSources sources = ReadLaunchSources(options.cluster, ProcessEnvironment());
  for (const JobError& warning : sources.warnings) streams.err << "warning: " << ToString(warning) << "\n";
  for (const JobError& error : sources.errors) streams.err << ToString(error) << "\n";
  if (!sources.errors.empty()) return kExitBadCommandLine;
  const auto [role, role_origin] = RoleOf(options, sources.configs);
  std::optional<int64_t> index;
  if (options.flags.contains("index")) index = std::stoll(options.flags["index"]);
  const absl::StatusOr<LaunchSettings> settings = SettleLaunch(role, sources.configs, index);
  if (!settings.ok()) return Complain(streams, "config", std::string(settings.status().message()), kExitBadCommandLine);

  if (const auto listen = settings->find("listen"); listen != settings->end() && !options.flags.contains("listen")) {
    std::ifstream hosts("/etc/hosts");
    const absl::Status own = CheckOwnEndpoint(listen->second, hosts);
    if (!own.ok()) streams.err << "warning: the role would refuse this: " << own.message() << "\n";
  }
  std::vector<Row> rows = {{"role", NameOf(role), role_origin}};
  for (Row& row : FlagRows(role, options, *settings)) rows.push_back(std::move(row));
  if (!options.job.job_file.empty()) {
    std::string sized_by;
    const std::vector<std::string> given = options.job.settings;
    const auto size = settings->find("set");
    if (size != settings->end() && options.job.scale_tier.empty() && !SizesCluster(options.job.settings)) {
      sized_by = size->second.origin;
      options.job.settings.insert(options.job.settings.begin(), size->second.value);
    }
    const JobFileResult parsed = LoadChosenJob(options.job, "config", streams).parsed;
    if (!parsed.ok()) return kExitBadJobFile;
    if (options.json) {
      streams.out << CanonicalJob(parsed.job) << "\n";
      return kExitDone;
    }
    for (Row& row : JobRows(parsed, sized_by, given)) rows.push_back(std::move(row));
  }
  PrintRows(rows, options.origin, streams.out);
  return kExitDone;
}

std::function<int()> SetUpConfig(CLI::App& app, Streams streams) {
  auto options = std::make_shared<ConfigOptions>();
  CLI::App* show = app.add_subcommand("show", "Show what a role binary started here, and its job, would go by");
  app.require_subcommand(1);
  AddJobOptions(*show, &options->job);
  show->get_option("job")->required(false);
  show->add_option("--role", options->role, "chief, ps or worker; else what the environment says")
      ->check(CLI::IsMember({"chief", "ps", "worker"}));
  show->add_option("--cluster", options->cluster, "A file like TF_CONFIG, or none");
  for (const char* flag : {"chief", "keys", "listen"}) {
    show->add_option_function<std::string>(
        std::string("--") + flag, [options, flag](const std::string& value) { options->flags[flag] = value; },
        "As the role binary takes it");
  }
  show->add_option_function<int32_t>(
      "--index", [options](int32_t index) { options->flags["index"] = absl::StrCat(index); },
      "As the role binary takes it");
  show->add_flag("--origin", options->origin, "Say which flag, variable or file each value comes from");
  AddFormatOption(*show, "table, or json: the job alone, itself a job file that needs no other", &options->json);
  return [options, streams] { return Show(*options, streams); };
}

}  // namespace

const Verb kConfigVerb = {"config", "Show the settings in force, and where each comes from",
                          "  downpour config show --origin\n"
                          "  TF_CONFIG='{...}' downpour config show --role ps --origin\n"
                          "  downpour config show job.yaml --set training.epochs=3 --origin\n",
                          "0 done, 78 bad job file", SetUpConfig};

}  // namespace downpour
