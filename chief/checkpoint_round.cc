#include "chief/checkpoint_round.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "schema/codec.h"

namespace downpour {
namespace {

// A ps that beats but sends no record: after so many times dead_after the round is given up.
constexpr int kSilences = 3;

absl::Status CheckBlocks(const std::vector<Payload>& blocks) {
  const uint64_t bytes = RecordBytes(blocks);
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
  placement_number_ = assignment_.placement_number();
  files_.clear();
  for (const Assignment::Server& server : assignment_.servers()) {
    if (server.slices.empty()) continue;
    ShardFile& file = files_.emplace_back();
    file.server = server.incarnation;
    file.server_name = server.name;
    file.name = server.name + ".shard";
    file.slices = server.slices;
    file.progressed = turn_.now;
    file.patience = timing_.data_retry;
  }
  storage_.Run({MakeDir(CheckpointDir(round)), SyncDir(kCheckpointsDir), SyncDir("")},
               InRound([this](const StorageDone&) {
                 for (ShardFile& file : files_) Ask(file, /*again=*/false);
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
  for (ShardFile& file : files_) {
    const bool silent = turn_.now - file.progressed >= kSilences * timing_.dead_after;
    if (!file.awaited.empty() && silent) {
      return Abandon(absl::StrCat(file.server_name, " lives but sends no records"));
    }
    if (file.next_ask != Time{} && turn_.now >= file.next_ask) Ask(file, /*again=*/true);
  }
}

void CheckpointRounds::AskAgain(Incarnation server) {
  ShardFile* file = active_ ? FindFile(server) : nullptr;
  if (file == nullptr || file->next_ask == Time{}) return;  // it was not asked yet
  file->patience = timing_.data_retry;
  file->next_ask = turn_.now;
}

// A round is for the epochs at its start: after a change, a repeated request could bring another life's state. One
// whose records are all here asks for none any more.
bool CheckpointRounds::Moved() {
  if (committing_ || assignment_.placement_number() == placement_number_) return false;
  Abandon("slices moved meanwhile");
  return true;
}

CheckpointRounds::ShardFile* CheckpointRounds::FindFile(Incarnation server) {
  const auto found =
      std::find_if(files_.begin(), files_.end(), [server](const ShardFile& file) { return file.server == server; });
  return found == files_.end() ? nullptr : &*found;
}

void CheckpointRounds::Ask(ShardFile& file, bool again) {
  spec_.via == CheckpointVia::kShared ? AskForFile(file) : AskForRecords(file, again);
}

void CheckpointRounds::AskForFile(ShardFile& file) {
  file.next_ask = turn_.now + timing_.control_retry;
  const Task* task = members_.Find(file.server);
  if (task == nullptr || file.checking || !file.records.empty()) return;
  WriteShard request{.to = file.server, .round = round_, .file = file.name, .slices = {}, .urgent = urgent_};
  for (const SliceId slice : file.slices) {
    request.slices.push_back({slice, assignment_.epochs()[ToNumber(slice)]});
  }
  turn_.out.SendTo(task->control, std::move(request));
}

// `again`: also for those that were asked for and did not come, which each time waits twice as long: on a slow link
// they are only late, and each copy would make the next one later.
void CheckpointRounds::AskForRecords(ShardFile& file, bool again) {
  const Task* task = members_.Find(file.server);
  file.next_ask = turn_.now;  // with the next Tick, should its bulk link not be open yet
  if (task == nullptr || task->bulk == PeerId::kNone) return;
  std::vector<SliceId> slices;
  if (again && !file.awaited.empty()) {
    slices.assign(file.awaited.begin(), file.awaited.end());
    file.patience *= 2;
  }
  while (file.asked < file.slices.size() &&
         file.awaited.size() + file.arrived.size() + file.writing < kRecordsInFlight) {
    slices.push_back(file.slices[file.asked++]);
    file.awaited.insert(slices.back());
  }
  file.next_ask = turn_.now + file.patience;
  if (slices.empty()) return;
  SnapshotRequest request{.to = file.server, .round = round_, .slices = {}, .urgent = urgent_};
  for (const SliceId slice : slices) {
    request.slices.push_back({slice, assignment_.epochs()[ToNumber(slice)]});
  }
  turn_.out.SendTo(task->bulk, std::move(request));
}

absl::Status CheckpointRounds::CheckSlice(const ShardFile& file, SliceId slice) const {
  if (std::binary_search(file.slices.begin(), file.slices.end(), slice)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("a record of slice ", ToNumber(slice), ", which is not its own"));
}

bool CheckpointRounds::Covers(const ShardFile& file, SliceId slice, const IntervalSet& finished) {
  if (finished.Covers(head_.committed)) return true;
  lacking_ = finished;
  Abandon(absl::StrCat(file.server_name, ": slice ", ToNumber(slice), " lacks leases that were committed"));
  return false;
}

absl::Status CheckpointRounds::Receive(const SliceRecord& record) {
  if (!IsCurrent(record.round) || Moved()) return absl::OkStatus();
  ShardFile* file = FindFile(record.from);
  if (file == nullptr) return absl::InvalidArgumentError("a record from a ps that holds no slices");
  if (absl::Status status = CheckSlice(*file, record.slice); !status.ok()) return status;
  if (absl::Status status = CheckBlocks(record.blocks); !status.ok()) return status;
  if (record.epoch != assignment_.epochs()[ToNumber(record.slice)]) return absl::OkStatus();
  if (!file->awaited.contains(record.slice) || !Covers(*file, record.slice, record.finished)) return absl::OkStatus();
  file->awaited.erase(record.slice);
  file->progressed = turn_.now;
  file->next_ask = turn_.now + file->patience;
  file->arrived.push_back(record);
  Write(*file);
  return absl::OkStatus();
}

void CheckpointRounds::Write(ShardFile& file) {
  if (file.writing || file.arrived.empty()) return;
  const SliceRecord record = std::move(file.arrived.front());
  file.arrived.pop_front();
  file.writing = true;
  const Manifest::Record entry{.slice = record.slice,
                               .offset = file.bytes,
                               .bytes = RecordBytes(record.blocks),
                               .crc32c = RecordChecksum(record.blocks)};
  file.bytes += entry.bytes;
  storage_.Run({AppendTo(ShardPath(round_, file.name), record.blocks)},
               InRound([this, &file, entry](const StorageDone&) {
                 file.writing = false;
                 file.progressed = turn_.now;
                 file.records[entry.slice] = entry;
                 if (file.asked < file.slices.size()) AskForRecords(file, /*again=*/false);
                 Write(file);
                 CommitIfComplete();
               }));
}

absl::Status CheckpointRounds::Receive(const ShardWritten& written) {
  if (!IsCurrent(written.round) || Moved()) return absl::OkStatus();
  ShardFile* file = FindFile(written.from);
  if (file == nullptr) return absl::InvalidArgumentError("a shard file from a ps that holds no slices");
  if (spec_.via != CheckpointVia::kShared) return absl::InvalidArgumentError("a shard file that nobody asked for");
  if (file->checking || !file->records.empty()) return absl::OkStatus();
  if (!written.error.empty()) {
    Abandon(absl::StrCat(file->server_name, " cannot write its shard file: ", written.error), Cause::kDisk);
    return absl::OkStatus();
  }
  std::set<SliceId> slices;
  for (const ShardWritten::Item& item : written.slices) {
    if (absl::Status status = CheckSlice(*file, item.slice); !status.ok()) return status;
    if (item.epoch != assignment_.epochs()[ToNumber(item.slice)]) return absl::OkStatus();
    slices.insert(item.slice);
  }
  if (written.slices.size() < file->slices.size()) {
    const auto lacking = std::find_if(file->slices.begin(), file->slices.end(),
                                      [&slices](SliceId slice) { return !slices.contains(slice); });
    Abandon(absl::StrCat(file->server_name, " lacks slice ", ToNumber(*lacking), " in its present epoch"));
    return absl::OkStatus();
  }
  if (slices.size() != file->slices.size() || !FillFile(written)) {
    return absl::InvalidArgumentError("a shard file whose records are not one for each slice, side by side");
  }
  for (const ShardWritten::Item& item : written.slices) {
    if (!Covers(*file, item.slice, item.finished)) return absl::OkStatus();
  }
  CheckShared(*file, written);
  return absl::OkStatus();
}

// "Shared" is the job file's claim; a file that this side does not see whole would make a checkpoint of nothing.
void CheckpointRounds::CheckShared(ShardFile& file, const ShardWritten& written) {
  file.checking = true;
  storage_.Run({ReadFile(ShardPath(round_, file.name), written.bytes - 1, 2)},
               InRound([this, &file, written](const StorageDone& done) {
                 if (done.data.size() != 1) {
                   return Abandon(absl::StrCat(ShardPath(round_, file.name), " is not here as ", file.server_name,
                                               " wrote it: checkpoint.via: shared needs a path that all see"),
                                  Cause::kDisk);
                 }
                 file.bytes = written.bytes;
                 for (const ShardWritten::Item& item : written.slices) {
                   file.records[item.slice] = {
                       .slice = item.slice, .offset = item.offset, .bytes = item.bytes, .crc32c = item.crc32c};
                 }
                 CommitIfComplete();
               }));
}

void CheckpointRounds::CommitIfComplete() {
  for (const ShardFile& file : files_) {
    if (file.records.size() != file.slices.size()) return;
  }
  committing_ = true;
  Manifest manifest{.round = round_,
                    .unix_ms = turn_.UnixMs(),
                    .job = head_.job,
                    .train_examples = head_.data.train_examples,
                    .eval_examples = head_.data.eval_examples,
                    .data_fingerprint = head_.data.fingerprint,
                    .committed = head_.committed,
                    .files = {},
                    .records = {}};
  std::vector<StorageOp> ops;
  for (const ShardFile& file : files_) {
    if (spec_.via == CheckpointVia::kChief) ops.push_back(SyncFile(ShardPath(round_, file.name)));
    for (auto [slice, record] : file.records) {
      record.file = static_cast<uint32_t>(manifest.files.size());
      manifest.records.push_back(record);
    }
    manifest.files.push_back({file.name, file.bytes});
  }
  std::sort(manifest.records.begin(), manifest.records.end(),
            [](const Manifest::Record& a, const Manifest::Record& b) { return a.slice < b.slice; });
  ops.push_back(SyncDir(CheckpointDir(round_)));
  for (StorageOp& op : ReplaceFile(ManifestPath(round_), EncodeManifest(manifest))) ops.push_back(std::move(op));
  storage_.Run(std::move(ops), InRound([this, manifest](const StorageDone&) { BecomeDurable(manifest); }));
}

void CheckpointRounds::BecomeDurable(const Manifest& manifest) {
  active_ = false;
  last_error_.clear();
  Resume(manifest);
  TraceRecord trace;
  trace.kind = TraceRecord::Kind::kDurable;
  trace.count = uint64_t{round_.term} << 32 | round_.n;
  turn_.out.Add(trace);
  turn_.out.Info(absl::StrCat("checkpoint ", ToString(round_), " is durable: ", durable_->bytes, " bytes, ",
                              Counted(durable_->committed.Count(), "lease")));
  store_.Prune(round_, spec_.keep, [this](const absl::Status& status) {
    if (!status.ok()) failures_.Add("chief", absl::StrCat("an old checkpoint cannot be removed: ", Words(status)));
  });
}

void CheckpointRounds::Resume(const Manifest& manifest) {
  durable_ = {.round = manifest.round, .unix_ms = manifest.unix_ms, .committed = manifest.committed};
  for (const Manifest::File& file : manifest.files) durable_->bytes += file.bytes;
}

void CheckpointRounds::NoteLoss(const std::string& why) {
  last_error_ = why;
  last_error_cause_ = Cause::kDisk;
  failures_.Add("chief", why);
}

void CheckpointRounds::Abandon(const std::string& why, Cause cause) {
  last_error_ = why;
  last_error_cause_ = cause;
  failures_.Add("chief", absl::StrCat("checkpoint ", ToString(round_), " abandoned: ", why));
  active_ = false;
  store_.Discard(round_);
}

void CheckpointRounds::GiveUp(const std::string& why) {
  if (active_ && !committing_) Abandon(why);
}

void CheckpointRounds::Stop() {
  if (!active_ || committing_) return;
  active_ = false;
  store_.Discard(round_);
}

std::string CheckpointRounds::writing() const {
  if (!active_) return "";
  size_t written = 0;
  size_t slices = 0;
  for (const ShardFile& file : files_) {
    written += file.records.size();
    slices += file.slices.size();
  }
  return absl::StrCat(ToString(round_), ": ", written, " of ", slices, " slices");
}

std::vector<CheckpointRounds::Wait> CheckpointRounds::Waits() const {
  std::vector<Wait> waits;
  for (const ShardFile& file : files_) {
    const size_t missing = file.slices.size() - file.records.size();
    if (active_ && missing > 0) waits.push_back({file.server_name, file.progressed, missing});
  }
  return waits;
}

}  // namespace downpour
