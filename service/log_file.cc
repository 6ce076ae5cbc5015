#include "service/log_file.h"

#include <algorithm>
#include <fstream>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "runtime/log_line.h"
#include "schema/text.h"

namespace downpour {
namespace {

constexpr int64_t kBlockBytes = 8192;
constexpr size_t kMostLineBytes = kMaxLogBytes + 64;  // with its time

// From the least to the most severe.
constexpr std::pair<char, const char*> kSeverities[] = {
    {' ', "DEFAULT"}, {'I', "INFO"}, {'W', "WARNING"}, {'E', "ERROR"}, {'F', "CRITICAL"}};

size_t RankOfLetter(char letter) {
  for (size_t i = 0; i < std::size(kSeverities); ++i) {
    if (kSeverities[i].first == letter) return i;
  }
  return 0;
}

// TimeOfLine's "2024-11-20 10:43:05.123" as RFC 3339; empty stays empty.
std::string Rfc3339(std::string time) {
  std::replace(time.begin(), time.end(), ' ', 'T');
  return time.empty() ? time : time + "Z";
}

LogTimes TimesOf(const std::filesystem::path& log) {
  return log.stem() == "service" ? LogTimes(log.parent_path().parent_path()) : LogTimes();
}

}  // namespace

std::string TaskName(const std::string& task) {
  if (task == "chief") return "master-replica-0";
  for (const char* role : {"ps-", "worker-"}) {
    if (absl::StartsWith(task, role)) return absl::StrCat(role, "replica-", absl::StripPrefix(task, role));
  }
  return task;
}

size_t RankOfSeverity(const std::string& severity) {
  for (size_t i = 0; i < std::size(kSeverities); ++i) {
    if (kSeverities[i].second == severity) return i;
  }
  return 0;
}

bool LineCursor::Fill(int64_t at) {
  std::ifstream file(path_, std::ios::binary);
  file.seekg(at);
  block_.resize(kBlockBytes);
  file.read(block_.data(), kBlockBytes);
  block_.resize(static_cast<size_t>(std::max<std::streamsize>(0, file.gcount())));
  block_at_ = at;
  return !block_.empty();
}

bool LineCursor::Next(bool half) {
  begin_ = end_;
  line_.clear();
  for (int64_t at = begin_;;) {
    const bool is_here = at >= block_at_ && at < block_at_ + static_cast<int64_t>(block_.size());
    if (!is_here && !Fill(at)) {
      if (half) end_ = at;
      return half && at > begin_;
    }
    const std::string_view rest = std::string_view(block_).substr(static_cast<size_t>(at - block_at_));
    const std::string_view part = rest.substr(0, rest.find('\n'));
    line_.append(part.substr(0, kMostLineBytes - std::min(line_.size(), kMostLineBytes)));
    at += static_cast<int64_t>(part.size());
    if (part.size() == rest.size()) continue;
    end_ = at + 1;
    return true;
  }
}

LogFile::LogFile(const std::filesystem::path& path, const Job& job, LogPlace from)
    : path_(path),
      task_(TaskName(path.stem())),
      is_over_(IsOver(job.state)),
      created_ms_(job.created_ms),
      ended_ms_(job.ended_ms),
      times_(TimesOf(path)),
      cursor_(path_, from.at),
      place_(from) {}

bool LogFile::HasLine() {
  if (has_line_) return true;
  if (!cursor_.Next(/*half=*/is_over_)) return false;
  time_ = Rfc3339(TimeOfLine(cursor_.line()));
  has_own_time_ = !time_.empty();
  rank_ = has_own_time_ ? RankOfLetter(cursor_.line()[0]) : 0;
  if (!has_own_time_) time_ = TimeOfTimeless();
  has_line_ = !time_.empty();
  return has_line_;
}

std::string LogFile::TimeOfTimeless() {
  LookAhead();
  const std::optional<int64_t> seen = times_.Of(cursor_.end());
  const std::string seen_at = seen ? TimeText(*seen) : "";
  const std::string by = by_.empty() && is_over_ ? TimeText(ended_ms_) : by_;
  if (seen_at.empty() && by.empty()) return "";
  const std::string time = seen_at.empty() || by.empty() ? seen_at + by : std::min(seen_at, by);
  return std::max(time, last_);
}

void LogFile::LookAhead() {
  if (looked_ahead_ && place_.timeless_to >= cursor_.end()) return;
  looked_ahead_ = true;
  LineCursor ahead(path_, std::max(place_.timeless_to, cursor_.end()));
  do {
    place_.timeless_to = ahead.end();
    by_ = ahead.Next(/*half=*/is_over_) ? Rfc3339(TimeOfLine(ahead.line())) : "";
  } while (by_.empty() && ahead.end() > place_.timeless_to);
}

LogEntry LogFile::Entry() const {
  return {.time = time_,
          .task = task_,
          .severity = kSeverities[rank_].second,
          .message = CleanText(has_own_time_ ? WordsOfLine(cursor_.line()) : cursor_.line(), kMaxLogBytes),
          .id = absl::StrFormat("%s-%012d-%d", task_, place_.at, created_ms_)};
}

void LogFile::Pop() {
  last_ = time_;
  has_line_ = false;
  place_.at = cursor_.end();
  place_.timeless_to = std::max(place_.timeless_to, place_.at);
}

}  // namespace downpour
