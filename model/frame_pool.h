// Host memory for gradients on their way from a device to the wire, recycled: memory that a device
// reaches at full speed takes long to make.
//
//   auto frame = pool->Get(backend, bytes);
//   backend.BeginDownload(from, bytes, frame->data);   // written before the payload is handed on
//   ...hand on frame->payload...                       // the memory comes back when its last holder lets go
//
// Cost: after some steps no memory is made any more: of each size there is as much as was ever held at once.
// Errors: those of Backend::AllocateHost.
// Threads: Get from one; payloads may be dropped on any, also after pool and backend have gone.
// Tests: tests/unit/model/frame_pool_test.cc.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "absl/status/statusor.h"
#include "schema/payload.h"
#include "tensor/backend.h"

namespace downpour {

class FramePool : public std::enable_shared_from_this<FramePool> {
 public:
  struct Frame {
    Payload payload;
    void* data = nullptr;  // of the payload
  };
  static std::shared_ptr<FramePool> Create() { return std::shared_ptr<FramePool>(new FramePool); }
  absl::StatusOr<Frame> Get(Backend& backend, size_t bytes);

 private:
  FramePool() = default;

  std::mutex mutex_;
  std::map<size_t, std::vector<std::shared_ptr<void>>> free_;  // by size
};

}  // namespace downpour
