#include "tools/cli/folder_claim.h"

#include <filesystem>
#include <system_error>
#include <utility>

#include "cluster/job_folder.h"

namespace downpour {

namespace fs = std::filesystem;

FolderClaim::~FolderClaim() {
  if (is_new_) RemoveEmptyJobFolder(job_dir_);
}

absl::Status FolderClaim::Take(const std::string& job_dir) {
  if (lock_.ok()) return absl::OkStatus();
  std::error_code ignored;
  const bool is_new = !fs::exists(job_dir, ignored);
  absl::StatusOr<UniqueFd> lock = ClaimJobFolder(job_dir);
  if (!lock.ok()) return lock.status();
  lock_ = *std::move(lock);
  job_dir_ = job_dir;
  is_new_ = is_new;
  return absl::OkStatus();
}

void FolderClaim::Say(const std::string& words) const { SayInJobFolder(lock_, words); }

}  // namespace downpour
