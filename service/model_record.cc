#include "service/model_record.h"

#include <array>
#include <iterator>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "job/nearest_name.h"
#include "schema/text.h"
#include "service/job.h"

namespace downpour {
namespace {

using nlohmann::json;

constexpr size_t kMostTextBytes = 4096;
constexpr const char* kVersionStates[] = {"CREATING", "READY", "FAILED"};
constexpr const char* kOperationTypes[] = {"CREATE_VERSION", "DELETE_VERSION", "DELETE_MODEL", "UPDATE_MODEL",
                                           "UPDATE_VERSION"};

// Fields of ml v1 that ask for what is not done here, and what to do in their place.
constexpr std::pair<const char*, const char*> kRefusedOfVersions[] = {
    {"acceleratorConfig", "accelerators do not compute predictions here: leave --accelerator out"},
    {"autoScaling", "the service is one process and does not scale by itself: leave autoscaling out"},
    {"manualScaling", "the service is one process on one machine: leave the number of nodes out"},
    {"framework", "models are Downpour's own, of no other framework: leave --framework out"},
    {"predictionClass", "custom prediction routines are not run: deploy a job, a checkpoint or an exported file"},
    {"packageUris", "custom prediction routines are not run: deploy a job, a checkpoint or an exported file"},
    {"container", "containers are not run: deploy a job, a checkpoint or an exported file"},
    {"routes", "containers are not run, so they have no routes: leave them out"},
    {"imageUri", "containers are not run: deploy a job, a checkpoint or an exported file"},
    {"explanationConfig", "predictions are not explained here: leave the explanation method out"},
    {"serviceAccount", "models run as the service's own user: leave the service account out"},
    {"requestLoggingConfig", "there is no BigQuery here: create the model with --enable-logging, which keeps a log"},
};

const std::vector<std::string> kModelFields = {"name",
                                               "description",
                                               "regions",
                                               "labels",
                                               "etag",
                                               "defaultVersion",
                                               "onlinePredictionLogging",
                                               "onlinePredictionConsoleLogging"};
// The latter ones are told, and no client says them.
const std::vector<std::string> kVersionFields = {
    "name",          "description", "labels",     "etag",        "deploymentUri", "machineType", "runtimeVersion",
    "pythonVersion", "isDefault",   "createTime", "lastUseTime", "state",         "errorMessage"};

absl::Status WrongField(const std::string& key, const std::string& what) {
  return absl::InvalidArgumentError(absl::StrCat(key, " ", what));
}

absl::Status ReadField(const json& object, const char* key, std::string* to) {
  const auto found = object.find(key);
  if (found == object.end() || found->is_null()) return absl::OkStatus();
  if (!found->is_string()) return WrongField(key, "must be text");
  const auto& text = found->get_ref<const std::string&>();
  if (!IsText(text) || text.size() > kMostTextBytes) {
    return WrongField(key,
                      absl::StrCat("must be text without control characters, of at most ", kMostTextBytes, " bytes"));
  }
  *to = text;
  return absl::OkStatus();
}

absl::Status ReadTruth(const json& object, const char* key, bool* to) {
  const auto found = object.find(key);
  if (found == object.end() || found->is_null()) return absl::OkStatus();
  if (!found->is_boolean()) return WrongField(key, "must be true or false");
  *to = found->get<bool>();
  return absl::OkStatus();
}

absl::Status ReadLabelsOf(const json& object, Labels* to) {
  absl::StatusOr<Labels> labels = ReadLabels(object.value("labels", json::object()));
  if (!labels.ok()) return labels.status();
  *to = *std::move(labels);
  return absl::OkStatus();
}

absl::Status CheckRefused(const json& object) {
  for (const auto& [key, why] : kRefusedOfVersions) {
    if (object.contains(key) && !object[key].is_null()) return absl::InvalidArgumentError(absl::StrCat(key, ": ", why));
  }
  return absl::OkStatus();
}

absl::StatusOr<json> ReadObject(std::string_view body, const char* what, const std::vector<std::string>& known) {
  absl::StatusOr<json> object = ParseJson(body);
  if (!object.ok()) return object.status();
  if (!object->is_object()) return absl::InvalidArgumentError(absl::StrCat(what, " must be an object"));
  if (absl::Status refused = CheckRefused(*object); !refused.ok()) return refused;
  for (const auto& [key, value] : object->items()) {
    if (absl::c_linear_search(known, key)) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(OneLine(key, 100), " is no field of ", what, DidYouMean(key, known)));
  }
  return object;
}

absl::Status CheckName(const std::string& name) {
  if (IsJobName(name)) return absl::OkStatus();
  return WrongField("name", "must be a letter, then letters, digits and _, of at most 128");
}

absl::Status ReadRegion(const json& object, std::string* region) {
  const json regions = object.value("regions", json::array());
  const bool is_list = regions.is_array() && regions.size() <= 1;
  if (!is_list || (!regions.empty() && !regions[0].is_string())) {
    return WrongField("regions", "must be a list of at most one text; it has no meaning here");
  }
  return regions.empty() ? absl::OkStatus() : ReadField({{"regions", regions[0]}}, "regions", region);
}

std::string EtagOf(int64_t created_ms, uint64_t revision) {
  return absl::Base64Escape(absl::StrCat(created_ms, " ", revision));
}

template <typename Record>
absl::Status CheckEtag(const json& object, const Record& record) {
  std::string etag;
  if (const absl::Status status = ReadField(object, "etag", &etag); !status.ok()) return status;
  if (etag.empty() || etag == EtagOf(record.created_ms, record.revision)) return absl::OkStatus();
  return absl::AbortedError(absl::StrCat(record.name, " has changed since it was read: read it again"));
}

// Of a model or a version: both have a description and labels that may be changed.
template <typename Record>
absl::Status Patch(const std::string& mask, std::string_view body, const char* what,
                   const std::vector<std::string>& known, Record* record) {
  Record changed = *record;
  for (const absl::string_view path : absl::StrSplit(mask, ',')) {
    const std::string field(path.substr(0, path.find('.')));
    if (const absl::Status refused = CheckRefused({{field, true}}); !refused.ok()) return refused;
    if (field == "labels" || field == "description" || field == "etag") continue;
    return absl::InvalidArgumentError(absl::StrCat("updateMask may name description and labels: nothing else of ", what,
                                                   " can be changed by it. :setDefault changes a model's default"));
  }
  const absl::StatusOr<json> object = ReadObject(body, what, known);
  if (!object.ok()) return object.status();
  absl::Status status = CheckEtag(*object, *record);
  for (const absl::string_view path : absl::StrSplit(mask, ',')) {
    if (path == "labels") status.Update(ReadLabelsOf(*object, &changed.labels));
    if (path == "description")
      changed.description.clear(), status.Update(ReadField(*object, "description", &changed.description));
  }
  if (!status.ok()) return status;
  ++changed.revision;
  *record = std::move(changed);
  return absl::OkStatus();
}

std::string NameIn(const std::string& project, const std::string& model, const std::string& version) {
  std::string name = absl::StrCat("projects/", project, "/models/", model);
  if (!version.empty()) absl::StrAppend(&name, "/versions/", version);
  return name;
}

void AddIfSaid(const char* key, const std::string& text, json* resource) {
  if (!text.empty()) (*resource)[key] = text;
}

// The place of a word, 0 of one that is none.
template <size_t kCount>
size_t PlaceOf(const std::string& word, const char* const (&words)[kCount]) {
  for (size_t i = 0; i < kCount; ++i) {
    if (word == words[i]) return i;
  }
  return 0;
}

}  // namespace

