#include "service/model_store.h"

#include <sqlite3.h>

#include "absl/strings/str_cat.h"
#include "service/sqlite_statement.h"

namespace downpour {
namespace {

// The jobs' tables have a version of their own (job_store.cc). These have a record's JSON, which may gain fields.
constexpr const char* kModelTables =
    "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL;"
    "CREATE TABLE IF NOT EXISTS models (name TEXT PRIMARY KEY, record TEXT NOT NULL);"
    "CREATE TABLE IF NOT EXISTS versions (model TEXT NOT NULL, name TEXT NOT NULL, record TEXT NOT NULL,"
    " PRIMARY KEY (model, name));"
    "CREATE TABLE IF NOT EXISTS operations (sequence INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL UNIQUE,"
    " record TEXT NOT NULL);";
constexpr int kBusyWaitMs = 10'000;

}  // namespace

absl::StatusOr<std::unique_ptr<ModelStore>> ModelStore::Open(const std::string& path) {
  sqlite3* database = nullptr;
  const int opened = sqlite3_open(path.c_str(), &database);
  std::unique_ptr<ModelStore> store(new ModelStore(database));
  sqlite3_busy_timeout(database, kBusyWaitMs);
  if (opened != SQLITE_OK || sqlite3_exec(database, kModelTables, nullptr, nullptr, nullptr) != SQLITE_OK) {
    return absl::InternalError(absl::StrCat("cannot open the store of models ", path, ": ", sqlite3_errmsg(database)));
  }
  return store;
}

ModelStore::~ModelStore() { sqlite3_close(database_); }

absl::StatusOr<ModelRecords> ModelStore::Load() {
  ModelRecords all;
  const auto read = [&](const char* text, const auto& take) {
    SqliteStatement statement(database_, text);
    int result = SQLITE_ROW;
    while ((result = statement.Step()) == SQLITE_ROW) {
      statement.BeginRow();
      take(statement.Text());
    }
    return result == SQLITE_DONE ? absl::OkStatus() : statement.Failure();
  };
  absl::Status status = read("SELECT record FROM models ORDER BY name",
                             [&](const std::string& text) { all.models.push_back(ModelOf(text)); });
  status.Update(read("SELECT record FROM versions ORDER BY model, name",
                     [&](const std::string& text) { all.versions.push_back(VersionOf(text)); }));
  status.Update(read("SELECT record FROM operations ORDER BY sequence",
                     [&](const std::string& text) { all.operations.push_back(OperationOf(text)); }));
  if (!status.ok()) return status;
  return all;
}

absl::Status ModelStore::Run(const std::string& text, const std::vector<std::string>& values) {
  SqliteStatement statement(database_, text);
  for (const std::string& value : values) statement.Bind(value);
  return statement.Run();
}

absl::Status ModelStore::WriteAll(const ModelChanges& changes) {
  absl::Status status;
  for (const Model& model : changes.models) {
    status.Update(Run("INSERT OR REPLACE INTO models VALUES (?, ?)", {model.name, TextOf(model)}));
  }
  for (const ModelVersion& version : changes.versions) {
    status.Update(
        Run("INSERT OR REPLACE INTO versions VALUES (?, ?, ?)", {version.model, version.name, TextOf(version)}));
  }
  for (const Operation& operation : changes.operations) {
    status.Update(
        Run("INSERT INTO operations (name, record) VALUES (?1, ?2)"
            " ON CONFLICT (name) DO UPDATE SET record = ?2",
            {operation.name, TextOf(operation)}));
  }
  for (const std::string& name : changes.removed_models)
    status.Update(Run("DELETE FROM models WHERE name = ?", {name}));
  for (const auto& [model, name] : changes.removed_versions) {
    status.Update(Run("DELETE FROM versions WHERE model = ? AND name = ?", {model, name}));
  }
  if (!changes.operations.empty()) {
    status.Update(Run(absl::StrCat("DELETE FROM operations WHERE sequence <= (SELECT MAX(sequence) FROM operations) - ",
                                   kMostOperations)));
  }
  return status;
}

absl::Status ModelStore::Write(const ModelChanges& changes) {
  absl::Status status = Run("BEGIN IMMEDIATE");
  if (!status.ok()) return status;
  status = WriteAll(changes);
  if (status.ok()) status = Run("COMMIT");
  if (!status.ok()) (void)Run("ROLLBACK");  // why it failed is told, not this
  return status;
}

}  // namespace downpour
