// A piece of memory that two processes of one host see: a memfd whose seals keep its size, so that no peer can cut it
// under a reader, who would get SIGBUS.
//
//   auto ours = SharedMemory::Make(bytes, SharedMemory::Others::kRead);   // hand over ours->fd()
//   auto theirs = SharedMemory::Map(std::move(fd), bytes, SharedMemory::Others::kRead);
//
// Shapes: begins on a whole huge page; of whole pages.
// Cost: Make takes addresses alone; Reserve takes memory.
// Errors: RESOURCE_EXHAUSTED for want of addresses, descriptors or memory; INVALID_ARGUMENT for a descriptor that is no
//   such memory.
// Source: memfd_create(2), fcntl(2), "File Sealing".
// Tests: tests/unit/runtime/shm/memory_test.cc.
#pragma once

#include <cstddef>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "runtime/posix/fd.h"

namespace downpour {

class SharedMemory {
 public:
  static constexpr size_t kHugePage = size_t{2} << 20;

  enum class Others { kRead, kWrite };  // what whoever gets the descriptor may do

  static absl::StatusOr<SharedMemory> Make(size_t bytes, Others others);
  // Closes the descriptor. What others may only read is mapped to be read.
  static absl::StatusOr<SharedMemory> Map(UniqueFd fd, size_t bytes, Others others);

  SharedMemory() = default;
  SharedMemory(SharedMemory&& other) noexcept
      : fd_(std::move(other.fd_)),
        begin_(std::exchange(other.begin_, nullptr)),
        bytes_(std::exchange(other.bytes_, 0)) {}
  SharedMemory& operator=(SharedMemory&& other) noexcept;
  ~SharedMemory();

  // Memory for the range, which must be of whole pages. Without it a first touch where there is none left is a signal.
  absl::Status Reserve(size_t offset, size_t bytes) const;

  // Once others have it: what is mapped stays.
  void CloseDescriptor() { fd_ = UniqueFd(); }

  std::byte* data() const { return begin_; }
  size_t size() const { return bytes_; }
  int fd() const { return fd_.get(); }  // of what was made; -1 of what was mapped, or once it is closed

 private:
  SharedMemory(UniqueFd fd, std::byte* begin, size_t bytes) : fd_(std::move(fd)), begin_(begin), bytes_(bytes) {}

  UniqueFd fd_;
  std::byte* begin_ = nullptr;
  size_t bytes_ = 0;
};

}  // namespace downpour
