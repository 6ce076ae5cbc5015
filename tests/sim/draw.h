// Everything a run draws from its seed before it begins: the cluster, the job, the timings, the faults.
//
//   Draw draw = DrawFrom(4711);
//   std::cerr << draw.ToString();      // one line per part; with the seed it tells the whole run
//
// Units: simulated time. Probabilities are per message, per operation or per push as named.
#pragma once

#include <cstdint>
#include <string>

#include "runtime/options.h"
#include "schema/job.h"
#include "tests/sim/disk.h"
#include "tests/sim/network.h"
#include "tests/sim/oracle.h"

namespace downpour {

struct DeviceDraw {
  Duration least = 5ms;    // time of one request
  Duration spread = 5ms;   // on top, uniformly
  double slow_worker = 1;  // factor on all times of worker 0
  int parts = 1;           // completions of one training step
};

// Mean time between faults of a kind; zero: none.
struct FaultRates {
  Duration worker_crash{};
  Duration ps_crash{};
  Duration chief_crash{};
  Duration worker_stop{};  // SIGTERM
  Duration ps_stop{};      // likewise
  Duration pause{};        // of any process
  Duration cut{};
  Duration reset{};
  Duration malformed{};
  Duration stranger{};    // somebody says something at random to the chief and to each ps
  bool nameless = false;  // workers come without index and supervisor: a new one is not known to replace a dead one
};

struct Draw {
  uint64_t seed = 0;
  JobSpec job;
  uint64_t train_examples = 0;
  uint64_t eval_examples = 0;
  OracleShares oracle;
  Timing timing;
  Window window;
  int steps_in_flight = kDefaultStepsInFlight;
  int leases_held = kDefaultLeasesHeld;
  DeviceDraw device;
  NetworkFaults network;
  Duration disk_delay = 1ms;  // the longest of one operation
  Disk::Faults disk;
  FaultRates faults;
  Duration calm_after{};       // no more faults from then on
  int generations = 1;         // how often all processes are started; all but the last time they are stopped at once
  Duration stop_after{};       // mean time from the first durable checkpoint of a generation to its stop
  bool power_failure = false;  // at such a stop unsynced data is lost
  bool damage = false;         // and a file of the job folder is damaged
  bool lose = false;           // or all checkpoints at once, at the first stop
  bool by_signal = false;      // the stop is SIGTERM to the chief, which ends the job in good order
  bool all_told = false;       // and to all others, as where one hand stops all tasks of a job
  bool same_servers = false;   // their number stays, so that workers that outlive a stop go on
  int servers_later = 0;       // after a stop; 0: as drawn then
  bool odd_data = false;       // the last worker has another copy of the data
  std::string ToString() const;
};

Draw DrawFrom(uint64_t seed);

// No faults, equal and quick workers: what the cluster does when nothing is in its way.
Draw CalmDraw(uint64_t seed, int workers, int servers);

}  // namespace downpour
