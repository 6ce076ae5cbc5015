#include "service/job_checkpoints.h"

#include <filesystem>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "cluster/job_folder.h"
#include "schema/checkpoint_format.h"
#include "schema/typed_command.h"

namespace downpour {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

std::string WhatIsWrongWithFiles(const std::string& job_dir, const Manifest& manifest) {
  for (const Manifest::File& file : manifest.files) {
    const std::string path = ShardPath(manifest.round, file.name);
    std::error_code error;
    const uintmax_t bytes = fs::file_size(job_dir + "/" + path, error);
    if (error) return absl::StrCat(path, ": ", error.message());
    if (bytes != file.bytes) return absl::StrCat(path, " has ", bytes, " bytes, and not ", file.bytes);
  }
  return "";
}

json Describe(const std::string& job_dir, Round round) {
  json entry = {{"round", ToString(round)}};
  std::error_code error;
  const std::string path = job_dir + "/" + ManifestPath(round);
  const uintmax_t bytes = fs::file_size(path, error);
  if (error) {
    entry["state"] = "unfinished";  // it was given up, or goes on
    return entry;
  }
  const absl::StatusOr<std::string> text =
      bytes <= kMaxManifestBytes ? ReadTextFile(path) : absl::InvalidArgumentError("its manifest is too long");
  const absl::StatusOr<Manifest> manifest = text.ok() ? DecodeManifest(*text) : text.status();
  std::string why = manifest.ok() ? WhatIsWrongWithFiles(job_dir, *manifest) : std::string(manifest.status().message());
  entry["state"] = why.empty() ? "complete" : "damaged";
  if (!why.empty()) entry["why"] = std::move(why);
  if (!manifest.ok()) return entry;
  uint64_t sum = 0;
  for (const Manifest::File& file : manifest->files) sum += file.bytes;
  entry.update({{"unixMs", manifest->unix_ms}, {"bytes", sum}, {"leasesCommitted", manifest->committed.Count()}});
  return entry;
}

}  // namespace

json ListCheckpoints(const std::string& job_dir) {
  json list = json::array();
  for (const Round round : RoundsIn(absl::StrCat(job_dir, "/", kCheckpointsDir))) {
    list.push_back(Describe(job_dir, round));
  }
  return list;
}

std::string CommandToResume(const Job& job, const std::string& job_dir) {
  if (job.state != JobState::kFailed && job.state != JobState::kCancelled) return "";
  const absl::StatusOr<ChiefLocation> chief = ReadChiefLocation(job_dir);
  if (!chief.ok() || chief->command.empty() || NewestCheckpoint(job_dir).empty()) return "";
  return WithFlag(chief->command, "--resume");
}

}  // namespace downpour
