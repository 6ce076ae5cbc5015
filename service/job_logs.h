// Job logs: what the tasks of a job, and the service, wrote, as entries of Cloud Logging.
//
//   for (const LogEntry& entry : ReadLogs(job, job_dir)) ...   // by time
//
// Shapes: tasks have AI Platform's names: master-replica-0 is the chief, ps-replica-N and worker-replica-N the others.
// Order: a line of the service's log without a time has that at which the service saw it (log_times.h). Any other one
//   takes that of the next one that has one, so no entry ever appears before one that was shown. Behind the last of
//   them it waits, until the job is over.
// Cost: reads the last kMostLogBytesRead bytes of each log.
// Tests: tests/unit/service/job_logs_test.cc.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "service/job.h"

namespace downpour {

inline constexpr int64_t kMostLogBytesRead = int64_t{16} << 20;
inline constexpr int64_t kMostUnchosenLogBytes = int64_t{256} << 10;

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

std::vector<LogEntry> ReadLogs(const Job& job, const std::string& job_dir);

// How far each log was read, in bytes, by its file's name without its end.
using LogMarks = std::map<std::string, int64_t>;
// Of one task (by AI Platform's name), at least so severe; empty: all.
struct LogChoice {
  std::string task = {}, severity = {};
};
// What came since the marks, but of each log at most its last kMostLogBytesRead, or where nothing is chosen its last
// kMostUnchosenLogBytes. The marks of what was read move on. They are of one choice.
std::vector<LogEntry> ReadNewLogs(const Job& job, const std::string& job_dir, const LogChoice& choice, LogMarks* marks);

nlohmann::json ResourceOf(const LogEntry& entry, const std::string& job);

}  // namespace downpour
