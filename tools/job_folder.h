// What lies in a job folder, as far as a command line needs it:
//
//   chief.json       where the chief listens; of a chief that may have ended
//   summary.json     how the job ended
//   checkpoints/     TERM-N/MANIFEST for each durable one
//   logs/            TASK.log
//   run.lock         held by the `downpour run` whose folder it is
//
// Errors: NOT_FOUND where a file is not there, INVALID_ARGUMENT where it says nothing; the path is named.
#pragma once

#include <sys/types.h>

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "runtime/posix_fd.h"

namespace downpour {

struct ChiefLocation {
  std::string endpoint;
  std::string host;
  pid_t pid = 0;
};

absl::StatusOr<std::string> ReadTextFile(const std::string& path);
absl::StatusOr<ChiefLocation> ReadChiefLocation(const std::string& job_dir);

// checkpoints/TERM-N of the newest durable checkpoint; empty if there is none.
std::string NewestCheckpoint(const std::string& job_dir);

// Makes the folder and what `run` needs in it, and locks it for as long as the descriptor lives.
// Errors: ALREADY_EXISTS where another `run` holds it.
absl::StatusOr<UniqueFd> ClaimJobFolder(const std::string& job_dir);

std::string LogPath(const std::string& job_dir, const std::string& task);

}  // namespace downpour
