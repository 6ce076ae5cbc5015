// Models, their versions and what was done to them, as they are kept and as ml v1 shows them.
//
//   absl::StatusOr<Model> model = ReadModel(body);             // what a client posted
//   absl::StatusOr<ModelVersion> version = ReadVersion("m", body);
//   json answer = ResourceOf(*version, {.project = "p", .is_default = true});
//
// Shapes: times are milliseconds since 1970, 0: not yet. TextOf is what ModelStore keeps, and the Read functions of a
//   text take it back.
// Errors: INVALID_ARGUMENT with the field and what is allowed, and with a remedy for those fields of ml v1 that ask for
//   what this service does not do.
// Source: the Google Cloud SDK's ml_v1_messages.py (GoogleCloudMlV1Model, GoogleCloudMlV1Version,
//   GoogleCloudMlV1OperationMetadata, GoogleLongrunningOperation).
// Tests: tests/unit/service/model_record_test.cc.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "service/labels.h"

namespace downpour {

struct Model {
  std::string name;
  std::string description = {};
  std::string region = {};
  Labels labels = {};
  bool logs_requests = false;        // a line for each prediction
  std::string default_version = {};  // empty: it has no version that is ready
  int64_t created_ms = 0;
  uint64_t revision = 1;  // rises with each change
  bool operator==(const Model&) const = default;
};

enum class VersionState { kCreating, kReady, kFailed };
std::string NameOf(VersionState state);

struct ModelVersion {
  std::string model, name;
  std::string description = {};
  Labels labels = {};
  std::string origin = {};  // deploymentUri, as it was given
  // What clients of the old service say of machines and runtimes: kept and shown, without meaning here.
  std::string machine_type = {}, runtime_version = {}, python_version = {};
  VersionState state = VersionState::kCreating;
  std::string error = {};  // why it failed
  std::string files = {};  // in its folder: checkpoints/1-4 or model.safetensors; empty until it is ready
  std::string found = {};  // what the origin came to, for people
  int64_t created_ms = 0;
  uint64_t revision = 1;
  bool operator==(const ModelVersion&) const = default;
};

enum class OperationType { kCreateVersion, kDeleteVersion, kDeleteModel, kUpdateModel, kUpdateVersion };

struct Operation {
  std::string name;  // without its project
  OperationType type = OperationType::kCreateVersion;
  std::string model, version = {};  // version: empty of a model's
  int64_t created_ms = 0, ended_ms = 0;
  absl::Status status = absl::OkStatus();  // of one that has ended
  bool operator==(const Operation&) const = default;
};

absl::StatusOr<Model> ReadModel(std::string_view body);
absl::StatusOr<ModelVersion> ReadVersion(const std::string& model, std::string_view body);

// Sets what `mask`, a list with commas, names of the body. Errors: also ABORTED where the body has another etag.
absl::Status PatchModel(const std::string& mask, std::string_view body, Model* model);
absl::Status PatchVersion(const std::string& mask, std::string_view body, ModelVersion* version);

struct VersionView {
  std::string project;
  bool is_default = false;
  int64_t last_used_ms = 0;
};
nlohmann::json ResourceOf(const ModelVersion& version, const VersionView& view);
// `default_version`: its resource, null where there is none.
nlohmann::json ResourceOf(const Model& model, const std::string& project, nlohmann::json default_version);
// `response`: the resource that it made or changed; null: nothing.
nlohmann::json ResourceOf(const Operation& operation, const std::string& project, nlohmann::json response);

std::string TextOf(const Model& model);
std::string TextOf(const ModelVersion& version);
std::string TextOf(const Operation& operation);
Model ModelOf(const std::string& text);
ModelVersion VersionOf(const std::string& text);
Operation OperationOf(const std::string& text);

}  // namespace downpour
