// Log lines of several tasks as one stream, by the time that stands before each.
//
//   LogMerger merger({"chief", "worker-0"});
//   merger.Add("worker-0", "I 2024-11-20 10:43:05.123 joined\n");  // bytes as they come, cut anywhere
//   out << merger.Take();    // chief    | ...
//                            // worker-0 | I 2024-11-20 10:43:05.123 joined
// Order: lines of one task keep theirs; a line without a time follows the one before it. Take knows nothing of what is
//   still to come.
// Tests: tests/unit/cluster/log_merger_test.cc.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace downpour {

class LogMerger {
 public:
  // `tasks` only sets the width of the names. Of a single one lines are not named.
  explicit LogMerger(const std::vector<std::string>& tasks);

  void Add(const std::string& task, std::string_view bytes);
  std::string Take();     // whole lines, once
  std::string TakeAll();  // also those without an end

 private:
  struct Source {
    std::string partial;
    std::string time;  // of the newest line
  };
  struct Line {
    std::string time;
    std::string task;
    std::string text;
  };
  void AddLine(const std::string& task, Source* source, const std::string& text);

  bool named_;
  size_t width_ = 0;
  std::map<std::string, Source> sources_;
  std::vector<Line> lines_;
};

}  // namespace downpour
