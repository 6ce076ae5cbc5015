#include "predict/exported_model.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "job/job_file.h"
#include "schema/bounded_json.h"
#include "schema/safetensors.h"

namespace downpour {
namespace {

constexpr int kMostLevels = 4;

}  // namespace

absl::StatusOr<JobSpec> JobOfExport(const std::string& path) {
  const auto fail = [&](const std::string& what) { return absl::InvalidArgumentError(absl::StrCat(path, ": ", what)); };
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  if (!file) return absl::ErrnoToStatus(errno == 0 ? EIO : errno, absl::StrCat("cannot open ", path));
  const auto size = static_cast<uint64_t>(file.tellg());
  file.seekg(0);
  uint64_t length = 0;
  std::string header;
  if (file.read(reinterpret_cast<char*>(&length), sizeof(length)) &&
      length <= std::min(kMostSafetensorsHeader, size - sizeof(length))) {
    header.resize(length);
    file.read(header.data(), static_cast<std::streamsize>(length));
  }
  const absl::StatusOr<nlohmann::json> json = ParseBoundedJson(header, kMostLevels);
  if (!file || !json.ok() || !json->is_object()) return fail("is no safetensors file");
  const auto metadata = json->find("__metadata__");
  if (metadata == json->end() || !metadata->is_object() || !metadata->contains("job") ||
      !(*metadata)["job"].is_string()) {
    return fail(
        "does not say which model its numbers are of, as the files of `downpour export` do: name such a file, a job's "
        "folder or a checkpoint");
  }
  absl::StatusOr<JobSpec> job = ParseCanonicalJob((*metadata)["job"].get<std::string>());
  if (!job.ok()) return fail(absl::StrCat("the job in it: ", job.status().message()));
  job->model.initialize_from = path;
  return job;
}

}  // namespace downpour
