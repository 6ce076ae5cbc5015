#include "chief/best_checkpoint.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "chief/checkpoint_rounds.h"
#include "chief/folder/journal.h"
#include "chief/known/evaluation.h"
#include "chief/known/job_life.h"
#include "runtime/metrics.h"
#include "schema/text.h"

namespace downpour {

void BestCheckpoint::Begin() {
  begun_ = true;
  if (const auto& durable = chief_.rounds.durable()) seen_ = durable->round;
  BestRecord& best = chief_.journal.record().best;
  if (best == BestRecord()) return;
  const std::vector<Manifest>& valid = chief_.store.valid();
  const bool is_there =
      std::any_of(valid.begin(), valid.end(), [&](const Manifest& manifest) { return manifest.round == best.round; });
  if (!is_there) {
    chief_.failures.Add("chief", absl::StrCat("the best checkpoint, ", ToString(best.round),
                                              ", is lost: ", chief_.store.WhyNot(best.round)));
  }
  if (!is_there || best.metric != chief_.job.checkpoint.best) best = BestRecord();
}

void BestCheckpoint::Observe() {
  if (!chief_.life.ready()) return;
  if (!begun_) Begin();
  if (chief_.job.checkpoint.best != kNoBest) {
    TakeEvaluation();
    TakeRound();
    Choose();
  }
  Pin();
}

void BestCheckpoint::TakeEvaluation() {
  const Evaluation& evaluation = chief_.evaluation;
  const auto& result = evaluation.result();
  if (!candidates_.empty() && !candidates_.back().value) {
    Candidate& last = candidates_.back();
    if (!evaluation.active() && result && result->round == last.evaluation) {
      last.value = ValueOf(chief_.job.checkpoint.best, *result);
      last.evaluated = {result->oldest_version, result->newest_version};
    } else if (evaluation.active() && evaluation.frozen() && last.frozen) {
      last.evaluation = evaluation.round();  // begun again: values stand still meanwhile
    } else if (evaluation.round() != last.evaluation || !evaluation.active()) {
      candidates_.pop_back();  // begun again later, or abandoned
    }
  }
  const bool is_known = !candidates_.empty() && candidates_.back().evaluation == evaluation.round();
  if (is_known || !evaluation.on_values()) return;
  candidates_.push_back({.evaluation = evaluation.round(),
                         .frozen = evaluation.frozen(),
                         .epoch = evaluation.epoch(),
                         .after = chief_.rounds.newest(),
                         .value = {},
                         .round = {}});
  const auto every = chief_.job.checkpoint.every;
  const bool wants_rounds = !every || *every > Duration::zero();
  if (wants_rounds && !evaluation.frozen()) chief_.interval.WantRound();  // at the end there is one anyway
}

void BestCheckpoint::TakeRound() {
  const auto& durable = chief_.rounds.durable();
  if (!durable || durable->round == seen_) return;
  seen_ = durable->round;
  const auto owner =
      std::find_if(candidates_.rbegin(), candidates_.rend(), [&](const Candidate& c) { return c.after < seen_; });
  if (owner == candidates_.rend() || owner->round) return;
  owner->round = seen_;
  owner->kept = durable->versions;
}

bool BestCheckpoint::IsBetter(double value) const {
  const BestRecord& best = chief_.journal.record().best;
  if (!std::isfinite(value) || best == BestRecord()) return std::isfinite(value);
  const std::vector<MetricSpec>& metrics = chief_.job.training.metrics;
  return Shortfall(metrics, best.metric, value) < Shortfall(metrics, best.metric, best.value);
}

// Whether a round of its own is under way or may yet begin.
bool BestCheckpoint::MayGetRound(size_t candidate) const {
  if (candidate + 1 == candidates_.size()) return true;
  const Round newest = chief_.rounds.newest();
  return chief_.rounds.active() && newest > candidates_[candidate].after && newest <= candidates_[candidate + 1].after;
}

void BestCheckpoint::Choose() {
  for (size_t i = 0; i < candidates_.size();) {
    const Candidate& candidate = candidates_[i];
    const bool is_over = candidate.value && (candidate.round || !IsBetter(*candidate.value));
    if (is_over && candidate.round && IsBetter(*candidate.value)) {
      const std::string& metric = chief_.job.checkpoint.best;
      const BestRecord best = {*candidate.round,    metric,        *candidate.value, candidate.epoch,
                               candidate.evaluated, candidate.kept};
      chief_.journal.record().best = best;
      chief_.context.out.Info(absl::StrFormat("checkpoint %s is the best so far: %s %.4g after %s%s",
                                              ToString(best.round), metric, best.value, Counted(best.epoch, "epoch"),
                                              DescribeVersions(best.evaluated, best.kept)));
    }
    const bool stays = i + 1 == candidates_.size();  // so that its evaluation is not taken for another one
    if (!stays && (is_over || (!candidate.round && !MayGetRound(i)))) {
      candidates_.erase(candidates_.begin() + static_cast<ptrdiff_t>(i));
    } else {
      ++i;
    }
  }
}

// The journal on disk may name others than the record does, until it is written.
void BestCheckpoint::Pin() {
  std::set<Round> pinned = chief_.journal.best_on_disk();
  pinned.insert(chief_.journal.record().best.round);
  for (const Candidate& candidate : candidates_) {
    if (candidate.round && !candidate.value) pinned.insert(*candidate.round);
  }
  pinned.erase(Round());
  chief_.rounds.Pin(pinned);
}

}  // namespace downpour
