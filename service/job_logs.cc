#include "service/job_logs.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <tuple>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "schema/text.h"

namespace downpour {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

int64_t SizeOf(const fs::path& path) {
  std::error_code error;
  const uintmax_t size = fs::file_size(path, error);
  return error ? 0 : static_cast<int64_t>(size);
}

// By their tasks' names.
std::vector<fs::path> LogFiles(const std::string& job_dir) {
  std::vector<fs::path> files;
  std::error_code error;
  for (fs::directory_iterator it(fs::path(job_dir) / "logs", error), end; !error && it != end; it.increment(error)) {
    if (it->path().extension() == ".log" && IsPlainName(it->path().stem().string())) files.push_back(it->path());
  }
  std::sort(files.begin(), files.end(),
            [](const fs::path& a, const fs::path& b) { return TaskName(a.stem()) < TaskName(b.stem()); });
  return files;
}

// Where the last kMostLogBytesRead begin, with the next whole line.
LogPlace BeginOf(const fs::path& path) {
  const int64_t skipped = SizeOf(path) - kMostLogBytesRead;
  if (skipped <= 0) return {};
  LineCursor before(path, skipped - 1);
  before.Next(/*half=*/true);
  return {before.end(), before.end()};
}

}  // namespace

std::string TextOf(const LogPlaces& places) {
  std::string text;
  for (const auto& [name, place] : places) {
    absl::StrAppend(&text, text.empty() ? "" : ",", name, ":", place.at);
    if (place.timeless_to > place.at) absl::StrAppend(&text, ":", place.timeless_to);
  }
  return text;
}

std::optional<LogPlaces> PlacesIn(const std::string& text) {
  LogPlaces places;
  for (const absl::string_view part : absl::StrSplit(text, ',')) {
    const std::vector<absl::string_view> words = absl::StrSplit(part, ':');
    LogPlace place;
    if (words.size() < 2 || words.size() > 3 || !absl::SimpleAtoi(words[1], &place.at)) return std::nullopt;
    if (words.size() == 2) {
      place.timeless_to = place.at;
    } else if (!absl::SimpleAtoi(words[2], &place.timeless_to)) {
      return std::nullopt;
    }
    if (place.at < 0 || place.timeless_to < place.at) return std::nullopt;
    places[std::string(words[0])] = place;
  }
  return places;
}

LogReader::LogReader(const std::vector<JobLogs>& jobs, const LogPlaces& from) {
  for (const auto& [job, job_dir] : jobs) {
    const int trial = TrialNumber(job.name);
    for (const fs::path& file : LogFiles(job_dir)) {
      const std::string task = file.stem(), name = trial == 0 ? task : absl::StrCat(trial, "/", task);
      const auto place = from.find(name);
      logs_.push_back({name, trial, LogFile(file, job, place == from.end() ? BeginOf(file) : place->second)});
    }
  }
  for (size_t i = 0; i < logs_.size(); ++i) {
    if (logs_[i].file.HasLine()) next_.emplace(logs_[i].file.time(), i);
  }
}

LogEntry LogReader::Entry() const {
  const Log& log = logs_[next_.begin()->second];
  LogEntry entry = log.file.Entry();
  entry.trial = log.trial;
  if (log.trial != 0) entry.id = absl::StrCat("trial-", log.trial, "-", entry.id);
  return entry;
}

void LogReader::Pop() {
  const size_t index = next_.begin()->second;
  LogFile& file = logs_[index].file;
  next_.erase(next_.begin());
  file.Pop();
  if (file.HasLine()) next_.emplace(file.time(), index);
}

LogPlaces LogReader::places() const {
  LogPlaces places;
  for (const Log& log : logs_) places[log.name] = log.file.place();
  return places;
}

std::string LogFileOf(const std::string& job_dir, const std::string& task) {
  for (const fs::path& file : LogFiles(job_dir)) {
    if (TaskName(file.stem()) == task) return file;
  }
  return "";
}

std::vector<LogEntry> ReadNewLogs(const Job& job, const std::string& job_dir, const LogChoice& choice,
                                  LogMarks* marks) {
  // Of one task, or of severe words, much is read to find them.
  const bool is_choosy = !choice.task.empty() || !choice.severity.empty();
  const int64_t most_bytes = is_choosy ? kMostLogBytesRead : kMostUnchosenLogBytes;
  const size_t least = RankOfSeverity(choice.severity);
  std::vector<LogEntry> entries;
  for (const fs::path& file : LogFiles(job_dir)) {
    const int64_t size = SizeOf(file);
    int64_t& mark = (*marks)[file.stem()];
    if (!choice.task.empty() && choice.task != TaskName(file.stem())) continue;
    if (mark < 0 || mark > size) mark = 0;  // of another file of that name
    const int64_t from = std::max(mark, size - most_bytes);
    LogFile log(file, job, {from, from});
    for (; log.HasLine(); log.Pop()) {
      if (log.rank() >= least) entries.push_back(log.Entry());
    }
    mark = log.place().at;
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
