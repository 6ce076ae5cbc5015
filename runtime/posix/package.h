// Packages: a Python package as it was uploaded, an sdist (.tar.gz) or a wheel (.whl, .zip), laid out for import.
//
//   absl::Status status = UnpackPackage("trainer-0.0.0.tar.gz", folder + "/package-1");   // trainer/task.py in it
//
// Shapes: an sdist's first folder, NAME-VERSION, is left out.
// Errors: INVALID_ARGUMENT for what is no such archive, and for a file in it that would leave the folder, is a link or
//   a device, or is beyond kMostPackageFiles, kMostPackageFolders and kMostPackageBytes. The folder is gone then.
// Cost: each file and each folder is made once, also a folder that only the names of files in it tell of.
// Tests: tests/unit/runtime/posix/package_test.cc.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace downpour {

inline constexpr int64_t kMostPackageBytes = int64_t{1} << 30;
inline constexpr int kMostPackageFiles = 20'000;
inline constexpr uintmax_t kMostUnpackedCode = uintmax_t{256} << 20;  // in bytes; code packs to a quarter
inline constexpr size_t kMostPackageFolders = 5'000;

absl::Status UnpackPackage(const std::string& archive, const std::string& folder);

// What is packed, and where it lies in the archive: a file by its own name, of a folder the files below it.
struct PackedPart {
  std::string from;
  std::string to;  // package-0/trainer
};

// The text of a .tar.gz. The same files make the same text. Left out of folders is what begins with a dot, __pycache__,
// compiled files, keys (*.secret) and folders of jobs. Links to files are followed, those to folders not.
// Cost: what is larger than kMostUnpackedCode is refused by the sizes of its files, before any of them is read.
// Errors: INVALID_ARGUMENT where a part cannot be read, or has more than a package may. Of more than kMostUnpackedCode,
//   or kMostCodeBytes packed, the largest files are named.
absl::StatusOr<std::string> PackParts(const std::vector<PackedPart>& parts);
absl::StatusOr<std::string> PackFolder(const std::string& folder, const std::string& prefix);

}  // namespace downpour
