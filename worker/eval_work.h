// The parts of an evaluation round that this worker was granted, and their results until the chief has them.
//
//   work.Grant(grant, exchange.pulls_begun());
//   if (work.NeedsParameters()) ...once a later pull is here: work.Start(parameters)...
//   if (work.HasWork()) ...compute work.Next(device, UINT64_MAX)...
//   work.Finish(result, from, next_report);
//
// Order: all parts of a round are computed on one set of parameters, asked for after its first grant arrived. A newer
//   round drops what is left of an older one. Rows of tables are those of the moment: they are asked for batch by
//   batch, since nobody can keep all of them.
// Tests: tests/unit/worker/eval_work_test.cc.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "runtime/compute.h"
#include "runtime/role.h"
#include "schema/message.h"
#include "worker/parameter_set.h"

namespace downpour {

class EvalWork {
 public:
  // `pulls_begun`: so far.
  void Grant(const EvalGrant& grant, uint64_t pulls_begun);

  bool NeedsParameters() const { return !waiting_.empty() && !parameters_.has_value(); }
  uint64_t needed_pull() const { return needed_pull_; }
  void Start(ParameterSet parameters);

  bool HasWork() const {
    const bool has_more = at_hand_ && computed_ + asked_ < at_hand_->batches;
    return (!waiting_.empty() || has_more) && parameters_.has_value();
  }
  // The first batch of what Next will give.
  uint64_t next_batch() const { return at_hand_ ? at_hand_->first_batch + computed_ : waiting_.front().first_batch; }
  // Rows of buckets, for what Next will give.
  void TakeRows(const ParameterSet& pulled);
  // So many batches of one part, or what is left of it.
  EvalStep Next(DeviceParameters& device, uint64_t most_batches);
  // Of what Next gave. The part's, if that was its end; none if its round was dropped meanwhile.
  std::optional<EvalDone> Finish(const Evaluated& result, Incarnation from, Time next_report);

  void Receive(const EvalDoneReply& reply);
  // Reports that nobody has confirmed, when they are due.
  void Tick(Time now, Duration retry, PeerId chief, Effects& effects);

 private:
  struct Part {
    uint64_t first_batch = 0;
    uint64_t batches = 0;
  };
  struct Report {
    EvalDone done;
    Time next;
  };
  bool Knows(uint64_t first_batch) const;

  uint64_t round_ = 0;
  uint64_t needed_pull_ = 0;
  std::optional<ParameterSet> parameters_;  // of round_
  std::deque<Part> waiting_;
  std::optional<Part> at_hand_;
  uint64_t computed_ = 0;  // batches of it, as is the next
  Evaluated sums_;
  uint64_t asked_ = 0;  // batches that Next gave
  std::vector<Report> reports_;
};

}  // namespace downpour
