#include "service/sqlite_statement.h"

#include "absl/strings/str_cat.h"

namespace downpour {

SqliteStatement::SqliteStatement(sqlite3* database, const std::string& text) : database_(database) {
  sqlite3_prepare_v2(database, text.c_str(), -1, &statement_, nullptr);
}

void SqliteStatement::Bind(const std::string& value) {
  sqlite3_bind_text(statement_, ++bound_, value.data(), static_cast<int>(value.size()), SQLITE_TRANSIENT);
}

absl::Status SqliteStatement::Run() {
  const int result = Step();
  if (result == SQLITE_DONE) return absl::OkStatus();
  return result == SQLITE_CONSTRAINT ? absl::AlreadyExistsError("") : Failure();
}

absl::Status SqliteStatement::Failure() const {
  return absl::InternalError(absl::StrCat("the service's store: ", sqlite3_errmsg(database_)));
}

std::string SqliteStatement::Text() {
  const int bytes = sqlite3_column_bytes(statement_, read_);
  const auto* text = reinterpret_cast<const char*>(sqlite3_column_text(statement_, read_++));
  return text == nullptr ? std::string() : std::string(text, static_cast<size_t>(bytes));
}

}  // namespace downpour
