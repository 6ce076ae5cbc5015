#include "worker/python/shared_bytes.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>

#include "absl/strings/str_cat.h"

namespace downpour {

// Sealed: a file that shrinks would kill whoever looks at what is gone.
absl::StatusOr<SharedBytes> SharedBytes::Make(size_t bytes) {
  const auto failed = [&] { return absl::ErrnoToStatus(errno, absl::StrCat("cannot share ", bytes, " bytes")); };
  SharedBytes memory;
  memory.file_ = std::make_shared<UniqueFd>(memfd_create("downpour", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  const int file = memory.file();
  if (file < 0 || ftruncate(file, static_cast<off_t>(bytes)) != 0) return failed();
  if (fcntl(file, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) return failed();
  void* mapped = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (mapped == MAP_FAILED) return failed();
  memory.at_ = {static_cast<std::byte*>(mapped), [bytes](std::byte* at) { munmap(at, bytes); }};
  return memory;
}

}  // namespace downpour
