// PosixStorage: a JobStorage that is one folder of a file system, on a thread of its own.
//
// Shapes: neither a name nor a symbolic link leads out of the folder: paths are walked name by name, following no link.
// Errors: those of job_storage.h. Lock names the other chief's pid.
// Tests: tests/unit/runtime/posix/storage_test.cc.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "runtime/posix/fd.h"
#include "runtime/posix/job_storage.h"
#include "runtime/posix/mailbox.h"
#include "runtime/posix/serial_thread.h"
#include "runtime/role.h"

namespace downpour {

inline constexpr char kChiefLockFile[] = "chief.lock";

class PosixStorage final : public JobStorage {
 public:
  // Makes the folder if it is not there. `mailbox` outlives this.
  static absl::StatusOr<std::unique_ptr<PosixStorage>> Open(const std::string& root, Mailbox* mailbox);
  absl::Status Lock() override;
  void Submit(StorageOp op) override { thread_.Submit(std::move(op)); }

 private:
  PosixStorage(const std::string& root, UniqueFd fd, Mailbox* mailbox);
  const std::string root_;
  const UniqueFd fd_;
  UniqueFd lock_;
  SerialThread<StorageOp> thread_;
};

}  // namespace downpour
