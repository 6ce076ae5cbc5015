#include "runtime/posix/initial_values.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <functional>
#include <numeric>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "job/job_file.h"
#include "runtime/initial_values.h"
#include "runtime/posix/process.h"
#include "runtime/posix/whole_file.h"
#include "schema/checkpoint_format.h"
#include "schema/text.h"

namespace downpour {
namespace {

constexpr char kShard[] = "initial.shard";
constexpr int64_t kMostAtOnce = int64_t{1} << 20;  // of a tensor's elements, as they are checked
constexpr size_t kMostNamed = 4;                   // of many tensors or variables, in a sentence

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
  SliceState state{
      .slice = slice.id, .epoch = {}, .finished = {}, .counters = {}, .values = Payload::Allocate(bytes), .slots = {}};
  if (from.Has(variable)) {
    const absl::Status read = from.Read(variable, slice.offset, state.values.mutable_floats());
    if (!read.ok()) return read;
  } else {
    InitialValues(job.seed, grid, slice.id, state.values.mutable_floats().data());
  }
  for (int i = 0; i < SlotCount(job.training); ++i) state.slots.push_back(Payload::Zeros(bytes));
  return state;
}

absl::StatusOr<Manifest> StageRecords(const JobSpec& job, const SliceGrid& grid, const InitialValuesFile& from,
                                      const std::string& path) {
  const auto failed = [&](const std::string& why) {
    return absl::UnavailableError(absl::StrCat("cannot write ", path, ": ", why));
  };
  const UniqueFd shard(open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0644));
  if (!shard.ok()) return failed(std::strerror(errno));
  Manifest manifest{.round = Round(),
                    .unix_ms = UnixMs(),
                    .job = CanonicalJob(job),
                    .committed = {},
                    .files = {{kShard, 0}},
                    .records = {}};
  for (const Slice& slice : grid.slices) {
    if (grid.IsBucket(slice.id)) break;  // rows begin as they are born
    const absl::StatusOr<SliceState> state = StateOf(job, grid, slice, from);
    if (!state.ok()) return state.status();
    const std::vector<Payload> blocks = EncodeRecord(*state);
    if (const absl::Status status = WriteBlocks(shard.get(), blocks); !status.ok()) {
      return failed(std::string(status.message()));
    }
    uint64_t& end = manifest.files[0].bytes;
    manifest.records.push_back({slice.id, 0, end, RecordBytes(blocks), RecordChecksum(blocks)});
    end += RecordBytes(blocks);
  }
  if (fsync(shard.get()) != 0) return failed(std::strerror(errno));
  return manifest;
}

std::error_code SyncFolder(const std::string& path) {
  const UniqueFd folder(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (folder.ok() && fsync(folder.get()) == 0) return {};
  return {errno, std::generic_category()};
}

}  // namespace

absl::StatusOr<InitialValuesFile> InitialValuesFile::Open(const JobSpec& job) {
  InitialValuesFile file;
  file.path_ = job.model.initialize_from;
  const auto fail = [&](const std::string& what) {
    return absl::InvalidArgumentError(absl::StrCat(file.path_, ": ", what));
  };
  file.file_ = UniqueFd(open(file.path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat about {};
  if (!file.file_.ok() || fstat(file.file_.get(), &about) != 0) {
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot open ", file.path_));
  }
  if (!S_ISREG(about.st_mode)) return fail("is no file");
  uint64_t length = 0;
  const auto size = static_cast<uint64_t>(about.st_size);
  if (size < sizeof(length)) return fail(absl::StrCat("ends at byte ", size, ": it is no safetensors file"));
  if (!ReadAt(file.file_.get(), 0, &length, sizeof(length))) return fail("cannot be read at byte 0");
  if (length > std::min(kMostSafetensorsHeader, size - sizeof(length))) {
    return fail(absl::StrCat("says at byte 0 that its header has ", length, " bytes, and has ", size,
                             ": it is cut short, or no safetensors file"));
  }
  std::string header(length, '\0');
  if (!ReadAt(file.file_.get(), sizeof(length), header.data(), header.size())) return fail("cannot be read at byte 8");
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
  const auto bad = std::find_if(values.begin(), values.end(), [](float value) { return !std::isfinite(value); });
  if (bad == values.end()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      path_, ": its tensor ", variable, " is not finite as float32 at element ", first + (bad - values.begin())));
}

absl::Status InitialValuesFile::CheckValues() const {
  std::vector<float> values;
  for (const auto& [name, tensor] : tensors_) {
    const int64_t elements =
        std::accumulate(tensor.shape.begin(), tensor.shape.end(), int64_t{1}, std::multiplies<int64_t>());
    for (int64_t first = 0; first < elements; first += kMostAtOnce) {
      values.resize(static_cast<size_t>(std::min(kMostAtOnce, elements - first)));
      if (absl::Status read = Read(name, first, absl::MakeSpan(values)); !read.ok()) return read;
    }
  }
  return absl::OkStatus();
}

std::string InitialValuesFile::Note() const {
  std::string note = absl::StrCat(Counted(tensors_.size(), "variable"), " from ", path_);
  if (!missing_.empty()) absl::StrAppend(&note, "; it lacks ", Some(missing_), ", drawn as without it");
  if (!unused_.empty()) absl::StrAppend(&note, "; no variable is named ", Some(unused_));
  return note;
}

absl::StatusOr<std::string> StageInitialValues(const JobSpec& job, const std::string& job_dir) {
  const absl::StatusOr<InitialValuesFile> from = InitialValuesFile::Open(job);
  if (!from.ok()) return from.status();
  const absl::StatusOr<SliceGrid> grid = GridOf(job.model);
  if (!grid.ok()) return grid.status();

  const std::string folder = absl::StrCat(job_dir, "/", kInitialDir);
  const std::string manifest_path = absl::StrCat(job_dir, "/", ManifestPath(Round()));
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  // First, so that it never stands beside records of another run.
  if (!error) std::filesystem::remove(manifest_path, error);
  if (!error) error = SyncFolder(folder);
  if (error) return absl::UnavailableError(absl::StrCat("cannot use ", folder, ": ", error.message()));
  absl::StatusOr<Manifest> manifest = StageRecords(job, *grid, *from, absl::StrCat(folder, "/", kShard));
  if (!manifest.ok()) return manifest.status();
  // Last: values without it are staged again.
  const absl::Status written = WriteWhole(manifest_path, EncodeManifest(*manifest), 0644, WhereThere::kReplace);
  if (!written.ok()) return written;
  // The journal will say that the job began with them.
  for (const std::string& synced : {folder, job_dir}) {
    error = SyncFolder(synced);
    if (error) return absl::UnavailableError(absl::StrCat("cannot sync ", synced, ": ", error.message()));
  }
  return from->Note();
}

}  // namespace downpour
