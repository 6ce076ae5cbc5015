#include "service/job_store.h"

#include <sqlite3.h>

#include <iterator>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "service/sqlite_statement.h"

namespace downpour {
namespace {

// The version of the tables stands in user_version, so that a later service knows an older file.
constexpr const char* kTables =
    "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL;"
    "CREATE TABLE IF NOT EXISTS jobs (sequence INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL UNIQUE,"
    " labels TEXT NOT NULL, training_input TEXT NOT NULL, job_file TEXT NOT NULL, state TEXT NOT NULL,"
    " error TEXT NOT NULL, created_ms INTEGER NOT NULL, started_ms INTEGER NOT NULL, ended_ms INTEGER NOT NULL,"
    " revision INTEGER NOT NULL, trial TEXT NOT NULL DEFAULT '', id TEXT NOT NULL DEFAULT '',"
    " settings TEXT NOT NULL DEFAULT '{}');"
    "CREATE INDEX IF NOT EXISTS unfinished ON jobs (sequence) WHERE ended_ms = 0;"
    "PRAGMA user_version=3;";
// What a store of an earlier version lacks, each since the version before it.
constexpr const char* kSince[] = {
    "ALTER TABLE jobs ADD COLUMN trial TEXT NOT NULL DEFAULT ''",
    "ALTER TABLE jobs ADD COLUMN id TEXT NOT NULL DEFAULT '';"
    "ALTER TABLE jobs ADD COLUMN settings TEXT NOT NULL DEFAULT '{}'",
};
constexpr const char* kColumns =
    "name, labels, training_input, job_file, state, error, created_ms, started_ms, ended_ms, revision, trial, id, "
    "settings";
constexpr const char* kPlaces = "?,?,?,?,?,?,?,?,?,?,?,?,?";

// One statement, which also takes a job and reads one.
class JobStatement : public SqliteStatement {
 public:
  using SqliteStatement::Bind;
  using SqliteStatement::SqliteStatement;

  void Bind(const Job& job) {
    Bind(job.name);
    Bind(nlohmann::json(job.labels).dump());
    for (const std::string& text : {job.training_input, job.job_file, NameOf(job.state), job.error}) Bind(text);
    for (const int64_t time : {job.created_ms, job.started_ms, job.ended_ms}) Bind(time);
    Bind(static_cast<int64_t>(job.revision));
    for (const std::string& text : {TextOf(job.trial), job.id, job.settings}) Bind(text);
  }

  Job ReadRow() {
    BeginRow();
    Job job;
    job.name = Text();
    job.labels = nlohmann::json::parse(Text()).get<Labels>();
    job.training_input = Text();
    job.job_file = Text();
    job.state = StateNamed(Text()).value_or(JobState::kFailed);
    job.error = Text();
    for (int64_t* time : {&job.created_ms, &job.started_ms, &job.ended_ms}) *time = Integer();
    job.revision = static_cast<uint64_t>(Integer());
    job.trial = TrialOf(Text());
    job.id = Text();
    job.settings = Text();
    return job;
  }
};

absl::Status Missing(const std::string& name) {
  return absl::NotFoundError(absl::StrCat("there is no job ", name, ": `jobs list` names them all"));
}

}  // namespace

absl::StatusOr<std::unique_ptr<JobStore>> JobStore::Open(const std::string& path) {
  sqlite3* database = nullptr;
  const int opened = sqlite3_open(path.c_str(), &database);
  std::unique_ptr<JobStore> store(new JobStore(database));
  constexpr int kWaitMs = 10'000;
  sqlite3_busy_timeout(database, kWaitMs);
  SqliteStatement version(database, "PRAGMA user_version");
  const int64_t before = version.Step() == SQLITE_ROW ? version.Integer() : 0;  // 0: it is empty
  version.Reset();
  for (size_t i = 0; before > 0 && i < std::size(kSince); ++i) {
    if (before <= static_cast<int64_t>(i) + 1) sqlite3_exec(database, kSince[i], nullptr, nullptr, nullptr);
  }
  if (opened != SQLITE_OK || sqlite3_exec(database, kTables, nullptr, nullptr, nullptr) != SQLITE_OK) {
    return absl::InternalError(absl::StrCat("cannot open the store of jobs ", path, ": ", sqlite3_errmsg(database)));
  }
  return store;
}

JobStore::~JobStore() { sqlite3_close(database_); }

absl::Status JobStore::Insert(const Job& job) {
  JobStatement statement(database_, absl::StrCat("INSERT INTO jobs (", kColumns, ") VALUES (", kPlaces, ")"));
  statement.Bind(job);
  const absl::Status status = statement.Run();
  if (!absl::IsAlreadyExists(status)) return status;
  return absl::AlreadyExistsError(absl::StrCat("there is a job ", job.name, " already: choose another name"));
}

absl::Status JobStore::Update(const Job& job) {
  JobStatement statement(database_, absl::StrCat("UPDATE jobs SET (", kColumns, ") = (", kPlaces, ") WHERE name = ?"));
  statement.Bind(job);
  statement.Bind(job.name);
  if (const absl::Status status = statement.Run(); !status.ok()) return status;
  return sqlite3_changes(database_) == 1 ? absl::OkStatus() : Missing(job.name);
}

absl::Status JobStore::Remove(const std::string& name) {
  JobStatement statement(database_, "DELETE FROM jobs WHERE name = ? OR (name > ? || '/' AND name < ? || '0')");
  for (int i = 0; i < 3; ++i) statement.Bind(name);
  if (const absl::Status status = statement.Run(); !status.ok()) return status;
  return sqlite3_changes(database_) >= 1 ? absl::OkStatus() : Missing(name);
}

absl::StatusOr<Job> JobStore::Find(const std::string& name) {
  absl::StatusOr<std::vector<Job>> found = Select("WHERE name = ?", name);
  if (!found.ok()) return found.status();
  if (found->empty()) return Missing(name);
  return std::move(found->front());
}

absl::StatusOr<std::vector<Job>> JobStore::All() { return Select("WHERE trial = ''", ""); }
absl::StatusOr<std::vector<Job>> JobStore::Unfinished() { return Select("WHERE ended_ms = 0", ""); }

// '0' is the byte behind '/'.
absl::StatusOr<std::vector<Job>> JobStore::Trials(const std::string& job) {
  return Select("WHERE name > ?1 || '/' AND name < ?1 || '0'", job);
}

absl::StatusOr<std::vector<Job>> JobStore::Select(const std::string& where, const std::string& name) {
  JobStatement statement(database_, absl::StrCat("SELECT ", kColumns, " FROM jobs ", where, " ORDER BY sequence"));
  if (!name.empty()) statement.Bind(name);
  std::vector<Job> jobs;
  int result = SQLITE_ROW;
  while ((result = statement.Step()) == SQLITE_ROW) jobs.push_back(statement.ReadRow());
  if (result == SQLITE_DONE) return jobs;
  return statement.Failure();
}

}  // namespace downpour
