#include "service/job_logs.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <tuple>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "runtime/log_line.h"
#include "schema/text.h"

namespace downpour {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

std::string TaskName(const std::string& task) {
  if (task == "chief") return "master-replica-0";
  for (const char* role : {"ps-", "worker-"}) {
    if (absl::StartsWith(task, role)) return absl::StrCat(role, "replica-", absl::StripPrefix(task, role));
  }
  return task;
}

std::string SeverityOf(const std::string& line) {
  constexpr std::pair<char, const char*> kSeverities[] = {
      {'I', "INFO"}, {'W', "WARNING"}, {'E', "ERROR"}, {'F', "CRITICAL"}};
  for (const auto& [letter, name] : kSeverities) {
    if (line[0] == letter) return name;
  }
  return "DEFAULT";
}

// TimeOfLine's "2024-11-20 10:43:05.123" as RFC 3339.
std::string Rfc3339(std::string time) {
  std::replace(time.begin(), time.end(), ' ', 'T');
  return time + "Z";
}

void ReadLog(const fs::path& path, const Job& job, std::vector<LogEntry>* entries) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  const int64_t size = file.tellg();
  int64_t at = std::max<int64_t>(0, size - kMostLogBytesRead);
  file.seekg(at);
  const std::string task = TaskName(path.stem());
  std::vector<LogEntry> waiting;
  std::string line;
  while (std::getline(file, line)) {
    if (file.eof() && !IsOver(job.state)) break;  // half a line
    const std::string time = TimeOfLine(line);
    waiting.push_back({.time = {},
                       .task = task,
                       .severity = time.empty() ? "DEFAULT" : SeverityOf(line),
                       .message = CleanText(time.empty() ? line : WordsOfLine(line), kMaxLogBytes),
                       .id = absl::StrFormat("%s-%012d", task, at)});
    at += static_cast<int64_t>(line.size()) + 1;
    if (time.empty()) continue;
    for (LogEntry& entry : waiting) entry.time = Rfc3339(time);
    std::move(waiting.begin(), waiting.end(), std::back_inserter(*entries));
    waiting.clear();
  }
  if (!IsOver(job.state)) return;
  for (LogEntry& entry : waiting) entry.time = TimeText(job.ended_ms);
  std::move(waiting.begin(), waiting.end(), std::back_inserter(*entries));
}

}  // namespace

std::vector<LogEntry> ReadLogs(const Job& job, const std::string& job_dir) {
  std::vector<LogEntry> entries;
  std::error_code error;
  for (fs::directory_iterator it(fs::path(job_dir) / "logs", error), end; !error && it != end; it.increment(error)) {
    if (it->path().extension() == ".log") ReadLog(it->path(), job, &entries);
  }
  std::sort(entries.begin(), entries.end(),
            [](const LogEntry& a, const LogEntry& b) { return std::tie(a.time, a.id) < std::tie(b.time, b.id); });
  return entries;
}

json ResourceOf(const LogEntry& entry, const std::string& job) {
  json resource = {{"logName", absl::StrCat("projects/-/logs/", entry.task)},
                   {"resource", {{"type", "ml_job"}, {"labels", {{"job_id", job}, {"task_name", entry.task}}}}},
                   {"labels", {{"task_name", entry.task}}},
                   {"timestamp", entry.time},
                   {"severity", entry.severity},
                   {"insertId", entry.id},
                   {"textPayload", entry.message}};
  if (entry.trial != 0) resource["labels"]["ml.googleapis.com/trial_id"] = absl::StrCat(entry.trial);
  return resource;
}

}  // namespace downpour
