#include "service/log_times.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "absl/strings/numbers.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "tools/cluster/job_folder.h"

namespace downpour {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kBytes = 33;  // of one record: two numbers and a space; its line's end comes behind it

std::string PathIn(const std::string& job_dir) { return job_dir + "/service/log_times"; }

// Nothing of what is no whole record, as where a full disk has cut it.
std::optional<std::pair<int64_t, int64_t>> LookIn(const std::string& line) {
  const std::vector<std::string> numbers = absl::StrSplit(line, ' ');
  std::pair<int64_t, int64_t> look;
  if (static_cast<int64_t>(line.size()) != kBytes || numbers.size() != 2) return std::nullopt;
  const bool is_whole = absl::SimpleAtoi(numbers[0], &look.first) && absl::SimpleAtoi(numbers[1], &look.second);
  return is_whole ? std::optional(look) : std::nullopt;
}

int64_t LastSeen(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  file.seekg(-kBytes - 1, std::ios::end);
  std::string line;
  std::getline(file, line);
  const auto look = LookIn(line);
  return look ? look->first : 0;
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
  for (std::string line; std::getline(file, line);) {
    const auto look = LookIn(line);
    if (look && (looks_.empty() || look->first > looks_.back().first)) looks_.push_back(*look);
  }
}

std::optional<int64_t> LogTimes::Of(int64_t end) const {
  const auto look = std::lower_bound(looks_.begin(), looks_.end(), std::pair<int64_t, int64_t>(end, 0));
  return look == looks_.end() ? std::nullopt : std::optional(look->second);
}

}  // namespace downpour
