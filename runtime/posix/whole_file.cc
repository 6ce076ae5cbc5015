#include "runtime/posix/whole_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "runtime/posix/fd.h"

namespace downpour {

absl::Status WriteWhole(const std::string& path, const std::string& text, mode_t mode, WhereThere where_there) {
  const std::string draft = path + ".tmp";
  const auto failed = [&] {
    absl::Status status = absl::UnavailableError(absl::StrCat("cannot write ", path, ": ", std::strerror(errno)));
    unlink(draft.c_str());
    return status;
  };
  unlink(draft.c_str());
  const UniqueFd fd(open(draft.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, mode));
  if (!fd.ok()) return failed();
  errno = ENOSPC;  // what a write that comes out short means
  if (write(fd.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size())) return failed();
  if (fsync(fd.get()) != 0) return failed();
  const bool replace = where_there == WhereThere::kReplace;
  if (replace ? rename(draft.c_str(), path.c_str()) == 0 : link(draft.c_str(), path.c_str()) == 0) {
    unlink(draft.c_str());
    return absl::OkStatus();
  }
  if (errno != EEXIST) return failed();
  unlink(draft.c_str());
  return absl::AlreadyExistsError(absl::StrCat(path, " is there already"));
}

}  // namespace downpour
