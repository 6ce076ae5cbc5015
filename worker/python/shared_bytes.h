// SharedBytes: memory, all zero at first, that processes of the user's code see too, by its descriptor.
//
//   absl::StatusOr<SharedBytes> memory = SharedBytes::Make(1 << 20);
//   std::memcpy(memory->at().get(), ...);
//
// Shapes: it can neither grow nor shrink, whatever others do with it. It lives on while somebody holds it.
// Tests: tests/unit/worker/python_child_test.cc.
#pragma once

#include <cstddef>
#include <memory>

#include "absl/status/statusor.h"
#include "runtime/posix/fd.h"

namespace downpour {

class SharedBytes {
 public:
  static absl::StatusOr<SharedBytes> Make(size_t bytes);

  SharedBytes() = default;  // none
  bool empty() const { return at_ == nullptr; }
  int file() const { return file_ ? file_->get() : -1; }
  const std::shared_ptr<std::byte>& at() const { return at_; }

 private:
  std::shared_ptr<UniqueFd> file_;
  std::shared_ptr<std::byte> at_;
};

}  // namespace downpour
