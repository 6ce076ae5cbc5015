#include "chief/training.h"

#include <cstddef>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "schema/text.h"

namespace downpour {

void Training::Begin() {
  const Time now = chief_.context.now;
  const TrainingSpec& training = chief_.job.training;
  std::optional<size_t> most_copies;
  if (training.consistency != Consistency::kAsync) most_copies = static_cast<size_t>(training.backup_workers);
  // core 1: the ledger begins with what slices report, and with nothing else.
  chief_.ledger.Open(chief_.data.plan(), chief_.restore.TakeFinished(), most_copies);
  chief_.ledger.NoteBegun(chief_.restore.leases_begun());
  chief_.ledger.EndAfter(chief_.journal.record().early.epochs);
  ledger_current_ = true;
  const uint64_t before = chief_.journal.batches_committed();  // under another chief
  if (const uint64_t now_held = chief_.ledger.batches_committed(); before > now_held) Recompute(before - now_held);
  chief_.evaluations.Begin(chief_.job.data.has_eval() ? chief_.data.shape().eval_examples : 0);
  chief_.progress.Begin(now, chief_.ledger.examples_committed());
  chief_.progress.NoteEpochs(chief_.ledger.EpochsCommitted());
  chief_.learning = LearningWatch::OfJob(chief_.job, chief_.data.plan().train_examples());
  chief_.checkpoints.Begin();
  for (const Task* worker : chief_.members.Alive(TaskRole::kWorker)) SendPlacement(*worker);
  chief_.context.out.Info(
      absl::StrCat("runs: ", chief_.ledger.committed().Count(), " of ", chief_.ledger.goal(), " leases are committed"));
}

void Training::SendPlacement(const Task& worker) {
  // Conversation 5: not before every slice has reported where it is now.
  const bool is_new = worker.placement_number < chief_.placement.number();
  if (!chief_.life.runs() || !ledger_current_ || !worker.data_good || !is_new) return;
  chief_.context.out.SendTo(worker.control, chief_.assignment.ToPlacement(worker.incarnation));
}

void Training::AnswerReader(PeerId reader, const PlacementRequest& asked) {
  Placement placement;
  if (chief_.life.runs() && ledger_current_) {
    if (asked.term == chief_.placement.term() && asked.number == chief_.placement.number()) {
      placement = {.number = asked.number, .term = asked.term, .servers = {}, .slices = {}};
    } else {
      placement = chief_.assignment.ToPlacement(Incarnation::kNone);
      placement.job = chief_.journal.record().job;
    }
  }
  chief_.context.out.SendTo(reader, std::move(placement));
}

void Training::Tick() {
  UpdateTaskStates();
  if (!chief_.work.any()) chief_.progress.Move(chief_.context.now);  // nobody stands still who has nothing to do
}

void Training::UpdateTaskStates() {
  for (const auto& [id, server] : chief_.placement.servers()) {
    Task* task = chief_.members.FindAlive(id.incarnation);
    if (task == nullptr || chief_.restore.MissingOf(id).slices != 0) continue;
    const bool was_running = std::exchange(task->state, TaskState::kRunning) == TaskState::kRunning;
    if (!was_running) task->stats.waiting_for.clear();  // its last heartbeat may still wait for its slices
  }
  for (Task* worker : chief_.members.Alive(TaskRole::kWorker)) {
    const bool placed = chief_.restore.complete() && worker->placement_number >= chief_.placement.number();
    worker->state = worker->data_good && placed ? TaskState::kRunning : TaskState::kPreparing;
  }
}

void Training::WriteJournal() {
  if (ledger_current_) chief_.journal.NoteCommitted(chief_.ledger.batches_committed());
  chief_.journal.Advance();
}

// The ledger is a cache of what slices say. That becomes less by a restore, or if a worker reported what was not so.
void Training::FollowReports() {
  if (const IntervalSet lacking = chief_.rounds.TakeLacking(); !lacking.empty()) {
    // No slice went back: they were never computed, or not on every slice.
    const uint64_t batches = Reopen(chief_.ledger.committed().Except(lacking));
    if (batches > 0) {
      chief_.failures.Add("chief", absl::StrCat("a slice lacks ", Counted(batches, "batch"),
                                                ", reported by a worker as done: open again"));
    }
  }
  if (!chief_.life.runs() || std::exchange(ledger_current_, chief_.restore.complete()) || !ledger_current_) return;
  chief_.best.ForgetEvaluations();
  if (const uint64_t batches = Reopen(chief_.restore.TakeFinished()); batches > 0) Recompute(batches);
  chief_.ledger.NoteBegun(chief_.restore.leases_begun());  // a record may have more than this chief knew of
  for (const Task* worker : chief_.members.Alive(TaskRole::kWorker)) SendPlacement(*worker);
  chief_.work.Dispatch();
}

uint64_t Training::Reopen(const IntervalSet& finished) {
  const IntervalSet reopened = chief_.ledger.Restrict(finished);
  if (reopened.empty()) return 0;
  chief_.evaluations.Reopen();
  chief_.checkpoints.Reopen();
  chief_.work.Dispatch();
  return chief_.ledger.plan().BatchesIn(reopened);
}

void Training::Recompute(uint64_t batches) {
  chief_.journal.costs().batches_recomputed += batches;
  chief_.failures.Add("chief",
                      absl::StrCat("a slice lacks ", Counted(batches, "batch"), ", committed before: computed again"));
}

}  // namespace downpour
