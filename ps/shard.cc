#include "ps/shard.h"

#include <glog/logging.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/prng.h"

namespace downpour {

Shard::Shard(const JobSpec& job, SliceGrid grid, Plan plan, uint64_t secret)
    : job_(job), secret_(secret), grid_(std::move(grid)), plan_(plan), places_(grid_.size()) {}

// Of a bucket's rows, until they are dropped: an epoch is given out once, and what is held keeps its copy.
uint64_t Shard::CopyOf(SliceId slice) const {
  const SliceEpoch epoch = places_[ToNumber(slice)].epoch;
  return MixAll(secret_, ToNumber(slice), epoch.term, epoch.n);
}

bool Shard::Assign(const Assign::Item& item) {
  Place& place = places_[ToNumber(item.slice)];
  // core 4: the epoch only rises. A copy of the Assign at hand changes nothing; an older one was overtaken.
  if (item.epoch <= place.epoch) return item.epoch == place.epoch;
  // From here on the old epoch is refused, before there is anything in the new one.
  const std::unique_ptr<ServedSlice> held =
      std::exchange(place, Place{.epoch = item.epoch, .source = item.source}).served;
  if (item.source == SliceSource::kInitialValues) to_install_.push_back(item.slice);
  if (item.source != SliceSource::kHeld) return true;
  if (held == nullptr) {
    place.error = absl::StrCat("slice ", ToNumber(item.slice), " is not held here");
  } else {
    // core 6: what is held is a consistent pair, hence may go on in a new epoch.
    place.served = std::make_unique<ServedSlice>(std::move(*held));
    place.served->epoch = item.epoch;
    place.served->state->DropParts();  // T5
  }
  return true;
}

std::vector<SliceId> Shard::InstallNext(size_t budget) {
  std::vector<SliceId> installed;
  for (size_t bytes = 0; !to_install_.empty() && (bytes == 0 || bytes < budget);) {
    const SliceId id = to_install_.front();
    to_install_.pop_front();
    Place& place = places_[ToNumber(id)];
    // An epoch after the one that queued it may have installed it, or may want a record instead.
    if (place.served != nullptr || place.source != SliceSource::kInitialValues) continue;
    place.served = std::make_unique<ServedSlice>();
    place.served->epoch = place.epoch;
    place.served->state = InitialState(job_, grid_, id, CopyOf(id));
    bytes += place.served->state->bytes();
    installed.push_back(id);
  }
  return installed;
}

bool Shard::Restore(const RestoreSlice& record) {
  const SliceId slice = record.slice;
  Place& place = places_[ToNumber(slice)];
  // A record that comes twice would take back what was pushed since the first.
  if (place.epoch != record.epoch || place.source != SliceSource::kCheckpoint || HasReport(slice)) return false;
  if (record.piece != place.pieces) return record.piece < place.pieces;  // which is told again
  if (const absl::Status status = TakePiece(record, place); !status.ok()) {
    place.error = absl::StrCat("slice ", ToNumber(slice), ": ", status.message());
    place.incoming.reset();
  }
  return true;
}

// core 1: nothing of a slice is served before all of its record is here, and counters come out of the same one.
absl::Status Shard::TakePiece(const RestoreSlice& record, Place& place) {
  if (place.incoming == nullptr) place.incoming = AwaitedRecord(job_, grid_, record.slice, CopyOf(record.slice));
  for (const Payload& block : record.blocks) {
    if (absl::Status status = place.incoming->Add(block); !status.ok()) return status;
  }
  ++place.pieces;
  if (record.more) return absl::OkStatus();
  const std::unique_ptr<IncomingRecord> whole = std::move(place.incoming);
  absl::StatusOr<SliceState> head = whole->Head();
  if (!head.ok()) return head.status();
  absl::StatusOr<LeaseCounters> counters =
      LeaseCounters::Restore(std::move(head->finished), std::move(head->counters), plan_);
  if (!counters.ok()) return counters.status();
  const uint64_t consumed = counters->Sum(plan_);
  absl::StatusOr<std::unique_ptr<GuardedState>> state = whole->Finish(consumed);
  if (!state.ok()) return state.status();
  place.served = std::make_unique<ServedSlice>();
  ServedSlice& restored = *place.served;
  restored.epoch = record.epoch;
  restored.version = head->version;
  restored.consumed = consumed;
  restored.skipped = head->skipped;
  restored.usual_staleness = head->usual_staleness;
  restored.counters = *std::move(counters);
  restored.state = *std::move(state);
  return absl::OkStatus();
}

bool Shard::HasReport(SliceId slice) const {
  const Place& place = places_[ToNumber(slice)];
  return place.served != nullptr || !place.error.empty();
}

SliceReport::Item Shard::Report(SliceId slice) const {
  const Place& place = places_[ToNumber(slice)];
  SliceReport::Item item{.slice = slice, .epoch = place.epoch, .error = place.error, .finished = {}};
  if (place.served == nullptr && place.error.empty()) item.pieces = place.pieces;
  if (place.served != nullptr) {
    // A3: the report says what the slice has, and not what a manifest says of it.
    item.finished = place.served->counters.finished();
  }
  return item;
}

size_t Shard::AwaitingRecords() const {
  return std::count_if(places_.begin(), places_.end(), [](const Place& place) {
    return place.source == SliceSource::kCheckpoint && place.served == nullptr && place.error.empty();
  });
}

TableTotals Shard::Tables() const {
  TableTotals totals;
  for (const Place& place : places_) {
    if (place.served != nullptr) place.served->state->AddTo(totals);
  }
  return totals;
}

void Shard::CheckCounts(const ServedSlice& slice) const {
  CHECK_EQ(slice.consumed, slice.counters.Sum(plan_)) << "a slice consumed other pushes than its counters say";
}

void Shard::CheckAllCounts() const {
  for (const Place& place : places_) {
    if (place.served != nullptr) CheckCounts(*place.served);
  }
}

SliceState StateOf(SliceId id, const ServedSlice& slice) {
  SliceState state{.slice = id,
                   .epoch = slice.epoch,
                   .version = slice.version,
                   .skipped = slice.skipped,
                   .usual_staleness = slice.usual_staleness,
                   .finished = slice.counters.finished(),
                   .counters = slice.counters.open(),
                   .values = {},
                   .slots = {}};
  slice.state->Complete(state);
  return state;
}

}  // namespace downpour
