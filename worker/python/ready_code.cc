#include "worker/python/ready_code.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "job/job_names.h"
#include "runtime/metrics.h"
#include "schema/text.h"

namespace downpour {
namespace {

using Json = nlohmann::json;

constexpr const char* kRemedy = "; the package and its arguments have to make the same model wherever they run";

std::string Describe(const Json& variable) {
  if (!variable.is_object()) return CleanText(variable.dump(), 128);
  return absl::StrCat(CleanText(variable.value("name", Json()).dump(), 128), " ",
                      CleanText(variable.value("shape", Json()).dump(), 128));
}

Json AsSubmitted(const OwnVariableSpec& variable) {
  return {{"name", variable.name}, {"shape", variable.shape}, {"trainable", variable.trainable}};
}

std::string DescribeTable(const Json& table) {
  if (!table.is_object()) return CleanText(table.dump(), 128);
  return absl::StrCat(CleanText(table.value("name", Json()).dump(), 128), " of width ",
                      CleanText(table.value("width", Json()).dump(), 64));
}

// Their rules may be others: the job file says them, too.
absl::Status CheckTables(const Json& found, const std::vector<ModelTable>& wanted) {
  for (size_t i = 0; i < std::max(found.size(), wanted.size()); ++i) {
    const std::string here = i < found.size() ? DescribeTable(found[i]) : "missing";
    const std::string submitted =
        i < wanted.size() ? DescribeTable({{"name", wanted[i].name}, {"width", wanted[i].width}}) : "missing";
    if (here == submitted) continue;
    return absl::InvalidArgumentError(absl::StrCat("the Python code's table ", i, " is ", here, " here, and was ",
                                                   submitted, " when the job was submitted", kRemedy));
  }
  return absl::OkStatus();
}

}  // namespace

uint64_t CountOf(const Json& json, const char* key) {
  const auto found = json.find(key);
  return found != json.end() && found->is_number_unsigned() ? found->get<uint64_t>() : 0;
}

std::string TextOf(const Json& json, const char* key) {
  const auto found = json.find(key);
  return found != json.end() && found->is_string() ? found->get<std::string>() : "";
}

Json ArrayOf(const Json& json, const char* key) {
  const auto found = json.find(key);
  return found != json.end() && found->is_array() ? *found : Json::array();
}

absl::StatusOr<std::vector<MetricPlace>> PlacesOf(const std::vector<MetricSpec>& metrics, const Json& ready) {
  std::vector<std::pair<MetricSpec, MetricPlace>> known;
  size_t first = 0;
  for (const Json& said : ArrayOf(ready, "metrics")) {
    const std::string kind = said.is_object() ? TextOf(said, "kind") : "";
    const auto named = std::ranges::find(kOwnMetrics, kind, &Named<MetricKind>::name);
    if (named == std::end(kOwnMetrics)) continue;
    const MetricSpec metric = {.kind = named->value, .name = TextOf(said, "name")};
    const MetricPlace& place = known.emplace_back(metric, MetricPlace{first, CountMetricSums({metric})}).second;
    first += place.sums;
  }
  std::vector<MetricPlace> places;
  for (const MetricSpec& metric : metrics) {
    const auto found = std::ranges::find_if(
        known, [&](const auto& one) { return one.first.name == metric.name && one.first.kind == metric.kind; });
    if (found == known.end()) {
      return absl::InvalidArgumentError(absl::StrCat("the Python code computes no metric ", metric.name, " that is a ",
                                                     NameIn(kOwnMetrics, metric.kind), ", as training.metrics has"));
    }
    places.push_back(found->second);
  }
  return places;
}

absl::Status CheckMakesModel(const Json& ready, const ModelSpec& model) {
  if (const Json version = ready.value("version", Json()); version != DOWNPOUR_VERSION) {
    return absl::InvalidArgumentError(absl::StrCat("the Python package downpour is of version ",
                                                   CleanText(version.dump(), 64), " here, this program of ",
                                                   DOWNPOUR_VERSION ": install the one of this release"));
  }
  const Json found = ArrayOf(ready, "variables");
  const std::vector<OwnVariableSpec>& wanted = model.variables;
  for (size_t i = 0; i < std::max(found.size(), wanted.size()); ++i) {
    const Json here = i < found.size() ? found[i] : Json::object();
    const Json submitted = i < wanted.size() ? AsSubmitted(wanted[i]) : Json::object();
    if (here == submitted) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "the Python code's variable ", i, " is ", i < found.size() ? Describe(here) : "missing", " here, and was ",
        i < wanted.size() ? Describe(submitted) : "missing", " when the job was submitted", kRemedy));
  }
  return CheckTables(ArrayOf(ready, "tables"), model.tables);
}

absl::Status CheckIsAsSubmitted(const Json& ready, const JobSpec& job) {
  if (absl::Status status = CheckMakesModel(ready, job.model); !status.ok()) return status;
  if (const auto places = PlacesOf(job.training.metrics, ready); !places.ok()) return places.status();
  const std::pair<const char*, int64_t> counts[] = {{"trainExamples", job.data.train_examples},
                                                    {"evalExamples", job.data.eval_examples}};
  for (const auto& [key, submitted] : counts) {
    const uint64_t here = CountOf(ready, key);
    if (here == static_cast<uint64_t>(submitted)) continue;
    return absl::InvalidArgumentError(absl::StrCat("the Python code's data have ", here, " ", key, " here, and had ",
                                                   submitted, " when the job was submitted; every host with workers ",
                                                   "has to have the same data"));
  }
  return absl::OkStatus();
}

}  // namespace downpour
