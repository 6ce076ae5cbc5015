// Which workers are to run, by the chief's word: the job may be scaled while it runs.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "cluster/local_run.h"
#include "job/job_reader.h"
#include "schema/text.h"

namespace downpour {

bool LocalRun::IsWanted(const std::string& task) const {
  const std::vector<std::string> members = MemberTasks(cluster_);
  return task == kChiefTask || std::find(members.begin(), members.end(), task) != members.end();
}

// Those beyond the number are told to leave by the chief itself.
void LocalRun::FollowWorkerCount() {
  const int before = cluster_.workers;
  const MaybeCount& wanted = status_.workers.wanted;
  if (IsOver() || status_.chief.term.value_or(0) == 0 || wanted.value_or(before) == static_cast<uint64_t>(before))
    return;
  cluster_.workers = static_cast<int>(std::clamp<uint64_t>(*wanted, 1, kMostTasks));
  std::erase_if(due_, [this](const auto& due) { return !IsWanted(due.first); });
  for (const std::string& task : MemberTasks(cluster_)) {
    const bool is_new = !IsServerTask(task) && std::stoi(task.substr(task.rfind('-') + 1)) >= before;
    if (is_new && !supervisor_.IsRunning(task) && !Start(task, 0) && HasGivenUp()) return;
  }
  talk_.Say(absl::StrCat("downpour run: the job wants ", Counted(static_cast<uint64_t>(cluster_.workers), "worker"),
                         " now, and wanted ", before));
}

// A member ends with 0 where the job is over, or where it was not wanted for a moment. Of the second answer after its
// end is sure that it was given after it.
void LocalRun::BringBackThoseWhoLeft() {
  for (auto left = left_.begin(); left != left_.end();) {
    const std::string& task = left->first;
    const bool goes_on = status_.chief.term.value_or(0) > 0 && !IsOver();
    const bool is_gone = goes_on && IsWanted(task) && !supervisor_.IsRunning(task) && !due_.contains(task);
    if (is_gone && ++left->second < 2) {
      ++left;
      continue;
    }
    if (is_gone) BringBack(task);
    left = left_.erase(left);
  }
}

}  // namespace downpour
