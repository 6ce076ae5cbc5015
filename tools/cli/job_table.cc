#include "tools/cli/job_table.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "cluster/human_units.h"
#include "cluster/progress.h"
#include "cluster/text_table.h"

namespace downpour {
namespace {

constexpr size_t kLeastWhy = 40;  // columns, however long names are

std::string FirstSentence(const std::string& why, size_t columns) {
  const std::string first = why.substr(0, why.find(". "));
  std::string fits = FitLine(first, static_cast<int>(columns));
  return fits == why ? fits : FitLine(std::move(fits), static_cast<int>(columns) - 3) + "...";
}

}  // namespace

std::string JobTable(const nlohmann::json& jobs, size_t columns) {
  std::vector<std::vector<std::string>> rows = {{"JOB_ID", "STATUS", "CREATED"}};
  for (const auto& job : jobs) {
    rows.push_back({job["jobId"], job["state"], job["createTime"].get<std::string>().substr(0, 19) + "Z"});
  }
  std::vector<size_t> widths(rows[0].size());
  for (const auto& row : rows) {
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  size_t left = columns;
  for (const size_t width : widths) left -= std::min(left, width + 2);
  rows[0].push_back("WHY");
  for (size_t i = 0; i < jobs.size(); ++i) {
    const std::string why = Printable(jobs[i].value("stateMessage", jobs[i].value("errorMessage", "")));
    rows[i + 1].push_back(FirstSentence(why, std::max(left, kLeastWhy)));
  }
  return TextTable(rows, rows[0].size(), rows[0].size());
}

}  // namespace downpour
