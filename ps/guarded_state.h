// GuardedState: what the counters of one slice guard. It is of two kinds, which ps/slice_states.cc alone tells apart:
// the values and slots of a variable's slice, and a bucket's rows.
// SliceEnvelope: all that exactly-once knows of a slice.
//
//   slice.state = InitialState(job, grid, id, copy);
//   changed = slice.state->Update(push, grid, optimizer, slice);   // the next push (ps/lease_counters.h)
//
// Order: core 1: state and envelope come out of one source, change in one Step of the role, and travel in one record.
// Cost: values are pulled as a reference, in bfloat16 after one pass over them for each version; rows are copied. A
//   push costs what its update does (ps/optimizer.h, ps/table/bucket_rows.h).
// Errors: INVALID_ARGUMENT with one sentence. CHECKs that pulls and pushes were admitted (ps/admission.h).
// Tests: tests/unit/ps/slice_states_test.cc.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "job/job.h"
#include "job/slice_grid.h"
#include "ps/lease_counters.h"
#include "schema/checkpoint_format.h"
#include "schema/message.h"

namespace downpour {

class Optimizer;  // ps/optimizer.h

// `consumed` counts the pushes one by one and must be what the counters add up to.
struct SliceEnvelope {
  SliceEpoch epoch;      // the fence: whatever names another one is refused (core 4)
  uint64_t version = 0;  // updates of its state, over all epochs
  uint64_t consumed = 0;
  uint64_t skipped = 0;          // of those consumed over all epochs: had no effect, though they held a gradient
  uint64_t usual_staleness = 0;  // of the pushes that changed it (ps/staleness_rule.h)
  LeaseCounters counters;        // which pushes the state holds

  Version CurrentVersion() const { return {epoch, version}; }
};

// A push that has a gradient and is its slice's next one.
struct PushedGradient {
  SliceId slice{};
  const Payload& gradient;
  std::optional<uint64_t> staleness = {};  // in updates; nothing where it is unknown
  std::optional<double> share = {};        // of its group's mean, where groups are gathered
};

struct RecordPart {
  std::vector<Payload> blocks;
  bool more = false;
};

struct TableTotals {
  uint64_t rows = 0;  // that take memory
  uint64_t bytes = 0;
  uint64_t unborn = 0;  // pushes of keys for which there was no room
};

class GuardedState {
 public:
  virtual ~GuardedState() = default;

  // What answers a pull; empty where the values are those that the worker has.
  virtual Payload ValuesFor(const Pull::Item& pull, Version current, const SliceGrid& grid) = 0;

  // Of a gradient that is not gathered, raises the version. False, and no values have changed: it is not finite, or
  // would make some number so.
  [[nodiscard]] virtual bool Update(const PushedGradient& push, const SliceGrid& grid, const Optimizer& optimizer,
                                    SliceEnvelope& envelope) = 0;
  // The same by what was gathered, behind the last push of a group.
  [[nodiscard]] virtual bool UpdateByGroup(SliceId, const Optimizer&, SliceEnvelope&) { return true; }
  virtual void PassOver() {}  // a push that is consumed without effect

  // What of it the record's first part has, beside the envelope.
  virtual void Complete(SliceState&) const {}
  // At the point of the first part (T3): whether others follow. Pushes may come between them.
  virtual bool BeginParts() { return false; }
  virtual RecordPart NextPart(size_t /*max_bytes*/) { return {}; }
  virtual void DropParts() {}  // those that are still to come, if any (T5)

  virtual size_t bytes() const = 0;
  virtual void AddTo(TableTotals&) const {}
};

struct ServedSlice : SliceEnvelope {
  std::unique_ptr<GuardedState> state;
};

// A slice's record, as it comes in pieces. core 1: its state is installed whole, behind the last of them.
class IncomingRecord {
 public:
  virtual ~IncomingRecord() = default;
  virtual absl::Status Add(const Payload& block) = 0;
  // Each once, in this order, behind the last block. The head is for the envelope; `consumed` is what it adds up to.
  virtual absl::StatusOr<SliceState> Head() = 0;
  virtual absl::StatusOr<std::unique_ptr<GuardedState>> Finish(uint64_t consumed) = 0;
};

// Of the kind that the slice has. `copy`: as BucketRows takes it.
std::unique_ptr<GuardedState> InitialState(const JobSpec& job, const SliceGrid& grid, SliceId slice, uint64_t copy);
std::unique_ptr<IncomingRecord> AwaitedRecord(const JobSpec& job, const SliceGrid& grid, SliceId slice, uint64_t copy);

// Before there is a state. Whether the gradient is of exactly the slice's size, or of rows of the bucket's own keys;
// empty ones are.
absl::Status CheckGradient(const Push::Item& push, const SliceGrid& grid);
// The bytes that answer it.
absl::StatusOr<size_t> CheckPull(const Pull::Item& pull, const SliceGrid& grid);

}  // namespace downpour
