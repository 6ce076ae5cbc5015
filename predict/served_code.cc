#include "predict/served_code.h"

#include <fstream>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "job/job_file.h"
#include "schema/payload.h"
#include "schema/sha256.h"

namespace downpour {
namespace {

constexpr size_t kMostJobBytes = size_t{64} << 20;  // its variables are in it

// At most `most` bytes, and one more where there are more.
absl::StatusOr<std::string> ReadAtMost(const std::string& path, size_t most) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return absl::NotFoundError(absl::StrCat(path, " is not there"));
  std::string text(most + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (file.bad()) return absl::UnavailableError(absl::StrCat("cannot read ", path));
  text.resize(static_cast<size_t>(file.gcount()));
  return text;
}

}  // namespace

absl::StatusOr<ServedCode> FindServedCode(const std::string& job_dir, const JobSpec& job,
                                          const std::string& cache_folder) {
  ServedCode code{.spec = job.python, .unpacked = {}};
  const std::string archive_path = absl::StrCat(job_dir, "/", kServedCodeFiles[0]);
  const absl::StatusOr<std::string> text = ReadAtMost(absl::StrCat(job_dir, "/", kServedCodeFiles[1]), kMostJobBytes);
  if (const auto newest = text.ok() ? ParseCanonicalJob(*text) : absl::StatusOr<JobSpec>(text.status()); newest.ok()) {
    code.spec = newest->python;
  }
  const absl::StatusOr<std::string> archive = ReadAtMost(archive_path, kMostCodeBytes);
  if (!archive.ok()) {
    return absl::Status(archive.status().code(),
                        absl::StrCat(std::string(archive.status().message()),
                                     ": a model of Python code answers by its code, which the job's folder has"));
  }
  const Payload bytes = Payload::CopyOf(archive->data(), archive->size());
  if (Sha256Of({bytes}) != code.spec.sha256) {
    return absl::DataLossError(absl::StrCat(archive_path, " is not the code that the job names: stage the job again"));
  }
  const CodeCache cache(cache_folder);
  absl::StatusOr<CachedCode> unpacked = cache.Find(code.spec);
  if (absl::IsNotFound(unpacked.status())) unpacked = cache.Keep(code.spec, {bytes});
  if (!unpacked.ok()) return unpacked.status();
  code.unpacked = *std::move(unpacked);
  return code;
}

}  // namespace downpour
