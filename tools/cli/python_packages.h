// The user's Python code as one archive for the workers: a folder's package, and packages that were made of others.
//
//   absl::StatusOr<Payload> archive = GatherCode(code, scratch);
//
// Shapes: the archive unpacks into the folder that Python imports from. It has
//   trainer/                      the package that --package-path names, or all that its folder holds
//   setup.py, requirements.txt    and the like, which stand beside it, with the packages beside it of a setup.py
//   downpour_packages/            each of --packages: a wheel as it is, an sdist unpacked; if no folder is named, the
//                                 sdist that has the module lies at the top instead
//   python/downpour/environment.py says what of it is installed.
// Errors: INVALID_ARGUMENT for a folder or an archive that cannot be had, or is hostile (runtime/posix/package.h).
// Tests: tests/unit/tools/cli/python_packages_test.cc.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "schema/payload.h"

namespace downpour {

inline constexpr char kPackagesFolder[] = "downpour_packages";

struct PythonCode {
  std::string package_path = {};           // the package's folder, or the one that it is imported from
  std::string module = {};                 // trainer.task; empty: the job has no code of its own
  std::string interpreter = "python3";     // a path, or a name that PATH finds
  std::vector<std::string> args = {};      // its own, after --
  std::vector<std::string> packages = {};  // wheels and sdists that are installed too; one may have the module
};

// `scratch`: a folder of its own, for what is unpacked on the way.
absl::StatusOr<Payload> GatherCode(const PythonCode& code, const std::string& scratch);

}  // namespace downpour
