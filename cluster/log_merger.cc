#include "cluster/log_merger.h"

#include <algorithm>

#include "absl/strings/str_format.h"
#include "cluster/human_units.h"
#include "runtime/log_line.h"

namespace downpour {
namespace {

constexpr size_t kLongestLine = 1 << 20;
constexpr size_t kLongestName = 128;

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
  source->time = std::max(source->time, TimeOfLine(text));
  lines_.push_back({source->time, task, text});
}

std::string LogMerger::Take() {
  std::stable_sort(lines_.begin(), lines_.end(), [](const Line& a, const Line& b) { return a.time < b.time; });
  std::string out;
  for (const Line& line : lines_) {
    if (named_) absl::StrAppendFormat(&out, "%-*s | ", static_cast<int>(width_), Printable(line.task, kLongestName));
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
