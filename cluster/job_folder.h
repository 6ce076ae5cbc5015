// What lies in a job folder, as far as a command line needs it:
//
//   chief.json       where the chief listens; of a chief that may have ended
//   summary.json     how the job ended; of the chief whose term it names
//   checkpoints/     TERM-N/MANIFEST for each durable one
//   python/          of a job of Python code: the code, its description, initial.safetensors and job.json
//   logs/            TASK.log; run.log where a `downpour run` had to give up
//   keys/            that `downpour run` made for a cluster that others can reach
//   run.lock         held by the `downpour run` whose folder it is
//   chief.lock       held by the chief
//
// Errors: NOT_FOUND where a file is not there, INVALID_ARGUMENT where it says nothing; the path is named.
// Tests: tests/unit/cluster/job_folder_test.cc.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cluster/status_view.h"
#include "runtime/posix/fd.h"
#include "schema/checkpoint_format.h"

namespace downpour {

struct ChiefLocation {
  std::string endpoint;
  std::string host = {};     // this and the next four: as far as it says so
  std::string command = {};  // that people type to start the job again
  std::string secret = {};   // that it wants to hear of a tool; empty: keys tell who may ask
  pid_t pid = 0;
  uint64_t term = 0;  // rises with each chief of the folder; 0: not known
};

absl::StatusOr<std::string> ReadTextFile(const std::string& path);
std::string ChiefPath(const std::string& job_dir);
// What the user's Python code has said of itself, and the values that its model begins with.
std::string PythonFolder(const std::string& job_dir);
std::string OwnValuesPath(const std::string& job_dir);
absl::StatusOr<ChiefLocation> ReadChiefLocation(const std::string& job_dir);

// The chief.json of a chief that is about to be started. What an earlier one left in the folder is not taken for it,
// even if it had the same pid, as containers give them again and again.
class ChiefAnnouncement {
 public:
  explicit ChiefAnnouncement(std::string job_dir);  // before the chief is started
  void Expect(pid_t pid) { pids_.push_back(pid); }
  std::optional<ChiefLocation> Look() const;  // nothing: the last one expected has not announced itself yet
  // The last one that announced itself, of all that were expected: one that finds the job over does not.
  std::optional<ChiefLocation> Last() const;

 private:
  const std::string job_dir_;
  const std::string before_;
  std::vector<pid_t> pids_;
};

struct FoundSummary {
  std::string json;
  SummaryReport summary;
};
// Errors: NOT_FOUND too where summary.json is of another chief.
absl::StatusOr<FoundSummary> ReadSummaryOf(const std::string& job_dir, uint64_t term);

// Where that chief's summary says that the job was cancelled, or where it was killed before it wrote one: the job
// failed, for this reason. Errors: UNAVAILABLE where it cannot be written; the summary is as it was then.
absl::Status RecordFailure(const std::string& job_dir, uint64_t term, const std::string& cause);

// Errors: NOT_FOUND and the like, with the folder's name, where it, or its folder of checkpoints, cannot be read.
absl::Status CheckJobFolder(const std::string& job_dir);

// All rounds that have a folder in the folder of checkpoints, newest first.
std::vector<Round> RoundsIn(const std::string& checkpoints);

// Whether a chief ever listened for a job in it, or left a checkpoint of one.
bool HoldsJob(const std::string& job_dir);

// Of the newest checkpoint that has a manifest, whole or not.
std::optional<Round> NewestRound(const std::string& job_dir);
// The newest whole one's checkpoints/TERM-N; empty if there is none.
std::string NewestCheckpoint(const std::string& job_dir);

// Of the newest checkpoint whose manifest can be read.
std::optional<Manifest> NewestWholeManifest(const std::string& job_dir);

// Of a chief that was killed: which one it was, what is durable, and what to type to go on.
std::string HowItWasLeft(const std::string& job_dir, const ChiefLocation& chief);

// Makes the folder and what `run` needs in it, and locks it for as long as the descriptor lives.
// Errors: ALREADY_EXISTS where another `run` holds it.
absl::StatusOr<UniqueFd> ClaimJobFolder(const std::string& job_dir);

// Writes what the `downpour run` that holds the folder is at, while no chief listens yet; empty: nothing special. It is
// dropped where the disk refuses.
void SayInJobFolder(const UniqueFd& claim, const std::string& words);
// What it wrote, as one line; empty where none holds the folder.
std::string SaidInJobFolder(const std::string& job_dir);

// Removes what ClaimJobFolder made, if nothing else is in it. Only its holder may.
void RemoveEmptyJobFolder(const std::string& job_dir);

// Whether a `downpour run` holds the folder.
bool HasRun(const std::string& job_dir);

// Whether a chief of this host that had announced itself there is no more.
bool HasGone(const ChiefLocation& chief, const std::string& job_dir);

// Whether a `downpour run` or a chief holds the folder. Once none does nothing more is written into it, but by members
// that were started by hand with a log folder in it.
bool IsAtWork(const std::string& job_dir);

std::string LogPath(const std::string& job_dir, const std::string& task);

// What the task's log says last, where it tells why it ended.
std::string LastWordIn(const std::string& job_dir, const std::string& task);

}  // namespace downpour
