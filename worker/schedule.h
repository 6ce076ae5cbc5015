// What the device does next: evaluation first, then the held leases in ascending order, one request at a time, each on
// parameters that were pulled for it.
//
//   schedule.Advance(now, effects);                    // after anything that may have changed what can be done
//   status = schedule.Receive(done, now, effects);     // hands gradients to the exchange, results to the chief
//
// Order: a training step begins when every slice has said how far the lease is, the parameters were pulled after the
//   step before was pushed, and fewer than steps_in_flight steps of the lease are unacknowledged. Where the job pulls
//   ahead they are pulled while the step before is computed: after the one before that was pushed.
//   Of a model with tables the device first tells which rows a step, or a batch of an evaluation, needs; then these are
//   pulled with the rest. Where it finds amid the step that it needs others, it waits: they alone are pulled.
//   A request to the user's Python code is late after 10 times what the longest one took, and no sooner than its job's
//   CodePatience.
// Errors: a device that fails or computes other shapes than the model's is a Status; the worker ends.
// Tests: tests/scenario/worker_*.txt.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "job/slice_grid.h"
#include "runtime/member_session.h"
#include "runtime/role.h"
#include "worker/eval_work.h"
#include "worker/exchange.h"
#include "worker/input_share.h"
#include "worker/parameter_set.h"

namespace downpour {

class Schedule {
 public:
  // All of these outlive this. Tickets are numbered from `first_ticket`.
  Schedule(MemberSession* session, const SliceGrid* grid, Exchange* exchange, size_t steps_in_flight,
           Ticket first_ticket)
      : session_(*session),
        grid_(*grid),
        exchange_(*exchange),
        steps_in_flight_(steps_in_flight),
        next_ticket_(ToNumber(first_ticket)),
        device_(grid->dense()) {}

  void Advance(Time now, Effects& effects);
  // ABORTED where the job's own code raised, CANCELLED where it ended in good order.
  absl::Status Receive(ComputeDone& done, Time now, Effects& effects);

  void Grant(const EvalGrant& grant) { eval_.Grant(grant, exchange_.pulls_begun()); }
  void Receive(const EvalDoneReply& reply) { eval_.Receive(reply); }
  void Tick(Time now, Effects& effects);
  void UsePullAhead(bool pull_ahead) { pull_ahead_ = pull_ahead; }
  // The device is prepared again, behind what it is at. A step in which it waits for rows, by now or then, has no end.
  void ForgetDevice() {
    device_ = DeviceParameters(grid_.dense());
    rows_for_.reset();
    if (waits_for_rows()) {
      running_.reset();
    } else if (running_) {
      running_->forgotten = true;
    }
  }
  // There is no other work to come: a device that waits for rows, which may not come, is to end its step without.
  void LetGo(Effects& effects);
  // Drops evaluation; what the device is at goes on.
  void Clear() {
    eval_ = {};
    pulling_since_.reset();
    rows_for_.reset();
  }

  bool idle() const { return !running_.has_value(); }
  bool waits_for_rows() const { return running_ && running_->waits; }
  // Whether the device reads its examples for more than half of the time.
  bool input_bounds_rate() const { return input_.bounds_rate(); }
  // The request that the device is at, where that is late; else empty.
  std::string Late(Time now, Duration patience) const;
  // Of what Receive returned; none: something else failed than the job's own code, or what it asks for.
  std::optional<MemberSession::CodeFailure> FailureOfCode(const absl::Status& status) const {
    if (!absl::IsAborted(status) && !absl::IsCancelled(status)) return std::nullopt;
    return MemberSession::CodeFailure{.lease = running_->evaluates ? LeaseId{} : running_->lease,
                                      .has_ended = absl::IsCancelled(status)};
  }
  Ticket next_ticket() const { return Ticket{next_ticket_}; }

 private:
  // For what rows are found: a step, or the batch of an evaluation.
  struct RowsFor {
    bool evaluates = false;
    LeaseId lease{};
    Step step = 0;
    uint64_t batch = 0;
    bool operator==(const RowsFor&) const = default;
  };
  // The request that the device is at.
  struct Running {
    Ticket ticket{};
    bool evaluates = false;
    bool finds = false;  // keys, for either
    bool waits = false;  // for rows, amid either
    bool in_vain = false;
    bool forgotten = false;  // the device is prepared again behind this
    LeaseId lease{};
    Step step = 0;
    std::vector<Version> computed_from;  // of a bucket that was asked twice the older one
    std::vector<bool> has_asked;         // buckets, since it began
    std::vector<bool> delivered;         // slices whose gradients came
    Time began;
    Time pull_at;  // for the step after it, where the job pulls ahead
  };
  // How long the last ones took. One alone tells too little: a lease's last step may be short, a pull may meet pushes.
  struct LastTwo {
    Duration last{}, before{};
    void Add(Duration took) { before = std::exchange(last, took); }
    Duration longer() const { return std::max(last, before); }
  };

  HeldLease* LeaseToCompute();
  std::optional<std::pair<LeaseId, Step>> StepAfter(const HeldLease& lease, Step step);
  std::optional<LeaseId> LeaseBehind(const HeldLease& lease);
  void BeginNext(Time now, Effects& effects);
  void BeginEvaluation(Time now, Effects& effects);
  bool HasRowsFor(const RowsFor& wanted, Time now, Effects& effects);
  absl::Status Receive(KeysFound& found);
  void BringRows(Time now, Effects& effects);
  void GoOn(MoreRows more, Effects& effects);
  HeldLease* LeaseOfRunning();
  void Pull(Time now, Effects& effects);
  void PullAhead(Time now, Effects& effects);
  void PlanPull(Time now, Running& training, Effects& effects);
  void Train(HeldLease& lease, Time now, Effects& effects);
  template <typename Request>  // one of those of ComputeRequest
  void Begin(Request request, Running running, Time now, Effects& effects);
  void End(Time now);  // the device has answered
  absl::Status Receive(Gradients& gradients, Time now, Effects& effects);
  bool Fits(SliceId slice, const Payload& gradient) const;
  void Conclude(HeldLease& lease, const Gradients& last);

  MemberSession& session_;
  const SliceGrid& grid_;
  Exchange& exchange_;
  const size_t steps_in_flight_;
  uint64_t next_ticket_;
  DeviceParameters device_;
  EvalWork eval_;
  std::optional<Running> running_;
  // Of models with tables: for what keys were found last, and these, where they are not wanted yet.
  std::optional<RowsFor> rows_for_;
  std::optional<SliceValues> found_;
  bool pull_ahead_ = false;
  uint64_t needed_pull_ = 0;  // a step's parameters are of this pull or a later one
  std::optional<Time> pulling_since_;
  LastTwo pulls_, steps_;
  InputShare input_;
  Duration longest_{};  // of the requests to the device that are answered
};

}  // namespace downpour
