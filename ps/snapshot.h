// Slice records for checkpoint rounds: in messages to the chief, or in a shard file that this ps writes itself.
//
// A snapshot is one slice's pair at one apply point and costs references, not copies; slices of one round need not be
// taken at the same instant. Records are made one after the other, so that few of them keep old values alive, and as
// the pace allows; those of an urgent round at once, and they are not to be paid for.
// Buckets: a record comes in parts, all of one point between two pushes. One bucket is scanned at a time, so that what
//   its scan saves is all that is saved (T5). Parts that the chief has not confirmed are kept, and sent again when it
//   asks again: so that a repeated request begins no scan, whose parts would be of another point (T4).
// Order: only the newest round counts; an older one was abandoned by the chief.
// Tests: tests/unit/ps/snapshot_test.cc.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "ps/guarded_state.h"
#include "ps/record_pace.h"
#include "ps/report_parts.h"
#include "ps/shard.h"
#include "runtime/role.h"
#include "schema/checkpoint_format.h"
#include "schema/message.h"

namespace downpour {

// Of a bucket's record: few milliseconds of work, between which pushes are consumed.
inline constexpr size_t kRecordPartBytes = size_t{256} << 10;

// Slices whose records the chief waits for.
class SnapshotQueue {
 public:
  explicit SnapshotQueue(size_t record_part_bytes = kRecordPartBytes) : record_part_bytes_(record_part_bytes) {}

  void Add(const SnapshotRequest& request, Shard& shard);
  // Sends records as long as the pace allows it; while no worker comes, all that were asked for, which are few. A slice
  // that is no longer in the epoch asked for gets no answer: the chief has abandoned the round, or will.
  void Answer(RecordPace& pace, Shard& shard, Incarnation from, PeerId chief, Effects& effects);

 private:
  // Parts that the chief need not have confirmed before the next one is made: they hide a slow link.
  struct Scan {
    SnapshotRequest::Item item;
    uint64_t number = 0;
    uint32_t parts = 0;  // made so far
    bool is_over = false;
    bool again = false;            // what is kept is to be sent again
    std::deque<SliceRecord> kept;  // not confirmed
  };
  bool Confirm(const SnapshotRequest::Item& item);
  uint64_t SendNextPart(Scan& scan, Shard& shard, Incarnation from, PeerId chief, Effects& effects);
  void Drop(Shard& shard);

  size_t record_part_bytes_;
  Round round_;
  bool urgent_ = false;  // that round
  std::deque<SnapshotRequest::Item> waiting_;
  std::vector<Scan> scans_;  // of buckets asked for in that round, of which parts are kept; the last one may go on
  uint64_t scans_begun_ = 0;
};

// One shard file at a time: makes the folder, appends record after record, syncs, reports in parts. A slice that is no
// longer in the epoch asked for ends the file before it, and is reported without a record.
class ShardWriter {
 public:
  // `part_bytes` of one message of a report (report_parts.h), `record_part_bytes` of one part of a bucket's record.
  explicit ShardWriter(uint64_t part_bytes = kReportPartBytes, size_t record_part_bytes = kRecordPartBytes)
      : part_bytes_(part_bytes), record_part_bytes_(record_part_bytes) {}

  // A round that is being written goes on; of one that is written the slices asked for are reported again.
  void Begin(const WriteShard& request, PeerId chief, Shard& shard, Effects& effects);
  void Done(const StorageDone& done, Effects& effects);
  void Abandon() { stage_ = Stage::kIdle, request_ = {}, scanning_ = false; }  // its shard is no more
  // Appends the next record, if that is what is to be done and the pace allows it.
  void Continue(RecordPace& pace, Shard& shard, Effects& effects);

 private:
  enum class Stage { kIdle, kFolder, kNext, kAppend, kSync };  // kNext: no operation is outstanding

  void Submit(StorageOp::Kind kind, const std::string& path, std::vector<Payload> data, Effects& effects);
  uint64_t AppendNext(Shard& shard, Effects& effects);
  uint64_t AppendPart(GuardedState& state, Effects& effects);
  GuardedState* Scanned(Shard& shard) const;
  void Finish(const std::string& error, Effects& effects);
  void Report(const std::vector<SnapshotRequest::Item>& asked, Effects& effects) const;

  const uint64_t part_bytes_;
  const size_t record_part_bytes_;
  PeerId chief_{};
  WriteShard request_;
  Stage stage_ = Stage::kIdle;
  SliceId scanned_{};  // the bucket of which parts are still to come, where `scanning_`
  bool scanning_ = false;
  uint64_t last_ticket_ = 0;  // of the one operation outstanding
  ShardWritten written_;      // of request_.round
};

}  // namespace downpour
