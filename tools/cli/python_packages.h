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
// Errors: INVALID_ARGUMENT for a folder or an archive that cannot be had, or is hostile (runtime/driver/package.h).
// Tests: tests/unit/tools/cli/python_packages_test.cc.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "schema/payload.h"
#include "tools/cli/python_code.h"

namespace downpour {

inline constexpr char kPackagesFolder[] = "downpour_packages";

// `scratch`: a folder of its own, for what is unpacked on the way.
absl::StatusOr<Payload> GatherCode(const PythonCode& code, const std::string& scratch);

}  // namespace downpour