std::string NameOf(VersionState state) { return kVersionStates[static_cast<size_t>(state)]; }

absl::StatusOr<Model> ReadModel(std::string_view body) {
  const absl::StatusOr<json> object = ReadObject(body, "a model", kModelFields);
  if (!object.ok()) return object.status();
  Model model;
  bool ignored = false;
  absl::Status status = ReadField(*object, "name", &model.name);
  status.Update(ReadField(*object, "description", &model.description));
  status.Update(ReadRegion(*object, &model.region));
  status.Update(ReadLabelsOf(*object, &model.labels));
  status.Update(ReadTruth(*object, "onlinePredictionLogging", &model.logs_requests));
  status.Update(ReadTruth(*object, "onlinePredictionConsoleLogging", &ignored));  // programs have no console here
  if (status.ok()) status = CheckName(model.name);
  if (!status.ok()) return status;
  return model;
}

absl::StatusOr<ModelVersion> ReadVersion(const std::string& model, std::string_view body) {
  const absl::StatusOr<json> object = ReadObject(body, "a version", kVersionFields);
  if (!object.ok()) return object.status();
  ModelVersion version{.model = model, .name = {}};
  const std::pair<const char*, std::string*> texts[] = {{"name", &version.name},
                                                        {"description", &version.description},
                                                        {"deploymentUri", &version.origin},
                                                        {"machineType", &version.machine_type},
                                                        {"runtimeVersion", &version.runtime_version},
                                                        {"pythonVersion", &version.python_version}};
  absl::Status status;
  for (const auto& [key, text] : texts) status.Update(ReadField(*object, key, text));
  status.Update(ReadLabelsOf(*object, &version.labels));
  if (status.ok()) status = CheckName(version.name);
  if (status.ok() && version.origin.empty()) {
    status =
        WrongField("deploymentUri", "is missing: name a job, a checkpoint or an exported file, such as gs://B/wd1");
  }
  if (!status.ok()) return status;
  return version;
}

absl::Status PatchModel(const std::string& mask, std::string_view body, Model* model) {
  return Patch(mask, body, "a model", kModelFields, model);
}

absl::Status PatchVersion(const std::string& mask, std::string_view body, ModelVersion* version) {
  return Patch(mask, body, "a version", kVersionFields, version);
}

