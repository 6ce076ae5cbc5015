#include "chief/evaluation_schedule.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

namespace downpour {

void EvaluationSchedule::Begin(uint64_t eval_examples) {
  // With ssp and sync a lease is one step, too short for a part: each part is granted again until it is answered.
  const TrainingSpec& training = chief_.job.training;
  const int64_t part =
      std::max(training.lease_batches, training.consistency == Consistency::kAsync ? 1 : TrainingSpec().lease_batches);
  chief_.evaluation =
      Evaluation(eval_examples, training.batch_size, part, training.metrics, chief_.job.data.counts_weights());
  evaluated_epochs_ = chief_.ledger.EpochsCommitted();
  // Of values that are lost: a chief after this one may find every lease committed again.
  if (!chief_.ledger.AllCommitted()) chief_.journal.record().evaluated.clear();
  std::optional<Evaluation::Result> known = Evaluation::ResultOf(chief_.journal.record().evaluated);
  if (!known) return;
  chief_.evaluation.Recall(*std::move(known));
  final_begun_ = true;
}

void EvaluationSchedule::Advance() {
  const uint64_t epochs = chief_.ledger.EpochsCommitted();
  if (chief_.ledger.AllCommitted()) {
    if (final_begun_) return;
    final_begun_ = true;
    chief_.evaluation.Begin(epochs, /*values_frozen=*/true);
    return chief_.work.Dispatch();
  }
  const auto every = static_cast<uint64_t>(chief_.job.training.evaluate_every_epochs);
  if (every == 0 || chief_.evaluation.active() || epochs / every * every <= evaluated_epochs_) return;
  evaluated_epochs_ = epochs;
  chief_.evaluation.Begin(epochs, /*values_frozen=*/false);
  chief_.work.Dispatch();
}

// It began with leases that are open again; the last one must be of all of them.
void EvaluationSchedule::Reopen() {
  chief_.evaluation.Abandon();
  chief_.journal.record().evaluated.clear();
  final_begun_ = false;
}

bool EvaluationSchedule::Diverged() const {
  const auto& result = chief_.evaluation.result();
  return chief_.job.data.has_eval() && result && !std::isfinite(result->loss);
}

}  // namespace downpour
