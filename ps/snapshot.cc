#include "ps/snapshot.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"

namespace downpour {
namespace {

// Nothing unless the slice is here, in the epoch asked for.
std::optional<SliceRecord> MakeRecord(const Shard& shard, Incarnation from, Round round,
                                      const SnapshotRequest::Item& item, Effects& effects) {
  const ServedSlice* slice = shard.grid().Contains(item.slice) ? shard.Find(item.slice) : nullptr;
  if (slice == nullptr || slice->epoch != item.epoch) return std::nullopt;
  shard.CheckCounts(*slice);
  effects.Add(TraceRecord{.kind = TraceRecord::Kind::kSnapshot,
                          .actor = from,
                          .slice = item.slice,
                          .epoch = item.epoch,
                          .count = slice->version,
                          .round = round});
  return SliceRecord{.from = from,
                     .round = round,
                     .slice = item.slice,
                     .epoch = item.epoch,
                     .finished = slice->counters.finished(),
                     .blocks = EncodeRecord(StateOf(item.slice, *slice)),
                     .skipped = slice->skipped,
                     .version = slice->version};
}

}  // namespace

void SnapshotQueue::Add(const SnapshotRequest& request, Shard& shard) {
  if (request.round < round_) return;
  if (request.round > round_) Drop(shard);
  round_ = request.round;
  urgent_ = request.urgent;
  for (const SnapshotRequest::Item& item : request.slices) {
    const bool waits = std::any_of(waiting_.begin(), waiting_.end(),
                                   [&](const SnapshotRequest::Item& other) { return other.slice == item.slice; });
    if (!waits && !Confirm(item)) waiting_.push_back(item);
  }
}

// Of a round that is over, or of a shard that is: T5.
void SnapshotQueue::Drop(Shard& shard) {
  for (const Scan& scan : scans_) {
    ServedSlice* slice = shard.Find(scan.item.slice);
    if (!scan.is_over && slice != nullptr && slice->epoch == scan.item.epoch) slice->state->DropParts();
  }
  waiting_.clear();
  scans_.clear();
}

// Whether the bucket is being scanned, or was in this round and epoch. Then the chief has `item.parts` of its parts.
bool SnapshotQueue::Confirm(const SnapshotRequest::Item& item) {
  const auto scan = std::find_if(scans_.begin(), scans_.end(), [&](const Scan& known) {
    return known.item.slice == item.slice && known.item.epoch == item.epoch;
  });
  if (scan == scans_.end()) return false;
  const size_t before = scan->kept.size();
  while (!scan->kept.empty() && scan->kept.front().part < item.parts) scan->kept.pop_front();
  scan->again = scan->kept.size() == before;  // nothing new: what is kept was lost
  return true;
}

void SnapshotQueue::Answer(RecordPace& pace, Shard& shard, Incarnation from, PeerId chief, Effects& effects) {
  for (Scan& scan : scans_) {
    if (!std::exchange(scan.again, false)) continue;
    for (const SliceRecord& part : scan.kept) effects.SendTo(chief, part);
  }
  while (urgent_ || pace.Allows()) {
    Scan* const scan = scans_.empty() || scans_.back().is_over ? nullptr : &scans_.back();
    if (scan != nullptr) {
      if (scan->kept.size() >= kRecordPartsAhead) return;
      const uint64_t bytes = SendNextPart(*scan, shard, from, chief, effects);
      if (!urgent_) pace.Made(bytes);
      continue;
    }
    if (waiting_.empty()) return;
    const SnapshotRequest::Item item = waiting_.front();
    waiting_.pop_front();
    std::optional<SliceRecord> record = MakeRecord(shard, from, round_, item, effects);
    if (!record) continue;
    if (!urgent_) pace.Made(RecordBytes(record->blocks));
    // T3: the point of the parts is that of the counters in the first one.
    if (shard.Find(item.slice)->state->BeginParts()) {
      record->scan = ++scans_begun_;
      record->more = true;
      scans_.push_back({.item = item, .number = scans_begun_, .parts = 1, .kept = {*record}});
    }
    effects.SendTo(chief, *std::move(record));
  }
}

// Returns its bytes. A bucket that is no longer in that epoch has no record: the chief has abandoned the round, or
// will.
uint64_t SnapshotQueue::SendNextPart(Scan& scan, Shard& shard, Incarnation from, PeerId chief, Effects& effects) {
  ServedSlice* const slice = shard.Find(scan.item.slice);
  if (slice == nullptr || slice->epoch != scan.item.epoch) {
    scan.is_over = true;
    scan.kept.clear();
    return 0;
  }
  RecordPart next = slice->state->NextPart(record_part_bytes_);
  SliceRecord part{.from = from,
                   .round = round_,
                   .slice = scan.item.slice,
                   .epoch = scan.item.epoch,
                   .finished = {},
                   .blocks = std::move(next.blocks),
                   .scan = scan.number,
                   .part = scan.parts++,
                   .more = next.more};
  scan.is_over = !part.more;
  const uint64_t bytes = RecordBytes(part.blocks);
  scan.kept.push_back(part);
  effects.SendTo(chief, std::move(part));
  return bytes;
}

void ShardWriter::Begin(const WriteShard& request, PeerId chief, Shard& shard, Effects& effects) {
  if (request.round < request_.round) return;
  chief_ = chief;
  if (request.round == request_.round) {
    if (stage_ == Stage::kIdle) Report(request.slices, effects);
    return;
  }
  if (GuardedState* const state = Scanned(shard)) state->DropParts();  // T5: a new round ends the scan
  scanning_ = false;
  request_ = request;
  written_ = ShardWritten{.from = request.to, .round = request.round, .error = {}, .bytes = 0, .slices = {}};
  stage_ = Stage::kFolder;
  Submit(StorageOp::Kind::kMakeDir, CheckpointDir(request_.round), {}, effects);
}

void ShardWriter::Submit(StorageOp::Kind kind, const std::string& path, std::vector<Payload> data, Effects& effects) {
  StorageOp op;
  op.kind = kind;
  op.ticket = Ticket{++last_ticket_};
  op.path = path;
  op.data = std::move(data);
  effects.Add(std::move(op));
}

void ShardWriter::Done(const StorageDone& done, Effects& effects) {
  if (done.ticket != Ticket{last_ticket_} || stage_ == Stage::kIdle) return;  // of a round abandoned since
  if (!done.status.ok()) return Finish(std::string(done.status.message()), effects);
  if (stage_ == Stage::kSync) return Finish("", effects);
  stage_ = Stage::kNext;
}

void ShardWriter::Continue(RecordPace& pace, Shard& shard, Effects& effects) {
  if (stage_ != Stage::kNext) return;
  if (!scanning_ && written_.slices.size() == request_.slices.size()) {
    stage_ = Stage::kSync;
    Submit(StorageOp::Kind::kSync, ShardPath(request_.round, request_.file), {}, effects);
  } else if (request_.urgent || pace.Allows()) {
    const uint64_t bytes = AppendNext(shard, effects);
    if (!request_.urgent) pace.Made(bytes);
  }
}

// Returns the bytes of what it appended.
uint64_t ShardWriter::AppendNext(Shard& shard, Effects& effects) {
  if (scanning_) {
    if (GuardedState* const state = Scanned(shard)) return AppendPart(*state, effects);
    scanning_ = false;
    written_.slices.back() = {.slice = scanned_, .epoch = written_.slices.back().epoch, .finished = {}};
    Finish("", effects);
    return 0;
  }
  const SnapshotRequest::Item& item = request_.slices[written_.slices.size()];
  std::optional<SliceRecord> record = MakeRecord(shard, request_.to, request_.round, item, effects);
  if (!record) {
    written_.slices.push_back({.slice = item.slice, .epoch = item.epoch, .finished = {}});
    Finish("", effects);
    return 0;
  }
  if (absl::Status status = CheckRecordSize(record->blocks); !status.ok()) {
    Finish(absl::StrCat("slice ", ToNumber(item.slice), ": ", std::string(status.message())), effects);
    return 0;
  }
  const uint64_t bytes = RecordBytes(record->blocks);
  written_.slices.push_back({.slice = item.slice,
                             .epoch = item.epoch,
                             .finished = std::move(record->finished),
                             .offset = written_.bytes,
                             .bytes = bytes,
                             .crc32c = RecordChecksum(record->blocks)});
  written_.bytes += bytes;
  written_.skipped += record->skipped;
  const bool is_first = written_.slices.size() == 1;
  written_.oldest_version = is_first ? record->version : std::min(written_.oldest_version, record->version);
  written_.newest_version = std::max(written_.newest_version, record->version);
  scanning_ = shard.Find(item.slice)->state->BeginParts();  // T3: at the point of the counters that were just written
  scanned_ = item.slice;
  stage_ = Stage::kAppend;
  Submit(StorageOp::Kind::kAppend, ShardPath(request_.round, request_.file), std::move(record->blocks), effects);
  return bytes;
}

// The bucket of which parts are to come, as long as it is in the epoch that was asked for.
GuardedState* ShardWriter::Scanned(Shard& shard) const {
  ServedSlice* const slice = scanning_ ? shard.Find(scanned_) : nullptr;
  return slice != nullptr && slice->epoch == written_.slices.back().epoch ? slice->state.get() : nullptr;
}

uint64_t ShardWriter::AppendPart(GuardedState& state, Effects& effects) {
  auto [blocks, more] = state.NextPart(record_part_bytes_);
  scanning_ = more;
  ShardWritten::Item& written = written_.slices.back();
  const uint64_t bytes = RecordBytes(blocks);
  for (const Payload& block : blocks) written.crc32c = Crc32c(block.bytes(), written.crc32c);
  written.bytes += bytes;
  written_.bytes += bytes;
  stage_ = Stage::kAppend;
  Submit(StorageOp::Kind::kAppend, ShardPath(request_.round, request_.file), std::move(blocks), effects);
  return bytes;
}

void ShardWriter::Finish(const std::string& error, Effects& effects) {
  stage_ = Stage::kIdle;
  written_.error = error;
  Report(request_.slices, effects);
}

// Nothing of a file counts that its disk refused. Only what is asked for is copied: with its intervals a whole report
// may be large, and the chief asks again for a few.
void ShardWriter::Report(const std::vector<SnapshotRequest::Item>& asked, Effects& effects) const {
  std::set<SliceId> wanted;
  for (const SnapshotRequest::Item& item : asked) wanted.insert(item.slice);
  ShardWritten report{.from = written_.from,
                      .round = written_.round,
                      .error = written_.error,
                      .bytes = written_.bytes,
                      .slices = {},
                      .skipped = written_.skipped,
                      .oldest_version = written_.oldest_version,
                      .newest_version = written_.newest_version};
  if (written_.error.empty()) {
    std::copy_if(written_.slices.begin(), written_.slices.end(), std::back_inserter(report.slices),
                 [&wanted](const ShardWritten::Item& item) { return wanted.contains(item.slice); });
  }
  SendInParts(std::move(report), part_bytes_, chief_, effects);
}

}  // namespace downpour
