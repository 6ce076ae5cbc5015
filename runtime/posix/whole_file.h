// A small file that is written whole or not at all: beside it, synced, and under its name at last.
//
//   absl::Status status = WriteWhole("keys/ps.secret", text, 0600, WhereThere::kRefuse);
//
// Cost: one sync, of the file; its folder is not synced, so that after a power failure the name may be gone.
// Errors: nothing is changed unless OK; the path is named. UNAVAILABLE where the disk or the folder refuses,
//   ALREADY_EXISTS where something is there that is not to be replaced.
// Tests: tests/unit/runtime/posix/whole_file_test.cc.
#pragma once

#include <sys/types.h>

#include <string>

#include "absl/status/status.h"

namespace downpour {

enum class WhereThere { kReplace, kRefuse };
// `mode`: as of open().
absl::Status WriteWhole(const std::string& path, const std::string& text, mode_t mode, WhereThere where_there);

}  // namespace downpour
