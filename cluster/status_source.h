// Where a verb asks for a job's status: of a chief by its address, or of a job folder, which knows its chief and
// outlives it.
//
// Tests: tests/unit/cluster/status_source_test.cc.
#pragma once

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "cluster/chief_client.h"
#include "cluster/status_view.h"

namespace CLI {
class App;
}

namespace downpour {

struct StatusSource {
  std::string chief;      // HOST:PORT; or
  std::string job_dir;    // with chief.json in it
  std::string keys = {};  // their folder, before KeysFolder (runtime/posix/keys.h)
};

// Declares --keys, and --chief and --job-dir, of which exactly one must be given.
void AddSourceOptions(CLI::App& app, StatusSource* source);

struct Answer {
  std::string json;
  std::optional<StatusReport> status;    // the chief spoke; or
  std::optional<SummaryReport> summary;  // the job is over, and this is how it ended
  bool is_elsewhere = false;             // the chief's host is another one, with its folders
};

// Asks again and again over one connection, over which the chief also says unasked how the job ended. Having heard from
// a chief of this host where its folder is, it finds the summary there once the chief has gone. Where a `downpour run`
// holds the folder a chief that does not answer is waited for, some seconds: it is being started, or started again.
class StatusAsker {
 public:
  // `again_in`: how long after each answer it is asked again. 0: once.
  explicit StatusAsker(StatusSource source, Duration again_in = Duration::zero())
      : source_(std::move(source)), again_in_(again_in), job_dir_(source_.job_dir) {}
  ~StatusAsker();

  // Errors: UNAVAILABLE with advice where no chief answers and no summary tells the end: of a folder of this host whose
  // chief was killed, what it left and how to go on; UNAUTHENTICATED where the chief
  // wants a secret, or chief.json is another user's; FAILED_PRECONDITION where the chief refuses else; what LoadKeys
  // (runtime/posix/keys.h) refuses of a folder of keys; INVALID_ARGUMENT for an address in `source` that is none;
  // DATA_LOSS for what the chief or the folder says and nobody can read; NOT_FOUND where another run answers than
  // before.
  absl::StatusOr<Answer> Ask();
  // Lasts `again_in`, or until the chief says how the job ended.
  void Pause();
  // Whether a chief has answered yet.
  bool has_heard() const { return heard_.has_value(); }

  // To the chief that gave the last Answer. Errors: those of ChiefClient::Tell; UNAVAILABLE where none did.
  absl::StatusOr<ControlReply> Tell(const Control& command);

 private:
  absl::StatusOr<Answer> AskOnce();
  absl::StatusOr<Answer> AskChief();
  absl::Status CheckRun(const StatusReport& status, const std::string& endpoint);

  const StatusSource source_;
  const Duration again_in_;
  bool knows_end_ = false;
  struct Heard {
    std::string job;
    std::string run;  // empty: its chief did not know it yet
  };
  std::optional<Heard> heard_;  // whom it asks for since a chief answered
  std::string job_dir_;         // empty: not known
  std::optional<ChiefClient> chief_;
};

// Of who looked on until a job was over: 0 where it succeeded, 124 where it was out of time, else 1. `chiefs`: the exit
// code of its chief, as far as it was told.
int ExitCodeOfEnd(const std::string& state, const MaybeCount& chiefs);

// 69 where the chief cannot be reached, wants a secret or leads another run, 2 for a bad address, 1 for the rest.
int ExitCodeOf(const absl::Status& status);

}  // namespace downpour
