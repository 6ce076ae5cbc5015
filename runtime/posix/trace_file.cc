#include "runtime/posix/trace_file.h"

#include <fcntl.h>
#include <glog/logging.h>
#include <unistd.h>

#include <cerrno>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace downpour {

absl::StatusOr<TraceFile> TraceFile::Open(const std::string& path) {
  UniqueFd file(open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666));
  if (!file.ok()) return absl::ErrnoToStatus(errno, absl::StrCat("cannot open the trace ", path));
  return TraceFile(std::move(file), path);
}

void TraceFile::Append(const TraceRecord& r) {
  absl::StrAppend(&lines_, NameOf(r.kind), " ", ToNumber(r.actor), " ", LeaseField(r), " ", r.step, " ");
  absl::StrAppend(&lines_, ToNumber(r.slice), " ", ToString(r.epoch), " ", r.count, " ", ToNumber(r.peer), "\n");
}

void TraceFile::Flush() {
  if (lines_.empty()) return;
  size_t done = 0;
  while (file_.ok() && done < lines_.size()) {
    const ssize_t wrote = write(file_.get(), lines_.data() + done, lines_.size() - done);
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote < 0) {
      PLOG(ERROR) << "the trace ends here: cannot write " << path_;
      file_ = UniqueFd();
      break;
    }
    done += wrote;
  }
  lines_.clear();
}

}  // namespace downpour
