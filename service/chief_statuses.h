// ChiefStatuses: what the chiefs of running jobs say, asked once for all who look at about the same time.
//
//   ChiefStatuses statuses;
//   const absl::StatusOr<SharedAnswer> answer = statuses.Of(job, job_dir);
//   if (answer.ok() && (*answer)->status) ...(*answer)->json...
//
// Shapes: an answer is at most `fresh` old when it is given.
// Order: who asks for one job waits for the question that is under way, and shares what it brings. Nobody waits for
//   another job's chief.
// Cost: one connection to each chief of whom somebody wanted to know within kKept. To dial, and to agree on keys, costs
//   more than to ask.
// Errors: those of StatusAsker. An error goes to those that wait for it. Who comes later dials again.
// Threads: any.
// Tests: tests/unit/service/chief_statuses_test.cc, tests/process/test_page.py.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "cluster/status_source.h"
#include "service/job.h"

namespace downpour {

using SharedAnswer = std::shared_ptr<const Answer>;

// Names a run of a job. A job's name may be used again once the job is deleted.
std::string RunKey(const Job& job);

class ChiefStatuses {
 public:
  static constexpr auto kFresh = std::chrono::milliseconds(250);
  static constexpr auto kKept = std::chrono::seconds(10);

  explicit ChiefStatuses(std::chrono::milliseconds fresh = kFresh) : fresh_(fresh) {}
  absl::StatusOr<SharedAnswer> Of(const Job& job, const std::string& job_dir);

 private:
  using Clock = std::chrono::steady_clock;
  struct Chief {
    std::mutex asking;  // held while it is asked
    std::optional<StatusAsker> asker;
    absl::StatusOr<SharedAnswer> said = absl::UnavailableError("it has not been asked yet");
    Clock::time_point said_at{};
    Clock::time_point wanted_at{};  // of `mutex_`
  };
  std::shared_ptr<Chief> Find(const std::string& key);

  const std::chrono::milliseconds fresh_;
  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<Chief>> chiefs_;
};

}  // namespace downpour
