// What other launchers say of a cluster: the input as TF_CONFIG, and its lines as environment variables. What is
// refused says why; what is not comes to flags for each role, or to a reason against them.
#include "job/cluster_config.h"

#include <glog/logging.h>

#include <sstream>
#include <string>

#include "tests/fuzz/target.h"

namespace downpour {
namespace {

void TryConfig(const ClusterConfigResult& told) {
  for (const JobError& error : told.errors) CHECK(!error.what.empty()) << ToString(error);
  if (!told.errors.empty()) return;
  for (const TaskType role : {TaskType::kChief, TaskType::kWorker, TaskType::kPs}) {
    const absl::StatusOr<LaunchSettings> settings = SettleLaunch(role, {told.config}, std::nullopt);
    if (!settings.ok()) CHECK(!settings.status().message().empty());
  }
}

Environment VariablesOf(const std::string& text) {
  Environment variables;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const size_t equals = line.find('=');
    if (equals != std::string::npos) variables[line.substr(0, equals)] = line.substr(equals + 1);
  }
  return variables;
}

}  // namespace
}  // namespace downpour

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace downpour;
  const std::string text(reinterpret_cast<const char*>(data), size);
  TryConfig(ParseTfConfig(text, "TF_CONFIG"));
  const Environment variables = VariablesOf(text);
  TryConfig(ParseDmlc(variables));
  TryConfig(ParseSlurm(variables));
  return 0;
}
