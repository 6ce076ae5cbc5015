// LearningWorld: a whole cluster in simulated time that learns with real arithmetic. So a job's learning can be seen
// with more workers than there are cores, at the staleness that so many equal workers have.
//
//   LearningWorld world({.job = job, .seed = 7});
//   const nlohmann::json summary = world.Run();      // the chief's summary.json
//
// What is real: the roles, and the device behind them (shared_computer.h). What is drawn from the seed: how long each
//   message takes, and each step of a worker. Nothing is lost, nobody dies, and no time goes by in the servers.
// Order: two runs of one seed give the same summary, bit for bit.
// Errors: a text instead of a summary if the job does not end, or a process ends with an error.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "job/job.h"
#include "runtime/prng.h"
#include "runtime/role.h"
#include "tests/sim/disk.h"
#include "tests/sim/event_queue.h"
#include "tests/sim/findings.h"
#include "tests/sim/learning/shared_computer.h"
#include "tests/sim/network.h"

namespace downpour {

class LearningWorld {
 public:
  struct Options {
    JobSpec job;
    uint64_t seed = 1;
    // Of a step: drawn between three and five quarters of it, whatever the real device takes.
    Duration step = 20ms;
    Duration give_up_after = std::chrono::hours(24);  // simulated
  };
  explicit LearningWorld(Options options);

  absl::StatusOr<nlohmann::json> Run();
  Time now() const { return events_.now(); }

 private:
  struct Process {
    std::string name;
    std::unique_ptr<Role> role;
    std::deque<Compute> waiting;  // for its device
    bool busy = false;
    bool alive = true;
    size_t worker = 0;  // the number of its values at the device
  };
  Life Add(const std::string& name, const std::string& endpoint, std::unique_ptr<Role> role);
  void Give(Life life, Input input);
  void Carry(Life life, Effect& effect);
  void Begin(Life life);
  void ScheduleTick(Life life);
  Process& At(Life life) { return *processes_[static_cast<size_t>(life)]; }

  const Options options_;
  Prng prng_;
  EventQueue events_;
  Findings findings_;
  Network network_;
  Disk disk_;
  SharedComputer device_;
  std::vector<std::unique_ptr<Process>> processes_;  // by Life; the first is none
  std::string trouble_;                              // that a process ended with
  bool ended_ = false;                               // the chief
};

}  // namespace downpour
