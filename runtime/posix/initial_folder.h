// JOB_DIR/initial/: what a new job begins with, as records, before its chief begins.
//
//   absl::Status status = StageInitial(job_dir, [&](const std::string& folder) -> absl::StatusOr<Manifest> {
//     RecordFile file(folder, "initial.shard");
//     ...file.Append(EncodeRecord(state))..., file.Sync()...
//     return manifest;
//   });
//
// Order: the manifest is written last, so records without it are those of a chief that died, and are staged again.
// Errors: those of what writes the records; UNAVAILABLE of the disk.
// Tests: tests/unit/runtime/posix/initial_values_test.cc, tests/unit/checkpoint/earlier_job_test.cc.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "schema/checkpoint_format.h"
#include "schema/payload.h"

namespace downpour {

// A file of records that grows. It is open during an append alone, since a job may have thousands.
class RecordFile {
 public:
  RecordFile(const std::string& folder, std::string name) : name_(std::move(name)), path_(folder + "/" + name_) {}

  absl::Status Append(const std::vector<Payload>& blocks);  // the first one replaces what was there
  absl::Status Sync() const;

  const std::string& name() const { return name_; }
  uint64_t bytes() const { return bytes_; }
  uint32_t crc32c() const { return crc32c_; }  // of all that was appended

 private:
  std::string name_, path_;
  uint64_t bytes_ = 0;
  uint32_t crc32c_ = 0;
};

// `write` puts records into the folder and says what a manifest has of them; round and time are filled in.
using WriteRecords = std::function<absl::StatusOr<Manifest>(const std::string& folder)>;

// What was staged before is replaced.
absl::Status StageInitial(const std::string& job_dir, const WriteRecords& write);

}  // namespace downpour
