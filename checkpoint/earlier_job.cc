#include "checkpoint/earlier_job.h"

#include <algorithm>
#include <filesystem>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "checkpoint/table_reader.h"
#include "cluster/job_folder.h"
#include "job/job_file.h"
#include "ps/table/bucket_rows.h"
#include "runtime/initial_values.h"
#include "runtime/posix/initial_folder.h"
#include "schema/text.h"

namespace downpour {
namespace {

constexpr char kVariablesFile[] = "initial.shard";
constexpr size_t kMostPartBytes = size_t{256} << 10, kLeastPartBytes = size_t{128} << 10;
constexpr size_t kMostOfAllParts = size_t{64} << 20;

template <typename Specs>
std::optional<size_t> PlaceOf(const Specs& specs, const std::string& name) {
  const auto found = std::find_if(specs.begin(), specs.end(), [&](const auto& spec) { return spec.name == name; });
  if (found == specs.end()) return std::nullopt;
  return static_cast<size_t>(found - specs.begin());
}

// As it lies in this job's table: with its slots where both keep the same ones, else as a row that begins with its
// values.
absl::Span<const std::byte> RowFor(const TableSpec& to, const TableSpec& from, const std::byte* row,
                                   std::vector<float>* values, std::vector<float>* made) {
  const RowShape shape = ShapeOf(to);
  if (FormOf(to) == FormOf(from)) return {row, shape.bytes()};
  values->resize(from.width);
  made->resize(shape.bytes() / sizeof(float));
  ReadValues(ShapeOf(from), row, values->data());
  auto* const bytes = reinterpret_cast<std::byte*>(made->data());
  BeginRow(shape, values->data(), bytes);
  return {bytes, shape.bytes()};
}

}  // namespace

absl::StatusOr<EarlierJob> EarlierJob::Open(const JobSpec& job) {
  absl::StatusOr<Checkpoint> from = OpenNewestCheckpoint(job.model.initialize_from);
  return from.ok() ? Match(job, *std::move(from)) : from.status();
}

absl::StatusOr<EarlierJob> EarlierJob::Match(const JobSpec& job, Checkpoint from) {
  EarlierJob earlier;
  earlier.job_ = job;
  earlier.from_ = std::move(from);
  absl::StatusOr<SliceGrid> grid = GridOf(job.model);
  if (!grid.ok()) return grid.status();
  earlier.grid_ = *std::move(grid);
  earlier.specs_ = TablesOf(job);
  earlier.MatchVariables();
  if (job.training.servers_optimizer().kind == OptimizerKind::kFtrl && !earlier.keeps_slots_ &&
      std::any_of(earlier.variables_.begin(), earlier.variables_.end(),
                  [](const auto& at) { return at.has_value(); })) {
    return earlier.IntoFtrl("the variables", "training.optimizer");
  }
  if (absl::Status status = earlier.MatchTables(); !status.ok()) return status;
  const auto taken = [](const auto& from_place) { return from_place.has_value(); };
  if (std::none_of(earlier.variables_.begin(), earlier.variables_.end(), taken) &&
      std::none_of(earlier.tables_.begin(), earlier.tables_.end(), taken)) {
    return absl::InvalidArgumentError(absl::StrCat(earlier.from_.path,
                                                   " has no variable or table of the model: it has ",
                                                   SomeOf(earlier.unused_), ", and the model ", SomeOf(earlier.anew_)));
  }
  return earlier;
}

void EarlierJob::MatchVariables() {
  const TrainingSpec &now = job_.training, &then = from_.job.training;
  keeps_slots_ = now.servers_optimizer().kind == then.servers_optimizer().kind && now.local_steps == then.local_steps;
  for (const VariableSpec& variable : grid_.variables) {
    const std::optional<size_t> place = PlaceOf(from_.grid.variables, variable.name);
    const bool fits = place && from_.grid.variables[*place].shape == variable.shape;
    if (!fits) anew_.push_back(place ? variable.name + " (of another shape)" : variable.name);
    variables_.push_back(fits ? std::optional<uint32_t>(*place) : std::nullopt);
  }
  for (const VariableSpec& variable : from_.grid.variables) {
    if (!PlaceOf(grid_.variables, variable.name)) unused_.push_back(variable.name);
  }
}

absl::Status EarlierJob::IntoFtrl(const std::string& what, const std::string& key) const {
  return absl::InvalidArgumentError(absl::StrCat(from_.path, ": ", what,
                                                 " had no ftrl, whose first update makes values of ",
                                                 "its own sums and forgets those that were learned: keep ", key));
}

absl::Status EarlierJob::MatchTables() {
  for (const ModelTable& table : job_.model.tables) {
    tables_.push_back(PlaceOf(from_.job.model.tables, table.name));
    if (!tables_.back()) {
      anew_.push_back("table " + table.name);
      continue;
    }
    const ModelTable& before = from_.job.model.tables[*tables_.back()];
    if (table.optimizer.kind == OptimizerKind::kFtrl && before.optimizer.kind != OptimizerKind::kFtrl) {
      return IntoFtrl("table " + table.name, "model.tables.*.optimizer");
    }
    if (before.width == table.width) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        from_.path, ": its table ", table.name, " has rows of ", before.width, " numbers, and the model's ",
        table.width, ": take the same width, or another name for a table that begins anew"));
  }
  for (const ModelTable& table : from_.job.model.tables) {
    if (!PlaceOf(job_.model.tables, table.name)) unused_.push_back("table " + table.name);
  }
  return absl::OkStatus();
}

