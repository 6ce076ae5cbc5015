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

void SnapshotQueue::Add(const SnapshotRequest& request) {
  if (request.round < round_) return;
  if (request.round > round_) waiting_.clear();
  round_ = request.round;
  urgent_ = request.urgent;
  for (const SnapshotRequest::Item& item : request.slices) {
    const bool waits = std::any_of(waiting_.begin(), waiting_.end(),
                                   [&](const SnapshotRequest::Item& other) { return other.slice == item.slice; });
    if (!waits) waiting_.push_back(item);
  }
}

void SnapshotQueue::Answer(RecordPace& pace, const Shard& shard, Incarnation from, PeerId chief, Effects& effects) {
  while (!waiting_.empty() && (urgent_ || pace.Allows())) {
    const SnapshotRequest::Item item = waiting_.front();
    waiting_.pop_front();
    std::optional<SliceRecord> record = MakeRecord(shard, from, round_, item, effects);
    if (!record) continue;
    if (!urgent_) pace.Made(RecordBytes(record->blocks));
    effects.SendTo(chief, *std::move(record));
  }
}

void ShardWriter::Begin(const WriteShard& request, PeerId chief, Effects& effects) {
  if (request.round < request_.round) return;
  chief_ = chief;
  if (request.round == request_.round) {
    if (stage_ == Stage::kIdle) Report(request.slices, effects);
    return;
  }
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

void ShardWriter::Continue(RecordPace& pace, const Shard& shard, Effects& effects) {
  if (stage_ != Stage::kNext) return;
  if (written_.slices.size() == request_.slices.size()) {
    stage_ = Stage::kSync;
    Submit(StorageOp::Kind::kSync, ShardPath(request_.round, request_.file), {}, effects);
  } else if (request_.urgent || pace.Allows()) {
    AppendNext(pace, shard, effects);
  }
}

void ShardWriter::AppendNext(RecordPace& pace, const Shard& shard, Effects& effects) {
  const SnapshotRequest::Item& item = request_.slices[written_.slices.size()];
  std::optional<SliceRecord> record = MakeRecord(shard, request_.to, request_.round, item, effects);
  if (!record) {
    written_.slices.push_back({.slice = item.slice, .epoch = item.epoch, .finished = {}});
    return Finish("", effects);
  }
  if (absl::Status status = CheckRecordSize(record->blocks); !status.ok()) {
    return Finish(absl::StrCat("slice ", ToNumber(item.slice), ": ", std::string(status.message())), effects);
  }
  const uint64_t bytes = RecordBytes(record->blocks);
  if (!request_.urgent) pace.Made(bytes);
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
  stage_ = Stage::kAppend;
  Submit(StorageOp::Kind::kAppend, ShardPath(request_.round, request_.file), std::move(record->blocks), effects);
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
