#include "runtime/posix/initial_folder.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "runtime/posix/fd.h"
#include "runtime/posix/process.h"
#include "runtime/posix/whole_file.h"

namespace downpour {
namespace {

absl::Status CannotWrite(const std::string& path) {
  return absl::UnavailableError(absl::StrCat("cannot write ", path, ": ", std::strerror(errno)));
}

std::error_code SyncFolder(const std::string& path) {
  const UniqueFd folder(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (folder.ok() && fsync(folder.get()) == 0) return {};
  return {errno, std::generic_category()};
}

}  // namespace

absl::Status RecordFile::Append(const std::vector<Payload>& blocks) {
  const int how = O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | (bytes_ == 0 ? O_TRUNC : O_APPEND);
  const UniqueFd file(open(path_.c_str(), how, 0644));
  if (!file.ok()) return CannotWrite(path_);
  for (const Payload& block : blocks) {
    for (size_t done = 0; done < block.size();) {
      const ssize_t put = write(file.get(), block.data() + done, block.size() - done);
      if (put < 0 && errno == EINTR) continue;
      if (put <= 0) return CannotWrite(path_);
      done += static_cast<size_t>(put);
    }
    crc32c_ = Crc32c(block.bytes(), crc32c_);
    bytes_ += block.size();
  }
  return absl::OkStatus();
}

absl::Status RecordFile::Sync() const {
  const UniqueFd file(open(path_.c_str(), O_RDONLY | O_CLOEXEC));
  return file.ok() && fsync(file.get()) == 0 ? absl::OkStatus() : CannotWrite(path_);
}

absl::Status StageInitial(const std::string& job_dir, const WriteRecords& write) {
  const std::string folder = absl::StrCat(job_dir, "/", kInitialDir);
  const std::string manifest_path = absl::StrCat(job_dir, "/", ManifestPath(Round()));
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  // First, so that it never stands beside records of another run.
  if (!error) std::filesystem::remove(manifest_path, error);
  if (!error) error = SyncFolder(folder);
  if (error) return absl::UnavailableError(absl::StrCat("cannot use ", folder, ": ", error.message()));
  absl::StatusOr<Manifest> manifest = write(folder);
  if (!manifest.ok()) return manifest.status();
  manifest->round = Round();
  manifest->unix_ms = UnixMs();
  const absl::Status written = WriteWhole(manifest_path, EncodeManifest(*manifest), 0644, WhereThere::kReplace);
  if (!written.ok()) return written;
  // The journal will say that the job began with them.
  for (const std::string& synced : {folder, job_dir}) {
    error = SyncFolder(synced);
    if (error) return absl::UnavailableError(absl::StrCat("cannot sync ", synced, ": ", error.message()));
  }
  return absl::OkStatus();
}

}  // namespace downpour
