// NewFile: a file that is there whole, or not at all: it is written beside its name, then renamed.
//
//   NewFile file(path);
//   file.WriteAt(0, bytes);                      // anywhere, in any order
//   if (absl::Status status = file.Commit(); !status.ok()) return status;
//
// Errors: the disk's first, naming the path, from Commit. Then the path is as it was; so it is without a Commit, and
//   where it is a device, a pipe or a link, which is somebody's.
// Tests: tests/unit/tools/cli/verb_export_test.cc.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/types/span.h"

namespace downpour {

class NewFile {
 public:
  explicit NewFile(const std::string& path);
  ~NewFile();
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;

  void WriteAt(uint64_t offset, absl::Span<const std::byte> bytes);
  absl::Status Commit();

 private:
  void Fail();

  const std::string path_, beside_;
  int file_;  // -1 behind Commit
  absl::Status status_;
};

}  // namespace downpour
