#include "service/log_times.h"

#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "cluster/job_folder.h"

namespace downpour {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kBytes = 34;  // of one record: two numbers, a space and a line's end

std::string PathIn(const std::string& job_dir) { return job_dir + "/service/log_times"; }

// How many records the file has room for; one that a full disk has cut is none, and the next look takes its place.
int64_t RecordsIn(const std::string& path) {
  std::error_code error;
  const auto bytes = static_cast<int64_t>(fs::file_size(path, error));
  return error ? 0 : bytes / kBytes;
}

// A record that is no two numbers was never written by NoteLogTime: it counts as a look at an empty log.
std::pair<int64_t, int64_t> LookAt(std::istream* file, int64_t index) {
  std::string line(kBytes, '\0');
  file->clear();
  file->seekg(index * kBytes);
  file->read(line.data(), kBytes);
  const std::vector<std::string> numbers = absl::StrSplit(absl::StripSuffix(line, "\n"), ' ');
  std::pair<int64_t, int64_t> look;
  const bool is_whole =
      numbers.size() == 2 && absl::SimpleAtoi(numbers[0], &look.first) && absl::SimpleAtoi(numbers[1], &look.second);
  return is_whole ? look : std::pair<int64_t, int64_t>();
}

}  // namespace

void NoteLogTime(const std::string& job_dir, int64_t now_ms) {
  std::error_code error;
  const auto size = static_cast<int64_t>(fs::file_size(LogPath(job_dir, "service"), error));
  if (error) return;
  const std::string path = PathIn(job_dir);
  const int64_t records = RecordsIn(path);
  if (records == 0) std::ofstream(path, std::ios::app);  // an fstream that also reads makes no file
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  if (records > 0 && size <= LookAt(&file, records - 1).first) return;
  file.clear();
  file.seekp(records * kBytes);
  file << absl::StrFormat("%016d %016d\n", size, now_ms);
}

LogTimes::LogTimes(const std::string& job_dir) : path_(PathIn(job_dir)), records_(RecordsIn(path_)) {}

std::optional<int64_t> LogTimes::Of(int64_t end) {
  if (end > before_ && end <= found_.first) return found_.second;  // as the line before it
  if (records_ == 0) return std::nullopt;
  std::ifstream file(path_, std::ios::binary);  // closed again, since a search has many logs
  int64_t first = 0, behind = records_;
  while (first < behind) {
    const int64_t middle = first + (behind - first) / 2;
    if (LookAt(&file, middle).first < end) {
      first = middle + 1;
    } else {
      behind = middle;
    }
  }
  if (first == records_) return std::nullopt;
  before_ = first == 0 ? 0 : LookAt(&file, first - 1).first;
  found_ = LookAt(&file, first);
  return found_.second;
}

}  // namespace downpour
