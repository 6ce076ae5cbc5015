// What the job has cost so far, whichever chief led it: counts and the newest failures, for people.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <string>

#include "chief/turn.h"
#include "schema/text.h"

namespace downpour {

struct Failure {
  int64_t unix_ms = 0;
  std::string task;
  std::string what;
  bool operator==(const Failure&) const = default;
};

struct Toll {
  uint64_t workers_lost = 0;
  uint64_t servers_lost = 0;                     // whose place another process took
  uint64_t leases_handed_on = 0;                 // by workers that died or left
  uint64_t batches_recomputed = 0;               // of leases that were opened again
  std::deque<Failure> failures;                  // oldest first
  std::map<std::string, uint64_t> skips_listed;  // by ps: those that its process counts and a failure told
  bool operator==(const Toll&) const = default;
};

class FailureList {
 public:
  static constexpr size_t kKept = 50;
  static constexpr size_t kWords = 512;

  // Adds to that toll's failures.
  FailureList(Turn& turn, Toll& toll) : turn_(turn), toll_(toll) {}

  void Add(const std::string& task, const std::string& what) {
    toll_.failures.push_back({turn_.UnixMs(), task, CleanText(what, kWords)});
    if (toll_.failures.size() > kKept) toll_.failures.pop_front();
    turn_.out.Warn(task + ": " + toll_.failures.back().what);
  }
  const std::deque<Failure>& list() const { return toll_.failures; }

 private:
  Turn& turn_;
  Toll& toll_;
};

}  // namespace downpour
