// Slice records for checkpoint rounds: in messages to the chief, or in a shard file that this ps writes itself.
//
// A snapshot is one slice's pair at one apply point and costs references, not copies; slices of one round need not be
// taken at the same instant. Records are made one after the other, so that few of them keep old values alive, and as
// the pace allows; those of an urgent round at once, and they are not to be paid for.
// Order: only the newest round counts; an older one was abandoned by the chief.
// Tests: tests/unit/ps/snapshot_test.cc.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "ps/record_pace.h"
#include "ps/report_parts.h"
#include "ps/shard.h"
#include "runtime/role.h"
#include "schema/checkpoint_format.h"
#include "schema/message.h"

namespace downpour {

// Slices whose records the chief waits for.
class SnapshotQueue {
 public:
  void Add(const SnapshotRequest& request);
  // Sends records as long as the pace allows it; while no worker comes, all that were asked for, which are few. A slice
  // that is no longer in the epoch asked for gets no answer: the chief has abandoned the round, or will.
  void Answer(RecordPace& pace, const Shard& shard, Incarnation from, PeerId chief, Effects& effects);

 private:
  Round round_;
  bool urgent_ = false;  // that round
  std::deque<SnapshotRequest::Item> waiting_;
};

// One shard file at a time: makes the folder, appends record after record, syncs, reports in parts. A slice that is no
// longer in the epoch asked for ends the file before it, and is reported without a record.
class ShardWriter {
 public:
  // `part_bytes` of one message of a report (report_parts.h).
  explicit ShardWriter(uint64_t part_bytes = kReportPartBytes) : part_bytes_(part_bytes) {}

  // A round that is being written goes on; of one that is written the slices asked for are reported again.
  void Begin(const WriteShard& request, PeerId chief, Effects& effects);
  void Done(const StorageDone& done, Effects& effects);
  void Abandon() { stage_ = Stage::kIdle, request_ = {}; }  // its shard is no more
  // Appends the next record, if that is what is to be done and the pace allows it.
  void Continue(RecordPace& pace, const Shard& shard, Effects& effects);

 private:
  enum class Stage { kIdle, kFolder, kNext, kAppend, kSync };  // kNext: no operation is outstanding

  void Submit(StorageOp::Kind kind, const std::string& path, std::vector<Payload> data, Effects& effects);
  void AppendNext(RecordPace& pace, const Shard& shard, Effects& effects);
  void Finish(const std::string& error, Effects& effects);
  void Report(const std::vector<SnapshotRequest::Item>& asked, Effects& effects) const;

  const uint64_t part_bytes_;
  PeerId chief_{};
  WriteShard request_;
  Stage stage_ = Stage::kIdle;
  uint64_t last_ticket_ = 0;  // of the one operation outstanding
  ShardWritten written_;      // of request_.round
};

}  // namespace downpour
