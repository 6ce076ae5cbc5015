#include <algorithm>

#include "absl/strings/str_cat.h"
#include "job/cluster_config.h"
#include "schema/host_port.h"

namespace downpour {
namespace {

// TensorFlow's rule: without a chief, the first worker is the chief.
std::optional<std::string> ChiefOf(const ClusterConfig& config) {
  if (!config.chief.empty()) return config.chief.begin()->second;
  const auto first = config.worker.find(0);
  return first == config.worker.end() ? std::nullopt : std::optional(first->second);
}

const ClusterConfig* SayingTask(const std::vector<ClusterConfig>& sources) {
  const auto found = std::find_if(sources.begin(), sources.end(), [](const auto& s) { return s.task.has_value(); });
  return found == sources.end() ? nullptr : &*found;
}

// The number that `source` gives to a process of this role, if it gives one.
absl::StatusOr<std::optional<int64_t>> IndexFor(TaskType role, const ClusterConfig& source) {
  const ClusterTask& task = *source.task;
  const bool leads = task.type == TaskType::kWorker && task.index == 0 && source.chief.empty();
  if (task.type == role || (role == TaskType::kChief && leads)) return task.index;
  // Beside the master, whose own number is another task's: the last worker, if it is known how many there are.
  if (role == TaskType::kWorker && task.is_master) {
    return source.worker_count ? std::optional(*source.worker_count - 1) : std::nullopt;
  }
  const std::string number = task.index ? absl::StrCat(" ", *task.index) : "";
  const std::string remedy = task.type == TaskType::kEvaluator
                                 ? "the workers evaluate, so that nothing is to be started for it"
                                 : absl::StrCat("start downpour-", NameOf(task.type), " there, or give --cluster=none");
  return absl::InvalidArgumentError(absl::StrCat(source.origin, " says that this task is ", NameOf(task.type), number,
                                                 ", not a ", NameOf(role), ": ", remedy));
}

void SettleListen(TaskType role, const std::vector<ClusterConfig>& sources, std::optional<int64_t> index,
                  LaunchSettings* settings) {
  if (role == TaskType::kChief && settings->contains("chief")) (*settings)["listen"] = settings->at("chief");
  if (role != TaskType::kPs) return;
  for (const ClusterConfig& source : sources) {
    const auto own = index ? source.ps.find(*index) : source.ps.end();
    if (own != source.ps.end()) {
      settings->insert({"listen", {own->second, source.origin}});
    } else if (!source.own_host.empty()) {
      settings->insert({"listen", {ToString(HostPort{source.own_host, 0}), source.origin}});
    }
  }
}

void SettleCounts(const std::vector<ClusterConfig>& sources, LaunchSettings* settings) {
  for (const ClusterConfig& source : sources) {
    if (!source.worker_count || !source.ps_count) continue;
    const std::string cluster =
        absl::StrCat("cluster={workerCount: ", *source.worker_count, ", parameterServerCount: ", *source.ps_count, "}");
    settings->insert({"set", {cluster, source.origin}});
  }
}

}  // namespace

const char* NameOf(TaskType type) {
  switch (type) {
    case TaskType::kChief:
      return "chief";
    case TaskType::kWorker:
      return "worker";
    case TaskType::kPs:
      return "ps";
    case TaskType::kEvaluator:
      return "evaluator";
  }
  return "";
}

absl::StatusOr<LaunchSettings> SettleLaunch(TaskType role, const std::vector<ClusterConfig>& sources,
                                            std::optional<int64_t> given_index) {
  LaunchSettings settings;
  std::optional<int64_t> index = given_index;
  const ClusterConfig* teller = SayingTask(sources);
  if (teller != nullptr && !given_index) {
    const absl::StatusOr<std::optional<int64_t>> told = IndexFor(role, *teller);
    if (!told.ok()) return told.status();
    index = *told;
    if (index && role != TaskType::kChief) settings["index"] = {absl::StrCat(*index), teller->origin};
  }
  for (const ClusterConfig& source : sources) {
    if (teller != nullptr || index || role != TaskType::kWorker || !source.rank) continue;
    settings.insert({"index", {absl::StrCat(*source.rank), source.origin}});
  }
  for (const ClusterConfig& source : sources) {
    if (const auto chief = ChiefOf(source)) settings.insert({"chief", {*chief, source.origin}});
  }
  SettleListen(role, sources, index, &settings);
  if (role != TaskType::kChief) return settings;

  settings.erase("chief");
  SettleCounts(sources, &settings);
  for (const ClusterConfig& source : sources) {
    if (source.resume) settings.insert({"resume", {"true", source.origin}});
  }
  return settings;
}

}  // namespace downpour
