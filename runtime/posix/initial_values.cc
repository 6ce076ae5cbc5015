#include "runtime/posix/initial_values.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <functional>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "job/job_file.h"
#include "runtime/initial_values.h"
#include "runtime/posix/initial_folder.h"
#include "schema/checkpoint_format.h"
#include "schema/text.h"

namespace downpour {
namespace {

constexpr char kShard[] = "initial.shard";
constexpr int64_t kMostAtOnce = int64_t{1} << 20;  // of a tensor's elements, as they are checked

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

absl::StatusOr<Manifest> WriteVariables(const JobSpec& job, const InitialValuesFile& from, const std::string& folder) {
  const absl::StatusOr<SliceGrid> grid = GridOf(job.model);
  if (!grid.ok()) return grid.status();
  RecordFile file(folder, kShard);
  Manifest manifest;
  manifest.job = CanonicalJob(job);
  for (const Slice& slice : grid->slices) {
    if (grid->IsBucket(slice.id)) break;  // rows begin as they are born
    const absl::StatusOr<SliceState> state = StateOf(job, *grid, slice, from);
    if (!state.ok()) return state.status();
    const std::vector<Payload> blocks = EncodeRecord(*state);
    manifest.records.push_back({slice.id, 0, file.bytes(), RecordBytes(blocks), RecordChecksum(blocks)});
    if (absl::Status status = file.Append(blocks); !status.ok()) return status;
  }
  manifest.files = {{file.name(), file.bytes()}};
  if (absl::Status status = file.Sync(); !status.ok()) return status;
  return manifest;
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
  if (job.model.is_own() && !file.missing_.empty()) return fail("lacks " + SomeOf(file.missing_));
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
                                                 SomeOf(unused_), ", and the model ", SomeOf(missing_)));
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
  if (!missing_.empty()) absl::StrAppend(&note, "; it lacks ", SomeOf(missing_), ", drawn as without it");
  if (!unused_.empty()) absl::StrAppend(&note, "; no variable is named ", SomeOf(unused_));
  return note;
}

absl::StatusOr<std::string> StageInitialValues(const JobSpec& job, const std::string& job_dir) {
  const absl::StatusOr<InitialValuesFile> from = InitialValuesFile::Open(job);
  if (!from.ok()) return from.status();
  const absl::Status staged =
      StageInitial(job_dir, [&](const std::string& folder) { return WriteVariables(job, *from, folder); });
  if (!staged.ok()) return staged;
  return from->Note();
}

}  // namespace downpour