std::string EarlierJob::Note() const {
  const auto count = [](const auto& places) {
    return static_cast<uint64_t>(
        std::count_if(places.begin(), places.end(), [](const auto& at) { return at.has_value(); }));
  };
  std::string note = Counted(count(variables_), "variable");
  if (!tables_.empty()) absl::StrAppend(&note, " and ", Counted(count(tables_), "table"));
  absl::StrAppend(&note, " from ", from_.path);
  if (!anew_.empty()) absl::StrAppend(&note, "; not from there: ", SomeOf(anew_));
  if (!unused_.empty()) absl::StrAppend(&note, "; the model has no ", SomeOf(unused_));
  return note;
}

absl::Status EarlierJob::Stage(const std::string& job_dir, const OwnValues& own) const {
  return StageInitial(job_dir, [&](const std::string& folder) { return Write(folder, own); });
}

absl::StatusOr<EarlierJob::OwnValues> EarlierJob::OpenOwnValues(const std::string& job_dir) const {
  const bool all_come_along = std::none_of(variables_.begin(), variables_.end(), [](const auto& at) { return !at; });
  if (!job_.model.is_own() || all_come_along) return OwnValues();
  JobSpec of_code = job_;
  of_code.model.initialize_from = OwnValuesPath(job_dir);
  absl::StatusOr<InitialValuesFile> file = InitialValuesFile::Open(of_code);
  if (!file.ok()) return file.status();
  return OwnValues(*std::move(file));
}

absl::StatusOr<Manifest> EarlierJob::Write(const std::string& folder, const OwnValues& own) const {
  Manifest manifest;
  manifest.job = CanonicalJob(job_);
  if (absl::Status status = WriteVariables(folder, own, &manifest); !status.ok()) return status;
  if (absl::Status status = WriteBuckets(folder, &manifest); !status.ok()) return status;
  return manifest;
}

absl::StatusOr<SliceState> EarlierJob::StateOf(const Slice& slice, const OwnValues& own) const {
  const std::optional<uint32_t> variable = variables_[slice.variable];
  SliceState state;
  if (variable) {
    const auto same = std::find_if(from_.grid.slices.begin(), from_.grid.slices.end(), [&](const Slice& candidate) {
      return candidate.variable == *variable && candidate.offset == slice.offset;
    });
    if (same == from_.grid.slices.end() || same->elements != slice.elements) {
      return absl::InvalidArgumentError(absl::StrCat(from_.path, " cuts ", grid_.variables[slice.variable].name,
                                                     " elsewhere: another release wrote it"));
    }
    absl::StatusOr<SliceState> earlier = ReadSliceRecord(from_, *same);
    if (!earlier.ok()) return earlier.status();
    state.values = std::move(earlier->values);
    if (keeps_slots_) {
      state.slots = std::move(earlier->slots);
      // Without the sum of a group that was not complete: its leases are another job's.
      state.slots.resize(static_cast<size_t>(SlotCount(job_.training.servers_optimizer().kind)));
      state.version = earlier->version;
    }
  } else {
    state.values = Payload::Allocate(static_cast<size_t>(slice.bytes()));
    const absl::Span<float> values = state.values.mutable_floats();
    if (own) {
      const absl::Status read = own->Read(grid_.variables[slice.variable].name, slice.offset, values);
      if (!read.ok()) return read;
    } else {
      InitialValues(job_.seed, grid_, slice.id, values.data());
    }
  }
  state.slice = slice.id;
  const auto slots = static_cast<size_t>(SlotCount(job_.training));
  while (state.slots.size() < slots) state.slots.push_back(Payload::Zeros(state.values.size()));
  return state;
}

