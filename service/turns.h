// TakeTurns: whose turn it is in a first-come queue that counts cores, memory and GPUs.
//
//   const Turns turns = TakeTurns(unfinished, needs, {.cores = 8, .memory = 16 << 30, .gpus = 2});
//   for (const std::string& name : turns.admitted) ...
//
// Units: memory in bytes; 0: what the job needs of it is not known, and it counts as none.
// Order: the first that waits is the next to run. A small job does not overtake a large one, which would wait for ever.
//   A job that wants more cores than there are gets all of them. One that wants more memory or GPUs than there are
//   could never run well: it is refused.
// Tests: tests/unit/service/turns_test.cc.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "service/job.h"

namespace downpour {

struct Room {
  int cores = 0;
  uint64_t memory = 0;
  int gpus = 0;
};

// By the jobs' names. Each sentence says what is short.
struct Turns {
  std::vector<std::string> admitted = {};
  std::map<std::string, std::string> waits = {};    // they stay QUEUED
  std::map<std::string, std::string> refused = {};  // they can never run here
};

// `needs` has one entry for each of the unfinished jobs, which come oldest first. What is not QUEUED holds its own.
Turns TakeTurns(const std::vector<Job>& unfinished, const std::vector<Room>& needs, const Room& all);

// "; it is number 3 in the queue"; nothing of the first.
std::string PlaceInQueue(size_t place);

// A tuning job takes nothing itself, so its trials wait in its place: "wd1" waits for what its first trial of `waits`
// waits for.
std::map<std::string, std::string> WaitsOfSearches(const std::vector<Job>& unfinished,
                                                   const std::map<std::string, std::string>& waits);

}  // namespace downpour
