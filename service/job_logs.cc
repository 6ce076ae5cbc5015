#include "service/job_logs.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <tuple>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "runtime/log_line.h"
#include "schema/text.h"
#include "service/log_times.h"

namespace downpour {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

// From the least to the most severe.
constexpr std::pair<char, const char*> kSeverities[] = {
    {' ', "DEFAULT"}, {'I', "INFO"}, {'W', "WARNING"}, {'E', "ERROR"}, {'F', "CRITICAL"}};

size_t RankOf(char letter) {
  for (size_t i = 0; i < std::size(kSeverities); ++i) {
    if (kSeverities[i].first == letter) return i;
  }
  return 0;
}

// 0, of all, where it is none.
size_t RankOf(const std::string& severity) {
  for (size_t i = 0; i < std::size(kSeverities); ++i) {
    if (kSeverities[i].second == severity) return i;
  }
  return 0;
}

// TimeOfLine's "2024-11-20 10:43:05.123" as RFC 3339.
std::string Rfc3339(std::string time) {
  std::replace(time.begin(), time.end(), ' ', 'T');
  return time + "Z";
}

// The lines of one log, as they get their times.
class LinesOfLog {
 public:
  LinesOfLog(LogTimes times, std::vector<LogEntry>* entries) : times_(std::move(times)), entries_(entries) {}

  // One that ends before `end`. Without a time of its own it waits for one.
  void Add(LogEntry entry, int64_t end) { waiting_.push_back({std::move(entry), end}); }
  // All that wait came by this time.
  void TellAll(const std::string& by) {
    for (Line& line : waiting_) Tell(&line, by);
    waiting_.clear();
  }
  // Those that somebody saw come. Returns where the last of them ends, or `told` if there are none.
  int64_t TellSeen(int64_t told) {
    for (Line& line : waiting_) {
      const std::optional<int64_t> seen = times_.Of(line.end);
      if (!seen) break;
      Tell(&line, TimeText(*seen));
      told = line.end;
    }
    return told;
  }

 private:
  struct Line {
    LogEntry entry;
    int64_t end = 0;
  };
  void Tell(Line* line, const std::string& by) {
    std::string& time = line->entry.time;
    if (time.empty()) {
      const std::optional<int64_t> seen = times_.Of(line->end);
      time = std::max(seen ? std::min(TimeText(*seen), by) : by, last_);
    }
    last_ = time;
    entries_->push_back(std::move(line->entry));
  }

  LogTimes times_;
  std::vector<LogEntry>* const entries_;
  std::vector<Line> waiting_;
  std::string last_;
};

// Returns where the lines begin that are yet to come, or to get a time.
int64_t ReadLog(const fs::path& path, const Job& job, int64_t from, size_t least, std::vector<LogEntry>* entries) {
  std::ifstream file(path, std::ios::binary);
  file.seekg(from);
  int64_t at = from, told = from;
  const std::string task = TaskName(path.stem());
  const std::string job_dir = path.parent_path().parent_path();
  LinesOfLog lines(task == "service" ? LogTimes(job_dir) : LogTimes(), entries);
  std::string line;
  while (std::getline(file, line)) {
    if (file.eof() && !IsOver(job.state)) break;  // half a line
    const std::string time = TimeOfLine(line);
    const size_t rank = time.empty() ? 0 : RankOf(line[0]);
    const int64_t end = at + static_cast<int64_t>(line.size()) + 1;
    if (rank >= least) {
      lines.Add({.time = time.empty() ? "" : Rfc3339(time),
                 .task = task,
                 .severity = kSeverities[rank].second,
                 .message = CleanText(time.empty() ? line : WordsOfLine(line), kMaxLogBytes),
                 .id = absl::StrFormat("%s-%012d-%d", task, at, job.created_ms)},
                end);
    }
    at = end;
    if (time.empty()) continue;
    lines.TellAll(Rfc3339(time));
    told = at;
  }
  if (!IsOver(job.state)) return lines.TellSeen(told);
  lines.TellAll(TimeText(job.ended_ms));
  return at;
}

void SortByTime(std::vector<LogEntry>* entries) {
  std::sort(entries->begin(), entries->end(),
            [](const LogEntry& a, const LogEntry& b) { return std::tie(a.time, a.id) < std::tie(b.time, b.id); });
}

int64_t SizeOf(const fs::path& path) {
  std::error_code error;
  const uintmax_t size = fs::file_size(path, error);
  return error ? 0 : static_cast<int64_t>(size);
}

std::vector<fs::path> LogFiles(const std::string& job_dir) {
  std::vector<fs::path> files;
  std::error_code error;
  for (fs::directory_iterator it(fs::path(job_dir) / "logs", error), end; !error && it != end; it.increment(error)) {
    if (it->path().extension() == ".log") files.push_back(it->path());
  }
  return files;
}

}  // namespace

std::string TaskName(const std::string& task) {
  if (task == "chief") return "master-replica-0";
  for (const char* role : {"ps-", "worker-"}) {
    if (absl::StartsWith(task, role)) return absl::StrCat(role, "replica-", absl::StripPrefix(task, role));
  }
  return task;
}

std::vector<LogEntry> ReadLogs(const Job& job, const std::string& job_dir) {
  std::vector<LogEntry> entries;
  for (const fs::path& file : LogFiles(job_dir)) {
    ReadLog(file, job, std::max<int64_t>(0, SizeOf(file) - kMostLogBytesRead), /*least=*/0, &entries);
  }
  SortByTime(&entries);
  return entries;
}

std::vector<LogEntry> ReadNewLogs(const Job& job, const std::string& job_dir, const LogChoice& choice,
                                  LogMarks* marks) {
  // Of one task, or of severe words, much is read to find them.
  const bool is_choosy = !choice.task.empty() || !choice.severity.empty();
  const int64_t most_bytes = is_choosy ? kMostLogBytesRead : kMostUnchosenLogBytes;
  const size_t least = RankOf(choice.severity);
  std::vector<LogEntry> entries;
  for (const fs::path& file : LogFiles(job_dir)) {
    const int64_t size = SizeOf(file);
    int64_t& mark = (*marks)[file.stem()];
    if (!choice.task.empty() && choice.task != TaskName(file.stem())) continue;
    if (mark < 0 || mark > size) mark = 0;  // of another file of that name
    // The last line may lack its end.
    mark = std::min(ReadLog(file, job, std::max(mark, size - most_bytes), least, &entries), SizeOf(file));
  }
  SortByTime(&entries);
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
