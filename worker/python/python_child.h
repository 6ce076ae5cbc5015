// The user's Python code in a process of its own: `python3 -m downpour.child work`, which computes and nothing else.
//
//   auto child = PythonChild::Start({.interpreter = "python3"}, job.python, "/tmp/code", {.bytes = bytes});
//   absl::StatusOr<nlohmann::json> ready = (*child)->Receive("ready");
//   std::memcpy((*child)->memory().get(), ...);          // which it sees too
//   absl::StatusOr<nlohmann::json> answer = (*child)->Ask({{"train", ...}}, "trained");
//
// Shapes: each message is its length in 4 bytes, little-endian, and then so much JSON, at most kMostQuestionBytes. The
//   memory can neither grow nor shrink, whatever the child does with it. It lives on while somebody holds it.
// Order: one question at a time. The child dies with this object and with this process, and all of its group with it.
// Errors: ABORTED with what the user's code raised, and where: the innermost call first, in one line; and where it
//   spoilt its channel. CANCELLED where that code ended in good order; UNAVAILABLE with how the process ended, where it
//   did; INVALID_ARGUMENT where it refuses what it was given. After any the child is of no more use.
// Threads: one.
// Tests: tests/unit/worker/python_child_test.cc, tests/process/test_python.py; of the child itself:
//   tests/python/test_child.py.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "job/job.h"
#include "runtime/posix/fd.h"
#include "runtime/process/group_guard.h"

namespace downpour {

struct PythonOptions {
  std::string interpreter = "python3";                                // a path, or a name that PATH finds
  std::string code_folder = "";                                       // of CodeCache
  std::vector<std::pair<std::string, std::string>> environment = {};  // of its own, beside this process's
  std::string chief = "";                                             // HOST:PORT, for TF_CONFIG
  bool has_tf_config = false;                                         // this process's own, which it keeps
  std::string task = "";                                              // worker-2
  double patience = 30;                                               // seconds of one call, until it says where it is
};

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
  ~PythonChild();
  PythonChild(const PythonChild&) = delete;
  PythonChild& operator=(const PythonChild&) = delete;

  // Of one that has ended: the signal that others sent, SIGKILL or SIGTERM; else 0. One that crashes sends itself
  // another.
  int killed_by() const { return killed_by_; }
  // What it last raised came before anything was asked of it, as behind the first batch of a loop.
  bool failed_unasked() const { return failed_unasked_; }
  pid_t pid() const { return pid_; }  // 0: it has ended, and was heard to
  const std::shared_ptr<std::byte>& memory() const { return memory_; }
  std::byte* row_memory() const { return row_memory_.get(); }
  // What it says unasked: the value of `kind`. Its warnings, which may come before that, go into the log. So may words
  // on what it is at before the user's code runs, which `on_preparing` gets.
  using OnPreparing = std::function<void(const std::string& what, const std::string& waiting_for)>;
  absl::StatusOr<nlohmann::json> Receive(const std::string& kind, const OnPreparing& on_preparing = {});
  absl::StatusOr<nlohmann::json> Ask(const nlohmann::json& question, const std::string& kind);
  // Asks for what stands behind fit() and waits, for however long, until the process has ended. OK: with exit code 0.
  // ABORTED: what that code raised, or how it ended otherwise; UNAVAILABLE where others killed it.
  absl::Status Finish(const nlohmann::json& question);

 private:
  PythonChild(UniqueFd channel, std::shared_ptr<std::byte> memory, std::shared_ptr<std::byte> row_memory, pid_t pid);
  bool Await(short events) const;
  bool ReadAll(void* to, size_t bytes) const;
  bool WriteAll(const void* from, size_t bytes) const;
  absl::Status HowItEnded();
  absl::StatusOr<nlohmann::json> ReceiveMessage();

  UniqueFd channel_;
  std::shared_ptr<std::byte> memory_;
  std::shared_ptr<std::byte> row_memory_;
  pid_t pid_;
  int killed_by_ = 0;
  bool failed_unasked_ = false;
  bool finishing_ = false;   // what stands behind fit(), which may do with its channel as it likes
  bool ended_well_ = false;  // with exit code 0
  UniqueFd life_;            // readable once the process has ended: others may have its end of the channel
  GroupGuard guard_;         // of what its code starts
};

}  // namespace downpour
