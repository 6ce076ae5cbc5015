#include "chief/task_losses.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "schema/text.h"

namespace downpour {

void TaskLosses::Tick() {
  for (const Task* task : chief_.members.TakeSilent(chief_.context.now)) {
    Lost(*task, absl::StrFormat("no heartbeat for %.1f s", Seconds(chief_.context.now - task->heard)));
  }
}

void TaskLosses::Lost(const Task& task, const std::string& how) {
  // A ps holds no leases. Those of a worker are open at once: evidence decides, whoever computed (core 5).
  const uint64_t handed_on = chief_.work.Release(task.incarnation);
  const bool said_goodbye = task.state == TaskState::kLeft;
  const std::string why = task.may_leave() && !said_goodbye
                              ? absl::StrCat(how, "; it had been told to stop (", task.leaving, ") and let go")
                              : how;
  chief_.failures.Add(
      task.name,
      absl::StrCat(why, handed_on == 0 ? "" : absl::StrCat("; ", Counted(handed_on, "lease"), " handed on")));
  if (task.role == TaskRole::kWorker) {
    ++chief_.journal.costs().workers_lost;
  } else {
    chief_.recovery.Lost(task, why);
  }
}

void TaskLosses::RefuseForGood(Task& task, RefusalCode code, const std::string& why) {
  task.refusal = {code, true, why, task.incarnation, chief_.journal.record().run};
  task.state = TaskState::kRefused;
  chief_.context.out.SendTo(task.control, task.refusal);
  // An exit must leave the process time to read why.
  chief_.shutdown.GrantRefusalGrace();
  chief_.failures.Add(task.name, absl::StrCat("refused: ", why));
  chief_.work.Release(task.incarnation);
}

}  // namespace downpour
