// ProgressBoard: how far each job of a list is, without keeping whoever reads the list waiting.
//
//   ProgressBoard board(statuses);
//   board.Want(jobs_of_the_page, job_dir_of);          // waits kFirstLook at most
//   const JobProgress progress = board.Of(job);
//
// Shapes: of a job that is over, what its summary.json holds, read once while somebody wants to know. Of one that runs,
//   what its chief said last. A thread asks the chiefs in turn while somebody wants to know, and sleeps otherwise.
// Errors: a summary that cannot be read counts as none, and is read again at the next Want.
// Cost: what nobody has wanted for `wanted_for` is forgotten at the next Want. A chief that does not answer keeps
//   the others' news back for some seconds, and no reader.
// Threads: any.
// Tests: tests/unit/service/progress_board_test.cc, tests/process/test_page.py.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "service/chief_statuses.h"
#include "service/job.h"

namespace downpour {

struct JobProgress {
  MaybeNumber done = {};                     // of 1
  MaybeNumber elapsed = {}, remaining = {};  // seconds
  MaybeNumber loss = {}, accuracy = {};      // of the newest evaluation; without one, the training loss
};
JobProgress ProgressIn(const StatusReport& status);
JobProgress ProgressIn(const SummaryReport& summary);

class ProgressBoard {
 public:
  static constexpr auto kAskEvery = std::chrono::seconds(1);
  static constexpr auto kWantedFor = std::chrono::seconds(10);
  static constexpr auto kFirstLook = std::chrono::milliseconds(200);

  explicit ProgressBoard(ChiefStatuses& statuses, std::chrono::milliseconds wanted_for = kWantedFor)
      : statuses_(statuses), wanted_for_(wanted_for), asks_([this] { Ask(); }) {}
  ~ProgressBoard();

  void Want(const std::vector<Job>& jobs, const std::function<std::string(const Job&)>& job_dir_of);
  JobProgress Of(const Job& job) const;

 private:
  using Clock = std::chrono::steady_clock;
  struct Entry {
    JobProgress progress;
    bool known = false;  // its chief was asked, or its summary was read or is not there
    Clock::time_point wanted_until{};
    struct Run {
      Job job;
      std::string job_dir;
    };
    std::optional<Run> run;  // of one that runs
  };
  void Ask();
  void ForgetTheUnwanted();
  bool HasWork() const;
  bool AllKnown(const std::vector<std::string>& keys) const;

  ChiefStatuses& statuses_;
  const std::chrono::milliseconds wanted_for_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool ends_ = false;
  std::map<std::string, Entry> entries_;  // by RunKey
  std::thread asks_;
};

}  // namespace downpour