absl::Status EarlierJob::WriteVariables(const std::string& folder, const OwnValues& own, Manifest* manifest) const {
  RecordFile file(folder, kVariablesFile);
  for (const Slice& slice : grid_.slices) {
    if (grid_.IsBucket(slice.id)) break;
    const absl::StatusOr<SliceState> state = StateOf(slice, own);
    if (!state.ok()) return state.status();
    const std::vector<Payload> blocks = EncodeRecord(*state);
    manifest->records.push_back({slice.id, 0, file.bytes(), RecordBytes(blocks), RecordChecksum(blocks)});
    if (absl::Status status = file.Append(blocks); !status.ok()) return status;
  }
  if (manifest->records.empty()) return absl::OkStatus();
  manifest->files.push_back({file.name(), file.bytes()});
  return file.Sync();
}

// Where both jobs have the same tables in as many buckets, a bucket is made of one of before.
bool EarlierJob::HasSameBuckets() const {
  for (size_t table = 0; table < tables_.size(); ++table) {
    if (tables_[table] && *tables_[table] != table) return false;  // a key's bucket follows from its table's place
  }
  return grid_.buckets == from_.grid.buckets;
}

size_t EarlierJob::PartBytes() const {
  const size_t open = HasSameBuckets() ? 1 : grid_.buckets;
  return std::clamp(kMostOfAllParts / open, kLeastPartBytes, kMostPartBytes);
}

// Each step is a push to every bucket, so that all have had about as many. 0 where no row brings adam's means along,
// which are then as young as the job.
absl::StatusOr<uint64_t> EarlierJob::VersionOfRows() const {
  const std::vector<TableSpec> before = TablesOf(from_.job);
  bool counts = false;
  for (size_t table = 0; table < tables_.size(); ++table) {
    const bool is_adam = specs_[table].optimizer == OptimizerKind::kAdam;
    counts |= is_adam && tables_[table] && FormOf(specs_[table]) == FormOf(before[*tables_[table]]);
  }
  uint64_t most = 0;
  for (uint32_t bucket = 0; counts && bucket < from_.grid.buckets; ++bucket) {
    const absl::StatusOr<uint64_t> version = ReadBucketVersion(from_, bucket);
    if (!version.ok()) return version.status();
    most = std::max(most, *version);
  }
  return most;
}

absl::Status EarlierJob::WriteBuckets(const std::string& folder, Manifest* manifest) const {
  const absl::StatusOr<uint64_t> version = VersionOfRows();
  if (!version.ok()) return version.status();
  std::vector<std::unique_ptr<RecordFile>> files;
  std::vector<BucketWriter> writers;
  for (uint32_t bucket = 0; bucket < grid_.buckets; ++bucket) {
    files.push_back(std::make_unique<RecordFile>(folder, absl::StrCat("bucket-", bucket, ".shard")));
    writers.emplace_back(specs_, bucket, PartBytes(), [file = files.back().get()](const std::vector<Payload>& blocks) {
      return file->Append(blocks);
    });
    if (absl::Status status = writers.back().Begin(grid_.BucketAt(bucket), *version); !status.ok()) return status;
    if (!HasSameBuckets()) continue;
    if (absl::Status status = CopyBucket(bucket, &writers.back()); !status.ok()) return status;
  }
  if (!HasSameBuckets()) {
    if (absl::Status status = SpreadRows(&writers); !status.ok()) return status;
  }
  for (uint32_t bucket = 0; bucket < grid_.buckets; ++bucket) {
    const RecordFile& file = *files[bucket];
    if (absl::Status status = file.Sync(); !status.ok()) return status;
    manifest->records.push_back(
        {grid_.BucketAt(bucket), static_cast<uint32_t>(manifest->files.size()), 0, file.bytes(), file.crc32c()});
    manifest->files.push_back({file.name(), file.bytes()});
  }
  return absl::OkStatus();
}

