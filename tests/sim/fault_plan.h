// Everything a run draws from its seed before it begins: the cluster, the job, the timings, the faults.
//
//   FaultPlan plan = FaultPlanOf(4711);
//   std::cerr << plan.ToString();      // one line per part; with the seed it tells the whole run
//
// Units: simulated time. Probabilities are per message, per operation or per push as named.
#pragma once

#include <cstdint>
#include <string>

#include "job/job.h"
#include "ps/snapshot.h"
#include "runtime/options.h"
#include "runtime/prng.h"
#include "schema/limits.h"
#include "tests/sim/disk.h"
#include "tests/sim/network.h"
#include "tests/sim/oracle.h"

namespace downpour {

inline constexpr int64_t kUnlimitedSkips = 1000000;

struct DevicePlan {
  Duration least = 5ms;    // time of one request
  Duration spread = 5ms;   // on top, uniformly
  double slow_worker = 1;  // factor on all times of worker 0
  int parts = 1;           // completions of one training step
  Duration no_room_for{};  // from the beginning: most attempts to prepare for the job fail meanwhile
  bool asks_amid = false;  // which rows of tables a step needs, and not before it
  int64_t indexing = 1;    // so many times as long to prepare for a job, up to some seconds
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
  Duration new_folder{};  // the chief dies, and another one begins another run at its address
  Duration put_back{};    // the chief's folder is copied, or put back to its last copy; both while the tasks live
  Duration scale{};       // a person wants another number of workers
  Duration ask{};         // a person asks for a checkpoint
  Duration move{};        // the host of a ps gets another address
  Duration rival{};       // a ps stands still for long, and another process is started in its place meanwhile
  Duration lie{};         // somebody reports a lease done that no slice has finished
  Duration impostor{};    // another job's chief, or a ps of others' slices, says what is not its own to say
  bool nameless = false;  // workers come without index and supervisor: a new one is not known to replace a dead one
};

// Processes that read the model while it is trained, and what happens to them. A seed without any is as if there could
// be none. Times as in FaultRates; those of questions are for jobs with tables.
struct ReaderPlan {
  int count = 0;
  Duration refresh = 200ms;
  Duration ask{};     // a question for rows
  Duration forget{};  // one of its questions is given up
  Duration crash{};
  Duration pause{};
  Duration cut{};
  Duration lie{};  // somebody says to it what is not its own to say, or what was not asked
};

// Whose operations a failing disk fails.
enum class DiskOf : uint8_t { kAll, kChief, kPs };

struct FaultPlan {
  uint64_t seed = 0;
  JobSpec job;
  uint64_t train_examples = 0;
  uint64_t first_examples = 0;  // as many there were before others were appended; 0: none were yet
  uint64_t eval_examples = 0;
  OracleShares oracle;
  Timing timing;
  Window window;
  int steps_in_flight = kDefaultStepsInFlight;
  int leases_held = kDefaultLeasesHeld;
  DevicePlan device;
  NetworkFaults network;
  Duration disk_delay = 1ms;  // the longest of one operation
  double stalls = 0;          // chance that an operation takes up to 3 dead_after
  Disk::Faults disk;
  DiskOf failing = DiskOf::kAll;
  FaultRates faults;
  ReaderPlan readers;
  Duration calm_after{};        // no more faults from then on
  int generations = 1;          // how often all processes are started; all but the last time they are stopped at once
  Duration stop_after{};        // mean time from the first durable checkpoint of a generation to its stop
  bool power_failure = false;   // at such a stop unsynced data is lost
  bool damage = false;          // and a file of the job folder is damaged
  bool lose = false;            // or all checkpoints at once, at the first stop
  bool by_signal = false;       // the stop is SIGTERM to the chief, which ends the job in good order
  bool all_told = false;        // and to all others, as where one hand stops all tasks of a job
  bool by_command = false;      // or a person's command to the chief, in place of SIGTERM
  bool amid_restore = false;    // which comes while slices of a dead ps are on their way to the next one
  bool forgetful = false;       // and then says --resume at the second attempt
  bool last_chief = false;      // or the chief is killed, and the next one is told to stop as soon as it leads
  bool same_servers = false;    // their number stays, so that workers that outlive a stop go on
  int servers_later = 0;        // after a stop; 0: as drawn then
  bool odd_data = false;        // the last worker has another copy of the data
  bool clock_is_right = false;  // it goes with the time, in this decade; else it reads anything before 2026
  Duration start_within = 1s;   // of a process, from the end of the one before
  bool other_text = false;      // each start of all has another job text, of the same plan
  bool end_trouble = false;     // a ps dies when all leases are committed, and once more when a checkpoint holds them
  bool diverges = false;        // evaluations of some values are not finite, until a job has failed for it
  std::string code;             // the archive of the user's Python code; empty: the job has none
  int64_t more_epochs = 0;      // of which it is resumed with so many more some time, where data were appended
  uint64_t more_examples = 0;   // to them; 0: they are as they were
  bool rot = false;             // and its file of the newest checkpoint is damaged then
  // Of a bucket's record as it is made, and as it is restored.
  size_t record_part_bytes = kRecordPartBytes;
  uint64_t piece_bytes = kPieceBytes;
  std::string ToString() const;
  // As it is at the end, if the job is ever resumed with more epochs.
  JobSpec LastJob() const;
};

FaultPlan FaultPlanOf(uint64_t seed);

// What came later, and what is drawn rarely (fault_plan_rare.cc): drawn last, so that a seed's other draws stay.
void PlanRareFaults(Prng& prng, FaultPlan& plan);
// From a generator of its own, so that all other draws of a seed stay; and without readers nothing changes
// (fault_plan_rare.cc).
void PlanReaders(FaultPlan& plan);
// Times between `least` and `most`, small ones as likely as large ones.
Duration DrawTime(Prng& prng, Duration least, Duration most);
int64_t DrawNumber(Prng& prng, int64_t least, int64_t most);

// No faults, equal and quick workers: what the cluster does when nothing is in its way.
FaultPlan CalmPlan(uint64_t seed, int workers, int servers);

}  // namespace downpour
