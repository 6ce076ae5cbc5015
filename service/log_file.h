// LogFile: the lines of one log, each once it has its time.
//
//   for (LogFile log(path, job, {}); log.HasLine(); log.Pop()) ...log.time(), log.Entry()...
//   log.place();   // where a later one continues
//
// Order: a line of the service's log without a time has that at which the service saw it (log_times.h). Any other one
//   takes that of the next one that has one, so no line ever appears before one that was shown. Behind the last of
//   them it waits, until the job is over.
// Cost: a line's first bytes, and some KiB of the file. It is open only while it is read. To find the time of lines
//   without one, what follows them is read once more; a later reader does not do that again.
// Tests: tests/unit/service/job_logs_test.cc.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "service/job.h"
#include "service/log_times.h"

namespace downpour {

struct LogEntry {
  std::string time;  // RFC 3339
  std::string task;
  std::string severity;  // DEFAULT, INFO, WARNING, ERROR, CRITICAL
  std::string message;
  std::string id;  // unique in the job, and none of a deleted job's of the same name
  int trial = 0;   // of a tuning job, whose entries are those of its trials too; 0: its own
};

// AI Platform's name of one of our tasks.
std::string TaskName(const std::string& task);

// From the least to the most severe; 0, of all, where it is none.
size_t RankOfSeverity(const std::string& severity);

// Bytes of a log, both where a line begins. No line between the two has a time of its own.
struct LogPlace {
  int64_t at = 0;
  int64_t timeless_to = 0;
};

class LineCursor {
 public:
  LineCursor(std::string path, int64_t from) : path_(std::move(path)), end_(from) {}
  // To the next line. `half`: also to one that lacks its end.
  bool Next(bool half);
  const std::string& line() const { return line_; }  // its first bytes
  int64_t begin() const { return begin_; }
  int64_t end() const { return end_; }

 private:
  bool Fill(int64_t at);

  std::string path_, line_, block_;
  int64_t block_at_ = 0, begin_ = 0, end_ = 0;
};

class LogFile {
 public:
  LogFile(const std::filesystem::path& path, const Job& job, LogPlace from);
  // Whether there is one that has its time. The others are of this line.
  bool HasLine();
  const std::string& time() const { return time_; }
  size_t rank() const { return rank_; }
  LogEntry Entry() const;
  void Pop();
  LogPlace place() const { return place_; }

 private:
  std::string TimeOfTimeless();
  void LookAhead();

  std::string path_, task_;
  bool is_over_ = false;
  int64_t created_ms_ = 0, ended_ms_ = 0;
  LogTimes times_;
  LineCursor cursor_;
  LogPlace place_;  // of the line at hand
  bool has_line_ = false, has_own_time_ = false, looked_ahead_ = false;
  std::string time_, last_, by_;  // by_: the time of the line at timeless_to; empty: there is none
  size_t rank_ = 0;
};

}  // namespace downpour
