#include "model/frame_pool.h"

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <utility>

#include "tensor/host_backend.h"

namespace downpour {
namespace {

class FramePoolTest : public testing::Test {
 protected:
  FramePool::Frame Get(size_t bytes) { return std::move(*pool_->Get(*backend_, bytes)); }

  std::unique_ptr<Backend> backend_ = MakeHostBackend({});
  std::shared_ptr<FramePool> pool_ = FramePool::Create();
};

TEST_F(FramePoolTest, ThePayloadIsTheMemory) {
  FramePool::Frame frame = Get(100);
  std::memset(frame.data, 7, 100);
  EXPECT_EQ(frame.payload.size(), 100u);
  EXPECT_EQ(frame.payload.data(), frame.data);
  EXPECT_EQ(static_cast<int>(frame.payload.data()[99]), 7);
}

TEST_F(FramePoolTest, MemoryComesBackWithItsLastHolderAndNoSooner) {
  FramePool::Frame frame = Get(100);
  void* const memory = frame.data;
  Payload part = frame.payload.Sub(10, 20);
  frame.payload = Payload();
  const FramePool::Frame second = Get(100);
  EXPECT_NE(second.data, memory);  // a part of it is held
  part = Payload();
  const FramePool::Frame other_size = Get(200);
  EXPECT_NE(other_size.data, memory);
  EXPECT_EQ(Get(100).data, memory);
}

TEST_F(FramePoolTest, APayloadMayOutliveItsPool) {
  FramePool::Frame frame = Get(100);
  pool_.reset();
  std::memset(frame.data, 7, 100);
  EXPECT_EQ(static_cast<int>(frame.payload.data()[0]), 7);
}

}  // namespace
}  // namespace downpour
