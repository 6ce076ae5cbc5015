// The kinds of state that a slice has. All that differs between them is here (ps/guarded_state.h).
#include <glog/logging.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "ps/bucket_parts.h"
#include "ps/guarded_state.h"
#include "ps/optimizer.h"
#include "runtime/initial_values.h"
#include "runtime/row_frames.h"
#include "schema/limits.h"
#include "tensor/apply_kernels.h"

namespace downpour {
namespace {

uint32_t BucketNumber(SliceId slice, const SliceGrid& grid) { return static_cast<uint32_t>(grid.at(slice).offset); }

absl::Status OfBucket(const char* does, SliceId slice, const absl::Status& why) {
  return absl::InvalidArgumentError(
      absl::StrCat(does, " rows of slice ", ToNumber(slice), " in a frame that ", why.message()));
}

// The slice of a variable.
class DenseState final : public GuardedState {
 public:
  explicit DenseState(DenseValues dense) : dense_(std::move(dense)) {}

  Payload ValuesFor(const Pull::Item& pull, Version current, const SliceGrid& grid) override {
    // B6: a version is epoch and number, so equal versions are equal values.
    if (pull.have == current) return {};
    if (grid.wire == WireFormat::kFp32) return dense_.values;
    if (on_wire_.empty()) {
      on_wire_ = Payload::AllocateToSend(dense_.values.size() / 2);
      RoundToBf16(dense_.values.floats(), on_wire_.mutable_as<Bf16>().data());
    }
    return on_wire_;
  }

  bool Update(const PushedGradient& push, const SliceGrid& grid, const Optimizer& optimizer,
              SliceEnvelope& envelope) override {
    const bool is_rounded = grid.wire == WireFormat::kBf16;
    const auto numbers = is_rounded ? GradientSpan(push.gradient.as<Bf16>()) : GradientSpan(push.gradient.floats());
    if (push.share) return optimizer.Gather(numbers, *push.share, dense_);
    if (!optimizer.Apply(push.slice, numbers, push.staleness, envelope, dense_)) return false;
    on_wire_ = Payload();
    return true;
  }
  bool UpdateByGroup(SliceId slice, const Optimizer& optimizer, SliceEnvelope& envelope) override {
    on_wire_ = Payload();
    return optimizer.ApplyGathered(slice, envelope, dense_);
  }

  void Complete(SliceState& record) const override { record.values = dense_.values, record.slots = dense_.slots; }

  size_t bytes() const override { return dense_.values.size() * (1 + dense_.slots.size()); }

 private:
  DenseValues dense_;
  Payload on_wire_;  // the values rounded to bfloat16, since the first pull of this version that wanted them so
};

class DenseRecord final : public IncomingRecord {
 public:
  DenseRecord(SliceId slice, size_t bytes, size_t slots) : slice_(slice), bytes_(bytes), slots_(slots) {}

  absl::Status Add(const Payload& block) override {
    blocks_.push_back(block);
    if (RecordBytes(blocks_) <= kMaxRecordBytes) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat("a record of more than ", kMaxRecordBytes, " bytes"));
  }
  absl::StatusOr<SliceState> Head() override {
    absl::StatusOr<SliceState> state = DecodeRecord(blocks_);
    if (!state.ok()) return state;
    const auto fits = [this](const Payload& array) { return array.size() == bytes_; };
    if (state->slice != slice_ || !fits(state->values) || state->slots.size() != slots_ ||
        !std::all_of(state->slots.begin(), state->slots.end(), fits)) {
      return absl::InvalidArgumentError("the record is of another slice, model or optimizer");
    }
    dense_ = {.values = std::move(state->values), .slots = std::move(state->slots)};
    return state;
  }
  absl::StatusOr<std::unique_ptr<GuardedState>> Finish(uint64_t) override {
    return std::make_unique<DenseState>(std::move(dense_));
  }

 private:
  const SliceId slice_;
  const size_t bytes_, slots_;
  std::vector<Payload> blocks_;
  DenseValues dense_;
};

class BucketState final : public GuardedState {
 public:
  explicit BucketState(BucketRows rows) : rows_(std::move(rows)) {}

  Payload ValuesFor(const Pull::Item& pull, Version, const SliceGrid& grid) override {
    const absl::StatusOr<RowKeys> keys = UnpackKeys(pull.keys, grid.row_widths);
    CHECK(keys.ok()) << keys.status();
    return rows_.Gather(*keys);
  }

