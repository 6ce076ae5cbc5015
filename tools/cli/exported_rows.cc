#include "tools/cli/exported_rows.h"

#include <charconv>
#include <iterator>

#include "absl/strings/str_cat.h"

namespace downpour {

ExportedRowsCsv::ExportedRowsCsv(const std::string& path, size_t width) : file_(path), width_(width) {
  std::string names = "key";
  for (size_t i = 0; i < width; ++i) absl::StrAppend(&names, ",v", i);
  Write(names + "\n");
}

void ExportedRowsCsv::Write(const std::string& text) {
  file_.WriteAt(bytes_, AsBytes(text));
  bytes_ += text.size();
}

void ExportedRowsCsv::Add(const ExportedRows& rows) {
  std::string text;
  char digits[32];
  for (size_t i = 0; i < rows.ids.size(); ++i) {
    absl::StrAppend(&text, rows.ids[i]);
    for (const float value : absl::MakeConstSpan(rows.values).subspan(i * width_, width_)) {
      const auto written = std::to_chars(std::begin(digits), std::end(digits), value);
      text.push_back(',');
      text.append(digits, written.ptr);
    }
    text.push_back('\n');
  }
  Write(text);
}

void ExportedRowsCsv::AddGone(absl::Span<const int64_t> ids) {
  std::string text;
  for (const int64_t id : ids) absl::StrAppend(&text, id, std::string(width_, ','), "\n");
  Write(text);
}

}  // namespace downpour
