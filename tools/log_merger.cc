#include "tools/log_merger.h"

#include <algorithm>
#include <cstdio>
#include <optional>

#include "absl/strings/str_format.h"
#include "tools/human_units.h"

namespace downpour {
namespace {

constexpr int64_t kDayUs = int64_t{24} * 3600 * 1'000'000;
constexpr size_t kLongestLine = 1 << 20;

// Of "I 10:43:05.123456 ..." the time within its day.
std::optional<int64_t> TimeOfDay(const std::string& line) {
  int hour = 0, minute = 0, second = 0, micros = 0;
  char severity = 0;
  if (std::sscanf(line.c_str(), "%c %2d:%2d:%2d.%6d ", &severity, &hour, &minute, &second, &micros) != 5) return {};
  return ((int64_t{hour} * 60 + minute) * 60 + second) * 1'000'000 + micros;
}

}  // namespace

LogMerger::LogMerger(const std::vector<std::string>& tasks) : named_(tasks.size() != 1) {
  for (const std::string& task : tasks) width_ = std::max(width_, task.size());
}

void LogMerger::Add(const std::string& task, std::string_view bytes) {
  Source& source = sources_[task];
  source.partial += bytes;
  size_t begin = 0;
  for (size_t end; (end = source.partial.find('\n', begin)) != std::string::npos; begin = end + 1) {
    AddLine(task, &source, source.partial.substr(begin, end - begin));
  }
  source.partial.erase(0, begin);
}

void LogMerger::AddLine(const std::string& task, Source* source, const std::string& text) {
  if (const std::optional<int64_t> time = TimeOfDay(text)) {
    const int64_t day = source->time_us / kDayUs * kDayUs;
    const bool next_day = day + *time < source->time_us - kDayUs / 2;
    source->time_us = day + *time + (next_day ? kDayUs : 0);
  }
  lines_.push_back({source->time_us, task, text});
}

std::string LogMerger::Take() {
  std::stable_sort(lines_.begin(), lines_.end(), [](const Line& a, const Line& b) { return a.time_us < b.time_us; });
  std::string out;
  for (const Line& line : lines_) {
    if (named_) absl::StrAppendFormat(&out, "%-*s | ", static_cast<int>(width_), line.task);
    out += Printable(line.text, kLongestLine) + "\n";
  }
  lines_.clear();
  return out;
}

std::string LogMerger::TakeAll() {
  for (auto& [task, source] : sources_) {
    if (!source.partial.empty()) AddLine(task, &source, source.partial);
    source.partial.clear();
  }
  return Take();
}

}  // namespace downpour
