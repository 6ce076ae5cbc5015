#include "runtime/posix/code_cache.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "runtime/posix/fd.h"
#include "runtime/posix/package.h"

namespace downpour {
namespace {

namespace fs = std::filesystem;

constexpr std::chrono::hours kKeptFor{30 * 24};

absl::Status Unavailable(const std::string& path, const std::string& why) {
  return absl::UnavailableError(absl::StrCat("the job's Python code cannot be unpacked: ", path, ": ", why));
}

absl::Status NoPlace(const std::string& folder, const std::string& why) {
  return Unavailable("cannot make the folder " + folder,
                     why + ". Let XDG_CACHE_HOME name a folder where this user may write, or HOME its home; of a " +
                         "worker also --code_folder");
}

}  // namespace

std::string DefaultCodeFolder() {
  const char* cache = std::getenv("XDG_CACHE_HOME");
  if (cache != nullptr && *cache == '/') return absl::StrCat(cache, "/downpour/code");
  const char* home = std::getenv("HOME");
  if (home != nullptr && *home == '/') return absl::StrCat(home, "/.cache/downpour/code");
  return absl::StrCat("/tmp/downpour-code-", getuid());
}

// Whoever else may write there could have this user run any code.
absl::Status CodeCache::MakeOwn() const {
  std::error_code error;
  const fs::path parent = fs::path(folder_).parent_path();
  fs::create_directories(parent, error);
  if (error) return NoPlace(parent, error.message());
  if (mkdir(folder_.c_str(), 0700) != 0 && errno != EEXIST) return NoPlace(folder_, strerror(errno));
  struct stat found {};
  if (lstat(folder_.c_str(), &found) != 0) return Unavailable(folder_, strerror(errno));
  if (!S_ISDIR(found.st_mode) || found.st_uid != geteuid() || (found.st_mode & 022) != 0) {
    return absl::PermissionDeniedError(absl::StrCat(
        folder_, " is no folder that this user alone may write to: remove it, or name another by --code_folder"));
  }
  return absl::OkStatus();
}

absl::StatusOr<CachedCode> CodeCache::Find(const PythonSpec& code) const {
  if (const absl::Status status = MakeOwn(); !status.ok()) return status;
  CachedCode found{absl::StrCat(folder_, "/", code.sha256), UniqueFd()};
  found.in_use = UniqueFd(open(found.path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!found.in_use.ok()) return absl::NotFoundError(found.path);
  // Its time tells when it was last of use. Who is about to remove it holds the other lock, and leaves nothing to find.
  if (flock(found.in_use.get(), LOCK_SH) != 0 || futimens(found.in_use.get(), nullptr) != 0) {
    return Unavailable(found.path, strerror(errno));
  }
  struct stat there {};
  if (fstat(found.in_use.get(), &there) != 0 || there.st_nlink == 0) return absl::NotFoundError(found.path);
  return found;
}

absl::StatusOr<CachedCode> CodeCache::Keep(const PythonSpec& code, const std::vector<Payload>& blocks) const {
  if (const absl::Status status = MakeOwn(); !status.ok()) return status;
  RemoveOld();
  const std::string path = absl::StrCat(folder_, "/", code.sha256);
  // Of nobody else: the folder may be shared by containers whose processes have the same numbers.
  std::string own = path + ".XXXXXX";
  if (mkdtemp(own.data()) == nullptr) return Unavailable(own, strerror(errno));
  const std::string archive = own + "/archive.tar.gz", unpacked = own + "/code";
  std::error_code error;
  std::ofstream file(archive, std::ios::binary | std::ios::trunc);
  for (const Payload& block : blocks) {
    file.write(reinterpret_cast<const char*>(block.data()), static_cast<std::streamsize>(block.size()));
  }
  file.close();
  absl::Status status = file.fail() ? Unavailable(archive, "the disk refuses") : UnpackPackage(archive, unpacked);
  // Synced before it has its name: after a power failure half a package would pass for one.
  const UniqueFd folder(open(folder_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (status.ok() && (!folder.ok() || syncfs(folder.get()) != 0)) status = Unavailable(folder_, strerror(errno));
  if (status.ok() && rename(unpacked.c_str(), path.c_str()) != 0 && !fs::is_directory(path, error)) {
    status = Unavailable(path, strerror(errno));
  }
  fs::remove_all(own, error);
  if (!status.ok()) return status;
  return Find(code);
}

void CodeCache::RemoveOld() const {
  std::error_code error;
  for (fs::directory_iterator it(folder_, error), end; !error && it != end; it.increment(error)) {
    const UniqueFd entry(open(it->path().c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC));
    if (!entry.ok() || flock(entry.get(), LOCK_EX | LOCK_NB) != 0) continue;  // in use
    std::error_code gone;
    const auto age = fs::file_time_type::clock::now() - it->last_write_time(gone);
    if (!gone && age > kKeptFor) fs::remove_all(it->path(), gone);
  }
}

}  // namespace downpour
