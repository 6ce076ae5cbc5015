// Carries out StorageOps below one folder, on a thread of its own.
//
//   auto storage = PosixStorage::Open("/jobs/mnist", &mailbox);
//   (*storage)->Submit(StorageOp{.kind = Kind::kWrite, .ticket = Ticket{7}, .path = "logs/chief.log", ...});
//
// Shapes: a path is plain names (schema/text.h) joined by '/'; "" is the folder itself. Neither a name nor a symbolic
//   link leads out of it: paths are walked name by name, following no link.
// Order: operations one after the other, as submitted; each becomes one StorageDone in the mailbox. The destructor
//   carries out what was submitted.
// Errors: NOT_FOUND, ALREADY_EXISTS, RESOURCE_EXHAUSTED (no space), PERMISSION_DENIED and so on, naming path and
//   reason; DATA_LOSS for what the disk cannot read; INVALID_ARGUMENT for a path that is none. A failed kWrite leaves
//   no file, a failed kAppend the file as it was.
// Threads: Submit from any.
// Tests: tests/unit/runtime/driver/posix_storage_test.cc.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "runtime/driver/mailbox.h"
#include "runtime/driver/posix_fd.h"
#include "runtime/driver/serial_thread.h"
#include "runtime/role.h"

namespace downpour {

inline constexpr char kChiefLockFile[] = "chief.lock";

class PosixStorage {
 public:
  // Makes the folder if it is not there. `mailbox` outlives this.
  static absl::StatusOr<std::unique_ptr<PosixStorage>> Open(const std::string& root, Mailbox* mailbox);
  // Exclusive until this process ends, so that two chiefs do not share a folder. ALREADY_EXISTS naming the other's pid.
  absl::Status Lock();

  void Submit(StorageOp op) { thread_.Submit(std::move(op)); }

 private:
  PosixStorage(const std::string& root, UniqueFd fd, Mailbox* mailbox);
  const std::string root_;
  const UniqueFd fd_;
  UniqueFd lock_;
  SerialThread<StorageOp> thread_;
};

}  // namespace downpour
