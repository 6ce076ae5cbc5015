// Everything a worker says to the ps: probes, pushes and pulls, within their windows, again and again until answered.
//
//   exchange.Hold(lease, steps, now, effects);          // asks every slice how far it is
//   exchange.BeginPull(now, effects);
//   if (exchange.fresh()) ...compute lease.progress.Next() on exchange.TakePulled()...
//   exchange.Retain(lease, step, slice, gradient, version);
//   exchange.Flush(now, effects);                       // pushes first, then pulls: so they hold what was pushed
//
// Order: to one ps pushes leave by lease, then step; a pull leaves behind all pushes that are ready. Leases are held in
//   ascending order.
// Cost: an answer costs what it names, and what may be sent then. All that is kept is looked through at each tick, and
//   where something may have to be sent again.
// Errors: what a ps gets wrong is counted as rejected and asked again. A refusal of this worker's gradients is a
//   Status: it is at fault and must end.
// Tests: tests/unit/worker/exchange_test.cc, tests/scenario/worker_*.txt.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "job/slice_grid.h"
#include "runtime/member_session.h"
#include "runtime/role.h"
#include "schema/message.h"
#include "worker/in_flight.h"
#include "worker/lease_progress.h"
#include "worker/parameter_set.h"
#include "worker/placement_map.h"
#include "worker/pull_round.h"

namespace downpour {

struct HeldLease {
  LeaseId id{};
  LeaseProgress progress;  // how far each slice is, as it said
  InFlight in_flight;      // gradients, each until its slice acknowledges it
  Time next_probe;         // when slices that did not answer in their epoch are asked again
  // For the owner's report to the chief.
  double loss_sum = 0;  // over the examples of the steps computed, each counted once
  uint64_t examples = 0;
  double weight = 0;  // of them, where the job's data have weights
  Step last_counted = 0;
  Time next_report;  // when LeaseDone is due, again until the chief answers
};

class Exchange {
 public:
  // `session` and `grid` outlive this. Connections are numbered from `first_peer`. `settles`: the device needs to know
  // what becomes of its gradients.
  Exchange(MemberSession* session, const SliceGrid* grid, PeerId first_peer, bool settles)
      : session_(*session),
        grid_(*grid),
        settles_(settles),
        map_(grid->size(), first_peer),
        pull_(grid),
        parameters_(grid->dense(), grid->buckets) {}

  // What moved is probed, and pushed and pulled where it is now, as far as that is still to come.
  // Errors: INVALID_ARGUMENT, and nothing has changed.
  absl::Status Place(const Placement& placement, Time now, Effects& effects);
  uint64_t placement() const { return map_.number(); }
  uint32_t placement_term() const { return map_.term(); }
  PeerId next_peer() const { return map_.next_peer(); }  // no connection has had that number

  void Hold(LeaseId lease, Step steps, Time now, Effects& effects);  // not one that is held
  void Release(LeaseId lease);
  HeldLease* Find(LeaseId lease);
  std::deque<HeldLease>& leases() { return leases_; }
  const std::deque<HeldLease>& leases() const { return leases_; }
  // Asks those slices that have not answered in their epoch.
  void Probe(HeldLease& lease, Time now, Effects& effects);

  // Takes a gradient if the slice lacks that step.
  void Retain(HeldLease& lease, Step step, SliceId slice, Payload gradient, const Version& computed_from);
  // A gradient that goes nowhere, since its lease is held no more.
  void Forgo(LeaseId lease, Step step, SliceId slice) { Settle(lease, step, slice, /*counted=*/false); }
  // What became of gradients, since this was last asked: of each that Retain or Forgo was given, once.
  // One whose answer was lost counts as in vain: what a worker alone has moves on only with what surely counted.
  std::vector<Settled> TakeSettled() { return std::exchange(settled_, {}); }
  void Flush(Time now, Effects& effects);

  // Which rows of buckets the next pulls bring; not while one is under way.
  void Want(SliceValues keys);
  bool pulling() const { return pull_.under_way(); }
  // Asks for all slices of variables and those rows, or for the rows alone, unless a round is under way.
  void BeginPull(Time now, Effects& effects, PullRound::Of of = PullRound::Of::kAll);
  bool fresh() const { return pull_.fresh(); }
  bool has_rows() const { return pull_.has_rows(); }
  uint64_t pulls_begun() const { return pull_.begun(); }
  const ParameterSet& TakePulled() {
    pull_.TakePulled();
    return parameters_;
  }

  absl::Status Receive(PeerId from, const PushReply& reply, Time now, Effects& effects);
  absl::Status Receive(PeerId from, const PullReply& reply, Time now, Effects& effects);
  // The connection to that ps was broken and stands again: all that it has not answered goes at once.
  void SendAgain(PeerId peer, Time now, Effects& effects);
  void Tick(Time now, Effects& effects);

  // The ps that owe answers, for people; empty: none does.
  std::string Owing() const;

  // Drops leases, placement and connections, but not the parameters: their versions say what they are.
  void Clear(Effects& effects);

 private:
  void OnRefusal(HeldLease& lease, const PushReply::Item& item, Time now);
  void OnReply(HeldLease& lease, const PushReply::Item& item, Effects& effects);
  void Acknowledge(const HeldLease& lease, Step step, const InFlight::RetainedGradient& retained,
                   const PushReply::Item& item, Effects& effects);
  void Settle(LeaseId lease, Step step, SliceId slice, bool counted);
  void Drop(const HeldLease& lease, Step step, SliceId slice, const InFlight::RetainedGradient& retained, bool counted);
  void Recall(const PushKey& push, const InFlight::RetainedGradient& retained);
  void Block(const PushKey& push, InFlight::RetainedGradient& retained, Time until);
  void MakeReady(const PushKey& push, InFlight::RetainedGradient& retained);
  void FlushTo(PsLink& link, Time now, Effects& effects);
  std::vector<PushKey> TakeOverdue(PsLink& link, Time now);
  // What happened to the pushes of one flush.
  struct Flushed {
    bool full = false;   // some had no room in the window
    bool again = false;  // some were sent before
  };
  Flushed FlushPushes(PsLink& link, Time now, Effects& effects);
  // Pushes of one step that leave in one message.
  struct Bundle {
    Push push;
    uint64_t bytes = 0;
  };
  void SendPush(const PushKey& key, InFlight::RetainedGradient& retained, PsLink& link, Time now, Bundle& bundle,
                Effects& effects);
  PsLink* LinkTo(PeerId peer, Incarnation incarnation);
  bool Store(const PullReply::Item& item, SliceValues& changed);
  const Timing& timing() const { return session_.timing(); }
  void Reject() { ++session_.stats().messages_rejected; }

  MemberSession& session_;  // whose incarnation each message names (A9)
  const SliceGrid& grid_;
  const bool settles_;
  PlacementMap map_;  // each slice's link and epoch; of a link, `unanswered` counts what kSent and pull_ have there
  PullRound pull_;
  ParameterSet parameters_;       // versions name values (B6), so both outlive a membership
  std::deque<HeldLease> leases_;  // ascending: the order of computing and of pushing
  std::vector<Settled> settled_;
};

}  // namespace downpour
