// How often a dead task is started again.
//
// Order: at most kMaxRestarts times without progress of the job in between; progress refills the budget. A task that
//   lived shortly waits before it is started again, twice as long each time without progress, so that one broken worker
//   does not spend the machine on starting.
// Tests: tests/unit/tools/restart_budget_test.cc.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>

namespace downpour {

class RestartBudget {
 public:
  using Duration = std::chrono::nanoseconds;
  static constexpr int kMaxRestarts = 5;
  static constexpr Duration kShortLife = std::chrono::seconds(2);
  static constexpr Duration kShortestDelay = std::chrono::milliseconds(100);

  struct Restart {
    uint32_t attempt = 0;  // how often the task was started before
    Duration delay{};
  };
  // `progress` is anything that only rises while the job gets on; `how` tells the task's end. Nothing: the budget is
  // spent.
  std::optional<Restart> Spend(const std::string& task, double progress, Duration lived, const std::string& how);

  // How the task ended when it first did without progress since.
  const std::string& FirstEnd(const std::string& task) { return accounts_[task].first_end; }

 private:
  struct Account {
    uint32_t attempts = 0;
    int since_progress = 0;
    double progress = 0;
    std::string first_end;
  };
  std::map<std::string, Account> accounts_;
};

}  // namespace downpour
