#include "job/plan_check.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "job/job_file.h"
#include "job/variables.h"

namespace downpour {
namespace {

// conv.weight [8, 1, 3, 3]
std::string Describe(const VariableSpec& variable) {
  return absl::StrCat(variable.name, " [", absl::StrJoin(variable.shape, ", "), "]",
                      variable.trainable ? "" : ", not trained");
}

// The first variable that is another one; nothing where models differ in what they compute alone.
std::string FirstOtherVariable(const ModelSpec& there, const ModelSpec& here) {
  const std::vector<VariableSpec> before = InferVariables(there).value_or(std::vector<VariableSpec>());
  const std::vector<VariableSpec> now = InferVariables(here).value_or(std::vector<VariableSpec>());
  for (size_t i = 0; i < std::max(before.size(), now.size()); ++i) {
    const std::string was = i < before.size() ? Describe(before[i]) : "no more variables";
    const std::string is = i < now.size() ? Describe(now[i]) : "no more variables";
    if (was != is) return absl::StrCat(" (", was, " there, ", is, " here)");
  }
  return "";
}

// training.batchSize (16 there, 32 here); of a model its first variable that differs.
std::string WithValues(const std::string& difference, const JobSpec& there, const JobSpec& here) {
  const size_t end = std::min(difference.find(' '), difference.size());
  const nlohmann::json::json_pointer place("/" + absl::StrReplaceAll(difference.substr(0, end), {{".", "/"}}));
  const nlohmann::json before = nlohmann::json::parse(CanonicalJob(there))[place];
  const nlohmann::json now = nlohmann::json::parse(CanonicalJob(here))[place];
  if (before.is_structured() || now.is_structured()) return difference + FirstOtherVariable(there.model, here.model);
  return absl::StrCat(difference.substr(0, end), " (", before.dump(), " there, ", now.dump(), " here)",
                      difference.substr(end));
}

}  // namespace

absl::Status CheckSamePlan(const JobSpec& job, const std::string& before, const std::string& whose) {
  const absl::StatusOr<JobSpec> there = ParseCanonicalJob(before);
  if (!there.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat(whose, " is one that this release does not understand: ", std::string(there.status().message())));
  }
  std::vector<std::string> differences = PlanDifferences(job, *there);
  if (differences.empty()) return absl::OkStatus();
  for (std::string& difference : differences) difference = WithValues(difference, *there, job);
  const std::string of = there->name == job.name ? "" : absl::StrCat(", of the job ", there->name);
  return absl::InvalidArgumentError(
      absl::StrCat(whose, " belongs to another plan", of, "; it differs in ", absl::StrJoin(differences, ", "),
                   ": set these back, or name the job folder of this plan, or one that is new, to begin again"));
}

bool GrowsTo(const JobSpec& job, uint64_t before, uint64_t now) {
  const std::vector<EarlierEpochs>& earlier = job.training.earlier;
  const auto is_entry = [&](const EarlierEpochs& epochs) { return epochs.examples == before; };
  return now == before || (now > before && std::any_of(earlier.begin(), earlier.end(), is_entry));
}

}  // namespace downpour
