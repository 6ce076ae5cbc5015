#include "service/training_input.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace downpour {
namespace {

using nlohmann::json;

enum class Type { kText, kTexts, kFlag, kCount, kObject };

struct Field {
  const char* key;
  Type type;
};
constexpr Field kFields[] = {
    {"scaleTier", Type::kText},
    {"masterType", Type::kText},
    {"workerType", Type::kText},
    {"parameterServerType", Type::kText},
    {"evaluatorType", Type::kText},
    {"pythonModule", Type::kText},
    {"region", Type::kText},
    {"jobDir", Type::kText},
    {"runtimeVersion", Type::kText},
    {"pythonVersion", Type::kText},
    {"network", Type::kText},
    {"serviceAccount", Type::kText},
    {"args", Type::kTexts},
    {"packageUris", Type::kTexts},
    {"workerCount", Type::kCount},
    {"parameterServerCount", Type::kCount},
    {"evaluatorCount", Type::kCount},
    {"useChiefInTfConfig", Type::kFlag},
    {"enableWebAccess", Type::kFlag},
    {"masterConfig", Type::kObject},
    {"workerConfig", Type::kObject},
    {"parameterServerConfig", Type::kObject},
    {"evaluatorConfig", Type::kObject},
    {"scheduling", Type::kObject},
    {"encryptionConfig", Type::kObject},
    {"hyperparameters", Type::kObject},
};
constexpr Field kMachineFields[] = {{"imageUri", Type::kText},
                                    {"tpuTfVersion", Type::kText},
                                    {"containerCommand", Type::kTexts},
                                    {"containerArgs", Type::kTexts},
                                    {"acceleratorConfig", Type::kObject}};
constexpr Field kAcceleratorFields[] = {{"type", Type::kText}, {"count", Type::kCount}};
constexpr Field kSchedulingFields[] = {{"maxRunningTime", Type::kText},
                                       {"maxWaitTime", Type::kText},
                                       {"strategy", Type::kText},
                                       {"priority", Type::kCount},
                                       {"resilientToWorkerRestart", Type::kFlag}};
constexpr Field kEncryptionFields[] = {{"kmsKeyName", Type::kText}};
constexpr Field kSearchFields[] = {{"goal", Type::kText},
                                   {"algorithm", Type::kText},
                                   {"hyperparameterMetricTag", Type::kText},
                                   {"resumePreviousJobId", Type::kText}};
constexpr Field kParameterFields[] = {{"parameterName", Type::kText},
                                      {"type", Type::kText},
                                      {"scaleType", Type::kText},
                                      {"categoricalValues", Type::kTexts}};
constexpr const char* kMachines[] = {"masterConfig", "workerConfig", "parameterServerConfig", "evaluatorConfig"};

void EraseNulls(json& value) {
  if (value.is_object()) {
    for (auto member = value.begin(); member != value.end();) {
      if (member->is_null()) {
        member = value.erase(member);
      } else {
        EraseNulls(*member++);
      }
    }
  } else if (value.is_array()) {
    for (json& item : value) EraseNulls(item);
  }
}

// Null where it is not there.
const json& At(const json& written, const std::string& key) {
  static const auto* const nothing = new json;
  const auto found = written.is_object() ? written.find(key) : written.end();
  return found == written.end() ? *nothing : *found;
}
const json& At(const json& written, size_t index) {
  static const auto* const nothing = new json;
  return written.is_array() && index < written.size() ? written[index] : *nothing;
}

void TakeAsText(const json& written, json& value) {
  if (value.is_number() || value.is_boolean()) value = written.is_string() ? written : json(value.dump());
}

bool IsCount(const json& value) {
  int64_t count = 0;
  return value.is_number_integer() || (value.is_string() && absl::SimpleAtoi(value.get<std::string>(), &count));
}

// What the field must be; null: it is that.
const char* MendOrSay(Type type, const json& written, json& value) {
  switch (type) {
    case Type::kText:
      TakeAsText(written, value);
      return value.is_string() ? nullptr : "must be text";
    case Type::kTexts: {
      if (!value.is_array()) return "must be a list of texts";
      for (size_t i = 0; i < value.size(); ++i) {
        TakeAsText(At(written, i), value[i]);
        if (!value[i].is_string()) return "must be a list of texts";
      }
      return nullptr;
    }
    case Type::kFlag:
      return value.is_boolean() ? nullptr : "must be true or false";
    case Type::kCount:
      return IsCount(value) ? nullptr : "must be a whole number";
    case Type::kObject:
      return value.is_object() ? nullptr : "must be an object";
  }
  return nullptr;
}

template <size_t kCount>
absl::Status Normalise(const Field (&fields)[kCount], const std::string& path, const json& written, json& object) {
  for (const Field& field : fields) {
    if (!object.contains(field.key)) continue;
    if (const char* what = MendOrSay(field.type, At(written, field.key), object[field.key])) {
      return absl::InvalidArgumentError(absl::StrCat(path, ".", field.key, " ", what));
    }
  }
  return absl::OkStatus();
}

// Of a search: those of its parameters that are what the API has. ReadTuningSpec tells of all others.
absl::Status NormaliseParameters(const std::string& path, const json& written, json& search) {
  const auto found = search.find("params");
  for (size_t i = 0; found != search.end() && found->is_array() && i < found->size(); ++i) {
    if (!(*found)[i].is_object()) continue;
    const std::string place = absl::StrCat(path, ".params[", i, "]");
    const absl::Status status = Normalise(kParameterFields, place, At(At(written, "params"), i), (*found)[i]);
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

}  // namespace

json AsWritten(std::string_view text) {
  std::string quoted;
  bool in_text = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool begins_number = !in_text && (absl::ascii_isdigit(static_cast<unsigned char>(text[i])) || text[i] == '-');
    if (begins_number) {
      const size_t end = std::min(text.find_first_not_of("0123456789+-.eE", i), text.size());
      absl::StrAppend(&quoted, "\"", absl::string_view(text.data() + i, end - i), "\"");
      i = end - 1;
      continue;
    }
    if (text[i] == '"') in_text = !in_text;
    quoted += text[i];
    if (in_text && text[i] == '\\' && i + 1 < text.size()) quoted += text[++i];
  }
  const json parsed = json::parse(quoted, nullptr, /*allow_exceptions=*/false);
  return parsed.is_discarded() ? json() : parsed;
}

json AsWritten(const YamlNode& node) {
  json written;
  for (const YamlNode& item : node.items) written.push_back(AsWritten(item));
  for (const YamlEntry& entry : node.entries) written[entry.key] = AsWritten(entry.value);
  if (node.Is(YamlNode::Kind::kScalar)) written = node.text;
  return written;
}

absl::Status NormaliseTrainingInput(const json& written, json* input) {
  const std::string path = "trainingInput";
  if (!input->is_object()) return absl::InvalidArgumentError(path + " must be an object");
  EraseNulls(*input);
  absl::Status status = Normalise(kFields, path, written, *input);
  const auto within = [&](const auto& fields, const std::string& place, const json& said, json& object,
                          const char* key) {
    if (!status.ok() || !object.contains(key)) return;
    status = Normalise(fields, absl::StrCat(place, ".", key), At(said, key), object[key]);
  };
  for (const char* machine : kMachines) {
    within(kMachineFields, path, written, *input, machine);
    if (status.ok() && input->contains(machine)) {
      within(kAcceleratorFields, absl::StrCat(path, ".", machine), At(written, machine), (*input)[machine],
             "acceleratorConfig");
    }
  }
  within(kSchedulingFields, path, written, *input, "scheduling");
  within(kEncryptionFields, path, written, *input, "encryptionConfig");
  within(kSearchFields, path, written, *input, "hyperparameters");
  if (!status.ok() || !input->contains("hyperparameters")) return status;
  return NormaliseParameters(path + ".hyperparameters", At(written, "hyperparameters"), (*input)["hyperparameters"]);
}

}  // namespace downpour
