#include "chief/checkpoint_schedule.h"

#include <algorithm>
#include <utility>

#include "job/job_file.h"

namespace downpour {

void CheckpointSchedule::Begin() {
  chief_.interval.Begin(chief_.context.now, SinceLast(), chief_.journal.checkpoint_history());
}

// By the clock, which may be wrong: within a day.
Duration CheckpointSchedule::SinceLast() const {
  if (!chief_.life.goes_on) return {};
  const auto& durable = chief_.rounds.durable();
  const int64_t last = std::max(chief_.journal.record().began_unix_ms, durable ? durable->unix_ms : 0);
  const auto since = std::chrono::milliseconds(chief_.context.UnixMs()) - std::chrono::milliseconds(last);
  return std::clamp<Duration>(since, Duration::zero(), std::chrono::hours(24));
}

void CheckpointSchedule::Observe(bool ledger_current) {
  Round& newest = chief_.journal.record().newest;
  if (const auto& durable = chief_.rounds.durable()) newest = std::max(newest, durable->round);
  chief_.best.Observe();
  if (chief_.ledger.is_open()) ObserveRounds(ledger_current);
}

void CheckpointSchedule::ObserveRounds(bool ledger_current) {
  using End = CheckpointInterval::End;
  const bool steady = ledger_current && chief_.recovery.here();
  chief_.interval.Observe({chief_.context.now, chief_.ledger.commits(), chief_.journal.costs().servers_lost, steady,
                           chief_.rounds.collecting()});
  if (chief_.interval.in_round() && !chief_.rounds.active()) {
    const auto& durable = chief_.rounds.durable();
    const bool succeeded = durable && durable->round == chief_.rounds.newest();
    const auto cause = chief_.rounds.last_error_cause();
    const bool stopped = !chief_.rounds.failed() || cause == CheckpointRounds::Cause::kPsGone;
    chief_.interval.RoundEnds(chief_.context.now, succeeded                                 ? End::kDurable
                                                  : stopped                                 ? End::kStopped
                                                  : cause == CheckpointRounds::Cause::kDisk ? End::kDiskFailed
                                                                                            : End::kAbandoned);
  }
  chief_.journal.NoteCheckpoints(chief_.interval.history());
}

// A round of before leases were opened again held them by a record that could not be had when it was needed.
bool CheckpointSchedule::AllDurable() const {
  const auto& durable = chief_.rounds.durable();
  return durable && durable->round.term == chief_.life.term && durable->round.n > rounds_before_reopening_ &&
         chief_.ledger.AllCommitted() && durable->committed.CoversRange(0, chief_.ledger.goal());
}

uint64_t CheckpointSchedule::LeasesInNone() const {
  const auto& durable = chief_.rounds.durable();
  return chief_.ledger.committed().Except(durable ? durable->committed : IntervalSet()).Count();
}

void CheckpointSchedule::Advance() {
  chief_.best.Observe();  // before the round of the values that are evaluated begins
  // A round needs every slice's ps.
  if (!chief_.recovery.here()) return;
  if (chief_.departures.any()) return BeginForDepartures();
  BeginIfDue();
}

void CheckpointSchedule::BeginIfDue() {
  if (chief_.rounds.active() || AllDurable()) return;
  const bool is_last = chief_.ledger.AllCommitted();
  if (is_last && !last_round_begun_) next_last_round_ = chief_.context.now;
  if (is_last ? chief_.context.now < next_last_round_ : !chief_.interval.IsDue(chief_.context.now)) return;
  last_round_begun_ = is_last;
  StartRound();
  // The round that ends the job is tried again soon, whatever `every` says.
  next_last_round_ = chief_.context.now + chief_.timing.dead_after;
}

void CheckpointSchedule::BeginForDepartures() {
  if (!chief_.departures.round_due()) return;
  chief_.rounds.Stop();  // it began before their word, and they have little time
  if (chief_.rounds.active()) return;
  chief_.departures.RoundBegins();
  StartRound();
}

// Urgent is the round that ends the job: workers have nothing more to do then, or will be told to leave in a moment;
// and one that lets a ps go.
void CheckpointSchedule::StartRound() {
  const bool ends_job = chief_.life.state == JobState::kCancelling || chief_.ledger.AllCommitted();
  const bool urgent = ends_job || chief_.departures.any();
  const auto most_skipped = static_cast<uint64_t>(chief_.job.training.max_skipped_pushes);
  chief_.interval.RoundBegins(chief_.context.now, urgent);
  // A5: the name is used up now, whatever becomes of the round.
  chief_.rounds.Start({chief_.life.term, ++rounds_begun_},
                      {CanonicalJob(chief_.job), chief_.data.shape(), chief_.ledger.committed(), most_skipped}, urgent);
}

void CheckpointSchedule::MakeWayForTheLast() {
  chief_.rounds.Stop();  // the last one holds all that this one would, and has little time
  chief_.departures.Clear();
  last_round_begun_ = false;
}

bool CheckpointSchedule::AwaitTheLast() {
  if (!chief_.recovery.here()) return false;
  if (chief_.rounds.active()) return true;
  if (std::exchange(last_round_begun_, true)) return false;
  StartRound();
  return true;
}

}  // namespace downpour
