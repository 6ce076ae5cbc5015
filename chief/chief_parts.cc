#include "chief/chief_parts.h"

#include <glog/logging.h>

#include <utility>

namespace downpour {
namespace {

SliceGrid CheckedGrid(const JobSpec& job) {
  absl::StatusOr<SliceGrid> grid = GridOf(job.model);
  CHECK(grid.ok()) << grid.status().message();
  return *std::move(grid);
}

}  // namespace

ChiefParts::ChiefParts(ChiefOptions given)
    : options(std::move(given)),
      job(options.job),
      timing(options.timing),
      grid(CheckedGrid(job)),
      storage(context),
      journal(context, storage, timing),
      failures(context, journal.costs()),
      store(storage),
      startup(storage, store, journal, options),
      logs(storage),
      members(job.cluster, timing),
      data(job),
      placement(grid),
      restore(context, storage, members, failures, placement, timing, options.piece_bytes),
      assignment(context, placement, restore),
      rounds(context, storage, members, placement, store, failures, job.checkpoint, timing),
      interval(job.checkpoint),
      best({context, job, life, journal, failures, store, evaluation, rounds, interval}),
      recovery({context, job, timing, journal, failures, store, members, data, placement, assignment, ledger, rounds}),
      departures({context, timing, members, placement, restore, ledger, rounds}),
      work({context, job, timing, life, journal, members, data, placement, restore, ledger, evaluation, rounds,
            interval, progress, learning}),
      view{options, job,     context,    life,   counts,   journal,    failures, members,  data,   placement, restore,
           ledger,  resumed, evaluation, rounds, interval, departures, progress, learning, spares, work,      epilogue},
      shutdown({context, options, job, life, storage, journal, members, rounds, watchers, spares}, view),
      preparation({context, job, options, life, startup, journal, failures, store, members, data, placement, restore,
                   assignment, rounds, resumed, recovery}),
      evaluations({job, journal, ledger, evaluation, work}),
      checkpoints({context, job, timing, life, journal, data, ledger, rounds, interval, best, departures, recovery}),
      training({context, job, life, journal, failures, members, data, placement, restore, assignment, ledger, rounds,
                best, progress, learning, work, evaluations, checkpoints}),
      losses({context, journal, failures, members, recovery, work, shutdown}),
      history({context, job, storage, life, journal, members, ledger, evaluation, progress}),
      epilogue({context, job, timing, journal, storage, members, rounds, evaluation, history.epochs()}),
      lifecycle({context, job, life, members, preparation, training, checkpoints, epilogue, recovery, work, shutdown}),
      commands({context, options, life, counts, journal, members, interval, lifecycle}) {}

}  // namespace downpour
