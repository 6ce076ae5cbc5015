// SlurmQueue: what Slurm's controller says of this user's jobs, asked at most once a second.
//
//   queue.Refresh();
//   if (!queue.answers()) ...queue.words()...
//   const SlurmJob* job = queue.Find("downpour-wd1-1700000000000", "/srv/jobs/jobs/wd1");
//
// Shapes: a job is found by its name and its working directory, so no number has to be known.
// Order: `round` rises with each answer. That a job is not there counts only where the answer is newer than what it is
//   held against.
// Source: squeue(1) of Slurm 22.05, "JOB STATE CODES".
// Tests: tests/unit/service/slurm_queue_test.cc.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "service/ask_program.h"

namespace downpour {

struct SlurmJob {
  std::string id, state, name, reason, folder;
};
// Nothing runs of it, and nothing will. A state that is not known is none of these.
bool IsOver(const SlurmJob& job);
// Lines of kSlurmFormat; others are left out.
std::vector<SlurmJob> ParseSqueue(const std::string& text);
inline constexpr char kSlurmFormat[] = "%i|%T|%j|%r|%Z";

// This user's jobs, those that are over included, as long as the controller remembers them.
Said AskSqueue();

class SlurmQueue {
 public:
  explicit SlurmQueue(std::function<Said()> ask = AskSqueue, std::chrono::milliseconds period = std::chrono::seconds(1))
      : ask_(std::move(ask)), period_(period) {}
  void Refresh();
  bool answers() const { return words_.empty(); }
  const std::string& words() const { return words_; }  // why it does not answer
  int64_t round() const { return round_; }
  // One that is not over, if there is one.
  const SlurmJob* Find(const std::string& name, const std::string& folder) const;

 private:
  std::function<Said()> ask_;
  std::chrono::milliseconds period_;
  std::chrono::steady_clock::time_point asked_{};
  std::string words_ = "it has not been asked yet";
  int64_t round_ = 0;
  std::vector<SlurmJob> jobs_;
};

}  // namespace downpour
