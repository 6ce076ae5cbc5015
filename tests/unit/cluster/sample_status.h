// The samples of docs/STATUS.md themselves, so that tools and documentation cannot part.
#pragma once

#include <fstream>
#include <sstream>
#include <string>

#include "tests/source_tree.h"

namespace downpour {

// The n-th block fenced as JSON.
inline std::string JsonBlockOfStatusPage(int n) {
  std::ifstream file(SourcePath("docs/STATUS.md"));
  std::stringstream text;
  text << file.rdbuf();
  const std::string page = text.str();
  const std::string fence = "```json\n";
  size_t begin = 0;
  for (int i = 0; i <= n; ++i) begin = page.find(fence, begin) + fence.size();
  return page.substr(begin, page.find("```", begin) - begin);
}

inline std::string SampleStatus() { return JsonBlockOfStatusPage(0); }
inline std::string SampleSummary() { return JsonBlockOfStatusPage(1); }

}  // namespace downpour
