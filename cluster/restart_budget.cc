#include "cluster/restart_budget.h"

#include <algorithm>

namespace downpour {

RestartBudget::Restart RestartBudget::Spend(const std::string& name, double progress, Duration lived,
                                            const std::string& how, Duration least) {
  Task& task = tasks_[name];
  if (progress > task.progress) task.account = {};  // but not the delay: others may have made it
  task.progress = std::max(task.progress, progress);
  if (task.account.ends++ == 0) task.account.first_end = how;
  task.account.last_end = how;
  Restart restart{.attempt = ++task.attempts, .delay = Duration::zero()};
  if (lived < kShortLife) {
    restart.delay = std::max({task.next_delay, delays_.shortest, least});
    task.next_delay = std::min(2 * restart.delay, delays_.longest);
  } else {
    task.next_delay = {};
  }
  return restart;
}

void RestartBudget::Refill(const std::string& name) {
  Task& task = tasks_[name];
  task.account = {};
  task.next_delay = {};
}

}  // namespace downpour
