// FolderClaim: the job folder, held by a `downpour run` from before it is known whether there will be a job in it.
//
//   FolderClaim claim;
//   if (!claim.Take(job_dir).ok()) ...
//   claim.Say("its Python code runs up to its model");   // which status tells until a chief listens
//   claim.Keep();
//
// Order: a folder that Take made goes with this object where Keep was not called, unless something was put into it.
// Errors: of Take as of ClaimJobFolder (cluster/job_folder.h); OK where it is held here already.
// Tests: tests/unit/tools/cli/folder_claim_test.cc.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "runtime/posix/fd.h"

namespace downpour {

class FolderClaim {
 public:
  FolderClaim() = default;
  ~FolderClaim();
  FolderClaim(const FolderClaim&) = delete;
  FolderClaim& operator=(const FolderClaim&) = delete;

  absl::Status Take(const std::string& job_dir);
  void Say(const std::string& words) const;  // empty: nothing more
  void Keep() { is_new_ = false; }

 private:
  std::string job_dir_;
  UniqueFd lock_;
  bool is_new_ = false;
};

}  // namespace downpour
