#include "worker/exchange.h"

#include <glog/logging.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/staleness.h"
#include "schema/codec.h"

namespace downpour {
namespace {

using State = InFlight::State;

// A ps refuses everything of a worker that broke the protocol.
absl::Status Ejected(const PsLink& link) {
  return absl::FailedPreconditionError(
      absl::StrCat(link.name, " says that this worker broke the protocol; its log names what was wrong"));
}

}  // namespace

// ---- Placement ------------------------------------------------------------------------------------------------------

absl::Status Exchange::Place(const Placement& placement, Time now, Effects& effects) {
  if (!map_.Newer(placement)) return absl::OkStatus();
  const absl::StatusOr<std::vector<SliceId>> moved = map_.Changes(placement);
  if (!moved.ok()) return moved.status();
  if (map_.number() != 0) {  // by the old placement, under which they were counted
    for (const SliceId slice : *moved) {
      pull_.Forget(map_.link_of(slice), slice);
      for (HeldLease& lease : leases_) {
        lease.in_flight.ForEach(slice, [&](Step step, InFlight::RetainedGradient& retained) {
          Block({lease.id, step, slice}, retained, now);
        });
      }
    }
  }
  const std::vector<PeerId> redialled = map_.Adopt(placement, effects);
  for (HeldLease& lease : leases_) {
    // core 5: what the old place acknowledged is no evidence any more, and the new one is asked (A2).
    for (const SliceId slice : *moved) lease.progress.Renew(slice, map_.epoch(slice));
    lease.next_report = now;
    Probe(lease, now, effects);
  }
  for (const PeerId peer : redialled) SendAgain(peer, now, effects);
  Flush(now, effects);
  return absl::OkStatus();
}

void Exchange::Clear(Effects& effects) {
  while (!leases_.empty()) Release(leases_.back().id);
  pull_.Abandon(map_);
  map_.Clear(effects);
}

// ---- Leases ---------------------------------------------------------------------------------------------------------

void Exchange::Hold(LeaseId lease, Step steps, Time now, Effects& effects) {
  const auto at = std::find_if(leases_.begin(), leases_.end(), [&](const HeldLease& l) { return l.id > lease; });
  const auto held = leases_.insert(at, HeldLease{.id = lease,
                                                 .progress = LeaseProgress(steps, map_.epochs()),
                                                 .in_flight = InFlight(grid_.size()),
                                                 .next_probe = now,
                                                 .next_report = now});
  Probe(*held, now, effects);
}

void Exchange::Release(LeaseId lease) {
  const auto held = std::find_if(leases_.begin(), leases_.end(), [&](const HeldLease& l) { return l.id == lease; });
  if (held == leases_.end()) return;
  for (const Slice& slice : grid_.slices) {
    held->in_flight.RetainOnly(slice.id, 0, 0, [&](Step step, const InFlight::RetainedGradient& retained) {
      Drop(*held, step, slice.id, retained, /*counted=*/false);
    });
  }
  leases_.erase(held);
}

HeldLease* Exchange::Find(LeaseId lease) {
  for (HeldLease& held : leases_) {
    if (held.id == lease) return &held;
  }
  return nullptr;
}

void Exchange::Probe(HeldLease& lease, Time now, Effects& effects) {
  // The answer names the first step that the slice lacks: nothing is pushed to it before (conversation 6).
  if (lease.progress.AllKnown()) return;
  for (const auto& link : map_.links()) {
    downpour::Probe probe{.from = session_.incarnation(), .lease = lease.id, .slices = {}};
    for (const SliceId slice : link->slices) {
      if (!lease.progress.Known(slice)) probe.slices.push_back({slice, map_.epoch(slice)});
    }
    if (!probe.slices.empty()) effects.SendTo(link->peer, std::move(probe));
  }
  lease.next_probe = now + timing().data_retry;
}

// ---- Pushes ---------------------------------------------------------------------------------------------------------

void Exchange::Retain(HeldLease& lease, Step step, SliceId slice, Payload gradient, const Version& computed_from) {
  // Another worker, or an earlier epoch, may have brought the slice further than the others.
  if (!lease.progress.Lacks(slice, step)) {
    if (!gradient.empty()) Forgo(lease.id, step, slice);
    return;
  }
  lease.progress.MarkComputed(slice, step);
  InFlight::RetainedGradient& retained = lease.in_flight.Add(step, slice, std::move(gradient), computed_from);
  if (lease.progress.Known(slice)) MakeReady({lease.id, step, slice}, retained);
}

void Exchange::Settle(LeaseId lease, Step step, SliceId slice, bool counted) {
  if (settles_) settled_.push_back({lease, step, slice, counted});
}

// It is kept no longer.
void Exchange::Drop(const HeldLease& lease, Step step, SliceId slice, const InFlight::RetainedGradient& retained,
                    bool counted) {
  Recall({lease.id, step, slice}, retained);
  if (!retained.gradient.empty()) Settle(lease.id, step, slice, counted);
}

// Its link knows of it no more.
void Exchange::Recall(const PushKey& push, const InFlight::RetainedGradient& retained) {
  PsLink& link = map_.link_of(push.slice);
  if (retained.state == State::kSent) link.unanswered -= retained.gradient.size();
  if (retained.state == State::kReady) link.ready.erase(push);
}

void Exchange::Block(const PushKey& push, InFlight::RetainedGradient& retained, Time until) {
  Recall(push, retained);
  retained.state = State::kBlocked;
  retained.at = until;
}

void Exchange::MakeReady(const PushKey& push, InFlight::RetainedGradient& retained) {
  retained.state = State::kReady;
  map_.link_of(push.slice).ready.insert(push);
}

void Exchange::Flush(Time now, Effects& effects) {
  for (const auto& link : map_.links()) FlushTo(*link, now, effects);
}

void Exchange::FlushTo(PsLink& link, Time now, Effects& effects) {
  const Flushed flushed = FlushPushes(link, now, effects);
  const Incarnation from = session_.incarnation();
  // Pulls leave behind pushes, so that the values hold what this worker pushed (conversation 6).
  PullRound::Again again = pull_.AskAgain(now, timing().data_retry, from, link, map_, parameters_.versions);
  for (Pull& pull : again.pulls) effects.SendTo(link.peer, std::move(pull));
  if (flushed.again || again.unanswered) link.BackOff();
  if (flushed.full) return;
  while (std::optional<Pull> pull = pull_.Next(now, from, link, map_, parameters_.versions)) {
    effects.SendTo(link.peer, *std::move(pull));
  }
}

// Those that were sent and must be again, in order.
std::vector<PushKey> Exchange::TakeOverdue(PsLink& link, Time now) {
  std::vector<PushKey> overdue;
  if (!link.AnyOverdue(now, timing().data_retry)) return overdue;
  link.oldest_push = Time::max();
  for (HeldLease& lease : leases_) {
    for (InFlight::StepEntry& entry : lease.in_flight.steps()) {
      for (const SliceId slice : link.slices) {
        InFlight::RetainedGradient& retained = entry.slices[ToNumber(slice)];
        if (retained.state != State::kSent) continue;
        if (link.Overdue(retained.at, now, timing().data_retry)) {
          overdue.push_back({lease.id, entry.step, slice});
        } else {
          link.oldest_push = std::min(link.oldest_push, retained.at);
        }
      }
    }
  }
  return overdue;
}

// What goes again keeps its share of the window: the first copy may still be on its way.
Exchange::Flushed Exchange::FlushPushes(PsLink& link, Time now, Effects& effects) {
  Flushed flushed;
  const std::vector<PushKey> overdue = TakeOverdue(link, now);
  Bundle bundle;
  HeldLease* lease = nullptr;
  auto ready = link.ready.begin();
  auto again = overdue.begin();
  // Once one push has no room none after it goes: a slice takes its steps in order.
  while ((ready != link.ready.end() && !flushed.full) || again != overdue.end()) {
    const bool is_again = again != overdue.end() && (ready == link.ready.end() || flushed.full || *again < *ready);
    const PushKey key = is_again ? *again++ : *ready;
    if (lease == nullptr || lease->id != key.lease) lease = Find(key.lease);
    CHECK(lease != nullptr) << "a push of lease " << ToNumber(key.lease) << ", which is not held";
    InFlight::RetainedGradient& retained = lease->in_flight.at(key.step, key.slice);
    if (is_again) {
      flushed.again = retained.resent = true;
    } else {
      flushed.full = !link.HasCredit(retained.gradient.size());
      if (flushed.full) continue;
      link.unanswered += retained.gradient.size();
      ready = link.ready.erase(ready);
    }
    SendPush(key, retained, link, now, bundle, effects);
  }
  if (!bundle.push.slices.empty()) effects.SendTo(link.peer, std::move(bundle.push));
  return flushed;
}

// With others of its step in one message, as far as that may hold them ("Limits").
void Exchange::SendPush(const PushKey& key, InFlight::RetainedGradient& retained, PsLink& link, Time now,
                        Bundle& bundle, Effects& effects) {
  Push& push = bundle.push;
  const uint64_t more = retained.gradient.size();
  const bool is_other = push.lease != key.lease || push.step != key.step;
  const bool is_full = bundle.bytes + more > kMaxMessagePayload || push.slices.size() == kMaxFrames - 1;
  if (!push.slices.empty() && (is_other || is_full)) {
    effects.SendTo(link.peer, std::move(push));
    bundle = Bundle();
  }
  push.from = session_.incarnation();
  push.lease = key.lease;
  push.step = key.step;
  bundle.bytes += more;
  if (std::exchange(retained.sent, true)) ++session_.stats().pushes_resent;
  push.slices.push_back({key.slice, map_.epoch(key.slice), retained.computed_from, retained.gradient});
  retained.state = State::kSent;
  retained.at = now;
  link.oldest_push = std::min(link.oldest_push, now);
}

PsLink* Exchange::LinkTo(PeerId peer, Incarnation incarnation) {
  PsLink* link = map_.Find(peer);
  // A9: an answer counts only of the process that the placement names.
  if (link != nullptr && link->incarnation == incarnation) return link;
  Reject();
  return nullptr;
}

absl::Status Exchange::Receive(PeerId from, const PushReply& reply, Time now, Effects& effects) {
  PsLink* link = LinkTo(from, reply.from);
  if (link == nullptr) return absl::OkStatus();
  link->OnReply(reply.window, now);
  HeldLease* lease = Find(reply.lease);
  for (const PushReply::Item& item : reply.slices) {
    if (item.refusal == SliceRefusal::kWrongShape) return Ejected(*link);
    if (!grid_.Contains(item.slice) || &map_.link_of(item.slice) != link) {
      Reject();  // no ps speaks for another one's slice
    } else if (lease == nullptr) {
      continue;  // late: of a lease that is done
    } else if (item.refusal == SliceRefusal::kTooEarly && item.epoch == lease->progress.epoch(item.slice)) {
      // Its turn has not come. No longer held, it is granted again, to whoever asks when it has.
      Release(reply.lease);
      lease = nullptr;
    } else if (item.refusal != SliceRefusal::kNone) {
      OnRefusal(*lease, item, now);
    } else {
      OnReply(*lease, item, effects);
    }
  }
  FlushTo(*link, now, effects);
  return absl::OkStatus();
}

void Exchange::OnRefusal(HeldLease& lease, const PushReply::Item& item, Time now) {
  if (item.refusal == SliceRefusal::kTooStale) {
    if (item.epoch != lease.progress.epoch(item.slice)) return;
    lease.progress.GiveUp(item.slice);
    lease.in_flight.RetainOnly(item.slice, lease.progress.retained_from(item.slice),
                               lease.progress.computed_to(item.slice),
                               [&](Step step, const InFlight::RetainedGradient& retained) {
                                 Drop(lease, step, item.slice, retained, /*counted=*/false);
                               });
    return;
  }
  // A6: a refusal acknowledges nothing, so the gradients stay and go again.
  const Time until = now + timing().control_retry;
  lease.in_flight.ForEach(item.slice, [&](Step step, InFlight::RetainedGradient& retained) {
    Block({lease.id, step, item.slice}, retained, until);
  });
  if (!lease.progress.Known(item.slice)) lease.next_probe = std::min(lease.next_probe, until);
}

void Exchange::OnReply(HeldLease& lease, const PushReply::Item& item, Effects& effects) {
  const LeaseProgress::ReplyEffect effect = lease.progress.OnReply(item.slice, item.epoch, item.consumed, item.acked);
  if (effect == LeaseProgress::ReplyEffect::kIgnored) return;
  lease.in_flight.RetainOnly(item.slice, lease.progress.retained_from(item.slice),
                             lease.progress.computed_to(item.slice),
                             [&](Step step, const InFlight::RetainedGradient& retained) {
                               Drop(lease, step, item.slice, retained, item.counted && step == item.consumed);
                               if (step <= item.acked) Acknowledge(lease, step, retained, item, effects);
                             });
  if (effect == LeaseProgress::ReplyEffect::kFirstInEpoch) {
    lease.in_flight.ForEach(item.slice, [&](Step step, InFlight::RetainedGradient& retained) {
      if (retained.state == State::kBlocked) MakeReady({lease.id, step, item.slice}, retained);
    });
  }
}

void Exchange::Acknowledge(const HeldLease& lease, Step step, const InFlight::RetainedGradient& retained,
                           const PushReply::Item& item, Effects& effects) {
  TaskStats& stats = session_.stats();
  ++stats.pushes_acknowledged;
  effects.Add(TraceRecord{.kind = TraceRecord::Kind::kAcked,
                          .actor = session_.incarnation(),
                          .lease = lease.id,
                          .step = step,
                          .slice = item.slice,
                          .epoch = item.epoch,
                          .count = 0,
                          .peer = {}});
  // An answer tells the staleness of the push that it answers, once.
  if (step != item.consumed || retained.resent || retained.gradient.empty()) return;
  if (retained.computed_from.epoch == item.epoch) {
    CountStaleness(item.staleness, stats.staleness);
  } else {
    CountUnknownStaleness(stats.staleness);
  }
}

// ---- Pulls ----------------------------------------------------------------------------------------------------------

void Exchange::Want(SliceValues keys) {
  for (size_t slice = grid_.dense(); slice < grid_.size(); ++slice) parameters_.values[slice] = Payload();
  pull_.Want(std::move(keys));
}

void Exchange::BeginPull(Time now, Effects& effects, PullRound::Of of) {
  if (pull_.under_way()) return;
  pull_.Begin(of);
  Flush(now, effects);
}

absl::Status Exchange::Receive(PeerId from, const PullReply& reply, Time now, Effects& effects) {
  PsLink* link = LinkTo(from, reply.from);
  if (link == nullptr) return absl::OkStatus();
  link->OnReply(reply.window, now);
  bool ejected = false;
  PrefetchParameters ahead;
  pull_.Receive(reply, *link, now + timing().control_retry, [&](const PullReply::Item& item) {
    ejected |= item.refusal == SliceRefusal::kWrongShape;
    return Store(item, ahead.values);
  });
  if (ejected) return Ejected(*link);
  if (!ahead.values.empty()) effects.Add(std::move(ahead));
  FlushTo(*link, now, effects);
  return absl::OkStatus();
}

// Only for what was asked for, so the slice is one of the grid.
bool Exchange::Store(const PullReply::Item& item, SliceValues& changed) {
  // B6: values of another epoch are of another history, whatever their number.
  if (item.refusal != SliceRefusal::kNone || item.version.epoch != map_.epoch(item.slice)) return false;
  const size_t slice = ToNumber(item.slice);
  const bool is_bucket = grid_.IsBucket(item.slice);
  if (!is_bucket && item.version == parameters_.versions[slice]) return true;
  if (item.values.size() != pull_.AnswerBytesOf(item.slice)) {
    Reject();
    return false;
  }
  parameters_.versions[slice] = item.version;
  parameters_.values[slice] = item.values;
  if (!is_bucket) changed.emplace_back(item.slice, item.values);
  return true;
}

// ---- Connections ----------------------------------------------------------------------------------------------------

// While the link was down retries were lost as well, and each made the next one rarer (PsLink::BackOff). What goes
// again keeps its share of the window here, too: the ps may still have the first copy.
void Exchange::SendAgain(PeerId peer, Time now, Effects& effects) {
  PsLink* link = map_.Find(peer);
  if (link == nullptr) return;
  // What was sent over the broken connection may be lost: all of it is overdue at once.
  const Time long_ago = now - PsLink::kMaxBackoff * timing().data_retry;
  for (HeldLease& lease : leases_) {
    for (const SliceId slice : link->slices) {
      lease.in_flight.ForEach(slice, [&](Step, InFlight::RetainedGradient& retained) {
        if (retained.state == State::kSent) retained.at = long_ago;
      });
    }
    link->oldest_push = long_ago;
    Probe(lease, now, effects);
  }
  pull_.SendAgain(*link, now);
  FlushTo(*link, now, effects);
  link->backoff = 1;
}

// ---- Time -----------------------------------------------------------------------------------------------------------

void Exchange::Tick(Time now, Effects& effects) {
  for (HeldLease& lease : leases_) {
    if (now >= lease.next_probe) Probe(lease, now, effects);
    for (InFlight::StepEntry& entry : lease.in_flight.steps()) {
      for (const Slice& slice : grid_.slices) {
        InFlight::RetainedGradient& retained = entry.slices[ToNumber(slice.id)];
        if (retained.state != State::kBlocked || retained.at > now || !lease.progress.Known(slice.id)) continue;
        MakeReady({lease.id, entry.step, slice.id}, retained);
        retained.resent = retained.sent;
      }
    }
  }
  Flush(now, effects);
}

std::string Exchange::Owing() const {
  std::string names;
  for (const auto& link : map_.links()) {
    if (link->unanswered > 0) absl::StrAppend(&names, names.empty() ? "" : ", ", link->name);
  }
  return names;
}

}  // namespace downpour