  bool Update(const PushedGradient& push, const SliceGrid& grid, const Optimizer& optimizer,
              SliceEnvelope& envelope) override {
    const absl::StatusOr<RowGradients> rows = UnpackGradients(push.gradient, grid.row_widths);
    CHECK(rows.ok()) << rows.status();
    return optimizer.ApplyRows(*rows, envelope, rows_);
  }
  void PassOver() override { rows_.ConsumeEmpty(); }  // T12: it is what the rows' clock counts

  bool BeginParts() override { return rows_.BeginRecord(), true; }
  RecordPart NextPart(size_t max_bytes) override {
    return {.blocks = FramePart(rows_.NextPart(max_bytes)), .more = rows_.recording()};
  }
  void DropParts() override { rows_.DropRecord(); }

  size_t bytes() const override { return rows_.bytes(); }
  void AddTo(TableTotals& totals) const override {
    totals.rows += rows_.rows(), totals.bytes += rows_.bytes(), totals.unborn += rows_.unborn();
  }

 private:
  BucketRows rows_;
};

class BucketRecord final : public IncomingRecord {
 public:
  BucketRecord(SliceId slice, BucketInstaller rows) : slice_(slice), rows_(std::move(rows)) {}

  absl::Status Add(const Payload& block) override {
    return parts_.Add(block.bytes(), [this](absl::Span<const std::byte> part) { return rows_.Add(part); });
  }
  absl::StatusOr<SliceState> Head() override {
    if (parts_.state() && parts_.state()->slice == slice_) return *parts_.state();
    return absl::InvalidArgumentError("the record is of another slice");
  }
  absl::StatusOr<std::unique_ptr<GuardedState>> Finish(uint64_t consumed) override {
    if (!parts_.whole()) return absl::DataLossError("a damaged record of a bucket: it ends within a part");
    absl::StatusOr<BucketRows> rows = std::move(rows_).Finish(consumed);
    if (!rows.ok()) return rows.status();
    return std::make_unique<BucketState>(*std::move(rows));
  }

 private:
  const SliceId slice_;
  BucketInstaller rows_;
  BucketParts parts_;
};

}  // namespace

absl::Status CheckGradient(const Push::Item& push, const SliceGrid& grid) {
  if (push.gradient.empty()) return absl::OkStatus();
  if (grid.IsBucket(push.slice)) {
    absl::Status rows = CheckGradients(push.gradient, grid.row_widths);
    // A row in another bucket than its own would be in a record that nobody can install.
    const bool is_own =
        rows.ok() && AreInBucket(push.gradient, grid.row_widths.size(), BucketNumber(push.slice, grid), grid.buckets);
    if (rows.ok() && !is_own) rows = absl::InvalidArgumentError("has keys of another bucket");
    return rows.ok() ? rows : OfBucket("pushes", push.slice, rows);
  }
  const size_t bytes = grid.WireBytes(push.slice);
  if (push.gradient.size() == bytes) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("pushes ", push.gradient.size(), " bytes for slice ", ToNumber(push.slice), ", which has ", bytes));
}

absl::StatusOr<size_t> CheckPull(const Pull::Item& pull, const SliceGrid& grid) {
  if (grid.IsBucket(pull.slice)) {
    const absl::Status keys = CheckKeys(pull.keys, grid.row_widths);
    if (!keys.ok()) return OfBucket("pulls", pull.slice, keys);
    return AnswerBytes(pull.keys, grid.row_widths);
  }
  if (pull.keys.empty()) return grid.WireBytes(pull.slice);
  return absl::InvalidArgumentError(absl::StrCat("pulls rows of slice ", ToNumber(pull.slice), ", which is no bucket"));
}

std::unique_ptr<GuardedState> InitialState(const JobSpec& job, const SliceGrid& grid, SliceId slice, uint64_t copy) {
  if (grid.IsBucket(slice)) {
    return std::make_unique<BucketState>(BucketRows(TablesOf(job), BucketNumber(slice, grid), copy));
  }
  const size_t bytes = grid.at(slice).bytes();
  DenseValues dense{.values = Payload::Allocate(bytes)};
  InitialValues(job.seed, grid, slice, dense.values.mutable_floats().data());
  for (int slot = 0; slot < SlotCount(job.training); ++slot) dense.slots.push_back(Payload::Zeros(bytes));
  return std::make_unique<DenseState>(std::move(dense));
}

std::unique_ptr<IncomingRecord> AwaitedRecord(const JobSpec& job, const SliceGrid& grid, SliceId slice, uint64_t copy) {
  if (grid.IsBucket(slice)) {
    return std::make_unique<BucketRecord>(slice, BucketInstaller(TablesOf(job), BucketNumber(slice, grid), copy));
  }
  return std::make_unique<DenseRecord>(slice, grid.at(slice).bytes(), static_cast<size_t>(SlotCount(job.training)));
}

}  // namespace downpour
