#include "chief/checkpoint_round.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "schema/codec.h"

namespace downpour {
namespace {

// A ps that beats but sends no record: after so many times dead_after the round is given up.
constexpr int kSilences = 3;

absl::Status CheckBlocks(const std::vector<Payload>& blocks) {
  uint64_t bytes = 0;
  for (const Payload& block : blocks) bytes += block.size();
  if (bytes > 0 && bytes <= kMaxRecordBytes) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("a slice record of ", bytes, " bytes"));
}

// Whether the records fill the file from its first byte to its last, in any order.
bool FillFile(const ShardWritten& written) {
  std::map<uint64_t, uint64_t> end_of;
  for (const ShardWritten::Item& item : written.slices) {
    if (item.bytes == 0 || item.bytes > kMaxRecordBytes) return false;
    end_of[item.offset] = item.offset + item.bytes;
  }
  uint64_t end = 0;
  for (const auto& [begin, record_end] : end_of) {
    if (begin != end) return false;
    end = record_end;
  }
  return end == written.bytes && end_of.size() == written.slices.size();
}

}  // namespace

void CheckpointRounds::Start(Round round, Head head, bool urgent) {
  active_ = true;
  committing_ = false;
  round_ = round;
  head_ = std::move(head);
  urgent_ = urgent;
  placement_number_ = parts_.assignment.placement_number();
  shards_.clear();
  for (const Assignment::Server& server : parts_.assignment.servers()) {
    if (server.slices.empty()) continue;
    Shard& shard = shards_.emplace_back();
    shard.server = server.incarnation;
    shard.name = server.name;
    shard.slices = server.slices;
    shard.progressed = parts_.turn.now;
    shard.patience = timing_.data_retry;
  }
  parts_.storage.Run({MakeDir(CheckpointDir(round)), SyncDir(kCheckpointsDir), SyncDir("")},
                     InRound([this](const StorageDone&) {
                       for (Shard& shard : shards_) Ask(shard, /*again=*/false);
                     }));
}

Storage::Then CheckpointRounds::InRound(std::function<void(const StorageDone&)> then) {
  return [this, round = round_, then = std::move(then)](const StorageDone& done) {
    if (!IsCurrent(round)) return;
    if (!done.status.ok()) return Abandon(Words(done.status), Cause::kDisk);
    then(done);
  };
}

void CheckpointRounds::Tick() {
  if (!active_ || Moved()) return;
  for (Shard& shard : shards_) {
    const bool silent = parts_.turn.now - shard.progressed >= kSilences * timing_.dead_after;
    if (!shard.awaited.empty() && silent) {
      return Abandon(absl::StrCat(shard.name, " lives but sends no records"));
    }
    if (shard.next_ask != Time{} && parts_.turn.now >= shard.next_ask) Ask(shard, /*again=*/true);
  }
}

void CheckpointRounds::AskAgain(Incarnation server) {
  Shard* shard = active_ ? FindShard(server) : nullptr;
  if (shard == nullptr || shard->next_ask == Time{}) return;  // it was not asked yet
  shard->patience = timing_.data_retry;
  shard->next_ask = parts_.turn.now;
}

// A round is for the epochs at its start: after a change, a repeated request could bring another life's state. One whose
// records are all here asks for none any more.
bool CheckpointRounds::Moved() {
  if (committing_ || parts_.assignment.placement_number() == placement_number_) return false;
  Abandon("slices moved meanwhile");
  return true;
}

CheckpointRounds::Shard* CheckpointRounds::FindShard(Incarnation server) {
  const auto found =
      std::find_if(shards_.begin(), shards_.end(), [server](const Shard& shard) { return shard.server == server; });
  return found == shards_.end() ? nullptr : &*found;
}

void CheckpointRounds::Ask(Shard& shard, bool again) {
  spec_.via == CheckpointVia::kShared ? AskForShard(shard) : AskForRecords(shard, again);
}

void CheckpointRounds::AskForShard(Shard& shard) {
  shard.next_ask = parts_.turn.now + timing_.control_retry;
  const Task* task = parts_.members.Find(shard.server);
  if (task == nullptr || shard.checking || !shard.records.empty()) return;
  WriteShard request{.to = shard.server, .round = round_, .file = FileOf(shard), .slices = {}, .urgent = urgent_};
  for (const SliceId slice : shard.slices) {
    request.slices.push_back({slice, parts_.assignment.epochs()[ToNumber(slice)]});
  }
  parts_.turn.out.SendTo(task->control, std::move(request));
}

