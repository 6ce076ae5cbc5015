// The plan: which examples each (lease, step) holds, and every random draw of it, as pure functions of the job.
//
//   Plan plan(job, train_examples);
//   plan.Examples(lease, step, &ids);     // the ids of that step, batch after batch
//
// Order: an epoch is a seeded permutation of its examples, cut into batches of batchSize (the last one may be short)
//   and those into leases of leaseBatches batches (the last may be short). A step is pushEvery batches of its lease, or
//   localSteps where the job has those (the last may be fewer). Leases of one epoch are numbered before those of the
//   next. Nothing depends on who computes, or when. With data.order of blocks the permutation is one of whole blocks of
//   blockExamples examples in a row, behind which the short one stays, and each lease's examples are permuted among
//   themselves: so a lease reads at most one block more than its examples fill.
// More data: the epochs of training.earlier have fewer examples, the first ones, as when the job was begun. So they
//   mean the same leases and the same examples whatever was appended since. All other epochs have all examples.
// Cost: memory in the entries of training.earlier: the permutation is a Feistel network with cycle walking (Black and
//   Rogaway 2002), not a table.
// Tests: tests/unit/runtime/plan_test.cc.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "job/job.h"
#include "schema/ids.h"
#include "schema/interval_set.h"

namespace downpour {

class Plan {
 public:
  Plan() = default;
  Plan(const JobSpec& job, uint64_t train_examples);

  // All examples. The next two are of the last epoch, which has all, unless training.earlier names it too.
  uint64_t train_examples() const { return examples_; }
  uint64_t leases_per_epoch() const { return stretches_.back().leases; }
  uint64_t steps_per_epoch() const { return StepsBefore(stretches_.back(), leases_per_epoch()); }
  uint64_t total_leases() const { return EpochBegin(epochs_); }
  uint64_t total_batches() const { return BatchesBefore(total_leases()); }
  uint64_t total_steps() const { return StepsBefore(total_leases()); }

  bool Contains(LeaseId lease) const { return ToNumber(lease) < total_leases(); }
  uint64_t EpochOf(LeaseId lease) const;      // of the one behind the last: how many epochs there are
  uint64_t EpochBegin(uint64_t epoch) const;  // its lowest lease; of the one behind the last: total_leases()
  uint64_t ExamplesOfEpoch(uint64_t epoch) const;
  double EpochsOf(uint64_t examples) const;  // that so many make, one epoch after the other

  uint64_t BatchesOf(LeaseId lease) const;  // CHECKs Contains(lease), as do those below
  Step StepsOf(LeaseId lease) const;
  uint64_t StepsBefore(uint64_t lease) const;     // of all leases with lower numbers; lease <= total_leases()
  uint64_t BatchesBefore(uint64_t lease) const;   // likewise
  uint64_t ExamplesBefore(uint64_t lease) const;  // likewise
  uint64_t BatchesBefore(LeaseId lease, Step step) const { return BatchesBefore(ToNumber(lease)) + Passed(step); }
  uint64_t ExamplesOf(LeaseId lease) const;  // over all its steps
  uint64_t ExamplesOf(LeaseId lease, Step step) const;
  // Of a set of leases, all of them of the plan. Cost: that of its intervals.
  uint64_t BatchesIn(const IntervalSet& leases) const;
  uint64_t StepsIn(const IntervalSet& leases) const;
  uint64_t ExamplesIn(const IntervalSet& leases) const;

  // With ssp and sync, groupSize leases in a row are a group; an epoch's last one may be short, so that more epochs
  // change no group. With async each lease is one.
  uint64_t GroupOf(LeaseId lease) const;
  uint64_t GroupBegin(uint64_t group) const;  // its lowest lease; of the one behind the last: total_leases()
  uint64_t LeasesIn(uint64_t group) const { return GroupBegin(group + 1) - GroupBegin(group); }
  // Leases below it may be begun, where `first_unfinished` is the lowest one that is not finished: those of its group
  // and of as many further ones as the job's consistency allows. With async: all.
  uint64_t ReachFrom(uint64_t first_unfinished) const;

  // Replaces *ids by the examples of the step, in order; each batchSize of them are a batch. 1 <= step <=
  // StepsOf(lease).
  void Examples(LeaseId lease, Step step, std::vector<uint64_t>* ids) const;
  // The seed of every other draw (dropout) of the step's batch of that number, from 0.
  uint64_t DrawSeed(LeaseId lease, Step step, uint64_t batch) const;

 private:
  // Epochs in a row that have the same examples. First the numbers of what lies before them, then those of each epoch.
  struct Stretch {
    uint64_t epoch = 0, lease = 0, group = 0, step = 0, batch = 0, example = 0;
    uint64_t examples = 0, batches = 0, leases = 1;
  };
  void Add(uint64_t epochs, uint64_t examples);  // behind the epochs that there are; 0 epochs: no stretch
  // The last one before which no more than `number` of those lie. So what is behind all is of the last one.
  const Stretch& StretchOf(uint64_t number, uint64_t Stretch::*first) const;
  const Stretch& Of(LeaseId lease) const { return StretchOf(ToNumber(lease), &Stretch::lease); }
  uint64_t StepsBefore(const Stretch& stretch, uint64_t leases) const;     // in its first so many leases
  uint64_t GroupsOf(const Stretch& stretch) const;                         // of each epoch
  uint64_t Passed(Step step) const { return (step - 1) * step_batches_; }  // batches of its lease that come before
  uint64_t FirstBatch(LeaseId lease) const;                                // within its epoch
  uint64_t FirstExample(LeaseId lease, Step step) const;                   // within its epoch's order
  // Examples() of data.order blocks; *ids has as many as the step.
  void ExamplesOfBlocks(LeaseId lease, Step step, std::vector<uint64_t>* ids) const;
  uint64_t seed_ = 0;
  std::optional<uint64_t> block_examples_;  // nothing: examples are permuted one by one
  uint64_t examples_ = 0;
  uint64_t batch_size_ = 1;
  uint64_t lease_batches_ = 1;
  uint64_t step_batches_ = 1;  // but for a lease's last step
  uint64_t group_size_ = 1;
  std::optional<uint64_t> groups_ahead_;  // nothing: any number
  uint64_t epochs_ = 0;
  std::vector<Stretch> stretches_ = {Stretch()};  // never empty
};

}  // namespace downpour
