#include "chief/folder/task_logs.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "schema/text.h"

namespace downpour {
namespace {

constexpr uint64_t kMaxNumber = uint64_t{1} << 53;

}  // namespace

void TaskLogs::Begin(const std::string& task, uint64_t nonce, const std::string& greeting) {
  Log& log = logs_[task];
  if (!log.greeting.empty() && log.nonce == nonce) return;
  log = {.nonce = nonce, .greeting = greeting, .writing = log.writing};
}

void TaskLogs::Append(const std::string& task, uint64_t from, const std::vector<std::string>& lines) {
  const auto found = logs_.find(task);
  if (found == logs_.end() || found->second.writing || lines.empty() || from > kMaxNumber) return;
  Log& log = found->second;
  if (!log.numbered) {
    log.numbered = true;
    log.retained = from;
  }
  std::string text;
  if (!log.greeted) text = absl::StrCat("---- ", log.greeting, " ----\n");
  if (from > log.retained) absl::StrAppend(&text, "---- ", from - log.retained, " lines lost ----\n");
  uint64_t retained = std::max(log.retained, from);
  const size_t first = static_cast<size_t>(std::min<uint64_t>(retained - from, lines.size()));
  const size_t end = std::min(lines.size(), first + kMaxLines);
  for (size_t i = first; i < end; ++i, ++retained) {
    absl::StrAppend(&text, OneLine(lines[i], kMaxLineBytes), "\n");
  }
  if (retained == log.retained) return;
  if (log.bytes >= kMaxFileBytes) {
    log.retained = retained;
  } else {
    Append(task, text, retained);
  }
}

void TaskLogs::Append(const std::string& task, const std::string& text, uint64_t retained) {
  Log& log = logs_[task];
  const bool full = log.bytes + text.size() >= kMaxFileBytes;
  const std::string written = full ? text + "---- log full: further lines are dropped ----\n" : text;
  log.writing = true;
  storage_.Run({AppendTo(absl::StrCat("logs/", task, ".log"), {Payload::CopyOf(written.data(), written.size())})},
               [this, task, retained, nonce = log.nonce, size = written.size()](const StorageDone& done) {
                 Log& same = logs_[task];
                 same.writing = false;
                 if (!done.status.ok() || same.nonce != nonce) return;
                 same.greeted = true;
                 same.retained = retained;
                 same.bytes += size;
               });
}

uint64_t TaskLogs::Retained(const std::string& task) const {
  const auto log = logs_.find(task);
  return log == logs_.end() ? 0 : log->second.retained;
}

}  // namespace downpour
