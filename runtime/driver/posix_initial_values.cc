#include "runtime/driver/posix_initial_values.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "runtime/driver/posix_process.h"
#include "runtime/driver/posix_whole_file.h"
#include "runtime/initial_values.h"
#include "schema/checkpoint_format.h"
#include "schema/job_file.h"
#include "schema/text.h"

namespace downpour {
namespace {

constexpr char kShard[] = "initial.shard";
constexpr size_t kMostNamed = 4;  // of many tensors or variables, in a sentence

std::string ShapeText(const std::vector<int64_t>& shape) { return absl::StrCat("[", absl::StrJoin(shape, ", "), "]"); }

bool ReadAt(int file, uint64_t offset, void* to, size_t bytes) {
  auto* at = static_cast<char*>(to);
  while (bytes > 0) {
    const ssize_t got = pread(file, at, bytes, static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    at += got;
    offset += static_cast<uint64_t>(got);
    bytes -= static_cast<size_t>(got);
  }
  return true;
}

std::string Some(const std::vector<std::string>& names) {
  const size_t shown = std::min(names.size(), kMostNamed);
  std::string text = absl::StrJoin(names.begin(), names.begin() + static_cast<ptrdiff_t>(shown), ", ");
  if (names.size() > shown) absl::StrAppend(&text, " and ", names.size() - shown, " more");
  return CleanText(text, 512);
}

absl::Status WriteBlocks(int file, absl::Span<const Payload> blocks) {
  for (const Payload& block : blocks) {
    for (size_t done = 0; done < block.size();) {
      const ssize_t put = write(file, block.data() + done, block.size() - done);
      if (put < 0 && errno == EINTR) continue;
      if (put <= 0) return absl::UnavailableError(std::strerror(errno));
      done += static_cast<size_t>(put);
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<SliceState> StateOf(const JobSpec& job, const SliceGrid& grid, const Slice& slice,
                                   const InitialValuesFile& from) {
  const std::string& variable = grid.variables[slice.variable].name;
  const auto bytes = static_cast<size_t>(slice.bytes());
  SliceState state;
  state.slice = slice.id;
  state.values = Payload::Allocate(bytes);
  if (from.Has(variable)) {
    const absl::Status read = from.Read(variable, slice.offset, state.values.mutable_floats());
    if (!read.ok()) return read;
  } else {
    InitialValues(job.seed, grid, slice.id, state.values.mutable_floats().data());
  }
  for (int i = 0; i < SlotCount(job.training); ++i) state.slots.push_back(Payload::Zeros(bytes));
  return state;
}

}  // namespace

absl::StatusOr<InitialValuesFile> InitialValuesFile::Open(const JobSpec& job) {
  InitialValuesFile file;
  file.path_ = job.model.initialize_from;
  const auto fail = [&](const std::string& what) {
    return absl::InvalidArgumentError(absl::StrCat("model.initializeFrom: ", file.path_, ": ", what));
  };
  file.file_ = UniqueFd(open(file.path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat about {};
  if (!file.file_.ok() || fstat(file.file_.get(), &about) != 0) {
    return absl::ErrnoToStatus(errno, absl::StrCat("model.initializeFrom: ", file.path_));
  }
  uint64_t length = 0;
  const auto size = static_cast<uint64_t>(about.st_size);
  if (!S_ISREG(about.st_mode) || size < sizeof(length) || !ReadAt(file.file_.get(), 0, &length, sizeof(length)) ||
      length > std::min(kMostSafetensorsHeader, size - sizeof(length))) {
    return fail("is no safetensors file");
  }
  std::string header(length, '\0');
  if (!ReadAt(file.file_.get(), sizeof(length), header.data(), header.size())) return fail("cannot be read");
  file.data_ = sizeof(length) + length;
  absl::StatusOr<std::vector<TensorEntry>> tensors = ParseSafetensors(header, size - file.data_);
  if (!tensors.ok()) return fail(std::string(tensors.status().message()));
  const absl::StatusOr<std::vector<VariableSpec>> variables = InferVariables(job.model);
  if (!variables.ok()) return variables.status();
  const absl::Status fits = file.Fit(*variables, *std::move(tensors));
  if (!fits.ok()) return fail(std::string(fits.message()));
  if (job.model.is_own() && !file.missing_.empty()) return fail("lacks " + Some(file.missing_));
  return file;
}

absl::Status InitialValuesFile::Fit(const std::vector<VariableSpec>& variables, std::vector<TensorEntry> tensors) {
  for (TensorEntry& tensor : tensors) tensors_.emplace(tensor.name, std::move(tensor));
  std::map<std::string, TensorEntry> used;
  for (const VariableSpec& variable : variables) {
    const auto found = tensors_.find(variable.name);
    if (found == tensors_.end()) {
      missing_.push_back(variable.name);
      continue;
    }
    const TensorEntry& tensor = found->second;
    if (tensor.number == TensorNumber::kOther) {
      return absl::InvalidArgumentError(
          absl::StrCat("its tensor ", variable.name, " is of ", tensor.type, ", not of F32, F64, F16 or BF16"));
    }
    if (tensor.shape != variable.shape) {
      return absl::InvalidArgumentError(absl::StrCat("its tensor ", variable.name, " has the shape ",
                                                     ShapeText(tensor.shape), ", and the model's variable ",
                                                     ShapeText(variable.shape)));
    }
    used.insert(tensors_.extract(found));
  }
  for (const auto& [name, tensor] : tensors_) unused_.push_back(name);
  tensors_ = std::move(used);
  if (!tensors_.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("no tensor of it is named like a variable of the model: it has ",
                                                 Some(unused_), ", and the model ", Some(missing_)));
}

absl::Status InitialValuesFile::Read(const std::string& variable, int64_t first, absl::Span<float> values) const {
  const TensorEntry& tensor = tensors_.at(variable);
  const size_t each = BytesOf(tensor.number);
  std::vector<std::byte> bytes(values.size() * each);
  if (!ReadAt(file_.get(), data_ + tensor.begin + static_cast<uint64_t>(first) * each, bytes.data(), bytes.size())) {
    return absl::UnavailableError(absl::StrCat(path_, ": tensor ", variable, " cannot be read"));
  }
  ToFloats(tensor.number, bytes, values.data());
  return absl::OkStatus();
}

std::string InitialValuesFile::Note() const {
  std::string note;
  if (!missing_.empty()) absl::StrAppend(&note, "it lacks ", Some(missing_), ", which begin as without it");
  if (!unused_.empty()) absl::StrAppend(&note, note.empty() ? "" : "; ", "nothing is named ", Some(unused_));
  return note.empty() ? "" : absl::StrCat("model.initializeFrom: ", path_, ": ", note);
}

absl::StatusOr<std::string> StageInitialValues(const JobSpec& job, const std::string& job_dir) {
  const Round none;
  const std::string manifest_path = absl::StrCat(job_dir, "/", ManifestPath(none));
  // A journal says that a chief has led the job: what it began with stays.
  const bool has_begun = access(absl::StrCat(job_dir, "/journal.a").c_str(), F_OK) == 0;
  if (job.model.initialize_from.empty() || (has_begun && access(manifest_path.c_str(), F_OK) == 0)) return "";
  absl::StatusOr<InitialValuesFile> from = InitialValuesFile::Open(job);
  if (!from.ok()) return from.status();
  const absl::StatusOr<SliceGrid> grid = GridOf(job.model);
  if (!grid.ok()) return grid.status();

  std::error_code error;
  std::filesystem::create_directories(absl::StrCat(job_dir, "/", CheckpointDir(none)), error);
  const std::string shard_path = absl::StrCat(job_dir, "/", ShardPath(none, kShard));
  const auto failed = [&](const absl::Status& status) {
    return absl::UnavailableError(absl::StrCat("cannot write ", shard_path, ": ", std::string(status.message())));
  };
  const UniqueFd shard(open(shard_path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  if (!shard.ok()) return failed(absl::ErrnoToStatus(errno, ""));
  Manifest manifest;
  manifest.unix_ms = UnixMs();
  manifest.job = CanonicalJob(job);
  manifest.files = {{kShard, 0}};
  for (const Slice& slice : grid->slices) {
    const absl::StatusOr<SliceState> state = StateOf(job, *grid, slice, *from);
    if (!state.ok()) return state.status();
    const std::vector<Payload> blocks = EncodeRecord(*state);
    if (const absl::Status status = WriteBlocks(shard.get(), blocks); !status.ok()) return failed(status);
    uint64_t& end = manifest.files[0].bytes;
    manifest.records.push_back({slice.id, 0, end, RecordBytes(blocks), RecordChecksum(blocks)});
    end += RecordBytes(blocks);
  }
  if (fsync(shard.get()) != 0) return failed(absl::ErrnoToStatus(errno, ""));
  // Last: a folder without it is staged anew.
  const absl::Status written = WriteWhole(manifest_path, EncodeManifest(manifest), 0644, WhereThere::kReplace);
  if (!written.ok()) return written;
  return from->Note();
}

}  // namespace downpour
