// TableBucket: the rows of a table whose keys fall into one bucket, in memory.
//
//   TableBucket bucket(spec, copy);
//   bucket.Gather(keys, values);
//   absl::StatusOr<PushEffect> effect = bucket.Apply({.keys = keys, .gradients = gradients, .fresh = update});
//
//   bucket.BeginRecord(base);                       // between two pushes
//   while (bucket.recording()) Send(bucket.NextPart(max_bytes));  // pushes may come in between
//
// What a bucket holds is a fold over the pushes that it consumed, empty ones too, and nothing else: pulls, refused
// pushes and sweeps change nothing that is seen. Its clock is the number of these pushes.
//   - A row is born by the push of its key that `admit_after` says, and begins with values that follow from (seed,
//     table, key, column). Until then a pull answers with these, and stores nothing. Admission counts pushes.
//   - A row that none of the last `evict_after` pushes had is absent by definition, swept or not. When it is pushed
//     again it is counted and born anew.
//   - Being full answers no push: beyond `max_rows` keys stay unborn, and are counted. Rows that have expired are none.
//   - A push whose numbers are not finite, or that might make some number of its rows larger than 2^126, has no effect
//     but to be consumed.
// Records: rows lie at numbered places and do not move. A record is of the point between two pushes where it began: the
//   first change of a place that the cursor has not passed saves all of it, "empty" too; later changes save nothing.
//   Admission counts are copied at the point, and expiry is judged by its clock. Each place has a mark: how many points
//   this copy had taken when it last changed. The mark stays when the row goes, and nothing is ever cleared. So a
//   record with a base has the places with a mark of the base's point or later, empty ones as empty, whatever became of
//   the rounds in between. A base is of this very copy; else the record is whole. A new record drops the one before,
//   with what it saved.
// Shapes: gradients are keys.size() x width, row-major; so are values.
// Order: the same bits on every CPU; a push is applied in the order of its keys.
// Cost: a look-up is two cache misses, of which those of 16 keys overlap. A push grows at most a few parts of the index
//   (key_index.h). While a record goes on, the rows pushed ahead of its cursor are copied.
// Errors: INVALID_ARGUMENT for a push with a key twice, or as many gradients as it should not have; RESOURCE_EXHAUSTED
//   after 2^32 - 1 pushes, since a record may say that there were as many. Nothing has changed then, and the push
//   is not consumed.
// Threads: one at a time, Gather included.
// Tests: tests/unit/ps/table/table_bucket_test.cc, tests/unit/ps/table/table_record_test.cc.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "ps/table/admission_counts.h"
#include "ps/table/alive_count.h"
#include "ps/table/key_index.h"
#include "ps/table/record_scan.h"
#include "ps/table/row_pages.h"
#include "ps/table/table_part.h"
#include "ps/table/table_spec.h"
#include "schema/payload.h"
#include "tensor/row_kernels.h"

namespace downpour {

struct RowPush {
  absl::Span<const uint64_t> keys;
  GradientSpan gradients;
  Update fresh;                      // of rows that nobody has pushed since the pull
  std::optional<Update> stale = {};  // of the others; only with row_staleness, and as `fresh` where there is none
  uint64_t pulled_at = 0;            // the bucket's clock when the rows were pulled
};

struct PushEffect {
  bool skipped = false;  // consumed without effect, for its numbers
  uint32_t born = 0;
  uint32_t counted = 0;  // keys that were not admitted yet
  uint32_t unborn = 0;   // keys for which there was no room
};

class TableBucket {
 public:
  // CHECKs the spec. `copy` is of this bucket in this process, and must be unknown to whoever chooses keys
  // (key_index.h): such as an incarnation.
  TableBucket(const TableSpec& spec, uint64_t copy);

  const TableSpec& spec() const { return spec_; }
  uint64_t clock() const { return clock_; }
  uint64_t unborn() const { return unborn_; }
  uint64_t rows() const { return rows_; }  // that take memory: expired ones too, as long as they are not swept
  size_t bytes() const;                    // of memory, with what a record holds

  void Gather(absl::Span<const uint64_t> keys, float* values) const;
  absl::StatusOr<PushEffect> Apply(const RowPush& push);
  // Whether a push with keys would be more than consumed, for its numbers.
  bool IsSafe(const RowPush& push);

  // `base`: a point of which there is a durable record, or nothing. Returns the point of this one.
  RecordPoint BeginRecord(const std::optional<RecordPoint>& base);
  bool recording() const { return scan_.has_value(); }
  // The next part, of at most max_bytes; after the last one the record is over. CHECKs that one is going on, and that a
  // row fits.
  Payload NextPart(size_t max_bytes);
  void DropRecord() { scan_.reset(); }
  size_t record_bytes() const { return scan_ ? scan_->bytes() : 0; }

 private:
  friend class TableInstaller;

  AgeRule age() const { return {spec_.evict_after, clock_}; }
  bool IsAbsent(uint32_t place) const {
    return place == kNoPlace || (spec_.evict_after > 0 && age().Expired(pages_.at(place).last));
  }

  template <class Fetch, class Use>
  void ForEachBlock(absl::Span<const uint64_t> keys, const Fetch& fetch, const Use& use) const;
  void FetchRow(uint32_t place, size_t bytes) const;

  bool HasDuplicate(absl::Span<const uint64_t> keys);
  void UpdateBlock(const RowPush& push, size_t begin, absl::Span<const uint32_t> places, PushEffect* effect);
  uint32_t Admit(uint64_t key, uint32_t place, PushEffect* effect);
  uint32_t Bear(uint64_t key, uint32_t place);
  void BeforeChange(uint32_t place);
  void Sweep(size_t places);
  void FillPart(TablePartWriter* part);

  // Of a record that is being installed: where the row is now, or kNoPlace for a key that is there already.
  uint32_t InstallRow(uint64_t key, uint32_t last, const std::byte* row);
  void ShiftClock(uint32_t pushes);
  void CountAlive();

  TableSpec spec_;
  RowShape shape_;
  uint64_t copy_;
  uint32_t clock_ = 0;   // pushes consumed
  uint32_t points_ = 0;  // taken by this copy
  uint64_t rows_ = 0;
  uint64_t unborn_ = 0;
  Magnitudes bounds_;  // of all rows
  KeyIndex index_;
  RowPages pages_;
  std::optional<AdmissionCounts> counts_;  // if more than one push is needed
  std::optional<AliveCount> alive_;        // if there is a limit, and rows expire
  uint32_t sweep_ = 0;                     // the next place to look at
  std::optional<RecordScan> scan_;
  std::vector<uint32_t> seen_;  // of HasDuplicate
  std::vector<float> initial_;  // of one row
};

}  // namespace downpour
