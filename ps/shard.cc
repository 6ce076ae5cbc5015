#include "ps/shard.h"

#include <glog/logging.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/initial_values.h"
#include "runtime/prng.h"
#include "tensor/apply_kernels.h"

namespace downpour {

Shard::Shard(const JobSpec& job, SliceGrid grid, Plan plan, uint64_t secret)
    : seed_(job.seed),
      slot_count_(static_cast<size_t>(SlotCount(job.training))),
      tables_(TablesOf(job)),
      secret_(secret),
      grid_(std::move(grid)),
      plan_(plan),
      places_(grid_.size()) {}

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
    if (place.served->rows != nullptr) place.served->rows->DropRecord();  // T5
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
    auto slice = std::make_unique<ServedSlice>();
    slice->epoch = place.epoch;
    if (grid_.IsBucket(id)) {
      slice->rows = std::make_shared<BucketRows>(tables_, static_cast<uint32_t>(grid_.at(id).offset), CopyOf(id));
      bytes += slice->rows->bytes();
      place.served = std::move(slice);
      installed.push_back(id);
      continue;
    }
    slice->values = Payload::Allocate(grid_.at(id).bytes());
    InitialValues(seed_, grid_, id, slice->values.mutable_floats().data());
    for (size_t slot = 0; slot < slot_count_; ++slot) slice->slots.push_back(Payload::Zeros(grid_.at(id).bytes()));
    bytes += slice->values.size() * (1 + slot_count_);
    place.served = std::move(slice);
    installed.push_back(id);
  }
  return installed;
}

bool Shard::Restore(const RestoreSlice& record) {
  const SliceId slice = record.slice;
  Place& place = places_[ToNumber(slice)];
  // A record that comes twice would take back what was pushed since the first.
  if (place.epoch != record.epoch || place.source != SliceSource::kCheckpoint || HasReport(slice)) return false;
  if (grid_.IsBucket(slice)) {
    if (record.piece != place.pieces) return record.piece < place.pieces;  // which is told again
    if (const absl::Status status = TakePiece(record, place); !status.ok()) {
      place.error = absl::StrCat("slice ", ToNumber(slice), ": ", status.message());
      place.incoming.reset();
    }
    return true;
  }
  absl::StatusOr<ServedSlice> restored = FromRecord(slice, record.blocks);
  if (restored.ok()) {
    place.served = std::make_unique<ServedSlice>(*std::move(restored));
    place.served->epoch = record.epoch;
  } else {
    place.error = absl::StrCat("slice ", ToNumber(slice), ": ", restored.status().message());
  }
  return true;
}

// core 1: nothing of a bucket is served before all of its record is here.
absl::Status Shard::TakePiece(const RestoreSlice& record, Place& place) {
  if (place.incoming == nullptr) {
    const auto bucket = static_cast<uint32_t>(grid_.at(record.slice).offset);
    place.incoming = std::make_unique<BucketStream>(tables_, bucket, CopyOf(record.slice));
  }
  for (const Payload& block : record.blocks) {
    if (absl::Status status = place.incoming->Add(block.bytes()); !status.ok()) return status;
  }
  ++place.pieces;
  if (record.more) return absl::OkStatus();
  const std::unique_ptr<BucketStream> whole = std::move(place.incoming);
  if (!whole->state() || whole->state()->slice != record.slice) {
    return absl::InvalidArgumentError("the record is of another slice");
  }
  absl::StatusOr<ServedSlice> restored = FromState(*whole->state());
  if (!restored.ok()) return restored.status();
  absl::StatusOr<BucketStream::Installed> installed = std::move(*whole).Finish(restored->consumed);
  if (!installed.ok()) return installed.status();
  restored->rows = std::make_shared<BucketRows>(std::move(installed->rows));
  restored->epoch = record.epoch;
  place.served = std::make_unique<ServedSlice>(*std::move(restored));
  return absl::OkStatus();
}

absl::StatusOr<ServedSlice> Shard::FromRecord(SliceId slice, absl::Span<const Payload> blocks) const {
  absl::StatusOr<SliceState> state = DecodeRecord(blocks);
  if (!state.ok()) return state.status();
  const size_t bytes = grid_.at(slice).bytes();
  const bool fits = state->slice == slice && state->values.size() == bytes && state->slots.size() == slot_count_ &&
                    std::all_of(state->slots.begin(), state->slots.end(),
                                [bytes](const Payload& slot) { return slot.size() == bytes; });
  if (!fits) return absl::InvalidArgumentError("the record is of another slice, model or optimizer");
  return FromState(*std::move(state));
}

// core 1: values and counters out of the same record, or neither.
absl::StatusOr<ServedSlice> Shard::FromState(SliceState state) const {
  absl::StatusOr<LeaseCounters> counters =
      LeaseCounters::Restore(std::move(state.finished), std::move(state.counters), plan_);
  if (!counters.ok()) return counters.status();
  ServedSlice restored;
  restored.version = state.version;
  restored.consumed = counters->Sum(plan_);
  restored.skipped = state.skipped;
  restored.usual_staleness = state.usual_staleness;
  restored.counters = *std::move(counters);
  restored.values = std::move(state.values);
  restored.slots = std::move(state.slots);
  return restored;
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

Shard::TableTotals Shard::Tables() const {
  TableTotals totals;
  for (const Place& place : places_) {
    if (place.served == nullptr || place.served->rows == nullptr) continue;
    totals.rows += place.served->rows->rows();
    totals.bytes += place.served->rows->bytes();
    totals.unborn += place.served->rows->unborn();
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

const Payload& OnWire(WireFormat wire, ServedSlice& slice) {
  if (wire == WireFormat::kFp32) return slice.values;
  if (slice.on_wire.empty()) {
    slice.on_wire = Payload::AllocateToSend(slice.values.size() / 2);
    RoundToBf16(slice.values.floats(), slice.on_wire.mutable_as<Bf16>().data());
  }
  return slice.on_wire;
}

SliceState StateOf(SliceId id, const ServedSlice& slice) {
  return {.slice = id,
          .epoch = slice.epoch,
          .version = slice.version,
          .skipped = slice.skipped,
          .usual_staleness = slice.usual_staleness,
          .finished = slice.counters.finished(),
          .counters = slice.counters.open(),
          .values = slice.values,
          .slots = slice.slots};
}

}  // namespace downpour
