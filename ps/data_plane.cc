#include "ps/data_plane.h"

#include <glog/logging.h>

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/log_line.h"
#include "runtime/staleness.h"

namespace downpour {
namespace {

// Why the slice cannot be asked in this epoch, if so.
SliceRefusal RefusalOf(const Shard* shard, SliceId id, SliceEpoch epoch) {
  const ServedSlice* slice = shard == nullptr ? nullptr : shard->Find(id);
  if (slice == nullptr) return SliceRefusal::kNotHere;
  // core 4: a message for a placement that is over, or not known here yet, finds no slice.
  return slice->epoch == epoch ? SliceRefusal::kNone : SliceRefusal::kOtherEpoch;
}

PushReply::Item Refuse(SliceRefusal refusal, const Shard* shard, SliceId id) {
  PushReply::Item item;
  item.slice = id;
  item.refusal = refusal;
  // A6: neither consumed nor acked is set, so no worker takes a refusal for an acknowledgement.
  const bool is_here = refusal != SliceRefusal::kNotHere && refusal != SliceRefusal::kWrongShape;
  if (is_here) item.epoch = shard->Find(id)->epoch;
  return item;
}

// With one replica, what is consumed is acknowledged.
PushReply::Item Answer(const Shard& shard, LeaseId lease, SliceId id, const ServedSlice& slice) {
  PushReply::Item item;
  item.slice = id;
  item.epoch = slice.epoch;
  item.consumed = slice.counters.ConsumedTo(lease, shard.plan().StepsOf(lease));
  // core 3: two numbers, though they are equal here; a worker drops gradients by `acked` alone.
  item.acked = item.consumed;
  return item;
}

PullReply::Item Values(Shard* shard, const Pull::Item& wanted) {
  PullReply::Item item;
  item.slice = wanted.slice;
  item.refusal = RefusalOf(shard, wanted.slice, wanted.epoch);
  if (item.refusal != SliceRefusal::kNone) return item;
  ServedSlice& slice = *shard->Find(wanted.slice);
  item.version = slice.CurrentVersion();
  item.values = slice.state->ValuesFor(wanted, item.version, shard->grid());
  return item;
}

// How many updates the gradient lacks; an empty push lacks none. B6: versions of two epochs do not compare; and a later
// one than the slice's is no honest worker's.
std::optional<uint64_t> StalenessOf(const Push::Item& item, const ServedSlice& slice) {
  // A slice from which a step pulled nothing has no version to name, and would refuse that step's push for ever.
  if (item.gradient.empty()) return 0;
  const bool known = item.computed_from.epoch == slice.epoch && item.computed_from.n <= slice.version;
  return known ? std::optional(slice.version - item.computed_from.n) : std::nullopt;
}

}  // namespace

template <typename Request>
bool DataPlane::Admits(PeerId worker, const Request& request, const Shard* shard, Effects& effects) {
  if (ejected_.Contains(worker, request.from)) return false;
  // Before the first Assign there is no grid to hold it against (conversation 7).
  if (shard == nullptr) return true;
  // All or nothing, before anything is consumed: a message half obeyed would be a torn push.
  const absl::Status status = Admit(request, shard->grid(), shard->plan());
  if (status.ok()) return true;
  ejected_.Add(worker, request.from);
  const std::string what(status.message());
  if (WorthALine(++breaches_)) {
    session_.Say(
        Severity::kWarning,
        absl::StrCat("process ", ToNumber(request.from), " broke the protocol (", breaches_, " did so far): it ", what),
        effects);
  }
  effects.SendTo(MemberSession::kChief, Violation{session_.incarnation(), request.from, what});
  return false;
}

size_t DataPlane::Serve(PeerId worker, const Push& push, Shard* shard, Effects& effects) {
  const bool admitted = Admits(worker, push, shard, effects);
  PushReply reply{.from = as_, .lease = push.lease, .slices = {}, .window = window_.bytes};
  reply.slices.reserve(push.slices.size());
  size_t bytes = 0;
  for (const Push::Item& item : push.slices) {
    const SliceRefusal refusal = admitted ? RefusalOf(shard, item.slice, item.epoch) : SliceRefusal::kWrongShape;
    if (refusal == SliceRefusal::kNone) {
      reply.slices.push_back(ServeItem(push, item, *shard, effects));
    } else {
      reply.slices.push_back(Refuse(refusal, shard, item.slice));
      ++session_.stats().pushes_refused;
    }
    bytes += item.gradient.size();
  }
  effects.SendTo(worker, std::move(reply));
  return bytes;
}

size_t DataPlane::Serve(PeerId worker, const Probe& probe, Shard* shard, Effects& effects) {
  const bool admitted = Admits(worker, probe, shard, effects);
  PushReply reply{.from = as_, .lease = probe.lease, .slices = {}, .window = window_.bytes};
  reply.slices.reserve(probe.slices.size());
  for (const Probe::Item& item : probe.slices) {
    const SliceRefusal refusal = admitted ? RefusalOf(shard, item.slice, item.epoch) : SliceRefusal::kWrongShape;
    reply.slices.push_back(refusal == SliceRefusal::kNone
                               ? Answer(*shard, probe.lease, item.slice, *shard->Find(item.slice))
                               : Refuse(refusal, shard, item.slice));
  }
  effects.SendTo(worker, std::move(reply));
  return 0;
}

bool DataPlane::ServeReader(PeerId reader, const Pull& pull, Shard* shard, Effects& effects) {
  if (shard != nullptr && !Admit(pull, shard->grid(), shard->plan()).ok()) return false;
  AnswerPull(reader, pull, /*admitted=*/true, shard, effects);
  return true;
}

size_t DataPlane::Serve(PeerId worker, const Pull& pull, Shard* shard, Effects& effects) {
  return AnswerPull(worker, pull, Admits(worker, pull, shard, effects), shard, effects);
}

size_t DataPlane::AnswerPull(PeerId to, const Pull& pull, bool admitted, Shard* shard, Effects& effects) {
  PullReply reply{.from = as_, .request = pull.request, .slices = {}, .window = window_.bytes};
  reply.slices.reserve(pull.slices.size());
  size_t bytes = 0;
  for (const Pull::Item& item : pull.slices) {
    reply.slices.push_back(admitted ? Values(shard, item)
                                    : PullReply::Item{item.slice, SliceRefusal::kWrongShape, Version{}, Payload()});
    bytes += reply.slices.back().values.size();
  }
  effects.SendTo(to, std::move(reply));
  return bytes;
}

PushReply::Item DataPlane::ServeItem(const Push& push, const Push::Item& item, Shard& shard, Effects& effects) {
  ServedSlice& slice = *shard.Find(item.slice);
  const std::optional<uint64_t> staleness = StalenessOf(item, slice);
  bool counted = false, has_effect = false;
  switch (slice.counters.Classify(push.lease, push.step)) {
    case LeaseCounters::Verdict::kNext:
      if (const SliceRefusal why = policy_.RefusalOf(push.lease, staleness, slice.counters, shard.plan());
          why != SliceRefusal::kNone) {
        ++session_.stats().pushes_dropped;
        return Refuse(why, &shard, item.slice);
      }
      has_effect = Consume(push, item, staleness, shard, slice, effects);
      counted = has_effect || item.gradient.empty();
      break;
    case LeaseCounters::Verdict::kDuplicate:
      // A1: a late duplicate finds its lease finished, however long ago that was, and changes nothing.
      ++session_.stats().pushes_duplicate;
      Trace(TraceRecord::Kind::kDuplicate, push, item.slice, slice, effects);
      break;
    case LeaseCounters::Verdict::kGap:
      break;  // the answer says from where to go on
    case LeaseCounters::Verdict::kNoRoom:
      SayNoRoom(push, item.slice, effects);
      ++session_.stats().pushes_refused;
      return Refuse(SliceRefusal::kNotHere, &shard, item.slice);
  }
  PushReply::Item answer = Answer(shard, push.lease, item.slice, slice);
  answer.counted = counted;
  if (has_effect) answer.staleness = staleness.value_or(0);
  return answer;
}

bool DataPlane::Consume(const Push& push, const Push::Item& item, std::optional<uint64_t> staleness, const Shard& shard,
                        ServedSlice& slice, Effects& effects) {
  TaskStats& stats = session_.stats();
  const PushName name{session_.run(), push.lease, push.step, item.slice};
  // core 1, B4: values and counters change together; no other input comes in between.
  const bool counted = Apply(name, item.gradient, staleness, shard, slice);
  // B2: a push without effect is consumed all the same, or its step could never be passed.
  slice.counters.Consume(push.lease, push.step, shard.plan().StepsOf(push.lease));
  const bool lost =
      ConcludesGroup(push.lease, shard, slice) && !slice.state->UpdateByGroup(item.slice, *optimizer_, slice);
  ++slice.consumed;  // behind the update, as without groups: its schedule counts the pushes before this one
  Trace(counted ? TraceRecord::Kind::kApplied : TraceRecord::Kind::kSkipped, push, item.slice, slice, effects);

  if (lost || (!counted && !item.gradient.empty())) {
    ++slice.skipped;
    SaySkipped(name, push, effects);
  }
  if (!counted && !item.gradient.empty()) return false;
  ++stats.steps;
  if (!counted) return false;
  staleness ? CountStaleness(*staleness, stats.staleness) : CountUnknownStaleness(stats.staleness);
  return true;
}

bool DataPlane::Apply(const PushName& name, const Payload& gradient, std::optional<uint64_t> staleness,
                      const Shard& shard, ServedSlice& slice) {
  // An empty push moves the counter alone: the step had nothing for this slice.
  if (gradient.empty() || quarantine_.Contains(name)) {
    slice.state->PassOver();
    return false;
  }
  PushedGradient push{.slice = name.slice, .gradient = gradient, .staleness = staleness};
  if (policy_.gathers()) push.share = 1.0 / shard.plan().LeasesIn(shard.plan().GroupOf(name.lease));
  applying_.Begin(name);
  const bool counted = slice.state->Update(push, shard.grid(), *optimizer_, slice);
  applying_.End();
  return counted;
}

// Whether that was the last push of its group that the slice lacked.
bool DataPlane::ConcludesGroup(LeaseId lease, const Shard& shard, const ServedSlice& slice) const {
  if (!policy_.gathers()) return false;
  const LeaseId missing{slice.counters.finished().FirstMissing(0)};
  return shard.plan().GroupOf(missing) > shard.plan().GroupOf(lease);
}

void DataPlane::SaySkipped(const PushName& name, const Push& push, Effects& effects) {
  const uint64_t skipped = ++session_.stats().pushes_skipped;
  const bool quarantined = quarantine_.Contains(name);
  if (!quarantined && !WorthALine(skipped)) return;
  const char* what = quarantined ? "left out a push at which this server crashed before, and crashed again"
                                 : "skipped a gradient that is not finite, or makes the slice so";
  session_.Say(Severity::kWarning,
               absl::StrCat(what, " (", skipped, " so far): lease ", ToNumber(name.lease), ", step ", name.step,
                            ", slice ", ToNumber(name.slice), ", from process ", ToNumber(push.from)),
               effects);
}

void DataPlane::SayNoRoom(const Push& push, SliceId slice, Effects& effects) {
  if (!WorthALine(++no_room_)) return;
  session_.Say(Severity::kWarning,
               absl::StrCat("slice ", ToNumber(slice), " has ", LeaseCounters::kMostOutOfOrder,
                            " leases begun or finished out of order, more than workers hold: lease ",
                            ToNumber(push.lease), " of process ", ToNumber(push.from),
                            " waits until those before it are finished (", no_room_, " pushes did so far)"),
               effects);
}

void DataPlane::Trace(TraceRecord::Kind kind, const Push& push, SliceId id, const ServedSlice& slice,
                      Effects& effects) const {
  effects.Add(TraceRecord{.kind = kind,
                          .actor = as_,
                          .lease = push.lease,
                          .step = push.step,
                          .slice = id,
                          .epoch = slice.epoch,
                          .count = slice.version,
                          .peer = push.from});
}

}  // namespace downpour
