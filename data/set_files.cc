#include "data/set_files.h"

#include <glob.h>

#include <algorithm>
#include <filesystem>
#include <string_view>
#include <system_error>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "data/open_source.h"
#include "job/data_place.h"
#include "schema/text.h"

namespace downpour {
namespace {

constexpr uint64_t kMostManifestBytes = uint64_t{64} << 20;
constexpr size_t kMostListed = 1'000'000;

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

// The paths that a manifest lists, one on each line: from its own place, where they are relative.
absl::StatusOr<std::vector<std::string>> ListedIn(const std::string& manifest) {
  const absl::StatusOr<std::unique_ptr<ByteSource>> source = OpenSource(manifest);
  if (!source.ok()) return source.status();
  if ((*source)->size() > kMostManifestBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat(manifest, " has more than ", kMostManifestBytes >> 20, " MiB: is it a list of paths?"));
  }
  std::string text((*source)->size(), '\0');
  const absl::StatusOr<size_t> got = (*source)->Read(0, {reinterpret_cast<uint8_t*>(text.data()), text.size()});
  if (!got.ok()) return got.status();
  text.resize(*got);
  std::vector<std::string> paths;
  size_t number = 0;
  for (size_t at = 0; at < text.size(); ++number) {
    const size_t end = std::min(text.find('\n', at), text.size());
    const std::string line(absl::StripAsciiWhitespace(absl::string_view(text).substr(at, end - at)));
    at = end + 1;
    if (line.empty() || line.front() == '#') continue;
    const std::string place = absl::StrCat(manifest, ":", number + 1, ": ");
    if (!IsText(line)) return absl::InvalidArgumentError(place + "no path: it is not valid UTF-8");
    if (line.ends_with(kManifestSuffix)) return absl::InvalidArgumentError(place + "lists name files, not other lists");
    if (paths.size() == kMostListed) {
      return absl::InvalidArgumentError(absl::StrCat(place, "more than ", kMostListed, " paths"));
    }
    const bool is_whole = line.front() == '/' || !SchemeOf(line).empty();
    const size_t folder = manifest.rfind('/');
    paths.push_back(is_whole || folder == std::string::npos ? line : manifest.substr(0, folder + 1) + line);
  }
  if (paths.empty()) return absl::InvalidArgumentError(manifest + " lists no files");
  return paths;
}

// Paths, and manifests in their places become what they list.
absl::StatusOr<std::vector<std::string>> WithListed(const std::vector<std::string>& files) {
  std::vector<std::string> all;
  for (const std::string& file : files) {
    if (!file.ends_with(kManifestSuffix)) {
      all.push_back(file);
      continue;
    }
    const absl::StatusOr<std::vector<std::string>> listed = ListedIn(file);
    if (!listed.ok()) return listed.status();
    all.insert(all.end(), listed->begin(), listed->end());
  }
  return all;
}

}  // namespace

absl::StatusOr<std::vector<std::string>> ExpandFiles(const std::vector<std::string>& files) {
  const absl::StatusOr<std::vector<std::string>> all = WithListed(files);
  if (!all.ok()) return all.status();
  std::vector<std::string> expanded;
  for (const std::string& file : *all) {
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
