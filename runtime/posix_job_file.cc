#include "runtime/posix_job_file.h"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <system_error>

namespace downpour {

JobFileResult LoadJobFile(const std::string& path, const std::vector<std::string>& overrides) {
  std::string text(kMaxJobTextBytes + 1, '\0');  // one more than is allowed shows that there is too much
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (!file.is_open() || file.bad()) {
    JobFileResult unreadable;
    unreadable.errors.push_back({path, 0, 0, "", std::string("cannot be read: ") + std::strerror(errno)});
    return unreadable;
  }
  text.resize(static_cast<size_t>(file.gcount()));
  JobFileResult result = ParseJob(text, path, overrides);
  std::error_code ignored;  // a working folder that was removed: paths stay as they were written
  const std::filesystem::path absolute = std::filesystem::absolute(path, ignored);
  ResolveDataPaths(absolute.parent_path().string(), std::filesystem::current_path(ignored).string(), &result);
  return result;
}

}  // namespace downpour
