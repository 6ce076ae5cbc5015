#include "ps/snapshot.h"

#include <algorithm>
#include <utility>

namespace downpour {
namespace {

const ServedSlice* FindInEpoch(const Shard& shard, const SnapshotRequest::Item& item) {
  if (!shard.grid().Contains(item.slice)) return nullptr;
  const ServedSlice* slice = shard.Find(item.slice);
  return slice != nullptr && slice->epoch == item.epoch ? slice : nullptr;
}

TraceRecord SnapshotTrace(Incarnation from, Round round, const SnapshotRequest::Item& item, const ServedSlice& slice) {
  return {.kind = TraceRecord::Kind::kSnapshot,
          .actor = from,
          .lease = LeaseOfRound(round),
          .step = 0,
          .slice = item.slice,
          .epoch = item.epoch,
          .count = slice.version,
          .peer = {}};
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
    const ServedSlice* slice = FindInEpoch(shard, item);
    if (slice == nullptr) continue;
    shard.CheckCounts(*slice);
    std::vector<Payload> blocks = EncodeRecord(StateOf(item.slice, *slice));
    size_t bytes = 0;
    for (const Payload& block : blocks) bytes += block.size();
    if (!urgent_) pace.Made(bytes);
    effects.Add(SnapshotTrace(from, round_, item, *slice));
    effects.SendTo(chief, SliceRecord{.from = from,
                                      .round = round_,
                                      .slice = item.slice,
                                      .epoch = item.epoch,
                                      .finished = slice->counters.finished(),
                                      .blocks = std::move(blocks)});
  }
}

void ShardWriter::Begin(const WriteShard& request, PeerId chief, Effects& effects) {
  if (request.round < request_.round) return;
  chief_ = chief;
  if (request.round == request_.round) {
    if (stage_ == Stage::kIdle) effects.SendTo(chief_, written_);
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
  const ServedSlice* slice = FindInEpoch(shard, item);
  if (slice == nullptr) return Finish("", effects);  // what is reported says by its end which one is not here
  shard.CheckCounts(*slice);
  std::vector<Payload> blocks = EncodeRecord(StateOf(item.slice, *slice));
  ShardWritten::Item entry{.slice = item.slice,
                           .epoch = item.epoch,
                           .finished = slice->counters.finished(),
                           .offset = written_.bytes,
                           .bytes = 0,
                           .crc32c = 0};
  for (const Payload& block : blocks) {
    entry.bytes += block.size();
    entry.crc32c = Crc32c(block.bytes(), entry.crc32c);
  }
  if (!request_.urgent) pace.Made(entry.bytes);
  written_.bytes += entry.bytes;
  written_.slices.push_back(std::move(entry));
  effects.Add(SnapshotTrace(request_.to, request_.round, item, *slice));
  stage_ = Stage::kAppend;
  Submit(StorageOp::Kind::kAppend, ShardPath(request_.round, request_.file), std::move(blocks), effects);
}

void ShardWriter::Finish(const std::string& error, Effects& effects) {
  stage_ = Stage::kIdle;
  written_.error = error;
  effects.SendTo(chief_, written_);
}

}  // namespace downpour
