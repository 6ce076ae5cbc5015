#include "runtime/log_line.h"

#include <chrono>
#include <cstddef>
#include <string_view>

#include "absl/strings/ascii.h"
#include "absl/strings/str_format.h"

namespace downpour {
namespace {

constexpr std::string_view kShape = "0000-00-00 00:00:00.000";
constexpr size_t kAfterSeverity = 2;

}  // namespace

std::string LogPrefix(char severity, int64_t unix_ms) {
  using std::chrono::days, std::chrono::milliseconds;
  const std::chrono::sys_time<milliseconds> time{milliseconds(unix_ms)};
  const auto day = std::chrono::floor<days>(time);
  const std::chrono::year_month_day date(day);
  const std::chrono::hh_mm_ss clock(time - day);
  return absl::StrFormat("%c %04d-%02d-%02d %02d:%02d:%02d.%03d", severity, static_cast<int>(date.year()),
                         static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()), clock.hours().count(),
                         clock.minutes().count(), clock.seconds().count(), clock.subseconds().count());
}

std::string TimeOfLine(const std::string& line) {
  if (line.size() < kAfterSeverity + kShape.size()) return "";
  const std::string time = line.substr(kAfterSeverity, kShape.size());
  for (size_t i = 0; i < kShape.size(); ++i) {
    if (kShape[i] == '0' ? !absl::ascii_isdigit(time[i]) : time[i] != kShape[i]) return "";
  }
  return time;
}

std::string WordsOfLine(const std::string& line) {
  const size_t words = kAfterSeverity + kShape.size() + 1;
  return TimeOfLine(line).empty() || line.size() < words ? line : line.substr(words);
}

}  // namespace downpour
