// SqliteStatement: one statement of SQLite. Its values are bound in order, and so are its rows' columns read.
//
//   SqliteStatement statement(database, "SELECT name, revision FROM models WHERE name = ?");
//   statement.Bind(name);
//   while (statement.Step() == SQLITE_ROW) { statement.BeginRow(); ...statement.Text()...statement.Integer()...; }
//
// Errors: ALREADY_EXISTS without words where a row must be unique; INTERNAL with SQLite's words.
// Threads: one, as of its database.
// Tests: tests/unit/service/job_store_test.cc, model_record_test.cc.
#pragma once

#include <sqlite3.h>

#include <cstdint>
#include <string>

#include "absl/status/status.h"

namespace downpour {

class SqliteStatement {
 public:
  SqliteStatement(sqlite3* database, const std::string& text);
  ~SqliteStatement() { sqlite3_finalize(statement_); }
  SqliteStatement(const SqliteStatement&) = delete;
  SqliteStatement& operator=(const SqliteStatement&) = delete;

  void Bind(const std::string& value);
  void Bind(int64_t value) { sqlite3_bind_int64(statement_, ++bound_, value); }

  int Step() { return statement_ == nullptr ? SQLITE_ERROR : sqlite3_step(statement_); }
  absl::Status Run();            // of one that has no rows
  absl::Status Failure() const;  // what SQLite says of the last step
  void Reset() { sqlite3_reset(statement_); }

  void BeginRow() { read_ = 0; }
  std::string Text();
  int64_t Integer() { return sqlite3_column_int64(statement_, read_++); }

 private:
  sqlite3* database_;
  sqlite3_stmt* statement_ = nullptr;
  int bound_ = 0, read_ = 0;
};

}  // namespace downpour
