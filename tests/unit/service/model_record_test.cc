#include "service/model_record.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "service/model_store.h"
#include "tests/unit/scratch_folder.h"

namespace downpour {
namespace {

using nlohmann::json;
using testing::HasSubstr;

constexpr const char* kGoodModel = R"({"name": "m", "regions": ["us-central1"], "labels": {"team": "a"}})";
constexpr const char* kGoodVersion = R"({"name": "v1", "deploymentUri": "gs://models/wd1", "runtimeVersion": "2.1"})";

Model SomeModel() {
  Model model = ReadModel(kGoodModel).value();
  model.description = "it's \"ours\"";
  model.default_version = "v1";
  model.created_ms = 5;
  model.revision = 7;
  return model;
}

ModelVersion SomeVersion() {
  ModelVersion version = ReadVersion("m", kGoodVersion).value();
  version.state = VersionState::kReady;
  version.files = "checkpoints/1-4";
  version.found = "/root/jobs/wd1/checkpoints/1-4";
  version.created_ms = 9;
  return version;
}

Operation SomeOperation() {
  return {.name = "op_1",
          .type = OperationType::kUpdateVersion,
          .model = "m",
          .version = "v1",
          .created_ms = 3,
          .ended_ms = 4,
          .status = absl::NotFoundError("it is gone")};
}

TEST(ModelRecordTest, WhatIsKeptComesBack) {
  EXPECT_EQ(ModelOf(TextOf(SomeModel())), SomeModel());
  EXPECT_EQ(VersionOf(TextOf(SomeVersion())), SomeVersion());
  EXPECT_EQ(OperationOf(TextOf(SomeOperation())), SomeOperation());
}

TEST(ModelRecordTest, WhatIsNoModelIsRefusedByItsField) {
  const std::pair<const char*, const char*> wrong[] = {
      {"[]", "must be an object"},
      {R"({"name": "1m"})", "name must be a letter"},
      {R"({"name": 1})", "name must be text"},
      {R"({"name": "m", "regions": ["a", "b"]})", "regions must be"},
      {R"({"name": "m", "regions": [1]})", "regions must be"},
      {R"({"name": "m", "labels": {"A": "b"}})", "A"},
      {R"({"name": "m", "onlinePredictionLogging": 1})", "onlinePredictionLogging must be"},
      {R"({"name": "m", "descriptions": "x"})", "did you mean description"},
  };
  for (const auto& [body, words] : wrong) {
    const absl::Status status = ReadModel(body).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << body;
    EXPECT_THAT(status.message(), HasSubstr(words)) << body;
  }
}

TEST(ModelRecordTest, AVersionNeedsAnOriginAndNothingThatIsNotDone) {
  EXPECT_THAT(ReadVersion("m", R"({"name": "v"})").status().message(), HasSubstr("deploymentUri is missing"));
  for (const char* field : {"acceleratorConfig", "autoScaling", "framework", "container", "explanationConfig"}) {
    json body = json::parse(kGoodVersion);
    body[field] = "x";
    EXPECT_THAT(std::string(ReadVersion("m", body.dump()).status().message()),
                testing::StartsWith(std::string(field) + ": "));
    body[field] = nullptr;  // as some clients write what is not set
    EXPECT_TRUE(ReadVersion("m", body.dump()).ok()) << field;
  }
}

TEST(ModelRecordTest, APatchChangesWhatItsMaskNamesAndNothingElse) {
  Model model = SomeModel();
  const json body = {{"description", "new"}, {"labels", {{"team", "b"}}}};
  ASSERT_TRUE(PatchModel("labels", body.dump(), &model).ok());
  EXPECT_EQ(model.description, SomeModel().description);
  EXPECT_EQ(model.labels, (Labels{{"team", "b"}}));
  EXPECT_EQ(model.revision, 8u);
  ASSERT_TRUE(PatchModel("description,labels", R"({"labels": {}})", &model).ok());
  EXPECT_EQ(model.description, "") << "what the mask names and the body lacks is taken away";
  EXPECT_TRUE(model.labels.empty());
  const Model before = model;
  for (const char* mask : {"", "name", "regions", "autoScaling.minNodes", "labels,name"}) {
    EXPECT_EQ(PatchModel(mask, body.dump(), &model).code(), absl::StatusCode::kInvalidArgument) << mask;
  }
  EXPECT_EQ(PatchModel("labels", R"({"etag": "b2xk"})", &model).code(), absl::StatusCode::kAborted);
  EXPECT_EQ(model, before);
  const std::string etag = ResourceOf(model, "p", nullptr)["etag"];
  EXPECT_TRUE(PatchModel("description", json{{"etag", etag}}.dump(), &model).ok());
}

TEST(ModelRecordTest, ResourcesAreThoseOfMlV1) {
  const json version = ResourceOf(SomeVersion(), {.project = "p", .is_default = true});
  EXPECT_EQ(version["name"], "projects/p/models/m/versions/v1");
  EXPECT_EQ(version["state"], "READY");
  EXPECT_EQ(version["isDefault"], true);
  EXPECT_EQ(ResourceOf(SomeModel(), "p", version)["defaultVersion"], version);
  EXPECT_FALSE(ResourceOf(SomeModel(), "p", nullptr).contains("defaultVersion"));
  const json failed = ResourceOf(SomeOperation(), "p", version);
  EXPECT_EQ(failed["name"], "projects/p/operations/op_1");
  EXPECT_EQ(failed["error"], (json{{"code", 5}, {"message", "it is gone"}}));
  EXPECT_FALSE(failed.contains("response"));
  Operation running = SomeOperation();
  running.ended_ms = 0;
  EXPECT_FALSE(ResourceOf(running, "p", nullptr).contains("done"));
}

TEST(ModelStoreTest, HasWhatWasWrittenAfterItIsOpenedAgain) {
  const ScratchFolder folder;
  const std::string path = folder.path() + "/jobs.sqlite";
  auto store = ModelStore::Open(path).value();
  Model other = SomeModel();
  other.name = "other";
  ASSERT_TRUE(
      store->Write({.models = {SomeModel(), other}, .versions = {SomeVersion()}, .operations = {SomeOperation()}})
          .ok());
  Operation later = SomeOperation();
  later.name = "op_2";
  ASSERT_TRUE(store->Write({.operations = {later}, .removed_models = {"other"}}).ok());
  later.ended_ms = 99;
  ASSERT_TRUE(store->Write({.operations = {later}}).ok());
  store.reset();
  store = ModelStore::Open(path).value();
  const ModelRecords all = store->Load().value();
  EXPECT_THAT(all.models, testing::ElementsAre(SomeModel()));
  EXPECT_THAT(all.versions, testing::ElementsAre(SomeVersion()));
  EXPECT_THAT(all.operations, testing::ElementsAre(SomeOperation(), later));
  ASSERT_TRUE(store->Write({.removed_versions = {{"m", "v1"}}}).ok());
  EXPECT_TRUE(store->Load()->versions.empty());
}

TEST(ModelStoreTest, KeepsTheNewestOperations) {
  const ScratchFolder folder;
  const auto store = ModelStore::Open(folder.path() + "/jobs.sqlite").value();
  ModelChanges changes;
  for (int i = 0; i < ModelStore::kMostOperations + 5; ++i) {
    changes.operations.push_back(SomeOperation());
    changes.operations.back().name = "op_" + std::to_string(i);
  }
  ASSERT_TRUE(store->Write(changes).ok());
  const ModelRecords all = store->Load().value();
  ASSERT_EQ(all.operations.size(), static_cast<size_t>(ModelStore::kMostOperations));
  EXPECT_EQ(all.operations.front().name, "op_5");
}

}  // namespace
}  // namespace downpour
