// PythonPool: processes of the user's Python code that answer predictions, and are started again where they end.
//
//   PythonPool pool(std::move(model), {.processes = 2});
//   if (absl::Status status = pool.Start(); !status.ok()) return status;      // one has answered the warm-up
//   absl::StatusOr<nlohmann::json> predicted = pool.Ask(R"({"predict": {"instances": [1, 2]}})");
//
// Shapes: the messages are those of python/downpour/serving.py. All processes see the same parameters, and each gets
//   the rows of tables that it asks for.
// Order: a process has one question at a time. One that has ended, or was ended, is started again after kLeastPause,
//   and after twice that each time it fails, up to kMostPause. A process whose question it was not loses nothing. A
//   start keeps no other process waiting, however long it takes.
// Cost: a process takes the memory of Python and its libraries; parameters and tables are there once.
// Errors: of Start what the code said, or how its process ended. Of Ask INVALID_ARGUMENT where an instance does not
//   fit, or instances need more rows of tables than there is memory for; INTERNAL with what the code raised and where,
//   and where its process ended; DEADLINE_EXCEEDED with the line where it is after `call`, and its process is killed;
//   UNAVAILABLE where none is there to ask within kPatience, or kMostWaiting wait already, and once End was called.
// Threads: any. Each process is started by a thread of the pool's own and ends with it.
// Tests: tests/unit/predict/python_pool_test.cc, tests/process/test_predictions_python.py.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "job/job.h"
#include "job/slice_grid.h"
#include "predict/python_serving.h"
#include "predict/served_code.h"
#include "predict/table_rows.h"
#include "runtime/posix/fd.h"
#include "worker/python/child_rows.h"
#include "worker/python/python_child.h"
#include "worker/python/shared_bytes.h"

namespace downpour {

class PythonPool {
 public:
  static constexpr std::chrono::milliseconds kLeastPause{250}, kMostPause{30'000}, kPatience{10'000};
  static constexpr int kMostWaiting = 32;
  static constexpr size_t kMostLogBytes = size_t{16} << 20;  // of each of its two parts

  struct Model {
    JobSpec job;
    SliceGrid grid;
    ServedCode code;
    SharedBytes memory;  // with the parameters, as ChildMemory has them
    std::vector<TableRows> tables = {};
  };

  PythonPool(Model model, PythonServing how);
  ~PythonPool();

  // Waits for the first process. Once one has answered it returns at once.
  absl::Status Start();
  // Nobody is answered from now on. What waits for a start ends.
  void End();
  // What the answer has under "predicted".
  absl::StatusOr<nlohmann::json> Ask(std::string_view question);

  const Model& model() const { return model_; }

 private:
  using Clock = std::chrono::steady_clock;
  enum class State { kEnded, kBeingStarted, kFree, kAsked };
  struct Process {
    std::unique_ptr<PythonChild> child = {};
    SharedBytes row_memory = {};
    ChildRows rows = {};
    State state = State::kEnded;
    Clock::time_point start_at = {};      // of one that has ended
    int failures = 0;                     // since it last answered
    absl::Status why = absl::OkStatus();  // it could not be started
    std::thread looks_after;              // starts it whenever it is to be started
  };

  void LookAfter(Process* process);
  void StartAgain(Process* process, std::unique_lock<std::mutex>& hold);
  absl::Status Begin(Process* process) const;
  absl::StatusOr<nlohmann::json> AskChild(Process* process, std::string_view question) const;
  absl::StatusOr<nlohmann::json> BringRows(Process* process, const nlohmann::json& needs, bool* refused) const;
  absl::StatusOr<Process*> Take();
  Process* FindFree();
  void Drop(Process* process);
  bool NoneCanStart() const;
  void OpenLog();
  void TrimLog();

  const Model model_;
  const PythonServing how_;
  UniqueFd stop_;  // an eventfd: readable once the pool ends
  UniqueFd log_;
  std::mutex log_mutex_;  // of who trims the log; never within mutex_, so that nobody waits for the disk
  std::mutex mutex_;
  std::condition_variable changed_;  // processes, and the end
  std::vector<Process> processes_;   // as many from the beginning to the end
  int waiting_ = 0;
  bool has_begun_ = false;  // one has answered the warm-up
  bool ends_ = false;
};

}  // namespace downpour