absl::Status EarlierJob::CopyBucket(uint32_t bucket, BucketWriter* writer) const {
  std::vector<float> values, made;
  size_t ended = 0;  // tables
  const auto end_until = [&](size_t table) {
    absl::Status status;
    for (; ended < table && status.ok(); ++ended) status = writer->EndTable();
    return status;
  };
  const auto take = [&](const TableSpec& from, const TablePart& part) {
    if (from.id >= tables_.size() || !tables_[from.id]) return absl::OkStatus();
    if (absl::Status status = end_until(from.id); !status.ok()) return status;
    for (uint32_t i = 0; i < part.header.rows; ++i) {
      const auto row = RowFor(specs_[from.id], from, part.Content(i), &values, &made);
      if (absl::Status status = writer->Add(part.Row(i).key, row.data()); !status.ok()) return status;
    }
    return absl::OkStatus();
  };
  if (absl::Status status = ReadTableParts(from_, bucket, take); !status.ok()) return status;
  return end_until(tables_.size());
}

absl::Status EarlierJob::SpreadRows(std::vector<BucketWriter>* writers) const {
  std::vector<float> values, made;
  for (size_t table = 0; table < tables_.size(); ++table) {
    const TableSpec& to = specs_[table];
    const auto take = [&](const TableSpec& from, const TablePart& part) {
      if (from.id != *tables_[table]) return absl::OkStatus();
      for (uint32_t i = 0; i < part.header.rows; ++i) {
        const uint64_t key = part.Row(i).key;
        const auto row = RowFor(to, from, part.Content(i), &values, &made);
        BucketWriter& writer = (*writers)[BucketOf(to.id, key, to.buckets)];
        if (absl::Status status = writer.Add(key, row.data()); !status.ok()) return status;
      }
      return absl::OkStatus();
    };
    for (uint32_t bucket = 0; tables_[table] && bucket < from_.grid.buckets; ++bucket) {
      if (absl::Status status = ReadTableParts(from_, bucket, take); !status.ok()) return status;
    }
    for (BucketWriter& writer : *writers) {
      if (absl::Status status = writer.EndTable(); !status.ok()) return status;
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> StageFromEarlierJob(const JobSpec& job, const std::string& job_dir) {
  const std::string& from = job.model.initialize_from;
  const std::string checkpoints = absl::StrCat(from, "/", kCheckpointsDir);
  absl::Status newest;
  std::string passed_over;
  // A chief may write the next ones there and remove these while they are read.
  for (std::vector<Round> tried, rounds = RoundsIn(checkpoints); rounds != tried; rounds = RoundsIn(checkpoints)) {
    for (const Round round : rounds) {
      absl::StatusOr<Checkpoint> opened = OpenCheckpoint(from, round);
      absl::StatusOr<EarlierJob> earlier =
          opened.ok() ? EarlierJob::Match(job, *std::move(opened)) : absl::StatusOr<EarlierJob>(opened.status());
      if (opened.ok() && !earlier.ok()) return earlier.status();
      absl::Status status = earlier.status();
      if (earlier.ok()) {
        const absl::StatusOr<EarlierJob::OwnValues> own = earlier->OpenOwnValues(job_dir);
        if (!own.ok()) return own.status();  // what the code has said is no checkpoint's fault
        status = earlier->Stage(job_dir, *own);
      }
      if (status.ok()) return earlier->Note() + passed_over;
      if (newest.ok()) newest = status;
      passed_over = absl::StrCat("; checkpoint ", ToString(round), " was passed over: ", status.message());
    }
    tried = std::move(rounds);
  }
  return newest.ok() ? EarlierJob::Open(job).status() : newest;
}

bool BeginsWithEarlierJob(const JobSpec& job) {
  std::error_code ignored;
  return std::filesystem::is_directory(job.model.initialize_from, ignored);
}

}  // namespace downpour
