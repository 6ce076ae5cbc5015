#include "data/set_files.h"

#include <glob.h>

#include <algorithm>
#include <filesystem>
#include <string_view>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "data/open_source.h"
#include "job/data_place.h"

namespace downpour {
namespace {

std::vector<std::string> Matches(const std::string& pattern) {
  glob_t found{};
  std::vector<std::string> paths;
  if (glob(pattern.c_str(), GLOB_NOSORT, nullptr, &found) == 0) {
    paths.assign(found.gl_pathv, found.gl_pathv + found.gl_pathc);
  }
  globfree(&found);
  std::sort(paths.begin(), paths.end());
  return paths;
}

}  // namespace

absl::StatusOr<std::vector<std::string>> ExpandFiles(const std::vector<std::string>& files) {
  std::vector<std::string> expanded;
  for (const std::string& file : files) {
    std::error_code ignored;
    if (!IsPattern(file) || (SchemeOf(file).empty() && std::filesystem::exists(file, ignored))) {
      expanded.push_back(file);
      continue;
    }
    const bool is_path = SchemeOf(file).empty();
    absl::StatusOr<std::vector<std::string>> matches = is_path ? Matches(file) : MatchingObjects(file);
    if (!matches.ok()) return matches.status();
    std::erase_if(*matches, [](std::string_view path) { return path.ends_with(kIndexSuffix); });
    if (matches->empty()) {
      return absl::NotFoundError(is_path ? absl::StrCat("no file matches ", file, ": is the folder there on this host?")
                                         : absl::StrCat("no object matches ", file));
    }
    expanded.insert(expanded.end(), matches->begin(), matches->end());
  }
  return expanded;
}

}  // namespace downpour
