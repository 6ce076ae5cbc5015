// TableSpec: what a bucket must know of its table. It follows from the job, and is the same on every ps.
//
//   if (absl::Status status = CheckTable(spec); !status.ok()) return status;
//   const RowShape shape = ShapeOf(spec);
//   InitialRow(spec, key, values);
//
// Order: initial values, and which bucket a key is in, have the same bits on every machine.
// Errors: INVALID_ARGUMENT with the number that is wrong, and what it may be.
// Tests: tests/unit/ps/table/table_spec_test.cc.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "job/optimizer_spec.h"
#include "runtime/row_frames.h"
#include "tensor/row_kernels.h"

namespace downpour {

inline constexpr uint32_t kMostBuckets = 1 << 16;
inline constexpr uint32_t kMostEvictAfter = 1 << 24;
inline constexpr uint32_t kMostAdmissionCounts = 1 << 24;

struct TableSpec {
  uint64_t id = 0;  // among the tables of the job, and in its records
  uint32_t width = 0;
  OptimizerKind optimizer = OptimizerKind::kAdagrad;  // sgd, adagrad, adam or ftrl
  bool row_wise = false;                              // adagrad with one sum of squares for a row
  bool halves = false;                                // values are kept as bfloat16
  uint64_t seed = 0;                                  // of the job
  float initial = 0;                                  // a row begins with draws of U(-initial, initial)
  uint32_t admit_after = 1;                           // which push of a key gives birth to its row
  uint32_t admission_counts = 1 << 14;                // keys whose pushes a bucket counts at a time
  uint32_t evict_after = 0;    // a row that none of so many pushes to the bucket has is absent; 0: none ever is
  uint64_t max_rows = 0;       // of a bucket; 0: without limit
  bool row_staleness = false;  // a gradient is as stale as the pushes to its own row say
  uint32_t bucket = 0;
  uint32_t buckets = 1;
};

absl::Status CheckTable(const TableSpec& spec);
// Whether a row's last push is known. To note it takes a cache miss of each row that is pushed.
inline bool KnowsLastPush(const TableSpec& spec) { return spec.evict_after > 0 || spec.row_staleness; }
RowShape ShapeOf(const TableSpec& spec);

// Which slot is a sum or mean of squares, and so never below 0; behind the last one: none.
size_t SlotOfSquares(const TableSpec& spec);

// spec.width values, as a row of that key holds them before its first push: rounded if it keeps them so.
void InitialRow(const TableSpec& spec, uint64_t key, float* values);

}  // namespace downpour
