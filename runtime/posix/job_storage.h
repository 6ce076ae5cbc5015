// JobStorage: where the files of a job lie, whatever holds them. Roles know StorageOps alone (runtime/role.h), and the
// driver knows this interface alone: another kind of storage changes neither.
//
//   absl::StatusOr<std::unique_ptr<JobStorage>> storage = JobStorage::Open("/jobs/mnist", &mailbox);
//   (*storage)->Submit(StorageOp{.kind = Kind::kWrite, .ticket = Ticket{7}, .path = "logs/chief.log", ...});
//
// Shapes: a path is plain names (schema/text.h) joined by '/'; "" is the folder itself.
// Order: operations one after the other, as submitted; each becomes one StorageDone in the mailbox. The destructor
//   carries out what was submitted. What kSync and kSyncDir have ended outlives a power failure; a rename replaces as a
//   whole or not at all.
// Errors: NOT_FOUND, ALREADY_EXISTS, RESOURCE_EXHAUSTED (no space), PERMISSION_DENIED and so on, naming path and
//   reason; DATA_LOSS for what cannot be read back; INVALID_ARGUMENT for a path that is none. A failed kWrite leaves no
//   file, a failed kAppend the file as it was.
// Threads: Submit from any.
#pragma once

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "runtime/posix/mailbox.h"
#include "runtime/role.h"

namespace downpour {

class JobStorage {
 public:
  virtual ~JobStorage() = default;

  // Exclusive until this process ends, so that two chiefs do not share a job. ALREADY_EXISTS naming who has it.
  virtual absl::Status Lock() = 0;
  virtual void Submit(StorageOp op) = 0;
};

}  // namespace downpour
