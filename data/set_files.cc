#include "data/set_files.h"

#include <glob.h>

#include <algorithm>
#include <string_view>

#include "absl/strings/str_cat.h"

namespace downpour {
namespace {

std::vector<std::string> Matches(const std::string& pattern) {
  glob_t found{};
  std::vector<std::string> paths;
  if (glob(pattern.c_str(), GLOB_NOSORT, nullptr, &found) == 0) {
    paths.assign(found.gl_pathv, found.gl_pathv + found.gl_pathc);
  }
  globfree(&found);
  std::erase_if(paths, [](std::string_view path) { return path.ends_with(kIndexSuffix); });
  std::sort(paths.begin(), paths.end());
  return paths;
}

}  // namespace

absl::StatusOr<std::vector<std::string>> ExpandFiles(const std::vector<std::string>& files) {
  std::vector<std::string> expanded;
  for (const std::string& file : files) {
    if (file.find_first_of("*?[") == std::string::npos) {
      expanded.push_back(file);
      continue;
    }
    const std::vector<std::string> matches = Matches(file);
    if (matches.empty()) {
      return absl::NotFoundError(absl::StrCat("no file matches ", file, ": is the folder there on this host?"));
    }
    expanded.insert(expanded.end(), matches.begin(), matches.end());
  }
  return expanded;
}

}  // namespace downpour
