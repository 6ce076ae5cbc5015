#include "job/tf_config.h"

#include <nlohmann/json.hpp>
#include <optional>

#include "absl/strings/str_cat.h"
#include "schema/host_port.h"

namespace downpour {
namespace {

using Json = nlohmann::json;

Json Nowhere(TaskType type, int64_t count) {
  Json addresses = Json::array();
  for (int64_t i = 0; i < count; ++i) addresses.push_back(absl::StrCat(NameOf(type), "-", i, ".invalid:2222"));
  return addresses;
}

Json ClusterOf(const JobSpec& job, const std::string& chief) {
  const std::optional<HostPort> known = ParseHostPort(chief);
  return {{"chief", known && known->port > 0 ? Json::array({chief}) : Nowhere(TaskType::kChief, 1)},
          {"worker", Nowhere(TaskType::kWorker, job.cluster.worker_count)},
          {"ps", Nowhere(TaskType::kPs, job.cluster.parameter_server_count)}};
}

}  // namespace

std::string TfConfigOf(const JobSpec& job, const TfTask& task) {
  Json own = {{"type", NameOf(task.type)}, {"index", task.index}};
  if (!task.trial.empty()) own["trial"] = task.trial;
  const Json input = {{"python_module", job.python.module},
                      {"args", job.python.args},
                      {"scale_tier", job.cluster.scale_tier},
                      {"worker_count", job.cluster.worker_count},
                      {"parameter_server_count", job.cluster.parameter_server_count}};
  const Json config = {
      {"cluster", ClusterOf(job, task.chief)}, {"task", std::move(own)}, {"environment", "cloud"}, {"job", input}};
  return config.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace downpour
