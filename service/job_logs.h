// Job logs: what the tasks of a job, and the service, wrote, as entries of Cloud Logging.
//
//   for (LogReader logs({{job, job_dir}}, {}); logs.HasLine(); logs.Pop()) ...logs.Entry()...   // by time
//
// Shapes: tasks have AI Platform's names: master-replica-0 is the chief, ps-replica-N and worker-replica-N the others.
// Order: log_file.h says which time a line has, and when. A line that comes late is told late.
// Cost: reads the last kMostLogBytesRead bytes of each log, and holds one line and some KiB of each.
// Tests: tests/unit/service/job_logs_test.cc.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "service/job.h"
#include "service/log_file.h"

namespace downpour {

inline constexpr int64_t kMostLogBytesRead = int64_t{16} << 20;
inline constexpr int64_t kMostUnchosenLogBytes = int64_t{256} << 10;

// How far each log was read, by its file's name without its end, that of trial 3 as "3/worker-0".
using LogPlaces = std::map<std::string, LogPlace>;
// "3/worker-0:120:7000,chief:77" and back; nothing for what is no such text.
std::string TextOf(const LogPlaces& places);
std::optional<LogPlaces> PlacesIn(const std::string& text);

// Of a job, and where it is a tuning job of its trials too, by time.
class LogReader {
 public:
  struct JobLogs {
    Job job;
    std::string job_dir;
  };
  // Logs that `from` does not name begin kMostLogBytesRead before their ends.
  LogReader(const std::vector<JobLogs>& jobs, const LogPlaces& from);
  bool HasLine() const { return !next_.empty(); }
  LogEntry Entry() const;
  void Pop();
  LogPlaces places() const;

 private:
  struct Log {
    std::string name;
    int trial = 0;
    LogFile file;
  };
  std::vector<Log> logs_;
  std::set<std::pair<std::string, size_t>> next_;  // the time of each one's next line, and its place in logs_
};

// The path of one task's log, by AI Platform's name of the task; empty if there is none.
std::string LogFileOf(const std::string& job_dir, const std::string& task);

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
