// A folder for sockets that nobody but this user may enter, for as long as the object lives.
//
// Shapes: short, since a socket's path has at most 107 bytes. A lock in it tells a folder in use from one whose process
//   was killed; Make removes those of this user.
// Errors: UNAVAILABLE with the reason and the remedy where none can be made.
//   Whether a path is short enough, CheckSockets (role_commands.h) tells.
// Tests: tests/unit/cluster/private_folder_test.cc.
#pragma once

#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "runtime/posix/fd.h"

namespace downpour {

class PrivateFolder {
 public:
  static absl::StatusOr<PrivateFolder> Make();
  PrivateFolder(PrivateFolder&& other) noexcept
      : path_(std::exchange(other.path_, "")), lock_(std::move(other.lock_)) {}
  PrivateFolder& operator=(PrivateFolder&&) = delete;
  ~PrivateFolder();
  const std::string& path() const { return path_; }

 private:
  PrivateFolder(std::string path, UniqueFd lock) : path_(std::move(path)), lock_(std::move(lock)) {}
  std::string path_;
  UniqueFd lock_;
};

}  // namespace downpour
