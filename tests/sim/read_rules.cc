#include "tests/sim/read_rules.h"

#include <algorithm>
#include <variant>

#include "absl/strings/str_cat.h"
#include "ps/shard.h"
#include "schema/peer_role.h"

namespace downpour {
namespace {

using Kind = TraceRecord::Kind;

bool Changes(Kind kind) {
  return kind == Kind::kInstalled || kind == Kind::kKept || kind == Kind::kApplied || kind == Kind::kSkipped;
}

std::optional<SliceEpoch> EpochIn(const Placement& placement, SliceId slice) {
  const auto item = std::ranges::find(placement.slices, slice, &Placement::Item::slice);
  return item == placement.slices.end() ? std::nullopt : std::optional(item->epoch);
}

std::string ToText(SliceId slice, const Version& version) {
  return absl::StrCat("slice ", ToNumber(slice), " at ", ToString(version.epoch), " v", version.n);
}

}  // namespace

const Process* ReadRules::ReaderAt(const Process& listener, PeerId peer) const {
  const Life life = world_->network().DialerOf(listener.life, peer);
  if (life == Life::kNone) return nullptr;
  const Process& dialler = world_->process(life);
  return dialler.viewer == nullptr ? nullptr : &dialler;
}

ReadRules::Counts ReadRules::CountsOf(const Process& ps) const {
  const TaskStats& stats = ps.ps->stats();
  Counts counts;
  counts.pushes =
      stats.steps + stats.pushes_duplicate + stats.pushes_refused + stats.pushes_skipped + stats.pushes_dropped;
  for (const Slice& slice : oracle_->grid().slices) {
    if (const ServedSlice* served = ps.ps->Find(slice.id)) {
      counts.slices[slice.id] = {served->CurrentVersion(), served->consumed};
    }
  }
  return counts;
}

void ReadRules::Before(const Process& process, const Input& input) {
  if (IsOff()) return;
  touched_.clear();
  asking_ = PeerId::kNone;
  before_.reset();
  without_secret_ = PeerId::kNone;
  const auto* received = std::get_if<Received>(&input);
  const auto* request = received == nullptr ? nullptr : std::get_if<PlacementRequest>(&received->message);
  if (request != nullptr && request->secret != kSecret) without_secret_ = received->from;
  if (received == nullptr || process.ps == nullptr || ReaderAt(process, received->from) == nullptr) return;
  asking_ = received->from;
  before_ = CountsOf(process);
}

void ReadRules::OnEffect(const Process& process, const Effect& effect) {
  if (IsOff()) return;
  if (const auto* record = std::get_if<TraceRecord>(&effect); record != nullptr && process.ps != nullptr) {
    if (Changes(record->kind)) touched_[record->slice] = record->epoch;
  }
  if (const auto* hang_up = std::get_if<HangUp>(&effect)) {
    if (asking_ != PeerId::kNone && hang_up->peer == asking_) Add(process, "hangs up on an honest reader");
  }
  const auto* send = std::get_if<Send>(&effect);
  if (send == nullptr) return;
  if (process.viewer != nullptr) return OnSaidByReader(process, *send);
  if (ReaderAt(process, send->to) != nullptr) OnSaidToReader(process, *send);
}

void ReadRules::OnSaidByReader(const Process& reader, const Send& send) {
  if (const absl::Status may = CheckSpeaker(PeerRole::kViewer, send.message); !may.ok()) {
    Add(reader, std::string(may.message()));
  }
  if (send.run != RunOf(reader)) Add(reader, "says something in another run than its own");
}

void ReadRules::OnSaidToReader(const Process& process, const Send& send) {
  const Message& message = send.message;
  const auto* placement = std::get_if<Placement>(&message);
  const bool is_chiefs =
      placement != nullptr || std::holds_alternative<JobEnd>(message) || std::holds_alternative<Refused>(message);
  const bool is_for_readers = process.chief != nullptr ? is_chiefs : std::holds_alternative<PullReply>(message);
  if (!is_for_readers) Add(process, absl::StrCat("says a ", NameOf(message), " to a reader"));
  if (placement != nullptr && placement->to != Incarnation::kNone) Add(process, "takes a reader for a member");
  const bool is_refused = std::holds_alternative<Refused>(message);
  if (process.chief != nullptr && send.to == without_secret_ && !is_refused) {
    Add(process, "tells of its job to a reader that does not know the secret");
  }
  if (placement != nullptr && !placement->slices.empty() && !process.chief->all_reported()) {
    Add(process, "tells a reader of slices that are not there");
  }
}

void ReadRules::After(const Process& process) {
  if (IsOff()) return;
  for (const auto& [slice, epoch] : touched_) Note(process, slice, epoch);
  if (before_ && process.alive && !process.crash_after.has_value()) {
    Counts after = CountsOf(process);
    // Slices that begin to serve do so as they would have with the next tick.
    std::erase_if(after.slices, [this](const auto& item) { return touched_.contains(item.first); });
    std::erase_if(before_->slices, [this](const auto& item) { return touched_.contains(item.first); });
    if (after != *before_) Add(process, "is another one since it heard a reader");
  }
  if (process.viewer == nullptr) return;
  if (process.viewer->run() != process.viewer->first_run()) Add(process, "follows another training");
  if (const auto& set = process.viewer->values()) CheckSet(process, *set);
  for (const Viewer::Answer& answer : process.viewer->answers()) CheckAnswer(process, answer);
}

// Behind CheckSlice: the reference state is what the ps holds.
void ReadRules::Note(const Process& ps, SliceId slice, SliceEpoch epoch) {
  const SliceState* shown = reference_->Now(slice, epoch);
  if (shown == nullptr) return;
  const auto end = [this](Lineage& lineage) {
    if (!lineage.states.empty()) lineage.states.back().until = std::min(lineage.states.back().until, world_->now());
  };
  Lineage& lineage = lineages_[{slice, epoch}];
  SliceEpoch& newest = epochs_.try_emplace({ps.life, slice}, epoch).first->second;
  if (newest != epoch) end(lineages_[{slice, std::exchange(newest, epoch)}]);
  lineage.by = ps.life;
  State state{.version = shown->version, .checksum = 0, .rows = {}};
  if (oracle_->grid().IsBucket(slice)) {
    state.rows = shown->values;
  } else {
    state.checksum = reference_->ChecksumAt(slice, {epoch, shown->version}).value_or(0);
  }
  if (!lineage.states.empty()) {
    const State& last = lineage.states.back();
    const bool is_same =
        last.version == state.version && last.checksum == state.checksum && last.rows.bytes() == state.rows.bytes();
    if (is_same) return;
  }
  end(lineage);
  lineage.states.push_back(std::move(state));
}

template <typename Fits>
std::string ReadRules::Missed(SliceId slice, SliceEpoch epoch, Time since, const Fits& fits) const {
  const auto found = lineages_.find({slice, epoch});
  if (found == lineages_.end()) return "of an epoch that no ps has had it in";
  const Lineage& lineage = found->second;
  const Time ended = world_->process(lineage.by).ended;
  const auto fitting = [&](auto from) {
    return std::find_if(from, lineage.states.rend(), [&](const State& state) { return fits(state); });
  };
  auto state = fitting(lineage.states.rbegin());
  if (state == lineage.states.rend()) return "as the slice never was";
  for (; state != lineage.states.rend(); state = fitting(std::next(state))) {
    if (std::min(state->until, ended) >= since) return "";
  }
  return "as the slice was no longer when that was asked for";
}

void ReadRules::CheckSet(const Process& reader, const ValueSet& set) {
  const Placement& placement = reader.viewer->placement();
  const Time as_of = set.as_of - reader.clock;
  const auto [last, fresh] = shown_.try_emplace(reader.life);
  if (as_of > world_->now() || (!fresh && as_of < last->second))
    Add(reader, "shows a set of another time than its round's");
  last->second = world_->now();
  const Viewer& viewer = *reader.viewer;
  const Time now = world_->now() + reader.clock, begun = std::max(set.as_of, viewer.moved());
  const Time pause_ends =
      std::max(set.as_of + world_->plan().readers.refresh, now + (ReaderRole::kShare - 1) * (now - begun));
  if (viewer.next_round() > pause_ends) Add(reader, "pauses for longer than its round asks for");
  const size_t dense = oracle_->grid().dense();
  if (set.versions.size() != dense || set.values.size() != dense) return Add(reader, "shows a set of other slices");
  for (size_t i = 0; i < dense; ++i) {
    const SliceId slice{static_cast<uint32_t>(i)};
    const Version& version = set.versions[i];
    if (EpochIn(placement, slice) != version.epoch) {
      return Add(reader, absl::StrCat("shows ", ToText(slice, version), ", which is not of its placement"));
    }
    const uint32_t checksum = Crc32c(set.values[i].bytes());
    const std::string missed = Missed(slice, version.epoch, as_of, [&](const State& state) {
      return state.version == version.n && state.checksum == checksum;
    });
    if (!missed.empty()) return Add(reader, absl::StrCat("shows ", ToText(slice, version), " ", missed));
  }
}

void ReadRules::CheckAnswer(const Process& reader, const Viewer::Answer& answer) {
  const std::string name = absl::StrCat("answers question ", answer.number, " ");
  if (!answer.question) return Add(reader, name + "which nobody waits for");
  const SliceValues& keys = answer.question->keys;
  const bool same =
      std::ranges::equal(keys, answer.rows, {}, &SliceValues::value_type::first, &SliceValues::value_type::first);
  if (!same) return Add(reader, name + "for other buckets");
  for (size_t i = 0; i < keys.size(); ++i) {
    const SliceId bucket = keys[i].first;
    const SliceEpoch epoch = EpochIn(reader.viewer->placement(), bucket).value_or(SliceEpoch());
    const std::string missed = Missed(bucket, epoch, answer.question->asked - reader.clock, [&, i](const State& state) {
      return reference_->Answers(bucket, state.rows, keys[i].second, answer.rows[i].second);
    });
    if (!missed.empty()) {
      return Add(reader,
                 absl::StrCat(name, "with rows of slice ", ToNumber(bucket), " in ", ToString(epoch), " ", missed));
    }
  }
}

}  // namespace downpour
