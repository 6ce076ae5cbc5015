#include "cluster/folder_watch.h"

#include <sys/inotify.h>

#include <cerrno>

#include "absl/strings/str_cat.h"

namespace downpour {

absl::StatusOr<FolderWatch> FolderWatch::Open(const std::string& folder) {
  UniqueFd fd(inotify_init1(IN_NONBLOCK | IN_CLOEXEC));
  if (!fd.ok() || inotify_add_watch(fd.get(), folder.c_str(), IN_CREATE | IN_MODIFY | IN_MOVED_TO) < 0) {
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot watch ", folder));
  }
  return FolderWatch(std::move(fd));
}

void FolderWatch::Drain() {
  alignas(inotify_event) char events[4096];
  while (read(fd_.get(), events, sizeof(events)) > 0) {
  }
}

}  // namespace downpour
