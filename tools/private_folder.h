// A folder for sockets that nobody but this user may enter, for as long as the object lives.
//
// Shapes: short, since a socket's path has at most 107 bytes.
// Errors: UNAVAILABLE where none can be made.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>
#include <system_error>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"

namespace downpour {

class PrivateFolder {
 public:
  static absl::StatusOr<PrivateFolder> Make() {
    std::error_code error;
    std::string path = std::filesystem::temp_directory_path(error).string() + "/downpour-XXXXXX";
    if (mkdtemp(path.data()) == nullptr) return absl::UnavailableError(absl::StrCat("cannot make a folder ", path));
    return PrivateFolder(std::move(path));
  }
  PrivateFolder(PrivateFolder&& other) noexcept : path_(std::exchange(other.path_, "")) {}
  PrivateFolder& operator=(PrivateFolder&&) = delete;
  ~PrivateFolder() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
  }
  const std::string& path() const { return path_; }

 private:
  explicit PrivateFolder(std::string path) : path_(std::move(path)) {}
  std::string path_;
};

}  // namespace downpour
