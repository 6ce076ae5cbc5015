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
  ++account.since_progress;
  account.short_lives = lived < kShortLife ? account.short_lives + 1 : 0;
  Duration delay{};
  for (int life = 1; life < account.short_lives && delay < kLongestDelay; ++life) {
    delay = std::max<Duration>(std::chrono::milliseconds(100), 2 * delay);
  }
  return Restart{++account.attempts, std::min(delay, kLongestDelay)};
}

}  // namespace downpour