// `again`: also for those that were asked for and did not come, which each time waits twice as long: on a slow link they
// are only late, and each copy would make the next one later.
void CheckpointRounds::AskForRecords(Shard& shard, bool again) {
  const Task* task = parts_.members.Find(shard.server);
  shard.next_ask = parts_.turn.now;  // with the next Tick, should its bulk link not be open yet
  if (task == nullptr || task->bulk == PeerId::kNone) return;
  std::vector<SliceId> slices;
  if (again && !shard.awaited.empty()) {
    slices.assign(shard.awaited.begin(), shard.awaited.end());
    shard.patience *= 2;
  }
  while (shard.asked < shard.slices.size() &&
         shard.awaited.size() + shard.arrived.size() + shard.writing < kRecordsInFlight) {
    slices.push_back(shard.slices[shard.asked++]);
    shard.awaited.insert(slices.back());
  }
  shard.next_ask = parts_.turn.now + shard.patience;
  if (slices.empty()) return;
  SnapshotRequest request{.to = shard.server, .round = round_, .slices = {}, .urgent = urgent_};
  for (const SliceId slice : slices) {
    request.slices.push_back({slice, parts_.assignment.epochs()[ToNumber(slice)]});
  }
  parts_.turn.out.SendTo(task->bulk, std::move(request));
}

absl::Status CheckpointRounds::CheckSlice(const Shard& shard, SliceId slice) const {
  if (std::binary_search(shard.slices.begin(), shard.slices.end(), slice)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("a record of slice ", ToNumber(slice), ", which is not its own"));
}

bool CheckpointRounds::Covers(const Shard& shard, SliceId slice, const IntervalSet& finished) {
  if (finished.Covers(head_.committed)) return true;
  lacking_ = finished;
  Abandon(absl::StrCat(shard.name, ": slice ", ToNumber(slice), " lacks leases that were committed"));
  return false;
}

absl::Status CheckpointRounds::Receive(const SliceRecord& record) {
  if (!IsCurrent(record.round) || Moved()) return absl::OkStatus();
  Shard* shard = FindShard(record.from);
  if (shard == nullptr) return absl::InvalidArgumentError("a record from a ps that holds no slices");
  if (absl::Status status = CheckSlice(*shard, record.slice); !status.ok()) return status;
  if (absl::Status status = CheckBlocks(record.blocks); !status.ok()) return status;
  if (record.epoch != parts_.assignment.epochs()[ToNumber(record.slice)]) return absl::OkStatus();
  if (!shard->awaited.contains(record.slice) || !Covers(*shard, record.slice, record.finished)) return absl::OkStatus();
  shard->awaited.erase(record.slice);
  shard->progressed = parts_.turn.now;
  shard->next_ask = parts_.turn.now + shard->patience;
  shard->arrived.push_back(record);
  Write(*shard);
  return absl::OkStatus();
}

void CheckpointRounds::Write(Shard& shard) {
  if (shard.writing || shard.arrived.empty()) return;
  const SliceRecord record = std::move(shard.arrived.front());
  shard.arrived.pop_front();
  shard.writing = true;
  Manifest::Record entry{.slice = record.slice, .offset = shard.bytes};
  for (const Payload& block : record.blocks) {
    entry.bytes += block.size();
    entry.crc32c = Crc32c(block.bytes(), entry.crc32c);
  }
  shard.bytes += entry.bytes;
  parts_.storage.Run({AppendTo(ShardPath(round_, FileOf(shard)), record.blocks)},
                     InRound([this, &shard, entry](const StorageDone&) {
                       shard.writing = false;
                       shard.progressed = parts_.turn.now;
                       shard.records[entry.slice] = entry;
                       if (shard.asked < shard.slices.size()) AskForRecords(shard, /*again=*/false);
                       Write(shard);
                       CommitIfComplete();
                     }));
}

absl::Status CheckpointRounds::Receive(const ShardWritten& written) {
  if (!IsCurrent(written.round) || Moved()) return absl::OkStatus();
  Shard* shard = FindShard(written.from);
  if (shard == nullptr) return absl::InvalidArgumentError("a shard file from a ps that holds no slices");
  if (spec_.via != CheckpointVia::kShared) return absl::InvalidArgumentError("a shard file that nobody asked for");
  if (shard->checking || !shard->records.empty()) return absl::OkStatus();
  if (!written.error.empty()) {
    Abandon(absl::StrCat(shard->name, " cannot write its shard: ", written.error), Cause::kDisk);
    return absl::OkStatus();
  }
  std::set<SliceId> slices;
  for (const ShardWritten::Item& item : written.slices) {
    if (absl::Status status = CheckSlice(*shard, item.slice); !status.ok()) return status;
    if (item.epoch != parts_.assignment.epochs()[ToNumber(item.slice)]) return absl::OkStatus();
    slices.insert(item.slice);
  }
  if (written.slices.size() < shard->slices.size()) {
    const auto lacking = std::find_if(shard->slices.begin(), shard->slices.end(),
                                      [&slices](SliceId slice) { return !slices.contains(slice); });
    Abandon(absl::StrCat(shard->name, " lacks slice ", ToNumber(*lacking), " in its present epoch"));
    return absl::OkStatus();
  }
  if (slices.size() != shard->slices.size() || !FillFile(written)) {
    return absl::InvalidArgumentError("a shard file whose records are not one for each slice, side by side");
  }
  for (const ShardWritten::Item& item : written.slices) {
    if (!Covers(*shard, item.slice, item.finished)) return absl::OkStatus();
  }
  CheckShared(*shard, written);
  return absl::OkStatus();
}

