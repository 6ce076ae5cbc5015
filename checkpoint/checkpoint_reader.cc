#include "checkpoint/checkpoint_reader.h"

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "chief/folder/sealed_copies.h"
#include "cluster/job_folder.h"
#include "job/job_file.h"
#include "job/plan_check.h"
#include "schema/limits.h"

namespace downpour {
namespace {

namespace fs = std::filesystem;

absl::Status At(const std::string& path, const absl::Status& status) {
  return absl::Status(status.code(), absl::StrCat(path, ": ", std::string(status.message())));
}

// Of what is there and cannot be read nothing is said to be damaged.
absl::StatusOr<std::ifstream> OpenPart(const std::string& path) {
  std::error_code ignored;
  if (fs::is_directory(path, ignored)) return absl::FailedPreconditionError("is a folder");
  if (fs::is_fifo(path, ignored)) return absl::FailedPreconditionError("is a pipe, which may have no other end");
  std::ifstream file(path, std::ios::binary);
  if (!file) return absl::ErrnoToStatus(errno == 0 ? EIO : errno, "cannot be read");
  return file;
}

// [offset, offset + bytes) of a file; DATA_LOSS if it ends before.
absl::StatusOr<Payload> ReadRange(std::ifstream& file, uint64_t offset, uint64_t bytes) {
  Payload range = Payload::Allocate(bytes);
  file.clear();
  file.seekg(static_cast<std::streamoff>(offset));
  file.read(reinterpret_cast<char*>(range.mutable_data()), static_cast<std::streamsize>(bytes));
  if (static_cast<uint64_t>(file.gcount()) == bytes) return range;
  return absl::DataLossError(absl::StrCat("ends before byte ", offset + bytes));
}

absl::StatusOr<Manifest> ReadManifest(const std::string& path) {
  std::error_code error;
  const uintmax_t bytes = fs::file_size(path, error);
  if (error == std::errc::no_such_file_or_directory) return absl::NotFoundError(absl::StrCat(path, ": there is none"));
  absl::StatusOr<std::ifstream> file = OpenPart(path);
  if (!file.ok()) return At(path, file.status());
  const auto text = ReadRange(*file, 0, std::min<uintmax_t>(bytes, kMaxManifestBytes + 1));
  if (!text.ok()) return At(path, text.status());
  absl::StatusOr<Manifest> manifest =
      DecodeManifest(std::string(reinterpret_cast<const char*>(text->data()), text->size()));
  if (!manifest.ok()) return At(path, manifest.status());
  return manifest;
}

// What the grid, the optimizer and the manifest ask of a record.
absl::Status CheckState(const Checkpoint& checkpoint, const Slice& slice, const SliceState& state) {
  const bool is_bucket = checkpoint.grid.IsBucket(slice.id);
  const auto slots = is_bucket ? 0 : static_cast<size_t>(SlotCount(checkpoint.job.training));
  if (state.slice != slice.id || static_cast<int64_t>(state.values.size()) != slice.bytes() ||
      state.slots.size() != slots) {
    return absl::InvalidArgumentError(absl::StrCat(
        "holds slice ", ToNumber(state.slice), " of ", state.values.size(), " bytes and ", state.slots.size(),
        " slots, where the job wants slice ", ToNumber(slice.id), " of ", slice.bytes(), " bytes and ", slots));
  }
  if (state.finished.Covers(checkpoint.manifest.committed)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("slice ", ToNumber(slice.id), " lacks leases that the manifest calls committed"));
}

std::string FilePath(const Checkpoint& checkpoint, const Manifest::File& file) {
  return absl::StrCat(checkpoint.path, "/", file.name);
}

absl::Status ChecksumDiffers(const Manifest::Record& record) {
  return absl::DataLossError(absl::StrCat("the checksum of bytes ", record.offset, " to ", record.offset + record.bytes,
                                          ", slice ", ToNumber(record.slice), ", differs"));
}

// A piece at a time. The checksum comes first: damage has the place that it names.
absl::StatusOr<SliceState> ReadBucket(const Manifest::Record& record, std::ifstream& file,
                                      const BucketParts::Take& take) {
  uint32_t checksum = 0;
  BucketParts parts;
  absl::Status taken;
  for (uint64_t before = 0; before < record.bytes; before += kMaxRecordBytes) {
    const auto bytes =
        ReadRange(file, record.offset + before, std::min<uint64_t>(kMaxRecordBytes, record.bytes - before));
    if (!bytes.ok()) return bytes.status();
    checksum = Crc32c(bytes->bytes(), checksum);
    if (taken.ok()) taken = parts.Add(bytes->bytes(), take);
  }
  if (checksum != record.crc32c) return ChecksumDiffers(record);
  if (!taken.ok()) return taken;
  if (!parts.whole()) return absl::DataLossError("a damaged record of a bucket: it ends within a part");
  return *parts.state();
}

absl::StatusOr<SliceState> ReadWholeRecord(const Manifest::Record& record, std::ifstream& file) {
  const auto bytes = ReadRange(file, record.offset, record.bytes);
  if (!bytes.ok()) return bytes.status();
  if (Crc32c(bytes->bytes()) != record.crc32c) return ChecksumDiffers(record);
  return DecodeRecord({&*bytes, 1});
}

absl::Status PassOver(absl::Span<const std::byte>) { return absl::OkStatus(); }

absl::StatusOr<SliceState> ReadRecord(const Checkpoint& checkpoint, const Slice& slice, const std::string& path,
                                      const BucketParts::Take& take) {
  const Manifest::Record& record = checkpoint.manifest.records[ToNumber(slice.id)];
  absl::StatusOr<std::ifstream> file = OpenPart(path);
  if (!file.ok()) return file.status();
  auto state = checkpoint.grid.IsBucket(slice.id) ? ReadBucket(record, *file, take) : ReadWholeRecord(record, *file);
  if (!state.ok()) return state;
  if (absl::Status status = CheckState(checkpoint, slice, *state); !status.ok()) return status;
  return state;
}

// Every byte of a slice's record, checked.
absl::StatusOr<SliceState> ReadSlice(const Checkpoint& checkpoint, const Slice& slice,
                                     const BucketParts::Take& take = PassOver) {
  const Manifest::Record& record = checkpoint.manifest.records[ToNumber(slice.id)];
  const std::string path = FilePath(checkpoint, checkpoint.manifest.files[record.file]);
  absl::StatusOr<SliceState> state = ReadRecord(checkpoint, slice, path, take);
  return state.ok() ? std::move(state) : At(path, state.status());
}

// Whether every byte of a file is some record's.
absl::Status CheckCover(const Checkpoint& checkpoint, uint32_t file) {
  std::vector<std::pair<uint64_t, uint64_t>> ranges;  // offset, bytes
  for (const Manifest::Record& record : checkpoint.manifest.records) {
    if (record.file == file) ranges.emplace_back(record.offset, record.bytes);
  }
  ranges.emplace_back(checkpoint.manifest.files[file].bytes, 0);
  std::sort(ranges.begin(), ranges.end());
  uint64_t covered = 0;
  for (const auto& [offset, bytes] : ranges) {
    if (offset > covered) {
      return absl::InvalidArgumentError(absl::StrCat("bytes ", covered, " to ", offset, " are no slice's"));
    }
    covered = std::max(covered, offset + bytes);
  }
  return absl::OkStatus();
}

absl::Status CheckFile(const Checkpoint& checkpoint, uint32_t index) {
  const Manifest::File& file = checkpoint.manifest.files[index];
  const std::string path = FilePath(checkpoint, file);
  std::error_code error;
  const uintmax_t bytes = fs::file_size(path, error);
  if (error == std::errc::no_such_file_or_directory) {
    return absl::DataLossError(absl::StrCat(path, ": ", error.message()));
  }
  if (error) return absl::ErrnoToStatus(error.value(), path);
  if (bytes != file.bytes) {
    return absl::DataLossError(absl::StrCat(path, ": has ", bytes, " bytes, where its manifest wants ", file.bytes));
  }
  const absl::Status cover = CheckCover(checkpoint, index);
  return cover.ok() ? cover : At(path, cover);
}

absl::StatusOr<LoadedCheckpoint> LoadRound(const std::string& job_dir, Round round) {
  absl::StatusOr<Checkpoint> checkpoint = OpenCheckpoint(job_dir, round);
  if (!checkpoint.ok()) return checkpoint.status();
  LoadedCheckpoint loaded{*std::move(checkpoint), {}};
  for (const Slice& slice : loaded.grid.slices) {
    absl::StatusOr<SliceState> state = ReadSlice(loaded, slice);
    if (!state.ok()) return state.status();
    state->slots.clear();
    loaded.slices.push_back(*std::move(state));
  }
  return loaded;
}

// Of a job whose Python code has just said how many examples it has: its workers would be refused.
absl::Status CheckSameData(const JobSpec& job, const DataShape& begun, const std::string& whose) {
  const DataShape found = {static_cast<uint64_t>(job.data.train_examples),
                           static_cast<uint64_t>(job.data.eval_examples), begun.fingerprint};
  if (job.data.format != kPythonFormat || found == begun) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(whose, " was begun with other data: ", DataDifference(job.data, found, begun),
                   ": bring those of before back, or name a job folder that is new, to begin again"));
}

absl::StatusOr<Round> BestRound(const std::string& job_dir) {
  const BestRecord best = NewestJournalEntry(job_dir).record.best;
  if (best != BestRecord()) return best.round;
  return absl::NotFoundError(absl::StrCat(
      job_dir, " names no best checkpoint: there is one once an evaluation is over and its checkpoint is written, ",
      "unless checkpoint.best is none or there is no data.eval"));
}

// A chief may name a better one and remove this one while it is read.
absl::StatusOr<LoadedCheckpoint> LoadBest(const std::string& job_dir) {
  for (Round tried;;) {
    const absl::StatusOr<Round> best = BestRound(job_dir);
    if (!best.ok()) return best.status();
    absl::StatusOr<LoadedCheckpoint> loaded = LoadRound(job_dir, *best);
    if (loaded.ok() || *best == tried) return loaded;
    tried = *best;
  }
}

}  // namespace

