// ChiefOptions: what a chief is told when it starts.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "job/job.h"
#include "runtime/options.h"
#include "schema/limits.h"
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
  // Of a bucket's record, as it is restored. Simulator: also few bytes.
  uint64_t piece_bytes = kPieceBytes;
};

}  // namespace downpour
