// ModelStore: the service's models, versions and operations on disk, in SQLite beside the jobs.
//
//   absl::StatusOr<std::unique_ptr<ModelStore>> store = ModelStore::Open(root + "/jobs.sqlite");
//   absl::StatusOr<ModelRecords> all = (*store)->Load();
//   absl::Status written = (*store)->Write({.models = {model}, .versions = {version}});
//
// Order: what Write did is on the disk when it returns, all of it or nothing.
// Cost: one sync for each Write. Of operations the newest kMostOperations stay.
// Errors: INTERNAL with SQLite's words.
// Threads: one at a time.
// Tests: tests/unit/service/model_record_test.cc.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "service/model_record.h"

struct sqlite3;

namespace downpour {

struct ModelRecords {
  std::vector<Model> models = {};           // by name
  std::vector<ModelVersion> versions = {};  // by model and name
  std::vector<Operation> operations = {};   // oldest first
};

// What is put in place of what has the same name, and what goes.
struct ModelChanges {
  std::vector<Model> models = {};
  std::vector<ModelVersion> versions = {};
  std::vector<Operation> operations = {};
  std::vector<std::string> removed_models = {};
  std::vector<std::pair<std::string, std::string>> removed_versions = {};  // model, version
};

class ModelStore {
 public:
  static constexpr int kMostOperations = 1000;

  static absl::StatusOr<std::unique_ptr<ModelStore>> Open(const std::string& path);
  ~ModelStore();
  ModelStore(const ModelStore&) = delete;
  ModelStore& operator=(const ModelStore&) = delete;

  absl::StatusOr<ModelRecords> Load();
  absl::Status Write(const ModelChanges& changes);

 private:
  explicit ModelStore(sqlite3* database) : database_(database) {}
  absl::Status Run(const std::string& text, const std::vector<std::string>& values = {});
  absl::Status WriteAll(const ModelChanges& changes);

  sqlite3* database_;
};

}  // namespace downpour