absl::StatusOr<Checkpoint> OpenCheckpoint(const std::string& job_dir, Round round) {
  Checkpoint opened;
  opened.path = absl::StrCat(job_dir, "/", CheckpointDir(round));
  const std::string manifest_path = absl::StrCat(job_dir, "/", ManifestPath(round));
  absl::StatusOr<Manifest> manifest = ReadManifest(manifest_path);
  if (!manifest.ok()) return manifest.status();
  if (manifest->round != round) {
    return At(manifest_path, absl::InvalidArgumentError("is of round " + ToString(manifest->round)));
  }
  opened.manifest = *std::move(manifest);
  absl::StatusOr<JobSpec> job = ParseCanonicalJob(opened.manifest.job);
  if (!job.ok()) return At(manifest_path, job.status());
  opened.job = *std::move(job);
  absl::StatusOr<SliceGrid> grid = GridOf(opened.job.model);
  if (!grid.ok()) return At(manifest_path, grid.status());
  opened.grid = *std::move(grid);
  if (opened.grid.size() != opened.manifest.records.size()) {
    return At(manifest_path,
              absl::InvalidArgumentError(absl::StrCat("lists ", opened.manifest.records.size(),
                                                      " records, but its model has ", opened.grid.size(), " slices")));
  }
  return opened;
}

