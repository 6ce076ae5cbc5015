#include "tools/checkpoint_reader.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "schema/job_file.h"
#include "schema/variables.h"
#include "tools/job_folder.h"

namespace downpour {
namespace {

namespace fs = std::filesystem;

absl::Status At(const std::string& path, const absl::Status& status) {
  return absl::Status(status.code(), absl::StrCat(path, ": ", std::string(status.message())));
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
  if (error) return absl::NotFoundError(absl::StrCat(path, ": there is none"));
  std::ifstream file(path, std::ios::binary);
  const auto text = ReadRange(file, 0, std::min<uintmax_t>(bytes, kMaxManifestBytes + 1));
  if (!text.ok()) return At(path, text.status());
  absl::StatusOr<Manifest> manifest =
      DecodeManifest(std::string(reinterpret_cast<const char*>(text->data()), text->size()));
  if (!manifest.ok()) return At(path, manifest.status());
  return manifest;
}

// What the grid and the optimizer ask of a record.
absl::Status CheckRecord(const LoadedCheckpoint& checkpoint, const Slice& slice, const SliceState& state) {
  const auto slots = static_cast<size_t>(SlotCount(checkpoint.job.training.optimizer.kind));
  if (state.slice == slice.id && static_cast<int64_t>(state.values.size()) == slice.bytes() &&
      state.slots.size() == slots) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "holds slice ", ToNumber(state.slice), " of ", state.values.size(), " bytes and ", state.slots.size(),
      " slots, where the job wants slice ", ToNumber(slice.id), " of ", slice.bytes(), " bytes and ", slots));
}

absl::Status ReadSlice(const Manifest::Record& record, const Slice& slice, std::ifstream& file,
                       LoadedCheckpoint* checkpoint) {
  const auto bytes = ReadRange(file, record.offset, record.bytes);
  if (!bytes.ok()) return bytes.status();
  if (Crc32c(bytes->bytes()) != record.crc32c) {
    return absl::DataLossError(absl::StrCat("the checksum of bytes ", record.offset, " to ",
                                            record.offset + record.bytes, ", slice ", ToNumber(slice.id), ", differs"));
  }
  absl::StatusOr<SliceState> state = DecodeRecord({&*bytes, 1});
  if (!state.ok()) return state.status();
  if (absl::Status status = CheckRecord(*checkpoint, slice, *state); !status.ok()) return status;
  checkpoint->values.push_back(std::move(state->values));
  checkpoint->versions.push_back(state->version);
  return absl::OkStatus();
}

absl::Status ReadSlices(LoadedCheckpoint* checkpoint) {
  const Manifest& manifest = checkpoint->manifest;
  std::vector<std::ifstream> files;
  for (const Manifest::File& file : manifest.files) {
    files.emplace_back(checkpoint->path + "/" + file.name, std::ios::binary);
  }
  for (const Manifest::Record& record : manifest.records) {
    const Slice& slice = checkpoint->grid.at(record.slice);
    if (absl::Status status = ReadSlice(record, slice, files[record.file], checkpoint); !status.ok()) {
      return At(checkpoint->path + "/" + manifest.files[record.file].name, status);
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<LoadedCheckpoint> LoadRound(const std::string& checkpoints, Round round) {
  LoadedCheckpoint loaded;
  loaded.path = checkpoints + "/" + ToString(round);
  const std::string manifest_path = absl::StrCat(loaded.path, "/", kManifestName);
  absl::StatusOr<Manifest> manifest = ReadManifest(manifest_path);
  if (!manifest.ok()) return manifest.status();
  if (manifest->round != round) {
    return At(manifest_path, absl::InvalidArgumentError("is of round " + ToString(manifest->round)));
  }
  loaded.manifest = *std::move(manifest);
  absl::StatusOr<JobSpec> job = ParseCanonicalJob(loaded.manifest.job);
  if (!job.ok()) return At(manifest_path, job.status());
  loaded.job = *std::move(job);
  absl::StatusOr<std::vector<VariableSpec>> variables = InferVariables(loaded.job.model);
  if (!variables.ok()) return At(manifest_path, variables.status());
  loaded.grid = MakeSliceGrid(*std::move(variables));
  if (loaded.grid.size() != loaded.manifest.records.size()) {
    return At(manifest_path,
              absl::InvalidArgumentError(absl::StrCat("lists ", loaded.manifest.records.size(),
                                                      " records, but its model has ", loaded.grid.size(), " slices")));
  }
  if (absl::Status status = ReadSlices(&loaded); !status.ok()) return status;
  return loaded;
}

}  // namespace

absl::StatusOr<LoadedCheckpoint> LoadCheckpoint(const std::string& job_dir, const std::string& round,
                                                std::vector<std::string>* passed_over) {
  const std::string checkpoints = absl::StrCat(job_dir, "/", kCheckpointsDir);
  if (!round.empty()) {
    const absl::StatusOr<Round> parsed = ParseRound(round);
    if (!parsed.ok()) return parsed.status();
    return LoadRound(checkpoints, *parsed);
  }
  for (Round candidate : RoundsIn(checkpoints)) {
    absl::StatusOr<LoadedCheckpoint> loaded = LoadRound(checkpoints, candidate);
    if (loaded.ok()) return loaded;
    passed_over->push_back(
        absl::StrCat("passing over checkpoint ", ToString(candidate), ": ", std::string(loaded.status().message())));
  }
  return absl::NotFoundError(
      absl::StrCat("there is no ", passed_over->empty() ? "" : "valid ", "checkpoint in ", checkpoints));
}

}  // namespace downpour
