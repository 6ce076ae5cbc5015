#include "service/batch_input.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "job/nearest_name.h"
#include "schema/text.h"

namespace downpour {
namespace {

using nlohmann::json;

constexpr size_t kMostInputs = 1000;
// What clients of the old service say of machines: without meaning here.
const std::vector<std::string> kIgnored = {"region",         "maxWorkerCount", "initialWorkerCount", "workerType",
                                           "runtimeVersion", "batchSize",      "signatureName"};

absl::Status WrongInput(const std::string& key, const std::string& what) {
  return absl::InvalidArgumentError(absl::StrCat("predictionInput.", key, " ", what));
}

bool IsUri(const json& value) { return value.is_string() && value.get_ref<const std::string&>().starts_with("gs://"); }

absl::Status CheckFields(const json& input) {
  std::vector<std::string> known = {"inputPaths", "outputPath",  "dataFormat", "outputDataFormat",
                                    "modelName",  "versionName", "uri"};
  known.insert(known.end(), kIgnored.begin(), kIgnored.end());
  for (const auto& [key, value] : input.items()) {
    if (key == "accelerator") return WrongInput(key, "is not there: leave accelerators out");
    if (key == "framework") return WrongInput(key, "must not be said: models are Downpour's own");
    if (std::ranges::find(known, key) == known.end()) {
      return WrongInput(OneLine(key, 100), "is not understood here" + DidYouMean(key, known));
    }
  }
  for (const char* format : {"dataFormat", "outputDataFormat"}) {
    const json said = input.value(format, json("JSON"));
    if (said == "JSON" || said == "TEXT") continue;
    return WrongInput(format, "must be JSON: a JSON instance on each line (gcloud's --data-format text)");
  }
  return absl::OkStatus();
}

// projects/P/models/M[/versions/V]
bool ReadName(const std::string& name, BatchInput* input) {
  const std::vector<std::string> parts = absl::StrSplit(name, '/');
  const bool is_version = parts.size() == 6 && parts[4] == "versions";
  if ((parts.size() != 4 && !is_version) || parts[0] != "projects" || parts[2] != "models") return false;
  input->model = parts[3];
  if (is_version) input->version = parts[5];
  return true;
}

}  // namespace

absl::StatusOr<BatchInput> ReadBatchInput(const json& said) {
  if (!said.is_object()) return absl::InvalidArgumentError("predictionInput must be an object");
  if (const absl::Status status = CheckFields(said); !status.ok()) return status;
  BatchInput input;
  const json paths = said.value("inputPaths", json());
  if (!paths.is_array() || paths.empty() || paths.size() > kMostInputs || !std::ranges::all_of(paths, IsUri)) {
    return WrongInput("inputPaths", absl::StrCat("must be a list of 1 to ", kMostInputs, " of gs://BUCKET/NAME"));
  }
  input.inputs = paths.get<std::vector<std::string>>();
  if (!IsUri(said.value("outputPath", json()))) return WrongInput("outputPath", "must be gs://BUCKET/FOLDER");
  input.output = said["outputPath"];
  const int models = static_cast<int>(said.contains("modelName")) + static_cast<int>(said.contains("versionName")) +
                     static_cast<int>(said.contains("uri"));
  if (models != 1) return WrongInput("modelName", "or versionName or uri must say by which model, one of them");
  if (said.contains("uri")) {
    if (!IsUri(said["uri"])) return WrongInput("uri", "must be gs://BUCKET/NAME");
    input.uri = said["uri"];
    return input;
  }
  const char* key = said.contains("modelName") ? "modelName" : "versionName";
  if (said[key].is_string() && ReadName(said[key], &input)) return input;
  return WrongInput(key, "must be like projects/P/models/M or projects/P/models/M/versions/V");
}

}  // namespace downpour