absl::Status CheckFiles(const Checkpoint& checkpoint) {
  for (uint32_t file = 0; file < checkpoint.manifest.files.size(); ++file) {
    if (absl::Status status = CheckFile(checkpoint, file); !status.ok()) return status;
  }
  return absl::OkStatus();
}

std::vector<absl::Status> FindDamage(const Checkpoint& checkpoint) {
  std::vector<absl::Status> damage;
  const auto note = [&damage](const absl::Status& status) {
    if (!status.ok()) damage.push_back(status);
  };
  for (uint32_t file = 0; file < checkpoint.manifest.files.size(); ++file) note(CheckFile(checkpoint, file));
  for (const Slice& slice : checkpoint.grid.slices) note(ReadSlice(checkpoint, slice).status());
  return damage;
}

absl::StatusOr<Checkpoint> OpenNewestCheckpoint(const std::string& job_dir) {
  if (absl::Status readable = CheckJobFolder(job_dir); !readable.ok()) return readable;
  const std::string checkpoints = absl::StrCat(job_dir, "/", kCheckpointsDir);
  absl::Status newest = absl::NotFoundError(absl::StrCat("there is no checkpoint in ", checkpoints));
  bool is_first = true;
  for (const Round round : RoundsIn(checkpoints)) {
    absl::StatusOr<Checkpoint> opened = OpenCheckpoint(job_dir, round);
    const absl::Status status = opened.ok() ? CheckFiles(*opened) : opened.status();
    if (status.ok()) return opened;
    if (std::exchange(is_first, false)) newest = status;
  }
  return newest;
}

absl::StatusOr<SliceState> ReadSliceRecord(const Checkpoint& checkpoint, const Slice& slice) {
  return ReadSlice(checkpoint, slice);
}

absl::StatusOr<uint64_t> ReadBucketVersion(const Checkpoint& checkpoint, uint32_t bucket) {
  constexpr uint64_t kStep = uint64_t{64} << 10;
  const Manifest::Record& record = checkpoint.manifest.records[ToNumber(checkpoint.grid.BucketAt(bucket))];
  const std::string path = FilePath(checkpoint, checkpoint.manifest.files[record.file]);
  absl::StatusOr<std::ifstream> file = OpenPart(path);
  if (!file.ok()) return At(path, file.status());
  BucketParts parts;
  for (uint64_t at = 0; at < record.bytes && !parts.state(); at += kStep) {
    const auto bytes = ReadRange(*file, record.offset + at, std::min(kStep, record.bytes - at));
    const absl::Status status = bytes.ok() ? parts.Add(bytes->bytes(), PassOver) : bytes.status();
    if (!status.ok()) return At(path, status);
  }
  if (parts.state()) return parts.state()->version;
  return At(path, absl::DataLossError(absl::StrCat("the record of bucket ", bucket, " has no beginning")));
}

