// The chief as a state machine: members, placement, leases, evaluation, checkpoint rounds, status. See
// schema/PROTOCOL.md for the conversations.
//
//   ChiefRole chief({.job = job, .job_dir = "/jobs/mnist", .host = "h0", .pid = 4711});
//   chief.Step(now, Started{unix_ms, "h0:40123"}, effects);
//
// Cost: a message costs what it carries; a Tick is linear in tasks and in slices on their way, never in leases.
// Errors: whatever members, disk or signals do becomes a message, a line of status or an Exit (0 done, 1 failed, 78 the
//   checkpoints here belong to another plan, 130 or 143 ended by a signal). A job that does not fit its own model is a
//   bug of the caller: CHECKed by the constructor.
// Tests: tests/unit/chief.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "job/job.h"
#include "runtime/options.h"
#include "runtime/role.h"
#include "schema/peer_role.h"

namespace downpour {

struct ChiefOptions {
  JobSpec job;
  std::string job_dir;  // for people; the role's own paths are relative to it
  std::string host;
  uint32_t pid = 0;
  std::string command = {};  // that people type to start the job again; with --resume it goes on from a checkpoint
  std::string keys = {};     // their folder, as people are to name it; empty: none was named
  std::vector<PeerRole> secrets = {};  // that lie there
  // What a tool is to say before it is answered, and chief.json tells its reader. Empty: keys tell who may ask.
  std::string secret = {};
  // Who starts a task that is missing: somebody who types what `next` says, `command` once more, or whoever started
  // all.
  enum class Starts { kByHand, kByCommand, kBySupervisor } starts = Starts::kByHand;
  uint64_t descriptors = 0;  // the open files that it may have; 0: not known
  bool resume = false;
  // The newest checkpoint, by its name: where none can be used the job begins again.
  Round give_up = {};
  uint64_t nonce = 0;  // drawn by the process at start: names the run, if the job begins with it
  Duration ran_before{};  // that counts for scheduling.maxRunningTime
  Timing timing;
};

// As `state` in docs/STATUS.md.
enum class JobState : uint8_t { kQueued, kPreparing, kRunning, kSucceeded, kFailed, kCancelling, kCancelled };
const char* NameOf(JobState state);  // QUEUED, PREPARING and so on

class ChiefRole final : public Role {
 public:
  explicit ChiefRole(ChiefOptions options);
  ~ChiefRole() override;

  void Step(Time now, Input input, Effects& effects) override;

  // For invariants, tests and tools; valid between steps.
  JobState state() const;
  uint32_t term() const;  // 0 until it is durable
  uint64_t run() const;   // 0 until it is known
  // Leases that every slice's current epoch holds finished; while all_reported().
  const IntervalSet& committed() const;
  uint64_t goal() const;      // as many leases, the first ones, end the job; UINT64_MAX before it runs
  bool all_reported() const;  // every slice has reported what it holds in its epoch
  std::map<LeaseId, Incarnation> holders() const;       // granted leases and who holds them
  std::vector<SliceEpoch> epochs() const;               // by slice; {0, 0} before it is placed
  int64_t worker_count() const;                         // how many workers the job wants
  uint64_t commands() const;                            // of people, obeyed in this term
  std::vector<Incarnation> lost() const;                // members that have been silent for too long
  std::vector<Incarnation> alive(TaskRole role) const;  // all others that have not left
  std::string StatusJson(Time now) const;               // docs/STATUS.md

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace downpour