// "Shared" is the job file's claim; a file that this side does not see whole would make a checkpoint of nothing.
void CheckpointRounds::CheckShared(Shard& shard, const ShardWritten& written) {
  shard.checking = true;
  parts_.storage.Run({ReadFile(ShardPath(round_, FileOf(shard)), written.bytes - 1, 2)},
                     InRound([this, &shard, written](const StorageDone& done) {
                       if (done.data.size() != 1) {
                         return Abandon(absl::StrCat(ShardPath(round_, FileOf(shard)), " is not here as ", shard.name,
                                                     " wrote it: checkpoint.via: shared needs a path that all see"),
                                        Cause::kDisk);
                       }
                       shard.bytes = written.bytes;
                       for (const ShardWritten::Item& item : written.slices) {
                         shard.records[item.slice] = {
                             .slice = item.slice, .offset = item.offset, .bytes = item.bytes, .crc32c = item.crc32c};
                       }
                       CommitIfComplete();
                     }));
}

void CheckpointRounds::CommitIfComplete() {
  for (const Shard& shard : shards_) {
    if (shard.records.size() != shard.slices.size()) return;
  }
  committing_ = true;
  Manifest manifest{.round = round_,
                    .unix_ms = parts_.turn.UnixMs(),
                    .job = head_.job,
                    .train_examples = head_.data.train_examples,
                    .eval_examples = head_.data.eval_examples,
                    .data_fingerprint = head_.data.fingerprint,
                    .committed = head_.committed,
                    .files = {},
                    .records = {}};
  std::vector<StorageOp> ops;
  for (const Shard& shard : shards_) {
    if (spec_.via == CheckpointVia::kChief) ops.push_back(SyncFile(ShardPath(round_, FileOf(shard))));
    for (auto [slice, record] : shard.records) {
      record.file = static_cast<uint32_t>(manifest.files.size());
      manifest.records.push_back(record);
    }
    manifest.files.push_back({FileOf(shard), shard.bytes});
  }
  std::sort(manifest.records.begin(), manifest.records.end(),
            [](const Manifest::Record& a, const Manifest::Record& b) { return a.slice < b.slice; });
  ops.push_back(SyncDir(CheckpointDir(round_)));
  for (StorageOp& op : ReplaceFile(ManifestPath(round_), EncodeManifest(manifest))) ops.push_back(std::move(op));
  parts_.storage.Run(std::move(ops), InRound([this, manifest](const StorageDone&) { BecomeDurable(manifest); }));
}

void CheckpointRounds::BecomeDurable(const Manifest& manifest) {
  active_ = false;
  last_error_.clear();
  Resume(manifest);
  TraceRecord trace;
  trace.kind = TraceRecord::Kind::kDurable;
  trace.count = uint64_t{round_.term} << 32 | round_.n;
  parts_.turn.out.Add(trace);
  parts_.turn.out.Info(absl::StrCat("checkpoint ", ToString(round_), " is durable: ", durable_->bytes, " bytes, ",
                                    Counted(durable_->committed.Count(), "lease")));
  parts_.store.Prune(round_, spec_.keep, [this](const absl::Status& status) {
    if (!status.ok())
      parts_.failures.Add("chief", absl::StrCat("an old checkpoint cannot be removed: ", Words(status)));
  });
}

void CheckpointRounds::Resume(const Manifest& manifest) {
  durable_ = {.round = manifest.round, .unix_ms = manifest.unix_ms, .committed = manifest.committed};
  for (const Manifest::File& file : manifest.files) durable_->bytes += file.bytes;
}

void CheckpointRounds::NoteLoss(const std::string& why) {
  last_error_ = why;
  last_error_cause_ = Cause::kDisk;
  parts_.failures.Add("chief", why);
}

void CheckpointRounds::Abandon(const std::string& why, Cause cause) {
  last_error_ = why;
  last_error_cause_ = cause;
  parts_.failures.Add("chief", absl::StrCat("checkpoint ", ToString(round_), " abandoned: ", why));
  active_ = false;
  parts_.store.Discard(round_);
}

void CheckpointRounds::GiveUp(const std::string& why) {
  if (active_ && !committing_) Abandon(why);
}

void CheckpointRounds::Stop() {
  if (!active_ || committing_) return;
  active_ = false;
  parts_.store.Discard(round_);
}

std::string CheckpointRounds::writing() const {
  if (!active_) return "";
  size_t written = 0;
  size_t slices = 0;
  for (const Shard& shard : shards_) {
    written += shard.records.size();
    slices += shard.slices.size();
  }
  return absl::StrCat(ToString(round_), ": ", written, " of ", slices, " slices");
}

std::vector<CheckpointRounds::Wait> CheckpointRounds::Waits() const {
  std::vector<Wait> waits;
  for (const Shard& shard : shards_) {
    const size_t missing = shard.slices.size() - shard.records.size();
    if (active_ && missing > 0) waits.push_back({shard.name, shard.progressed, missing});
  }
  return waits;
}

}  // namespace downpour