absl::StatusOr<SliceState> ReadBucketRecord(const Checkpoint& checkpoint, uint32_t bucket,
                                            const BucketParts::Take& take) {
  return ReadSlice(checkpoint, checkpoint.grid.at(checkpoint.grid.BucketAt(bucket)), take);
}

JournalEntry NewestJournalEntry(const std::string& job_dir) {
  JournalEntry newest;
  for (const char* copy : {"/journal.a", "/journal.b"}) {
    const absl::StatusOr<std::string> text = Unsealed(ReadTextFile(job_dir + copy).value_or(""));
    absl::StatusOr<JournalEntry> entry = text.ok() ? DecodeEntry(*text) : text.status();
    if (entry.ok() && entry->number > newest.number) newest = *std::move(entry);
  }
  return newest;
}

absl::Status CheckPlanIn(const std::string& job_dir, const JobSpec& job) {
  const JobRecord record = NewestJournalEntry(job_dir).record;
  if (!record.job.empty() && record.ended.empty()) {
    const std::string whose = "the job of this folder, which is not over,";
    if (const absl::Status status = CheckSamePlan(job, record.job, whose); !status.ok()) return status;
    const absl::Status same = record.data ? CheckSameData(job, *record.data, whose) : absl::OkStatus();
    if (!same.ok()) return same;
  }
  for (const Round round : RoundsIn(absl::StrCat(job_dir, "/", kCheckpointsDir))) {
    if (round <= record.abandoned) break;
    const absl::StatusOr<Checkpoint> checkpoint = OpenCheckpoint(job_dir, round);
    if (!checkpoint.ok() || !CheckFiles(*checkpoint).ok()) continue;
    const std::string whose = absl::StrCat("checkpoint ", ToString(round));
    const absl::Status same = CheckSamePlan(job, checkpoint->manifest.job, whose);
    return same.ok() ? CheckSameData(job, DataOf(checkpoint->manifest), whose) : same;
  }
  return absl::OkStatus();
}

std::optional<Round> LostCheckpoint(const std::string& job_dir) {
  const JobRecord record = NewestJournalEntry(job_dir).record;
  if (record.newest <= record.abandoned) return std::nullopt;
  for (int look = 0; look < 2; ++look) {  // a chief may write the next and remove this one while the first is taken
    if (NewestRound(job_dir) >= record.newest) return std::nullopt;
  }
  return record.newest;
}

absl::StatusOr<Checkpoint> OpenNamedCheckpoint(const std::string& job_dir, const std::string& round) {
  if (round.empty()) return OpenNewestCheckpoint(job_dir);
  const absl::StatusOr<Round> named = round == kBestCheckpoint ? BestRound(job_dir) : ParseRound(round);
  return named.ok() ? OpenCheckpoint(job_dir, *named) : absl::StatusOr<Checkpoint>(named.status());
}

absl::StatusOr<LoadedCheckpoint> LoadCheckpoint(const std::string& job_dir, const std::string& round,
                                                std::vector<std::string>* passed_over) {
  const std::string checkpoints = absl::StrCat(job_dir, "/", kCheckpointsDir);
  if (round == kBestCheckpoint) return LoadBest(job_dir);
  if (!round.empty()) {
    const absl::StatusOr<Round> parsed = ParseRound(round);
    if (!parsed.ok()) return parsed.status();
    return LoadRound(job_dir, *parsed);
  }
  if (absl::Status readable = CheckJobFolder(job_dir); !readable.ok()) return readable;
  // A chief may write the next ones and remove these while they are read.
  for (std::vector<Round> tried, rounds = RoundsIn(checkpoints); rounds != tried; rounds = RoundsIn(checkpoints)) {
    passed_over->clear();
    for (const Round candidate : rounds) {
      absl::StatusOr<LoadedCheckpoint> loaded = LoadRound(job_dir, candidate);
      if (loaded.ok()) return loaded;
      passed_over->push_back(
          absl::StrCat("passing over checkpoint ", ToString(candidate), ": ", std::string(loaded.status().message())));
    }
    tried = std::move(rounds);
  }
  const std::optional<Round> lost = LostCheckpoint(job_dir);
  return absl::NotFoundError(absl::StrCat("there is no ", passed_over->empty() ? "" : "valid ", "checkpoint in ",
                                          checkpoints, lost ? ": " + ToString(*lost) + ", which was, is gone" : ""));
}

}  // namespace downpour
