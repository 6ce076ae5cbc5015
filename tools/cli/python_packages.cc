#include "tools/cli/python_packages.h"

#include <algorithm>
#include <filesystem>
#include <set>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "runtime/posix/package.h"
#include "schema/text.h"

namespace downpour {
namespace {

namespace fs = std::filesystem;

constexpr const char* kTop = "code";  // the archive's first folder, which is left out as it is unpacked
// What makes the folder beside a package a project, and what such a project reads as it is built.
constexpr const char* kProjectFiles[] = {"setup.py", "pyproject.toml"};
constexpr const char* kBesideIt[] = {"setup.py",    "setup.cfg", "pyproject.toml", "requirements.txt",
                                     "MANIFEST.in", "README",    "README.md",      "README.rst"};

std::string TopOf(const std::string& module) { return module.substr(0, module.find('.')); }

bool HasModule(const fs::path& folder, const std::string& top) {
  return fs::exists(folder / top) || fs::exists(folder / (top + ".py"));
}

bool IsProject(const fs::path& folder) {
  return std::ranges::any_of(kProjectFiles, [&](const char* file) { return fs::is_regular_file(folder / file); });
}

// `--package-path trainer --module-name trainer.task` means trainer/task.py; so does `--package-path .`.
absl::Status AddFolder(const PythonCode& code, std::vector<PackedPart>* parts) {
  const std::string top = TopOf(code.module);
  std::error_code error;
  const fs::path given = fs::canonical(code.package_path.empty() ? "." : code.package_path, error);
  if (error || !fs::is_directory(given)) {
    return absl::InvalidArgumentError(absl::StrCat("--package-path ", code.package_path,
                                                   " is no folder that can be read: name the one of the package"));
  }
  const bool is_within = given.filename() == top && !HasModule(given, top);
  if (!is_within && (HasModule(given, top) || IsProject(given))) {  // a project may have its module elsewhere
    parts->push_back({given, kTop});
    return absl::OkStatus();
  }
  if (!is_within) {
    return absl::InvalidArgumentError(absl::StrCat("--module-name ", code.module, " needs ", top, "/ or ", top,
                                                   ".py in ", given.string(), ": correct it, or --package-path"));
  }
  const fs::path beside = given.parent_path();
  const auto add = [&](const fs::path& path) {
    parts->push_back({path, absl::StrCat(kTop, "/", path.filename().string())});
  };
  add(given);
  for (const char* file : kBesideIt) {
    if (fs::is_regular_file(beside / file)) add(beside / file);
  }
  if (!IsProject(beside)) return absl::OkStatus();
  std::vector<fs::path> packages;
  for (fs::directory_iterator it(beside, error), end; !error && it != end; it.increment(error)) {
    if (it->path() != given && fs::is_regular_file(it->path() / "__init__.py")) packages.push_back(it->path());
  }
  std::sort(packages.begin(), packages.end());
  std::ranges::for_each(packages, add);
  return absl::OkStatus();
}

// The folder that an sdist's files lie in: of a .zip its first one.
fs::path RootOf(const fs::path& folder) {
  std::error_code error;
  std::vector<fs::path> entries;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    entries.push_back(it->path());
  }
  return entries.size() == 1 && fs::is_regular_file(entries[0] / "PKG-INFO") ? entries[0] : folder;
}

class Archives {
 public:
  Archives(const PythonCode& code, const std::string& scratch, std::vector<PackedPart>* parts)
      : code_(code), scratch_(scratch), parts_(*parts), needs_module_(parts->empty()) {}

  absl::Status Add(const std::string& path) {
    const std::string name = fs::path(path).filename();
    if (!IsText(name) || !names_.insert(name).second) {
      return absl::InvalidArgumentError(absl::StrCat("--packages ", path, ": another package has the name ",
                                                     CleanText(name, 200), ", or it is no UTF-8: rename it"));
    }
    std::error_code error;
    if (!fs::is_regular_file(path, error)) {
      return absl::InvalidArgumentError(absl::StrCat("--packages ", path, ": there is no such file"));
    }
    const fs::path unpacked = fs::path(scratch_) / absl::StrCat("package-", names_.size());
    fs::create_directories(unpacked, error);
    // A wheel too, so that what is hostile is refused here; pip gets it as it is.
    if (const absl::Status status = UnpackPackage(path, unpacked); !status.ok()) return status;
    const std::string to = absl::StrCat(kTop, "/", kPackagesFolder, "/", name);
    if (absl::EndsWith(name, ".whl")) {
      parts_.push_back({path, to});
      return absl::OkStatus();
    }
    const fs::path root = RootOf(unpacked);
    // What GatherCode made of packages alone has no module of its own.
    const bool is_main = needs_module_ && (HasModule(root, TopOf(code_.module)) || fs::exists(root / kPackagesFolder));
    if (is_main) needs_module_ = false;
    if (!is_main && !IsProject(root)) {
      return absl::InvalidArgumentError(absl::StrCat("--packages ", path,
                                                     ": it has no setup.py and no pyproject.toml, so pip cannot ",
                                                     "install it: give a wheel, or an sdist as setup.py makes it"));
    }
    parts_.push_back({root, is_main ? kTop : to});
    return absl::OkStatus();
  }

 private:
  const PythonCode& code_;
  const std::string& scratch_;
  std::vector<PackedPart>& parts_;
  bool needs_module_;  // no folder was named that may have it
  std::set<std::string> names_;
};

}  // namespace

absl::StatusOr<Payload> GatherCode(const PythonCode& code, const std::string& scratch) {
  std::vector<PackedPart> parts;
  if (code.packages.empty() || !code.package_path.empty()) {
    if (const absl::Status status = AddFolder(code, &parts); !status.ok()) return status;
  }
  const std::string unpacked = scratch + "/packages";
  Archives archives(code, unpacked, &parts);
  absl::Status status;
  for (size_t i = 0; status.ok() && i < code.packages.size(); ++i) status = archives.Add(code.packages[i]);
  const absl::StatusOr<std::string> packed = status.ok() ? PackParts(parts) : status;
  std::error_code ignored;
  fs::remove_all(unpacked, ignored);
  if (!packed.ok()) return packed.status();
  return Payload::CopyOf(packed->data(), packed->size());
}

}  // namespace downpour
