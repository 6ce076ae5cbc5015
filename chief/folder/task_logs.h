// The log lines that tasks send along with heartbeats, appended to logs/NAME.log.
//
// Order: a line counts as kept once its append is done; until then the task sends it again, and it is written once.
//   Lines are numbered by the process, across its memberships.
// Errors: lines that a task no longer had are counted in the file; a failed append is tried again with the next
//   heartbeat. Beyond kMaxFileBytes of a process lines are dropped, which the file says.
// Tests: tests/unit/chief/task_logs_test.cc.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "chief/folder/storage.h"

namespace downpour {

class TaskLogs {
 public:
  static constexpr uint64_t kMaxFileBytes = uint64_t{64} << 20;  // of one process
  static constexpr size_t kMaxLines = 256;                       // taken at once
  static constexpr size_t kMaxLineBytes = 4096;

  explicit TaskLogs(Storage& storage) : storage_(storage) {}

  // A process joined under this name, or joined again.
  void Begin(const std::string& task, uint64_t nonce, const std::string& greeting);
  void Append(const std::string& task, uint64_t from, const std::vector<std::string>& lines);
  // Lines below this number need not be sent again.
  uint64_t Retained(const std::string& task) const;

 private:
  struct Log {
    uint64_t nonce = 0;
    std::string greeting;  // written before the first line
    bool greeted = false;
    bool numbered = false;
    uint64_t retained = 0;
    bool writing = false;
    uint64_t bytes = 0;
  };
  void Append(const std::string& task, const std::string& text, uint64_t retained);

  Storage& storage_;
  std::map<std::string, Log> logs_;
};

}  // namespace downpour
