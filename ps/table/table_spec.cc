#include "ps/table/table_spec.h"

#include <array>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "runtime/prng.h"

namespace downpour {
namespace {

constexpr uint64_t kInitialRowStream = 12;

absl::Status OutOfRange(const char* what, uint64_t found, const char* range) {
  return absl::InvalidArgumentError(absl::StrCat("a table's ", what, " is ", found, ", and must be ", range));
}

}  // namespace

absl::Status CheckTable(const TableSpec& spec) {
  if (spec.width < 1 || spec.width > kMostRowWidth) return OutOfRange("width", spec.width, "1 to 4096");
  if (spec.admit_after < 1) return OutOfRange("admitAfter", spec.admit_after, "1 or more");
  if (spec.admission_counts < 4 || spec.admission_counts > kMostAdmissionCounts) {
    return OutOfRange("number of admission counts", spec.admission_counts, "4 to 2^24");
  }
  if (spec.evict_after > kMostEvictAfter) return OutOfRange("evictAfter", spec.evict_after, "2^24 or less");
  if (spec.buckets < 1 || spec.buckets > kMostBuckets)
    return OutOfRange("number of buckets", spec.buckets, "1 to 2^16");
  if (spec.bucket >= spec.buckets) return OutOfRange("bucket", spec.bucket, "below the number of buckets");
  if (!std::isfinite(spec.initial) || spec.initial < 0) {
    return absl::InvalidArgumentError("a table's initial values need a finite range of 0 or more");
  }
  switch (spec.optimizer) {
    case OptimizerKind::kSgd:
    case OptimizerKind::kAdam:
    case OptimizerKind::kFtrl:
      if (spec.row_wise) return absl::InvalidArgumentError("of a table's optimizers only adagrad is row-wise");
      return absl::OkStatus();
    case OptimizerKind::kAdagrad:
      return absl::OkStatus();
    default:
      return absl::InvalidArgumentError("a table's optimizer must be sgd, adagrad, adam or ftrl");
  }
}

RowShape ShapeOf(const TableSpec& spec) {
  return {.width = spec.width,
          .slots = static_cast<size_t>(SlotCount(spec.optimizer)),
          .halves = spec.halves,
          .slot_is_one = spec.row_wise};
}

size_t SlotOfSquares(const TableSpec& spec) { return spec.optimizer == OptimizerKind::kAdagrad ? 0 : 1; }

void InitialRow(const TableSpec& spec, uint64_t key, float* values) {
  const float unit = SymmetricUnit(spec.initial);
  const uint64_t stream = MixAll(spec.seed, kInitialRowStream, spec.id, key);
  for (uint32_t i = 0; i < spec.width; ++i) values[i] = Symmetric(Mix(stream ^ i), unit);
  if (!spec.halves) return;
  std::array<Bf16, kMostRowWidth> rounded;
  RoundToBf16({values, spec.width}, rounded.data());
  WidenBf16({rounded.data(), spec.width}, values);
}

}  // namespace downpour
