#include "runtime/driver/job_storage.h"

#include "runtime/driver/posix_storage.h"

namespace downpour {

absl::StatusOr<std::unique_ptr<JobStorage>> JobStorage::Open(const std::string& where, Mailbox* mailbox) {
  return PosixStorage::Open(where, mailbox);
}

}  // namespace downpour
