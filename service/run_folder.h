// RunFolder: how a job's run is started so that it outlives the service, and what is there of it later.
//
//   RunFolder folder(root + "/jobs/wd1");
//   folder.Start({"/opt/downpour", "run", ...});   // returns at once
//   RunSeen seen = folder.Look();                  // also after the service was killed, by another one
//   folder.Stop();                                 // SIGTERM: one last checkpoint, and the end
//
// Shapes: JOB_DIR/service holds
//   lock      held by the shim and by all that it started, as long as one of them lives
//   started   the shim's mark and pid. It can be made only once, and nothing runs without it
//   exit      the run's exit code
//   told      that the run was told to stop: twice would end it at once, without a last checkpoint. A service that is
//             killed right after the signal has not left it yet, and tells the run again
//   job.json  what the run is given
// Order: the shim is a shell in a session of its own. It has the lock from its first moment, since the service took
//   it before: whoever sees the lock free and no mark knows that nothing was started.
// Errors: of Start, where no process can be made; of Stop, where there is nobody to tell, or a stranger has the
//   shim's pid by now.
// Tests: tests/unit/service/run_folder_test.cc, tests/process/test_job_service.py.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "service/lifecycle.h"

namespace downpour {

class RunFolder {
 public:
  explicit RunFolder(std::string job_dir) : job_dir_(std::move(job_dir)) {}

  const std::string& job_dir() const { return job_dir_; }
  std::string Own(const std::string& name) const { return job_dir_ + "/service/" + name; }

  absl::Status Make() const;
  RunSeen Look() const;
  // `again`: though another shim has left its mark, which this one replaces: for what may be done twice.
  absl::Status Start(const std::vector<std::string>& command, bool again = false) const;
  // A shell that runs `script` with the lock held, this run's own folder as $1 and the words behind it.
  absl::Status Spawn(const char* script, const std::vector<std::string>& words) const;
  absl::Status Stop() const;
  bool WasTold() const;
  void RememberTold(bool told) const;
  // A line in the job's log, as the service's words.
  void Note(char severity, const std::string& words) const;
  int64_t SummaryWrittenMs() const;  // since 1970; 0: there is none

 private:
  // Why a run failed of which no summary tells.
  std::string LastWords(int exit_code) const;
  std::string LogFile() const;
  // When the run wrote its summary or its numbers last, where no shim left the time of its end; 0: not `since`.
  int64_t LastWrittenMs(int64_t since_ms) const;

  std::string job_dir_;
};

// ROOT/jobs/wd1, and of a trial ROOT/jobs/wd1/trials/3.
std::string JobFolderOf(const std::string& root, const std::string& name);

}  // namespace downpour
