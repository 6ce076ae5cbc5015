#include "service/training_input.h"

#include <string>
#include <string_view>
#include <vector>

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

void TakeAsText(json& value) {
  if (value.is_number() || value.is_boolean()) value = value.dump();
}

bool IsCount(const json& value) {
  int64_t count = 0;
  return value.is_number_integer() || (value.is_string() && absl::SimpleAtoi(value.get<std::string>(), &count));
}

// What the field must be; null: it is that.
const char* MendOrSay(Type type, json& value) {
  switch (type) {
    case Type::kText:
      TakeAsText(value);
      return value.is_string() ? nullptr : "must be text";
    case Type::kTexts: {
      if (!value.is_array()) return "must be a list of texts";
      for (json& item : value) {
        TakeAsText(item);
        if (!item.is_string()) return "must be a list of texts";
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
absl::Status Normalise(const Field (&fields)[kCount], const std::string& path, json& object) {
  for (const Field& field : fields) {
    if (!object.contains(field.key)) continue;
    if (const char* what = MendOrSay(field.type, object[field.key])) {
      return absl::InvalidArgumentError(absl::StrCat(path, ".", field.key, " ", what));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status NormaliseTrainingInput(json* input) {
  const std::string path = "trainingInput";
  if (!input->is_object()) return absl::InvalidArgumentError(path + " must be an object");
  EraseNulls(*input);
  absl::Status status = Normalise(kFields, path, *input);
  const auto within = [&](const auto& fields, const std::string& place, json& object, const char* key) {
    if (status.ok() && object.contains(key)) status = Normalise(fields, absl::StrCat(place, ".", key), object[key]);
  };
  for (const char* machine : kMachines) {
    within(kMachineFields, path, *input, machine);
    if (status.ok() && input->contains(machine)) {
      within(kAcceleratorFields, absl::StrCat(path, ".", machine), (*input)[machine], "acceleratorConfig");
    }
  }
  within(kSchedulingFields, path, *input, "scheduling");
  within(kEncryptionFields, path, *input, "encryptionConfig");
  return status;
}

}  // namespace downpour
