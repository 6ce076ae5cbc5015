#include "service/request_log.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "service/job.h"

namespace downpour {

void RequestLog::Add(const LoggedRequest& request, int64_t unix_ms) {
  const std::string line =
      absl::StrFormat("%s %s/%s peer=%s rows=%d code=%d ms=%.3f\n", TimeText(unix_ms), request.model, request.version,
                      request.peer, request.rows, request.code, request.seconds * 1000);
  const std::string path = PathOf(request.model);
  const std::lock_guard hold(mutex_);
  UniqueFd& file = files_[request.model];
  struct stat at {};
  // Also where the model was deleted and made again meanwhile, and its file with it.
  const bool is_there = file.ok() && fstat(file.get(), &at) == 0 && at.st_nlink > 0;
  if (is_there && at.st_size >= kMostBytes) (void)std::rename(path.c_str(), absl::StrCat(path, ".1").c_str());
  if (!is_there || at.st_size >= kMostBytes) {
    file = UniqueFd(open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
  }
  if (file.ok()) (void)!write(file.get(), line.data(), line.size());
}

}  // namespace downpour
