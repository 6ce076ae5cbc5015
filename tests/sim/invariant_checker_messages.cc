// What roles say to each other, held against the reference state.
#include <algorithm>
#include <utility>
#include <variant>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "ps/shard.h"
#include "tests/sim/invariant_checker.h"

namespace downpour {

// As a worker keeps it: a push weighs once, however often it is sent, and until its answer. An empty one weighs
// nothing; it may go again while others fill the window.
void InvariantChecker::CheckWindow(const Process& process, PeerId to, const Push& push) {
  InFlight& in_flight = in_flight_[{process.life, to}];
  for (const Push::Item& item : push.slices) {
    if (item.gradient.empty()) continue;
    if (!in_flight.sent.try_emplace({push.lease, push.step, item.slice}, item.gradient.size()).second) continue;
    uint64_t unanswered = 0;
    for (const auto& [name, bytes] : in_flight.sent) unanswered += bytes;
    if (unanswered > item.gradient.size() && unanswered > in_flight.window) {
      Add(process, absl::StrCat("has ", unanswered, " bytes unanswered, where ", in_flight.window, " may be"));
    }
  }
}

// What was on its way is lost, retries too. A lease that it holds no more owes nothing.
void InvariantChecker::CheckSentAgain(const Process& worker) {
  const auto owed = std::exchange(owed_again_, std::nullopt);
  if (!owed || !worker.alive || worker.crash_after.has_value()) return;
  const std::vector<LeaseId> held = worker.worker->holding();
  for (const auto& [name, bytes] : owed->second) {
    const auto& [lease, step, slice] = name;
    const auto is_it = [&, l = lease, n = step, s = slice](const auto& sent) {
      const auto* push = sent.first == owed->first ? std::get_if<Push>(&sent.second) : nullptr;
      return push != nullptr && push->lease == l && push->step == n &&
             std::ranges::find(push->slices, s, &Push::Item::slice) != push->slices.end();
    };
    if (std::ranges::find(held, lease) == held.end() || std::ranges::any_of(sent_, is_it)) continue;
    return Add(worker, absl::StrCat("does not send step ", step, " of lease ", ToNumber(lease),
                                    " again, though the connection was broken"));
  }
}

void InvariantChecker::Answered(Life worker, PeerId ps, const PushReply& reply) {
  InFlight& in_flight = in_flight_[{worker, ps}];
  windows_[{worker, reply.from}] = in_flight.window = reply.window;
  std::erase_if(in_flight.sent, [&reply](const auto& item) {
    const auto& [lease, step, slice] = item.first;
    return lease == reply.lease &&
           std::any_of(reply.slices.begin(), reply.slices.end(), [&, s = slice, n = step](const auto& answer) {
             return answer.slice == s && (answer.refusal != SliceRefusal::kNone || answer.consumed >= n);
           });
  });
}

// A lease that comes too early is given back, and what was pushed of it, to whichever ps, is nobody's any more.
void InvariantChecker::GivenBack(Life worker, const PushReply& reply) {
  const auto is_early = [](const PushReply::Item& item) { return item.refusal == SliceRefusal::kTooEarly; };
  if (std::ranges::none_of(reply.slices, is_early)) return;
  for (auto& [link, in_flight] : in_flight_) {
    if (link.first != worker) continue;
    std::erase_if(in_flight.sent, [&](const auto& item) { return std::get<LeaseId>(item.first) == reply.lease; });
  }
}

void InvariantChecker::Tell(Life worker, const PushReply& reply) {
  for (const PushReply::Item& item : reply.slices) {
    if (item.refusal != SliceRefusal::kNone) continue;
    Told& told = told_[{worker, reply.lease}][item.slice];
    if (told.epoch < item.epoch) told = {item.epoch, 0};
    if (told.epoch == item.epoch) told.consumed = std::max(told.consumed, item.consumed);
  }
}

void InvariantChecker::Check(const Process& process, PeerId to, const Welcome& welcome) {
  heard_[welcome.you] = {process.life, world_->now(), process.away};
  const uint64_t nonce = joiners_[{process.life, to}];
  const auto [given, fresh] = given_.emplace(welcome.you, nonce);
  if (!fresh && given->second != nonce) Add(process, "one incarnation for two processes");
  if (!fresh && names_[welcome.name] != welcome.you)
    Add(process, absl::StrCat(welcome.name, ": welcomed after its successor"));
  names_[welcome.name] = welcome.you;
  if (fresh && IsBeyond(process, welcome.name))
    Add(process, absl::StrCat("takes ", welcome.name, " in, which the job lacks"));
  if (welcome.term != process.chief->term() || welcome.term == 0)
    Add(process, "welcomes in a term that is not durable");
}

void InvariantChecker::Check(const Process& process, PeerId, const HeartbeatReply& reply) {
  for (const auto& [name, incarnation] : names_) {
    if (!reply.retired || incarnation != reply.to || IsBeyond(process, name)) continue;
    Add(process, absl::StrCat("retires ", name, ", and wants ", process.chief->worker_count(), " workers"));
  }
}

// A worker whose number the job has no place for.
bool InvariantChecker::IsBeyond(const Process& chief, absl::string_view name) const {
  int64_t number = 0;
  return absl::ConsumePrefix(&name, "worker-") && absl::SimpleAtoi(name, &number) &&
         number >= chief.chief->worker_count();
}

void InvariantChecker::Check(const Process& process, PeerId, const Assign& assign) {
  for (const Assign::Item& item : assign.slices) {
    if (item.source != SliceSource::kInitialValues) continue;
    const std::string& file = oracle_->job().model.initialize_from;
    const bool is_bucket = oracle_->grid().Contains(item.slice) && oracle_->grid().IsBucket(item.slice);
    if (!file.empty() && (!is_bucket || oracle_->begins_with_rows()))
      Add(process, absl::StrCat("leaves the values of slice ", ToNumber(item.slice), " to its ps"));
    if (journalled_ > abandoned_) AddBegun(process, item.slice);
  }
}

void InvariantChecker::Check(const Process& process, PeerId, const RestoreSlice& restore) {
  if (restore.round == Round() && journalled_ > abandoned_) AddBegun(process, restore.slice);
}

void InvariantChecker::AddBegun(const Process& process, SliceId slice) {
  Add(process,
      absl::StrCat("begins slice ", ToNumber(slice), " again, though there was checkpoint ", ToString(journalled_)));
}

void InvariantChecker::Check(const Process& process, PeerId, const JobEnd& end) {
  told_cancelled_ |= end.cancelled;
  if (end.succeeded && end.cancelled) Add(process, "tells of two ends");
  if (!end.succeeded) return;
  if (process.chief->term() == 0) Recall();
  told_success_ = true;
  const uint64_t leases = process.chief->term() == 0 ? goal() : process.chief->goal();
  if (!durable_.has_value() || !durable_->committed.CoversRange(0, leases)) {
    Add(process, "ends the job before a durable checkpoint holds every lease");
  }
}

void InvariantChecker::Check(const Process& process, PeerId, const Grant& grant) {
  if (grant.to == overtaken_) Add(process, "grants a lease to a request that a later one has overtaken");
}

void InvariantChecker::Check(const Process& process, PeerId, const SnapshotRequest& request) {
  committed_at_start_.try_emplace(request.round, process.chief->committed());
}

void InvariantChecker::Check(const Process& process, PeerId, const WriteShard& request) {
  committed_at_start_.try_emplace(request.round, process.chief->committed());
}

void InvariantChecker::Check(const Process& process, PeerId to, const Push& push) {
  CheckWindow(process, to, push);
  for (const Push::Item& item : push.slices) {
    const std::string name =
        absl::StrCat("pushes lease ", ToNumber(push.lease), " step ", push.step, " slice ", ToNumber(item.slice), " ");
    const bool is_bucket = oracle_->grid().IsBucket(item.slice);
    Payload gradient = oracle_->Gradient(push.lease, push.step, item.slice);
    if (!is_bucket) gradient = oracle_->OnWire(gradient);
    if (item.gradient.bytes() != gradient.bytes()) {
      Add(process, absl::StrCat(name, "with another gradient"));
    }
    if (is_bucket) continue;  // its rows were checked as they came
    const std::optional<uint32_t> checksum = reference_->ChecksumAt(item.slice, item.computed_from);
    if (!checksum.has_value() || !process.device->ComputedOn(push.lease, push.step, item.slice, *checksum)) {
      Add(process, absl::StrCat(name, "computed from other values than ", ToString(item.computed_from.epoch), " v",
                                item.computed_from.n));
    }
  }
}

void InvariantChecker::Check(const Process& process, PeerId, const PushReply& reply) {
  for (const PushReply::Item& item : reply.slices) {
    const bool is_stale = item.refusal == SliceRefusal::kTooStale;
    if (item.refusal != SliceRefusal::kNone && !is_stale) continue;
    const Step consumed = reference_->ConsumedTo(item.slice, item.epoch, reply.lease);
    if (is_stale && oracle_->Gradient(reply.lease, consumed + 1, item.slice).empty()) {
      Add(process, absl::StrCat("calls an empty push too stale: lease ", ToNumber(reply.lease), " step ", consumed + 1,
                                " slice ", ToNumber(item.slice)));
    }
    if (is_stale) continue;
    if (item.consumed != consumed || item.acked > consumed) {
      Add(process,
          absl::StrCat("answers consumed=", item.consumed, " acked=", item.acked, " of lease ", ToNumber(reply.lease),
                       " slice ", ToNumber(item.slice), " where ", consumed, " is true"));
    }
  }
}

void InvariantChecker::Check(const Process& process, PeerId, const PullReply& reply) {
  for (const PullReply::Item& item : reply.slices) {
    if (item.refusal != SliceRefusal::kNone || item.values.empty()) continue;
    if (oracle_->grid().IsBucket(item.slice)) {
      CheckRows(process, item);
      continue;
    }
    if (reference_->ChecksumAt(item.slice, item.version) != Crc32c(item.values.bytes())) {
      Add(process, absl::StrCat("slice ", ToNumber(item.slice), " never had these values at ",
                                ToString(item.version.epoch), " v", item.version.n));
    }
  }
}

// Of the pull at hand: an answer leaves in the step that was asked.
void InvariantChecker::CheckRows(const Process& process, const PullReply::Item& item) {
  for (const Pull::Item& wanted : pull_ ? pull_->slices : std::vector<Pull::Item>()) {
    if (wanted.slice != item.slice) continue;
    if (!reference_->Showed(item.slice, item.version, wanted.keys, item.values)) {
      Add(process, absl::StrCat("bucket ", ToNumber(item.slice), " never had these rows at ",
                                ToString(item.version.epoch), " v", item.version.n));
    }
    return;
  }
  Add(process, absl::StrCat("answers with rows of slice ", ToNumber(item.slice), " that nobody asked for"));
}

void InvariantChecker::Check(const Process& process, PeerId, const SliceRecord& record) {
  if (record.part > 0) return;  // the whole is held against the disk
  const absl::StatusOr<SliceState> state = DecodeRecord(record.blocks);
  if (!state.ok()) return Add(process, std::string(state.status().ToString()));
  const bool same = state->slice == record.slice && state->epoch == record.epoch &&
                    state->finished == record.finished && state->skipped == record.skipped &&
                    state->version == record.version;
  if (!same) {
    Add(process, "a record that is not what its message says");
  }
  if (!oracle_->grid().IsBucket(record.slice)) reference_->CheckRecord(record.round, *state, process.name);
}

void InvariantChecker::Check(const Process& process, PeerId, const EvalDone& done) {
  const uint32_t values = process.device->EvaluatedOn(done.first_batch);
  const auto [known, fresh] = evaluated_.emplace(done.versions_digest, values);
  if (!fresh && known->second != values) Add(process, "one versions digest for two sets of values");
}

}  // namespace downpour
