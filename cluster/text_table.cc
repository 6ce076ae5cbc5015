#include "cluster/text_table.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace downpour {

std::string TextTable(const std::vector<std::vector<std::string>>& rows, size_t first_number, size_t last_number) {
  std::vector<size_t> widths(rows.front().size());
  for (const auto& row : rows) {
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string out;
  for (const auto& row : rows) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) {
      const std::string pad(widths[i] - row[i].size(), ' ');
      const bool right = i >= first_number && i <= last_number;
      absl::StrAppend(&line, i == 0 ? "" : "  ", right ? pad + row[i] : row[i] + pad);
    }
    line.resize(line.find_last_not_of(' ') + 1);
    absl::StrAppend(&out, line, "\n");
  }
  return out;
}

void AddSection(const std::string& label, const std::vector<std::string>& lines, std::string* out) {
  std::string head = label + ":";
  for (const std::string& line : lines) {
    absl::StrAppendFormat(out, "%-12s%s\n", head, line);
    head.clear();
  }
}

}  // namespace downpour
