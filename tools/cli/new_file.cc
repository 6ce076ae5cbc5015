#include "tools/cli/new_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"

namespace downpour {
namespace {

// A device, a pipe or a link is somebody's, and a rename would take its place.
bool CanReplace(const std::string& path) {
  struct stat about {};
  if (lstat(path.c_str(), &about) != 0 || S_ISREG(about.st_mode)) return true;
  errno = EEXIST;
  return false;
}

}  // namespace

NewFile::NewFile(const std::string& path)
    : path_(path),
      beside_(path + ".tmp"),
      file_(CanReplace(path) ? open(beside_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666) : -1) {
  if (file_ < 0) Fail();
}

NewFile::~NewFile() {
  if (file_ < 0) return;
  close(file_);
  std::remove(beside_.c_str());
}

void NewFile::Fail() {
  if (status_.ok()) {
    status_ = absl::UnavailableError(absl::StrCat("cannot write ", path_, ": ", std::strerror(errno)));
  }
}

void NewFile::WriteAt(uint64_t offset, absl::Span<const std::byte> bytes) {
  while (status_.ok() && !bytes.empty()) {
    const ssize_t written = pwrite(file_, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return Fail();
    offset += static_cast<uint64_t>(written);
    bytes.remove_prefix(static_cast<size_t>(written));
  }
}

absl::Status NewFile::Commit() {
  if (!status_.ok()) return status_;
  if (close(std::exchange(file_, -1)) != 0 || std::rename(beside_.c_str(), path_.c_str()) != 0) {
    Fail();
    std::remove(beside_.c_str());
  }
  return status_;
}

}  // namespace downpour
