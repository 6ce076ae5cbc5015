// Tells when something in a folder is made, replaced or written to, so that nobody need look again and again.
#pragma once

#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "runtime/posix/fd.h"

namespace downpour {

class FolderWatch {
 public:
  // Errors: as errno says, naming the folder.
  static absl::StatusOr<FolderWatch> Open(const std::string& folder);

  int fd() const { return fd_.get(); }  // readable when something happened since Drain
  void Drain();

 private:
  explicit FolderWatch(UniqueFd fd) : fd_(std::move(fd)) {}
  UniqueFd fd_;
};

}  // namespace downpour
