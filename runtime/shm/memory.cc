#include "runtime/shm/memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstdint>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "runtime/shm/closing.h"

namespace downpour {
namespace {

constexpr int kSize = F_SEAL_SHRINK | F_SEAL_GROW;
#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif

absl::Status NoMemory(const char* what, int error) {
  return absl::ResourceExhaustedError(
      absl::StrCat("no memory to share with this host's processes: ", what, ": ", std::strerror(error)));
}

// Huge pages need the same remainder in file and address, so what is mapped begins on one.
std::byte* MapAligned(int fd, size_t bytes, int protection) {
  constexpr size_t kHuge = SharedMemory::kHugePage;
  void* const found = mmap(nullptr, bytes + kHuge, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (found == MAP_FAILED) return nullptr;
  char* const all = static_cast<char*>(found);
  char* const begin = all + (kHuge - reinterpret_cast<uintptr_t>(all) % kHuge) % kHuge;
  if (mmap(begin, bytes, protection, MAP_SHARED | MAP_FIXED, fd, 0) == MAP_FAILED) {
    const int error = errno;
    munmap(all, bytes + kHuge);
    errno = error;
    return nullptr;
  }
  if (begin > all) munmap(all, static_cast<size_t>(begin - all));
  if (begin < all + kHuge) munmap(begin + bytes, static_cast<size_t>(all + kHuge - begin));
  return reinterpret_cast<std::byte*>(begin);
}

// Nobody may run what lies there; kernels before 6.3 do not know that flag.
UniqueFd NewMemory() {
  constexpr unsigned kNoExec = 0x0008;
  UniqueFd fd(memfd_create("downpour", MFD_CLOEXEC | MFD_ALLOW_SEALING | kNoExec));
  return fd.ok() || errno != EINVAL ? std::move(fd)
                                    : UniqueFd(memfd_create("downpour", MFD_CLOEXEC | MFD_ALLOW_SEALING));
}

}  // namespace

absl::StatusOr<SharedMemory> SharedMemory::Make(size_t bytes, Others others) {
  UniqueFd fd = NewMemory();
  if (!fd.ok()) return NoMemory("memfd_create", errno);
  if (ftruncate(fd.get(), static_cast<off_t>(bytes)) != 0) return NoMemory("ftruncate", errno);
  std::byte* const begin = MapAligned(fd.get(), bytes, PROT_READ | PROT_WRITE);
  if (begin == nullptr) return NoMemory("mmap", errno);
  SharedMemory memory(std::move(fd), begin, bytes);
  // After the mapping, which the seal against writing would refuse; it lets those stand that there are.
  const int seals = kSize | F_SEAL_SEAL | (others == Others::kRead ? F_SEAL_FUTURE_WRITE : 0);
  if (fcntl(memory.fd(), F_ADD_SEALS, seals) != 0) return NoMemory("F_ADD_SEALS", errno);
  return memory;
}

absl::StatusOr<SharedMemory> SharedMemory::Map(UniqueFd fd, size_t bytes, Others others) {
  const int seals = fcntl(fd.get(), F_GET_SEALS);
  if (seals < 0) CloseElsewhere(std::move(fd));  // no memory: what it is only its sender knows
  struct stat file {};
  if (seals < 0 || (seals & kSize) != kSize || fstat(fd.get(), &file) != 0 ||
      file.st_size != static_cast<off_t>(bytes)) {
    return absl::InvalidArgumentError("a peer on this host shares something whose size may change");
  }
  std::byte* const begin = MapAligned(fd.get(), bytes, others == Others::kRead ? PROT_READ : PROT_READ | PROT_WRITE);
  if (begin == nullptr) return NoMemory("mmap", errno);
  return SharedMemory(UniqueFd(), begin, bytes);
}

SharedMemory& SharedMemory::operator=(SharedMemory&& other) noexcept {
  std::swap(fd_, other.fd_);
  std::swap(begin_, other.begin_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

SharedMemory::~SharedMemory() {
  if (begin_ != nullptr) munmap(begin_, bytes_);
}

absl::Status SharedMemory::Reserve(size_t offset, size_t bytes) const {
  while (fallocate(fd(), 0, static_cast<off_t>(offset), static_cast<off_t>(bytes)) != 0) {
    if (errno != EINTR) return NoMemory("fallocate", errno);
  }
#ifdef MADV_COLLAPSE
  constexpr int kCollapse = MADV_COLLAPSE;
#else
  constexpr int kCollapse = 25;
#endif
  // A wish, as elsewhere (schema/payload.cc): without huge pages all works, slower.
  if (offset % kHugePage == 0 && bytes % kHugePage == 0) madvise(begin_ + offset, bytes, kCollapse);
  return absl::OkStatus();
}

}  // namespace downpour