json ResourceOf(const ModelVersion& version, const VersionView& view) {
  json resource = {{"name", NameIn(view.project, version.model, version.name)},
                   {"deploymentUri", version.origin},
                   {"createTime", TimeText(version.created_ms)},
                   {"state", NameOf(version.state)},
                   {"etag", EtagOf(version.created_ms, version.revision)}};
  if (view.is_default) resource["isDefault"] = true;
  if (view.last_used_ms != 0) resource["lastUseTime"] = TimeText(view.last_used_ms);
  if (!version.labels.empty()) resource["labels"] = version.labels;
  AddIfSaid("description", version.description, &resource);
  AddIfSaid("machineType", version.machine_type, &resource);
  AddIfSaid("runtimeVersion", version.runtime_version, &resource);
  AddIfSaid("pythonVersion", version.python_version, &resource);
  AddIfSaid("errorMessage", version.error, &resource);
  AddIfSaid("deployedFrom", version.found, &resource);
  return resource;
}

json ResourceOf(const Model& model, const std::string& project, json default_version) {
  json resource = {{"name", NameIn(project, model.name, "")},
                   {"regions", {model.region.empty() ? "us-central1" : model.region}},
                   {"etag", EtagOf(model.created_ms, model.revision)}};
  AddIfSaid("description", model.description, &resource);
  if (!model.labels.empty()) resource["labels"] = model.labels;
  if (model.logs_requests) resource["onlinePredictionLogging"] = true;
  if (!default_version.is_null()) resource["defaultVersion"] = std::move(default_version);
  return resource;
}

json ResourceOf(const Operation& operation, const std::string& project, json response) {
  json metadata = {{"@type", "type.googleapis.com/google.cloud.ml.v1.OperationMetadata"},
                   {"operationType", kOperationTypes[static_cast<size_t>(operation.type)]},
                   {"modelName", NameIn(project, operation.model, "")},
                   {"createTime", TimeText(operation.created_ms)},
                   {"startTime", TimeText(operation.created_ms)}};
  if (!operation.version.empty()) {
    metadata["version"] = {{"name", NameIn(project, operation.model, operation.version)}};
  }
  json resource = {{"name", absl::StrCat("projects/", project, "/operations/", operation.name)}};
  if (operation.ended_ms != 0) {
    metadata["endTime"] = TimeText(operation.ended_ms);
    resource["done"] = true;
    if (operation.status.ok()) {
      resource["response"] = response.is_null() ? json::object() : std::move(response);
    } else {
      resource["error"] = {{"code", operation.status.raw_code()}, {"message", std::string(operation.status.message())}};
    }
  }
  resource["metadata"] = std::move(metadata);
  return resource;
}

std::string TextOf(const Model& model) {
  return json{{"name", model.name},          {"description", model.description}, {"region", model.region},
              {"labels", model.labels},      {"logs", model.logs_requests},      {"default", model.default_version},
              {"created", model.created_ms}, {"revision", model.revision}}
      .dump();
}

Model ModelOf(const std::string& text) {
  const json kept = json::parse(text);
  return {.name = kept["name"],
          .description = kept["description"],
          .region = kept["region"],
          .labels = kept["labels"].get<Labels>(),
          .logs_requests = kept["logs"],
          .default_version = kept["default"],
          .created_ms = kept["created"],
          .revision = kept["revision"]};
}

std::string TextOf(const ModelVersion& version) {
  return json{{"model", version.model},
              {"name", version.name},
              {"description", version.description},
              {"labels", version.labels},
              {"origin", version.origin},
              {"machine", version.machine_type},
              {"runtime", version.runtime_version},
              {"python", version.python_version},
              {"state", NameOf(version.state)},
              {"error", version.error},
              {"files", version.files},
              {"found", version.found},
              {"created", version.created_ms},
              {"revision", version.revision}}
      .dump();
}

ModelVersion VersionOf(const std::string& text) {
  const json kept = json::parse(text);
  return {.model = kept["model"],
          .name = kept["name"],
          .description = kept["description"],
          .labels = kept["labels"].get<Labels>(),
          .origin = kept["origin"],
          .machine_type = kept["machine"],
          .runtime_version = kept["runtime"],
          .python_version = kept["python"],
          .state = static_cast<VersionState>(PlaceOf(kept["state"], kVersionStates)),
          .error = kept["error"],
          .files = kept["files"],
          .found = kept["found"],
          .created_ms = kept["created"],
          .revision = kept["revision"]};
}

std::string TextOf(const Operation& operation) {
  return json{{"name", operation.name},
              {"type", kOperationTypes[static_cast<size_t>(operation.type)]},
              {"model", operation.model},
              {"version", operation.version},
              {"created", operation.created_ms},
              {"ended", operation.ended_ms},
              {"code", operation.status.raw_code()},
              {"message", std::string(operation.status.message())}}
      .dump();
}

Operation OperationOf(const std::string& text) {
  const json kept = json::parse(text);
  return {.name = kept["name"],
          .type = static_cast<OperationType>(PlaceOf(kept["type"], kOperationTypes)),
          .model = kept["model"],
          .version = kept["version"],
          .created_ms = kept["created"],
          .ended_ms = kept["ended"],
          .status =
              absl::Status(static_cast<absl::StatusCode>(kept["code"].get<int>()), kept["message"].get<std::string>())};
}

}  // namespace downpour
