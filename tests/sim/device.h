// A worker's simulated device: takes its time, answers with the oracle's gradients.
//
//   Device device(&oracle, &plan, worker, seed, &events, &findings, done);
//   device.Run(compute);      // done(ComputeDone) comes later, once or several times
//
// Order: one request at a time, in the order in which they came.
// Findings: a step computed before every slice had values; values of the wrong size; a step computed without the job's
//   Python code, or other code than the job's. Half of the devices have it already. Rows that were not asked for, or
//   that were and are missing. The rest of the program run twice, or anything else behind it before the device is
//   prepared again.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "runtime/role.h"
#include "tests/sim/event_queue.h"
#include "tests/sim/fault_plan.h"
#include "tests/sim/findings.h"
#include "tests/sim/oracle.h"

namespace downpour {

class Device {
 public:
  using Done = std::function<void(ComputeDone)>;
  Device(const Oracle* oracle, const FaultPlan* plan, int worker, uint64_t seed, EventQueue* events, Findings* findings,
         Done done);

  void Run(Compute compute);

  // Whether that step was ever computed on these values of that slice.
  bool ComputedOn(LeaseId lease, Step step, SliceId slice, uint32_t checksum) const;
  // Of what it reads for that job: each job has data of its own.
  uint64_t FingerprintFor(const JobSpec& job) const;
  // Likewise, or of what it read before data were appended.
  bool HasReadFor(const JobSpec& job, uint64_t fingerprint) const;
  std::vector<DataFile> FilesFor(const JobSpec& job) const;
  static constexpr uint64_t kEvalFingerprint = 11;
  static constexpr Guesses kGuesses = {{.loss = 2, .accuracy = 0.25}, {.loss = 1, .accuracy = 0.5}};
  // The values that an evaluation of these batches was last computed on.
  uint32_t EvaluatedOn(uint64_t first_batch) const;

 private:
  void Begin();
  void Finish(Duration after, ComputeDone last);
  void Load(const SliceValues& updates);
  void TakeCode(const std::vector<Payload>& blocks);
  Duration TimeOfOne();
  void Carry(Ticket ticket, const Prepare& request);
  void Carry(Ticket ticket, const TrainStep& request);
  void Carry(Ticket ticket, const EvalStep& request);
  void Carry(Ticket ticket, const EpilogueStep& request);
  void Carry(Ticket ticket, const FindKeys& request);
  void Carry(Ticket ticket, const MoreRows& request);
  void LoadRows(SliceId bucket, const Payload& rows);
  void CheckAllRowsCame(size_t buckets);
  using Keys = std::map<SliceId, Payload>;
  Keys KeysOf(const FindKeys& of) const;
  void AskAmid(Ticket ticket, const FindKeys& of, std::variant<TrainStep, EvalStep> step);
  void GoOn(Ticket ticket);
  void End(Ticket ticket, const TrainStep& request);
  void End(Ticket ticket, const EvalStep& request);

  const Oracle* oracle_;
  const FaultPlan* plan_;
  int worker_;  // the first one may be slow, the last one may have other data
  Prng prng_;
  EventQueue* events_;
  Findings* findings_;
  Done done_;
  bool has_code_;
  std::deque<Compute> waiting_;
  bool busy_ = false;
  bool has_run_epilogue_ = false;
  bool spent_ = false;                  // it has run that since it was prepared
  std::map<SliceId, uint32_t> loaded_;  // checksum of the values
  Keys found_;                          // for the next step or batch, or for the rest of one
  struct Amid {
    std::variant<TrainStep, EvalStep> step;
    std::deque<Keys> to_ask;
  };
  std::optional<Amid> amid_;  // a step or batch
  std::map<std::pair<LeaseId, Step>, std::vector<std::map<SliceId, uint32_t>>> computed_on_;
  std::map<uint64_t, uint32_t> evaluated_on_;
};

}  // namespace downpour
