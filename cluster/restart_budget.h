// How a task that ends again and again is started again.
//
// Order: a task that lived shortly waits before it is started again, twice as long each time until it has lived long
//   once or done some work, so that a broken worker does not spend the machine on starting. Short is what loading a
//   large program and its data may take. Its budget is kMaxRestarts without progress in between, of its own or of the
//   job; a task that has spent it is a reason to give up only where nobody else gets on.
// Tests: tests/unit/cluster/restart_budget_test.cc.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <string>

namespace downpour {

struct RestartDelays {
  std::chrono::nanoseconds shortest = std::chrono::milliseconds(100);
  std::chrono::nanoseconds longest = std::chrono::seconds(30);
};

class RestartBudget {
 public:
  using Duration = std::chrono::nanoseconds;
  static constexpr int kMaxRestarts = 5;
  static constexpr Duration kShortLife = std::chrono::minutes(1);

  explicit RestartBudget(RestartDelays delays = {}) : delays_(delays) {}

  struct Restart {
    uint32_t attempt = 0;  // how often the task was started before
    Duration delay{};
  };
  // `progress` is anything that only rises while the job gets on; `how` tells the task's end. The first delay is
  // `least` where that is longer than the shortest.
  Restart Spend(const std::string& task, double progress, Duration lived, const std::string& how, Duration least = {});

  // The task itself has done some of the job's work since it was started.
  void Refill(const std::string& task);

  // The task's ends since the job got on, and how it ended at first and at last.
  struct Account {
    int ends = 0;
    std::string first_end;
    std::string last_end;
    bool spent() const { return ends > kMaxRestarts; }
  };
  const Account& Of(const std::string& task) { return tasks_[task].account; }

 private:
  struct Task {
    uint32_t attempts = 0;
    Duration next_delay{};  // zero: the shortest
    double progress = 0;
    Account account;
  };
  const RestartDelays delays_;
  std::map<std::string, Task> tasks_;
};

}  // namespace downpour
