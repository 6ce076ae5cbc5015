// CodeCache: the user's Python code as workers of this host have unpacked it, each archive once.
//
//   CodeCache cache("/var/cache/downpour");
//   absl::StatusOr<CachedCode> code = cache.Find(job.python);           // NOT_FOUND: it has to be fetched
//   code = cache.Keep(job.python, blocks);                              // code->path: from which Python imports it
//
// Shapes: FOLDER/SHA256 holds the archive's files. It appears as a whole, so a worker that is killed leaves nothing
//   that passes for one, and workers beside each other do no harm.
//   FOLDER/SHA256.packages-* and requirements-* are environments with what the code needs, one for each interpreter, as
//   python/downpour/environment.py makes them.
// Errors: PERMISSION_DENIED for a folder that others may write to. Of Keep those of UnpackPackage, and UNAVAILABLE
//   where the disk refuses.
// Cost: Keep removes what nobody asked for in 30 days and nobody uses. Who uses a folder has it locked: here by
//   CachedCode, and an environment by the process that runs in it.
// Tests: tests/unit/runtime/posix/code_cache_test.cc, tests/process/test_python.py.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "job/job.h"
#include "runtime/posix/fd.h"
#include "schema/payload.h"

namespace downpour {

struct CachedCode {
  std::string path;
  UniqueFd in_use;  // a shared lock on the folder, until it is closed
};

class CodeCache {
 public:
  explicit CodeCache(std::string folder) : folder_(std::move(folder)) {}

  absl::StatusOr<CachedCode> Find(const PythonSpec& code) const;
  absl::StatusOr<CachedCode> Keep(const PythonSpec& code, const std::vector<Payload>& blocks) const;

 private:
  absl::Status MakeOwn() const;
  void RemoveOld() const;

  std::string folder_;
};

inline constexpr char kPackagesSuffix[] = ".packages";

// Where users keep such things: $XDG_CACHE_HOME/downpour/code, or ~/.cache/downpour/code; without a home below /tmp.
std::string DefaultCodeFolder();

}  // namespace downpour
