// What went wrong lately, for people: the newest failures of the job, oldest first.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <utility>

#include "chief/turn.h"
#include "schema/text.h"

namespace downpour {

struct Failure {
  Time at{};
  int64_t unix_ms = 0;
  std::string task;
  std::string what;
};

class FailureList {
 public:
  static constexpr size_t kKept = 50;
  static constexpr size_t kWords = 512;

  explicit FailureList(Turn& turn) : turn_(turn) {}

  void Add(const std::string& task, const std::string& what) {
    failures_.push_back({turn_.now, turn_.UnixMs(), task, CleanText(what, kWords)});
    if (failures_.size() > kKept) failures_.pop_front();
    turn_.out.Warn(task + ": " + failures_.back().what);
  }
  const std::deque<Failure>& list() const { return failures_; }

 private:
  Turn& turn_;
  std::deque<Failure> failures_;
};

}  // namespace downpour
