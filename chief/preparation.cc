#include "chief/preparation.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "schema/text.h"

namespace downpour {

void Preparation::Begin(const Started& started, std::function<void(const Startup::Outcome&)> decline) {
  chief_.context.started = chief_.context.now;
  chief_.context.ran_before = chief_.options.ran_before;
  chief_.context.started_unix_ms = started.unix_ms;
  chief_.context.boot = started.boot;
  chief_.life.endpoint = started.endpoint;
  chief_.startup.Run(started, [this, decline = std::move(decline)](const Startup::Outcome& outcome) {
    if (!outcome.why.empty()) return decline(outcome);
    Lead(outcome);
  });
}

void Preparation::Lead(const Startup::Outcome& outcome) {
  JobSpec& job = chief_.job;
  job.training.earlier = outcome.earlier;
  // The term is durable by now, so every name that is made of it is new (conversation 11).
  chief_.life.term = outcome.term;
  chief_.members.Begin(chief_.context.now, outcome.term, chief_.journal.record().run);
  for (const CheckpointStore::Damaged& damaged : chief_.store.damaged()) chief_.failures.Add("chief", damaged.why);
  chief_.context.out.Info(absl::StrCat("job ", job.name, " waits for its tasks at ", chief_.life.endpoint, " (term ",
                                       chief_.life.term, ")"));
  for (const std::string& finding : outcome.findings) chief_.failures.Add("chief", finding);
  chief_.life.changes = outcome.changes;
  for (const std::string& change : outcome.changes)
    chief_.context.out.Info("changed since the job was last led: " + change);
  if (const uint32_t scaled = chief_.journal.record().workers; scaled != 0) {
    chief_.members.SetWorkerCount(scaled);
    chief_.members.DropRetired();
    chief_.context.out.Info(absl::StrCat("the job was scaled to ", Counted(scaled, "worker"), "; its file says ",
                                         job.cluster.worker_count));
  }
  chief_.life.goes_on = outcome.goes_on;
  if (outcome.goes_on) {
    chief_.failures.Add("chief", "it was started again; slices that a ps still holds go on");
    chief_.life.placed_before = chief_.journal.record().data.has_value();
    if (chief_.life.placed_before) chief_.recovery.Expect(outcome.servers_before);
  }
  sources_ = outcome.sources;
  initial_ = outcome.initial;
  lost_ = outcome.lost;
  if (!lost_.empty()) chief_.rounds.NoteLoss(lost_);
  const JobRecord& record = chief_.journal.record();
  if (record.data) {
    const bool of_checkpoint = !sources_.empty() && DataOf(sources_.front()) == *record.data;
    chief_.data.Recall(*record.data,
                       of_checkpoint      ? absl::StrCat("checkpoint ", ToString(sources_.front().round))
                       : sources_.empty() ? "the job was begun with"
                                          : "the job was resumed with",
                       record.data_grow);
  }
  if (!sources_.empty()) return Resume();
  if (chief_.options.resume && !outcome.goes_on) {
    chief_.context.out.Info("there is no checkpoint to go on from: the job begins again");
  }
}

void Preparation::Resume() {
  const Manifest& newest = sources_.front();
  const Round known = chief_.journal.record().newest;
  if (known > chief_.store.newest()) {
    chief_.failures.Add("chief",
                        absl::StrCat(chief_.store.WhyNot(known), "; the job continues from an older checkpoint"));
  }
  chief_.resumed.Open(chief_.data.plan(), newest.committed);
  chief_.rounds.Resume(newest);
  chief_.context.out.Info(absl::StrCat("the newest checkpoint is ", CheckpointDir(newest.round)));
}

absl::StatusOr<bool> Preparation::Advance() {
  const bool servers_here = chief_.placement.placed() || chief_.members.AllAlive(TaskRole::kPs);
  if (chief_.data.fixed()) {
    chief_.journal.record().data = chief_.data.shape();
    chief_.journal.record().data_grow = false;
    chief_.journal.Advance();
  }
  // Conversation 11: the journal has the data before slices are placed for them.
  if (servers_here && !chief_.placement.placed() && chief_.data.fixed() && chief_.journal.durable()) {
    chief_.assignment.Place(chief_.life.term, chief_.members.Alive(TaskRole::kPs), chief_.data.shape().train_examples,
                            {std::exchange(sources_, {}), lost_, std::exchange(initial_, std::nullopt)});
    chief_.recovery.Placed();
  }
  const std::vector<Task*> workers = chief_.members.Alive(TaskRole::kWorker);
  if (chief_.life.state == JobState::kCancelling) return chief_.restore.complete();  // nobody is to train any more
  chief_.life.state = servers_here && !workers.empty() ? JobState::kPreparing : JobState::kQueued;
  const bool data_here = std::any_of(workers.begin(), workers.end(), [](const Task* task) { return task->data_good; });
  if (data_here) return chief_.restore.complete();
  if (absl::Status status = CheckSomebodyMayHaveData(); !status.ok()) return status;
  return false;
}

absl::Status Preparation::CheckSomebodyMayHaveData() const {
  const auto& refused = chief_.data.refused();
  for (const Task& task : chief_.members.tasks()) {
    const bool may_have_it = task.role == TaskRole::kWorker && !chief_.members.IsRetired(task);
    if (may_have_it && !refused.contains(task.name)) return absl::OkStatus();
  }
  // Other data stay other data; whoever lacked room or could not read may be luckier the next time.
  auto why = std::find_if(refused.begin(), refused.end(),
                          [](const auto& task) { return !absl::IsFailedPrecondition(task.second); });
  if (why == refused.end()) why = refused.begin();
  return absl::Status(why->second.code(), "no worker can prepare for the job: " + MessageOf(why->second));
}

}  // namespace downpour
