#include "service/log_times.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "absl/strings/str_format.h"
#include "tools/cluster/job_folder.h"

namespace downpour {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kBytes = 34;  // of one record: two numbers, a space and the line's end

std::string PathIn(const std::string& job_dir) { return job_dir + "/service/log_times"; }

int64_t LastSeen(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  file.seekg(-kBytes, std::ios::end);
  int64_t bytes = 0;
  file >> bytes;
  return bytes;
}

}  // namespace

void NoteLogTime(const std::string& job_dir, int64_t now_ms) {
  std::error_code error;
  const auto size = static_cast<int64_t>(fs::file_size(LogPath(job_dir, "service"), error));
  const std::string path = PathIn(job_dir);
  if (error || size <= LastSeen(path)) return;
  std::ofstream(path, std::ios::app) << absl::StrFormat("%016d %016d\n", size, now_ms);
}

LogTimes::LogTimes(const std::string& job_dir) {
  std::ifstream file(PathIn(job_dir), std::ios::binary);
  for (std::pair<int64_t, int64_t> look; file >> look.first >> look.second;) looks_.push_back(look);
}

std::optional<int64_t> LogTimes::Of(int64_t end) const {
  const auto look = std::lower_bound(looks_.begin(), looks_.end(), std::pair<int64_t, int64_t>(end, 0));
  return look == looks_.end() ? std::nullopt : std::optional(look->second);
}

}  // namespace downpour
