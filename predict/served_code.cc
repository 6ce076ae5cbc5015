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

struct CodeFiles {
  absl::StatusOr<Payload> archive;
  std::string sha256;  // of the archive
  absl::StatusOr<JobSpec> job;
};

CodeFiles ReadCode(const std::string& job_dir) {
  const absl::StatusOr<std::string> text = ReadAtMost(absl::StrCat(job_dir, "/", kServedCodeFiles[1]), kMostJobBytes);
  const absl::StatusOr<std::string> archive =
      ReadAtMost(absl::StrCat(job_dir, "/", kServedCodeFiles[0]), kMostCodeBytes);
  CodeFiles files;
  files.job = text.ok() ? ParseCanonicalJob(*text) : absl::StatusOr<JobSpec>(text.status());
  if (!archive.ok()) {
    files.archive = archive.status();
    return files;
  }
  files.archive = Payload::CopyOf(archive->data(), archive->size());
  files.sha256 = Sha256Of({*files.archive});
  return files;
}

}  // namespace

absl::StatusOr<ServedCode> FindServedCode(const std::string& job_dir, const JobSpec& job,
                                          const std::string& cache_folder) {
  CodeFiles files = ReadCode(job_dir);
  const auto named = [&]() -> const PythonSpec& { return files.job.ok() ? files.job->python : job.python; };
  for (int i = 1; i < kMostStages && files.archive.ok() && files.sha256 != named().sha256; ++i) {
    files = ReadCode(job_dir);
  }
  if (!files.archive.ok()) {
    return absl::Status(files.archive.status().code(),
                        absl::StrCat(std::string(files.archive.status().message()),
                                     ": a model of Python code answers by its code, which the job's folder has"));
  }
  if (files.sha256 != named().sha256) {
    return absl::DataLossError(
        absl::StrCat(job_dir, "/", kServedCodeFiles[0], " is not the code that the job names: stage the job again"));
  }
  ServedCode code{.spec = named(), .unpacked = {}};
  const CodeCache cache(cache_folder);
  absl::StatusOr<CachedCode> unpacked = cache.Find(code.spec);
  if (absl::IsNotFound(unpacked.status())) unpacked = cache.Keep(code.spec, {*files.archive});
  if (!unpacked.ok()) return unpacked.status();
  code.unpacked = *std::move(unpacked);
  return code;
}

bool HasCodeOfItsJob(const std::string& job_dir) {
  const CodeFiles files = ReadCode(job_dir);
  return !files.job.ok() || !files.archive.ok() || files.sha256 == files.job->python.sha256;
}

}  // namespace downpour
