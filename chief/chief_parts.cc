#include "chief/chief_parts.h"

#include <glog/logging.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_format.h"

namespace downpour {
namespace {

constexpr double kLowerRate = 10;  // by as much, where the model diverged

SliceGrid CheckedGrid(const JobSpec& job) {
  absl::StatusOr<SliceGrid> grid = GridOf(job.model);
  CHECK(grid.ok()) << grid.status().message();
  return *std::move(grid);
}

}  // namespace

ChiefParts::ChiefParts(ChiefOptions given)
    : options(std::move(given)),
      job(options.job),
      grid(CheckedGrid(job)),
      storage(context),
      journal(context, storage, options.timing),
      failures(context, journal.costs()),
      store(storage),
      startup(storage, store, journal, options),
      logs(storage),
      members(job.cluster, options.timing),
      data(job),
      assignment(context, storage, members, failures, grid, options.timing),
      rounds(context, storage, members, assignment, store, failures, job.checkpoint, options.timing),
      interval(job.checkpoint),
      best(*this),
      recovery(*this),
      departures(*this) {}

uint64_t ChiefParts::Epochs() const {
  const auto all = static_cast<uint64_t>(job.training.epochs);
  const uint64_t fewer = journal.record().early.epochs;
  return fewer == 0 ? all : std::min(fewer, all);
}

std::string ChiefParts::LastCheckpoint() const {
  const auto& durable = rounds.durable();
  return durable ? DescribeCheckpoint(durable->round, durable->committed) : "";
}

std::string ChiefParts::CommandToStart() const {
  if (!diverged) return options.command;
  return absl::StrFormat("%s --set training.optimizer.learningRate=%.3g", options.command,
                         job.training.optimizer.learning_rate / kLowerRate);
}

const char* NameOf(JobState state) {
  switch (state) {
    case JobState::kQueued:
      return "QUEUED";
    case JobState::kPreparing:
      return "PREPARING";
    case JobState::kRunning:
      return "RUNNING";
    case JobState::kSucceeded:
      return "SUCCEEDED";
    case JobState::kFailed:
      return "FAILED";
    case JobState::kCancelling:
      return "CANCELLING";
    case JobState::kCancelled:
      return "CANCELLED";
  }
  return "?";
}

}  // namespace downpour
