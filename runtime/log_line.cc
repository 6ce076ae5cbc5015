#include "runtime/log_line.h"

#include <chrono>

#include "absl/strings/str_format.h"

namespace downpour {

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

}  // namespace downpour
