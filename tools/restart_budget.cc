#include "tools/restart_budget.h"

#include <algorithm>

namespace downpour {

std::optional<RestartBudget::Restart> RestartBudget::Spend(const std::string& task, double progress, Duration lived,
                                                           const std::string& how) {
  Account& account = accounts_[task];
  if (progress > account.progress) account.since_progress = 0;
  account.progress = std::max(account.progress, progress);
  if (account.since_progress == 0) account.first_end = how;
  if (account.since_progress == kMaxRestarts) return std::nullopt;
  const Duration delay = lived < kShortLife ? kShortestDelay * (1 << account.since_progress) : Duration::zero();
  ++account.since_progress;
  return Restart{++account.attempts, delay};
}

}  // namespace downpour
