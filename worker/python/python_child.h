// The user's Python code in a process of its own: `python3 -m downpour.child`, with `work`, which computes and nothing
// else, or `serve`, which answers predictions.
//
//   auto child = PythonChild::Start({.interpreter = "python3"}, job.python, "/tmp/code", {.bytes = bytes});
//   absl::StatusOr<nlohmann::json> ready = (*child)->Receive("ready");
//   std::memcpy((*child)->memory().get(), ...);          // which it sees too
//   absl::StatusOr<nlohmann::json> answer = (*child)->Ask({{"train", ...}}, "trained");
//
// Shapes: each message is its length in 4 bytes, little-endian, and then so much JSON, at most kMostQuestionBytes.
// Order: one question at a time. The child dies with this object and with this process, and all of its group with it.
// Errors: ABORTED with what the user's code raised, and where: the innermost call first, in one line; and where it
//   spoilt its channel. CANCELLED where that code ended in good order; UNAVAILABLE with how the process ended, where it
//   did; INVALID_ARGUMENT where it refuses what it was given; DEADLINE_EXCEEDED where it has not answered when AnswerBy
//   says so. After any the child is of no more use.
// Threads: one.
// Tests: tests/unit/worker/python_child_test.cc, tests/process/test_python.py; of the child itself:
//   tests/python/test_child.py.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "job/job.h"
#include "runtime/posix/fd.h"
#include "runtime/process/child.h"
#include "runtime/process/group_guard.h"
#include "worker/python/shared_bytes.h"

namespace downpour {

struct PythonOptions {
  std::string interpreter = "python3";                                // a path, or a name that PATH finds
  std::string code_folder = "";                                       // of CodeCache
  std::vector<std::pair<std::string, std::string>> environment = {};  // of its own, beside this process's
  std::string chief = "";                                             // HOST:PORT, for TF_CONFIG
  bool has_tf_config = false;                                         // this process's own, which it keeps
  std::string task = "";                                              // worker-2
  double patience = 30;                                               // seconds of one call, until it says where it is
  bool serves = false;                                                // answers predictions, and trains nothing
  int out = -1;                                                       // gets what it prints; -1: this process's stderr
  int stop = -1;  // once this can be read, no answer is waited for any more; -1: there is no such thing
};

// Lets Python code read files by the tool that came with this program (downpour.data), unless the environment names
// another one.
void NameTool(ChildSpec* spec);

class PythonChild {
 public:
  // Bytes that are shared, all zero at first.
  struct Sizes {
    size_t bytes = 0;
    size_t row_bytes = 0;  // apart from these; 0: there are no tables
  };
  // `folder`: that the module is imported from; what it needs is installed beside it.
  static absl::StatusOr<std::unique_ptr<PythonChild>> Start(const PythonOptions& options, const PythonSpec& code,
                                                            const std::string& folder, Sizes sizes);
  // With memory that others have too. `rows` may be empty.
  static absl::StatusOr<std::unique_ptr<PythonChild>> Start(const PythonOptions& options, const PythonSpec& code,
                                                            const std::string& folder, const SharedBytes& memory,
                                                            const SharedBytes& rows);
  ~PythonChild();
  PythonChild(const PythonChild&) = delete;
  PythonChild& operator=(const PythonChild&) = delete;

  // Of one that has ended: the signal that others sent, SIGKILL or SIGTERM; else 0. One that crashes sends itself
  // another.
  int killed_by() const { return killed_by_; }
  // What it last raised came before anything was asked of it, as behind the first batch of a loop.
  bool failed_unasked() const { return failed_unasked_; }
  pid_t pid() const { return pid_; }  // 0: it has ended, and was heard to
  const std::shared_ptr<std::byte>& memory() const { return memory_.at(); }
  std::byte* row_memory() const { return row_memory_.at().get(); }
  bool HasEnded() const;  // its process, whether or not that was heard
  // From now on answers are waited for until then; nothing: for however long.
  void AnswerBy(std::optional<std::chrono::steady_clock::time_point> time) { deadline_ = time; }
  // Of the last one in Receive: where the code is that takes its time.
  const std::string& last_warning() const { return last_warning_; }
  // What it says unasked: the value of `kind`. Its warnings, which may come before that, go into the log. So may words
  // on what it is at before the user's code runs, which `on_preparing` gets.
  using OnPreparing = std::function<void(const std::string& what, const std::string& waiting_for)>;
  absl::StatusOr<nlohmann::json> Receive(const std::string& kind, const OnPreparing& on_preparing = {});
  absl::StatusOr<nlohmann::json> Ask(const nlohmann::json& question, const std::string& kind);
  absl::StatusOr<nlohmann::json> AskText(std::string_view question, const std::string& kind);
  // Asks for what stands behind fit() and waits, for however long, until the process has ended. OK: with exit code 0.
  // ABORTED: what that code raised, or how it ended otherwise; UNAVAILABLE where others killed it.
  absl::Status Finish(const nlohmann::json& question);

 private:
  PythonChild(UniqueFd channel, SharedBytes memory, SharedBytes row_memory, pid_t pid, int stop);
  bool Await(short events);
  bool ReadAll(void* to, size_t bytes);
  bool WriteAll(const void* from, size_t bytes);
  absl::Status HowItEnded();
  absl::Status WhyNothingCame();
  absl::StatusOr<nlohmann::json> ReceiveMessage();

  UniqueFd channel_;
  SharedBytes memory_;
  SharedBytes row_memory_;
  pid_t pid_;
  const int stop_;
  std::optional<std::chrono::steady_clock::time_point> deadline_;
  bool is_late_ = false;  // it has not answered by then
  std::string last_warning_;
  int killed_by_ = 0;
  bool failed_unasked_ = false;
  bool finishing_ = false;   // what stands behind fit(), which may do with its channel as it likes
  bool ended_well_ = false;  // with exit code 0
  UniqueFd life_;            // readable once the process has ended: others may have its end of the channel
  GroupGuard guard_;         // of what its code starts
};

}  // namespace downpour
