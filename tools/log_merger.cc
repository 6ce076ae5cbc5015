#include "tools/log_merger.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_format.h"
#include "tools/human_units.h"

namespace downpour {
namespace {

constexpr size_t kLongestLine = 1 << 20;

// Of "I 2024-11-20 10:43:05.123 ..." the time, in letters that sort by time; empty if the line has none.
std::string TimeOf(const std::string& line) {
  constexpr std::string_view kShape = "0000-00-00 00:00:00.000";
  constexpr size_t kAfterSeverity = 2;
  if (line.size() < kAfterSeverity + kShape.size()) return "";
  const std::string time = line.substr(kAfterSeverity, kShape.size());
  for (size_t i = 0; i < kShape.size(); ++i) {
    if (kShape[i] == '0' ? !absl::ascii_isdigit(time[i]) : time[i] != kShape[i]) return "";
  }
  return time;
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
  source->time = std::max(source->time, TimeOf(text));
  lines_.push_back({source->time, task, text});
}

std::string LogMerger::Take() {
  std::stable_sort(lines_.begin(), lines_.end(), [](const Line& a, const Line& b) { return a.time < b.time; });
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
