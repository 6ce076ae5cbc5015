#include "model/step_recordings.h"

#include <gtest/gtest.h>

#include "tensor/host_backend.h"
#include "tests/parity/deferred_backend.h"

namespace downpour {
namespace {

class StepRecordingsTest : public testing::Test {
 protected:
  // How often it asks what to give, of so many times.
  int Asks(StepRecordings& recordings, const StepRecordings::Key& key, int times) {
    int asked = 0;
    const auto give = [&] {
      ++asked;
      return absl::OkStatus();
    };
    for (int i = 0; i < times; ++i) EXPECT_TRUE(recordings.Repeat(key, give).ok());
    return asked;
  }

  DeferredBackend device_;
  StepRecordings recordings_{device_};
};

TEST_F(StepRecordingsTest, WhatComesAgainIsRepeatedAndAnythingElseIsNot) {
  recordings_.AddProduct(100, 100, 100);
  EXPECT_EQ(Asks(recordings_, {{5, 3}, 0, 8, 8, false}, 4), 1);
  for (const StepRecordings::Key& other :
       {StepRecordings::Key{{5, 2}, 0, 8, 8, false}, StepRecordings::Key{{3, 3}, 0, 8, 8, false},
        StepRecordings::Key{{5, 3}, 1, 8, 8, false}, StepRecordings::Key{{5, 3}, 0, 7, 8, false},
        StepRecordings::Key{{5, 3}, 0, 8, 9, false}, StepRecordings::Key{{5, 3}, 0, 8, 8, true}}) {
    EXPECT_EQ(Asks(recordings_, other, 4), 1);
  }
}

TEST_F(StepRecordingsTest, StepsThatAreNotBoundByLaunchesAreGivenEachTime) {
  recordings_.AddProduct(1000, 1000, 2501);
  recordings_.AddProduct(1, 1, 1);
  EXPECT_EQ(Asks(recordings_, {}, 4), 4);
}

TEST_F(StepRecordingsTest, OnTheHostToo) {
  const auto host = MakeHostBackend({});
  StepRecordings recordings(*host);
  EXPECT_EQ(Asks(recordings, {}, 4), 4);
}

TEST_F(StepRecordingsTest, BatchesOfManySizesTakeNoMoreRoomThanTheFirstOnes) {
  const int64_t most = static_cast<int64_t>(StepRecordings::kMost);
  for (int64_t size = 0; size < most; ++size) EXPECT_EQ(Asks(recordings_, {{}, 0, size}, 2), 1);
  EXPECT_EQ(Asks(recordings_, {{}, 0, most}, 2), 2);
  EXPECT_EQ(Asks(recordings_, {{}, 0, 3}, 2), 0);
}

}  // namespace
}  // namespace downpour
