#include "service/backend.h"

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "cluster/job_folder.h"
#include "runtime/posix/whole_file.h"
#include "service/object_store.h"

namespace downpour {
namespace {

using nlohmann::json;

constexpr const char* kKinds[] = {"local", "ssh", "slurm"};

const char* NameOf(BackendKind kind) { return kKinds[static_cast<int>(kind)]; }

// All that finding a run again takes.
json TextOf(const BackendSettings& settings) {
  return {
      {"backend", NameOf(settings.kind)},        {"launcher", settings.launcher},    {"hosts", settings.hosts},
      {"sshConfig", settings.ssh_config},        {"chiefPort", settings.chief_port}, {"partition", settings.partition},
      {"sbatchOptions", settings.sbatch_options}};
}

std::string PathIn(const std::string& root) { return root + "/backend.json"; }

}  // namespace

absl::Status RememberBackend(const std::string& root, const BackendSettings& settings, bool unfinished) {
  BackendSettings before;  // a root without that file is of a release that had this machine alone
  if (const absl::Status recalled = RecallBackend(root, &before); !recalled.ok()) return recalled;
  if (unfinished && before.kind != settings.kind) {
    return absl::FailedPreconditionError(absl::StrCat("jobs in ", root, " run by the backend ", NameOf(before.kind),
                                                      ": start the service with ", "--backend ", NameOf(before.kind),
                                                      ", and change it once they are over"));
  }
  return WriteWhole(PathIn(root), TextOf(settings).dump(), 0600, WhereThere::kReplace);
}

absl::Status RecallBackend(const std::string& root, BackendSettings* settings) {
  const absl::StatusOr<std::string> text = ReadTextFile(PathIn(root));
  if (absl::IsNotFound(text.status())) return absl::OkStatus();
  if (!text.ok()) return text.status();
  try {
    const json said = json::parse(*text);
    const auto kind = std::find(std::begin(kKinds), std::end(kKinds), said.at("backend").get<std::string>());
    if (kind != std::end(kKinds)) {
      settings->kind = static_cast<BackendKind>(kind - std::begin(kKinds));
      said.at("launcher").get_to(settings->launcher);
      said.at("hosts").get_to(settings->hosts);
      said.at("sshConfig").get_to(settings->ssh_config);
      said.at("chiefPort").get_to(settings->chief_port);
      said.at("partition").get_to(settings->partition);
      said.at("sbatchOptions").get_to(settings->sbatch_options);
      return absl::OkStatus();
    }
  } catch (const json::exception&) {
  }
  return absl::DataLossError(absl::StrCat(PathIn(root),
                                          " names no backend: remove it, and start `downpour serve` with "
                                          "the --backend that its jobs run by"));
}

Room NeedOf(const Job& job, const BackendSettings& settings) {
  if (IsTuning(job)) return {};
  const JobFileResult read = ReadInput(job);
  const uint64_t memory = HasModule(job) || IsPrediction(job) || !settings.memory_of ? 0 : settings.memory_of(read);
  return {.cores = CoresOf(job), .memory = memory, .gpus = GpusOf(job)};
}

void AppendOrder(const BackendSettings& settings, const RunOrder& order, std::vector<std::string>* command) {
  const auto add = [&](const std::string& option, const std::string& value) {
    command->insert(command->end(), {option, value});
  };
  for (const std::string& setting : order.overrides) add("--set", setting);
  if (order.module.empty()) return;
  add("--module-name", order.module);
  for (const std::string& package : order.packages) add("--packages", package);
  if (!settings.python.empty()) add("--python", settings.python);
  command->push_back("--");
  const ObjectStore objects(settings.root);
  for (const std::string& word : order.arguments) command->push_back(objects.WithPaths(word));
}

std::vector<std::string> RunCommand(const BackendSettings& settings, const RunOrder& order, const RunFolder& folder,
                                    const std::vector<std::string>& more) {
  if (!order.plan.empty()) return {settings.program, "answer-files", order.plan};
  std::vector<std::string> command = {settings.program, "run", order.job_file, "--job-dir", folder.job_dir()};
  command.insert(command.end(), more.begin(), more.end());
  AppendOrder(settings, order, &command);
  return command;
}

}  // namespace downpour
