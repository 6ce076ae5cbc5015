#include "cluster/private_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace downpour {
namespace {

namespace fs = std::filesystem;

constexpr const char* kPrefix = "downpour-run-";
constexpr const char* kLock = "/lock";

// Locked, or not ok if somebody else holds it or it is not there.
UniqueFd Lock(const std::string& path, int flags) {
  UniqueFd fd(open((path + kLock).c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | flags, 0600));
  return fd.ok() && flock(fd.get(), LOCK_EX | LOCK_NB) == 0 ? std::move(fd) : UniqueFd();
}

bool IsOurs(const std::string& path) {
  struct stat found {};
  return lstat(path.c_str(), &found) == 0 && S_ISDIR(found.st_mode) && found.st_uid == geteuid();
}

void RemoveThoseOfKilledProcesses(const std::string& parent) {
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator(parent, ignored)) {
    const std::string path = entry.path();
    if (!absl::StartsWith(entry.path().filename().string(), kPrefix) || !IsOurs(path)) continue;
    const UniqueFd lock = Lock(path, 0);  // held until all is gone
    if (lock.ok()) fs::remove_all(path, ignored);
  }
}

}  // namespace

absl::StatusOr<PrivateFolder> PrivateFolder::Make() {
  const auto refuse = [](const std::string& what, const std::string& why) {
    return absl::UnavailableError(absl::StrCat(what, ": ", why, ". Let TMPDIR name a folder where you may write"));
  };
  std::error_code error;
  const std::string parent = fs::temp_directory_path(error);
  if (error) {
    const char* named = std::getenv("TMPDIR");
    return refuse(absl::StrCat("cannot use the folder for temporary files, ", named == nullptr ? "/tmp" : named),
                  error.message());
  }
  RemoveThoseOfKilledProcesses(parent);
  // It gets its name once it is locked: before, another process would take it for one of a killed process.
  std::string made = absl::StrCat(parent, "/.", kPrefix, "XXXXXX");
  if (mkdtemp(made.data()) == nullptr) return refuse(absl::StrCat("cannot make a folder ", made), strerror(errno));
  UniqueFd lock = Lock(made, O_CREAT);
  if (!lock.ok()) return refuse(absl::StrCat("cannot lock ", made, kLock), strerror(errno));
  std::string path = absl::StrCat(parent, "/", made.substr(parent.size() + 2));
  if (rename(made.c_str(), path.c_str()) != 0) return refuse(absl::StrCat("cannot name ", path), strerror(errno));
  return PrivateFolder(std::move(path), std::move(lock));
}

PrivateFolder::~PrivateFolder() {
  std::error_code ignored;
  if (!path_.empty()) fs::remove_all(path_, ignored);
}

}  // namespace downpour
