#include "chief/checkpoint_rounds.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "schema/codec.h"
#include "schema/text.h"

namespace downpour {
namespace {

// A ps that beats but sends no record: after so many times dead_after the round is given up.
constexpr int kSilences = 3;

// Whether the records fill the file from its first byte to its last, in any order.
bool FillFile(const std::map<SliceId, Manifest::Record>& records, uint64_t bytes, const SliceGrid& grid) {
  std::map<uint64_t, uint64_t> end_of;
  for (const auto& [slice, record] : records) {
    if (record.bytes > (grid.IsBucket(slice) ? kMaxBucketRecordBytes : kMaxRecordBytes)) return false;
    end_of[record.offset] = record.offset + record.bytes;
  }
  uint64_t end = 0;
  for (const auto& [begin, record_end] : end_of) {
    if (begin != end) return false;
    end = record_end;
  }
  return end == bytes && end_of.size() == records.size();
}

// Whoever counts says what it likes.
uint64_t SumWithoutOverflow(uint64_t a, uint64_t b) { return a > UINT64_MAX - b ? UINT64_MAX : a + b; }

}  // namespace

void CheckpointRounds::Start(Round round, Head head, bool urgent) {
  active_ = true;
  committing_ = false;
  failed_ = false;
  round_ = round;
  head_ = std::move(head);
  urgent_ = urgent;
  files_.clear();
  for (const auto& [id, server] : placement_.servers()) {
    if (server.slices.empty()) continue;
    ShardFile& file = files_.emplace_back();
    file.server = id.incarnation;
    file.server_name = server.name;
    file.name = server.name + ".shard";
    file.slices = server.slices;
    file.progressed = context_.now;
    file.backoff = timing_.data_retry;
  }
  // The folder's own name must be durable before what it holds is relied on.
  storage_.Run({MakeDir(CheckpointDir(round)), SyncDir(kCheckpointsDir), SyncDir("")},
               InRound([this](const StorageDone&) {
                 for (ShardFile& file : files_) Ask(file, /*again=*/false);
               }));
}

Storage::Then CheckpointRounds::InRound(std::function<void(const StorageDone&)> then) {
  return [this, round = round_, then = std::move(then)](const StorageDone& done) {
    // A completion of a round that was abandoned meanwhile: its file is being removed.
    if (!IsCurrent(round)) return;
    if (!done.status.ok()) return Abandon(MessageOf(done.status), Cause::kDisk);
    then(done);
  };
}

void CheckpointRounds::Tick() {
  if (!active_) return;
  for (ShardFile& file : files_) {
    const bool silent = context_.now - file.progressed >= kSilences * timing_.dead_after;
    if (!file.awaited.empty() && silent) {
      return Abandon(absl::StrCat(file.server_name, " lives but sends no records"));
    }
    if (file.next_ask != Time{} && context_.now >= file.next_ask) Ask(file, /*again=*/true);
  }
}

void CheckpointRounds::AskAgain(Incarnation server) {
  ShardFile* file = active_ ? FindFile(server) : nullptr;
  if (file == nullptr || file->next_ask == Time{}) return;  // it was not asked yet
  file->backoff = timing_.data_retry;
  file->next_ask = context_.now;
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
  file.next_ask = context_.now + timing_.control_retry;
  const Task* task = members_.Find(file.server);
  if (task == nullptr || file.checking || !file.records.empty()) return;
  WriteShard request{.to = file.server, .round = round_, .file = file.name, .slices = {}, .urgent = urgent_};
  for (const SliceId slice : file.slices) {
    if (!file.reported.contains(slice)) request.slices.push_back({slice, placement_.EpochOf(slice), 0});
  }
  context_.out.SendTo(task->control, std::move(request));
}

// `again`: also for those that were asked for and did not come, which each time waits twice as long: on a slow link
// they are only late, and each copy would make the next one later. On a quick one Receive takes that back.
void CheckpointRounds::AskForRecords(ShardFile& file, bool again) {
  const Task* task = members_.Find(file.server);
  file.next_ask = context_.now;  // with the next Tick, should its bulk link not be open yet
  if (task == nullptr || task->bulk == PeerId::kNone) return;
  std::vector<SliceId> slices;
  if (again && !file.awaited.empty()) {
    slices.assign(file.awaited.begin(), file.awaited.end());
    file.backoff *= 2;
  }
  while (file.asked < file.slices.size() &&
         file.awaited.size() + file.arrived.size() + file.writing < kRecordsInFlight) {
    slices.push_back(file.slices[file.asked++]);
    file.awaited.insert(slices.back());
  }
  file.next_ask = context_.now + file.backoff;
  if (slices.empty()) return;
  SnapshotRequest request{.to = file.server, .round = round_, .slices = {}, .urgent = urgent_};
  for (const SliceId slice : slices) {
    const uint32_t parts = file.open && file.open->slice == slice ? file.open->on_disk : 0;
    request.slices.push_back({slice, placement_.EpochOf(slice), parts});
  }
  context_.out.SendTo(task->bulk, std::move(request));
}

absl::Status CheckpointRounds::CheckSlice(const ShardFile& file, SliceId slice, SliceEpoch epoch) const {
  if (!std::binary_search(file.slices.begin(), file.slices.end(), slice)) {
    return absl::InvalidArgumentError(absl::StrCat("a record of slice ", ToNumber(slice), ", which is not its own"));
  }
  // A4: it was asked for in that epoch, and a slice gets another one only once its ps is gone, which ends the round.
  if (epoch != placement_.EpochOf(slice)) {
    return absl::InvalidArgumentError(
        absl::StrCat("a record of slice ", ToNumber(slice), " in another epoch than it was asked for"));
  }
  return absl::OkStatus();
}

// A4: a record must hold all that the manifest calls committed, else the manifest would promise what the record lacks.
// The round continues. So it finds what every slice lacks, and a worker's false reports keep no checkpoint from
// becoming durable.
void CheckpointRounds::PromiseOnly(const IntervalSet& finished) {
  if (finished.Covers(head_.committed)) return;
  const IntervalSet lacking = head_.committed.Except(finished);
  for (const IntervalSet::Interval& run : lacking.Intervals()) lacking_.InsertRange(run.begin, run.end);
  head_.committed = head_.committed.Intersect(finished);
}

absl::Status CheckpointRounds::Receive(const SliceRecord& record) {
  if (!IsCurrent(record.round)) return absl::OkStatus();
  ShardFile* file = FindFile(record.from);
  if (file == nullptr) return absl::InvalidArgumentError("a record from a ps that holds no slices");
  if (absl::Status status = CheckSlice(*file, record.slice, record.epoch); !status.ok()) return status;
  if (absl::Status status = CheckRecordSize(record.blocks); !status.ok()) return status;
  const bool in_parts = record.scan != 0 || record.part != 0 || record.more;
  if (in_parts && !placement_.grid().IsBucket(record.slice)) {
    return absl::InvalidArgumentError(absl::StrCat("a record in parts of slice ", ToNumber(record.slice)));
  }
  if (!file->awaited.contains(record.slice)) return absl::OkStatus();
  if (!TakesNext(*file, record)) {
    SetAside(*file, record);
    return absl::OkStatus();
  }
  Take(*file, record);
  TakeEarly(*file);
  Write(*file);
  return absl::OkStatus();
}

void CheckpointRounds::Take(ShardFile& file, const SliceRecord& record) {
  if (!record.more) file.awaited.erase(record.slice);
  if (record.part == 0) {
    PromiseOnly(record.finished);
    file.skipped = SumWithoutOverflow(file.skipped, record.skipped);
    file.versions.Include({record.version, record.version});
  }
  // Records come one soon after the other: what was asked for again had been lost, and not slow.
  if (context_.now - file.progressed < timing_.data_retry) file.backoff = timing_.data_retry;
  file.progressed = context_.now;
  file.next_ask = context_.now + file.backoff;
  file.arrived.push_back({record.slice, record.blocks, record.part == 0, !record.more});
}

// What overtook the part before it waits for that. If that was lost, or this has no room, it is asked for again.
void CheckpointRounds::SetAside(ShardFile& file, const SliceRecord& record) {
  const bool is_late = file.open && file.open->slice == record.slice && record.part < file.open->parts;
  if (is_late || file.early.size() >= kRecordPartsAhead + kRecordsInFlight) return;
  file.early.try_emplace({record.slice, record.scan, record.part}, record);
}

void CheckpointRounds::TakeEarly(ShardFile& file) {
  for (auto at = file.early.begin(); at != file.early.end();) {
    const bool is_next = file.awaited.contains(at->second.slice) && TakesNext(file, at->second);
    if (is_next) Take(file, at->second);
    const bool is_over = is_next || !file.awaited.contains(at->second.slice);
    at = is_over ? file.early.erase(at) : std::next(at);
    if (is_next) at = file.early.begin();  // another slice's may be next now
  }
}

// Parts of a bucket's record are taken in their order, and nothing else before the last of them.
bool CheckpointRounds::TakesNext(ShardFile& file, const SliceRecord& record) {
  if (!file.open && record.part == 0) {
    if (record.more) file.open = {record.slice, record.scan, 0};
  } else if (!file.open || file.open->slice != record.slice || file.open->scan != record.scan ||
             file.open->parts != record.part) {
    return false;
  }
  if (!file.open) return true;
  if (file.open->parts - file.open->on_disk >= kRecordPartsAhead) return false;  // no ps of ours makes more
  ++file.open->parts;
  file.unwritten[record.slice] = file.open->parts;
  if (!record.more) file.open.reset();
  return true;
}

// With what is on the disk now: the ps drops these parts, and makes others.
void CheckpointRounds::Confirm(ShardFile& file, const std::map<SliceId, uint32_t>& written) {
  if (const auto open = file.open ? written.find(file.open->slice) : written.end(); open != written.end()) {
    file.open->on_disk = open->second;
  }
  const Task* task = members_.Find(file.server);
  if (written.empty() || task == nullptr || task->bulk == PeerId::kNone) return;
  SnapshotRequest request{.to = file.server, .round = round_, .slices = {}, .urgent = urgent_};
  for (const auto& [slice, parts] : written) {
    request.slices.push_back({slice, placement_.EpochOf(slice), parts});
  }
  context_.out.SendTo(task->bulk, std::move(request));
}

void CheckpointRounds::Write(ShardFile& file) {
  if (file.writing > 0 || file.arrived.empty()) return;
  // What came meanwhile goes in one append: were it one each, small records would wait longer than they take.
  std::vector<Manifest::Record> entries;
  std::vector<Payload> data;
  const std::vector<Arrived> arrived = std::exchange(file.arrived, {});
  for (const Arrived& record : arrived) {
    if (record.is_first) file.growing = {.slice = record.slice, .offset = file.bytes};
    const uint64_t bytes = RecordBytes(record.blocks);
    for (const Payload& block : record.blocks) file.growing.crc32c = Crc32c(block.bytes(), file.growing.crc32c);
    file.growing.bytes += bytes;
    file.bytes += bytes;
    if (record.is_last) entries.push_back(file.growing);
    data.insert(data.end(), record.blocks.begin(), record.blocks.end());
  }
  file.writing = arrived.size();
  storage_.Run({AppendTo(ShardPath(round_, file.name), std::move(data))},
               InRound([this, &file, entries, written = std::exchange(file.unwritten, {})](const StorageDone&) {
                 file.writing = 0;
                 file.progressed = context_.now;
                 for (const Manifest::Record& entry : entries) file.records[entry.slice] = entry;
                 Confirm(file, written);
                 if (file.asked < file.slices.size()) AskForRecords(file, /*again=*/false);
                 Write(file);
                 CommitIfComplete();
               }));
}

absl::Status CheckpointRounds::Receive(const ShardWritten& written) {
  if (!IsCurrent(written.round)) return absl::OkStatus();
  ShardFile* file = FindFile(written.from);
  if (file == nullptr) return absl::InvalidArgumentError("a shard file from a ps that holds no slices");
  if (spec_.via != CheckpointVia::kShared) return absl::InvalidArgumentError("a shard file that nobody asked for");
  if (file->checking || !file->records.empty()) return absl::OkStatus();
  if (!written.error.empty()) {
    Abandon(absl::StrCat(file->server_name, " cannot write its shard file: ", written.error), Cause::kDisk);
    return absl::OkStatus();
  }
  const absl::Status status = TakePart(*file, written);
  if (!status.ok()) Rejected(written.from, MessageOf(status));
  return status;
}

// Parts come in any order, and again where the chief asked again.
absl::Status CheckpointRounds::TakePart(ShardFile& file, const ShardWritten& part) {
  if (file.bytes != 0 && file.bytes != part.bytes) {
    return absl::InvalidArgumentError("a shard file whose length changes from one part of its report to the next");
  }
  file.bytes = part.bytes;
  file.skipped = part.skipped;
  file.versions = {part.oldest_version, part.newest_version};
  for (const ShardWritten::Item& item : part.slices) {
    if (absl::Status status = CheckSlice(file, item.slice, item.epoch); !status.ok()) return status;
    if (item.bytes == 0) {
      Abandon(absl::StrCat(file.server_name, " lacks slice ", ToNumber(item.slice), " in its present epoch"));
      return absl::OkStatus();
    }
    const Manifest::Record record{
        .slice = item.slice, .offset = item.offset, .bytes = item.bytes, .crc32c = item.crc32c};
    if (const auto [at, is_new] = file.reported.emplace(item.slice, record); !is_new && at->second != record) {
      return absl::InvalidArgumentError(absl::StrCat("a shard file with two records of slice ", ToNumber(item.slice)));
    }
    PromiseOnly(item.finished);
  }
  file.progressed = context_.now;
  file.next_ask = context_.now + timing_.control_retry;  // other parts are on their way
  if (file.reported.size() < file.slices.size()) return absl::OkStatus();
  if (!FillFile(file.reported, file.bytes, placement_.grid())) {
    return absl::InvalidArgumentError("a shard file whose records do not lie side by side");
  }
  CheckShared(file);
  return absl::OkStatus();
}

void CheckpointRounds::Rejected(Incarnation server, const std::string& why) {
  const ShardFile* file = active_ && spec_.via == CheckpointVia::kShared ? FindFile(server) : nullptr;
  if (file == nullptr || file->checking || !file->records.empty()) return;
  Abandon(absl::StrCat(file->server_name, " said what was rejected, perhaps its report: ", why));
}

// "Shared" is the job file's claim; a file that this side does not see whole would make a checkpoint of nothing.
void CheckpointRounds::CheckShared(ShardFile& file) {
  file.checking = true;
  storage_.Run({ReadFile(ShardPath(round_, file.name), file.bytes - 1, 2)},
               InRound([this, &file](const StorageDone& done) {
                 if (done.data.size() != 1) {
                   return Abandon(absl::StrCat(ShardPath(round_, file.name), " is not here as ", file.server_name,
                                               " wrote it: checkpoint.via: shared needs a path that all see"),
                                  Cause::kDisk);
                 }
                 file.records = std::move(file.reported);
                 CommitIfComplete();
               }));
}

void CheckpointRounds::CommitIfComplete() {
  for (const ShardFile& file : files_) {
    if (file.records.size() != file.slices.size()) return;
  }
  if (SkippedTooMany()) return;
  // From here no slice that moves ends the round: all that it needs is in its files.
  committing_ = true;
  Manifest manifest{.round = round_,
                    .unix_ms = context_.UnixMs(),
                    .job = head_.job,
                    .train_examples = head_.data.train_examples,
                    .eval_examples = head_.data.eval_examples,
                    .data_fingerprint = head_.data.fingerprint,
                    .train_files = head_.data.files,
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
  // Records are durable before the manifest that names them.
  ops.push_back(SyncDir(CheckpointDir(round_)));
  const std::string text = EncodeManifest(manifest);
  if (text.size() > kMaxManifestBytes) {
    return Abandon(absl::StrCat("its manifest takes ", text.size(), " bytes, of at most ", kMaxManifestBytes));
  }
  for (StorageOp& op : ReplaceFile(ManifestPath(round_), text)) ops.push_back(std::move(op));
  storage_.Run(std::move(ops), InRound([this, manifest](const StorageDone&) { BecomeDurable(manifest); }));
}

// Such a checkpoint would be the newest one and hide those before it, which may be sound.
bool CheckpointRounds::SkippedTooMany() {
  uint64_t skipped = 0;
  for (const ShardFile& file : files_) skipped = SumWithoutOverflow(skipped, file.skipped);
  if (skipped <= head_.most_skipped) return false;
  too_many_skipped_ = skipped;
  Abandon(absl::StrCat(skipped, " pushes were skipped"));
  return true;
}

void CheckpointRounds::BecomeDurable(const Manifest& manifest) {
  active_ = false;
  last_error_.clear();
  last_error_cause_.reset();
  Resume(manifest);
  for (const ShardFile& file : files_) durable_->versions.Include(file.versions);
  TraceRecord trace;
  trace.kind = TraceRecord::Kind::kDurable;
  trace.count = uint64_t{round_.term} << 32 | round_.n;
  context_.out.Add(trace);
  if (urgent_ || context_.now >= next_word_) {
    next_word_ = context_.now + kWordsEvery;
    context_.out.Info(absl::StrCat("checkpoint ", ToString(round_), " is durable: ", durable_->bytes, " bytes, ",
                                   Counted(durable_->committed.Count(), "lease")));
  }
  const CheckpointStore::Retention retention{spec_.keep, spec_.every ? 0ms : kApart};
  store_.Prune(round_, manifest.unix_ms, retention, NoteRemoval());
}

std::function<void(const absl::Status&)> CheckpointRounds::NoteRemoval() {
  return [this](const absl::Status& status) {
    if (!status.ok()) failures_.Add("chief", absl::StrCat("an old checkpoint cannot be removed: ", MessageOf(status)));
  };
}

void CheckpointRounds::Pin(const std::set<Round>& rounds) {
  if (std::exchange(pinned_, rounds) != rounds) store_.Pin(rounds, NoteRemoval());
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
  failed_ = true;
  failures_.Add("chief", absl::StrCat("checkpoint ", ToString(round_), " abandoned: ", why));
  active_ = false;
  store_.Discard(round_);
}

void CheckpointRounds::LoseAPs() {
  if (active_ && !committing_) Abandon("a ps is gone", Cause::kPsGone);
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
