#include "ps/admission.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "runtime/row_frames.h"
#include "schema/codec.h"
#include "tests/scenario/tiny_job.h"

namespace downpour {
namespace {

Push Pushing(LeaseId lease, Step step, SliceId slice, size_t bytes) {
  Push push;
  push.lease = lease;
  push.step = step;
  push.slices.push_back({slice, {}, {}, Payload::Zeros(bytes)});
  return push;
}

absl::Status AdmitTiny(const auto& message) { return Admit(message, TinyGrid(), TinyPlan()); }

TEST(AdmissionTest, AdmitsGradientsOfTheSlicesSizeAndEmptyOnes) {
  EXPECT_TRUE(AdmitTiny(Pushing(LeaseId{0}, 1, kKernel, 16)).ok());
  EXPECT_TRUE(AdmitTiny(Pushing(LeaseId{3}, 3, kBias, 8)).ok());
  EXPECT_TRUE(AdmitTiny(Pushing(LeaseId{3}, 3, kBias, 0)).ok());
}

// Rows of one table of width 2, in 4 buckets behind the slices.
TEST(AdmissionTest, RowsAreOfTheBucketThatTheyAreSentTo) {
  SliceGrid grid = TinyGrid();
  grid.row_widths = {2};
  grid.buckets = 4;
  for (uint32_t i = 0; i < grid.buckets; ++i) {
    grid.slices.push_back({static_cast<SliceId>(grid.slices.size()), kNoVariable, i, 0});
  }
  const uint64_t key = 17;
  const RowKeys rows = {.counts = {1}, .keys = {key}};
  const std::vector<float> numbers = {1, 2};
  const uint32_t own = BucketOf(0, key, 4);
  const auto push = [&](uint32_t bucket, const Payload& frame) {
    Push message = Pushing(LeaseId{0}, 1, grid.BucketAt(bucket), 0);
    message.slices[0].gradient = frame;
    return Admit(message, grid, TinyPlan());
  };
  EXPECT_TRUE(push(own, PackGradients(rows, numbers)).ok());
  EXPECT_TRUE(push(own, Payload()).ok()) << "no key of the step is there";
  EXPECT_FALSE(push((own + 1) % 4, PackGradients(rows, numbers)).ok()) << "no record of it could be installed";
  EXPECT_FALSE(push(own, PackKeys(rows)).ok()) << "keys without gradients";

  const auto pull = [&](SliceId slice, const Payload& keys) {
    Pull message;
    message.slices.push_back({slice, {}, {}, keys});
    return Admit(message, grid, TinyPlan());
  };
  EXPECT_TRUE(pull(grid.BucketAt(own), PackKeys(rows)).ok());
  EXPECT_FALSE(pull(grid.BucketAt(own), Payload()).ok()) << "no rows are named";
  EXPECT_FALSE(pull(kBias, PackKeys(rows)).ok()) << "a slice has no rows";
}

TEST(AdmissionTest, NamesWhatTheSenderDidWrong) {
  const auto expect = [](const absl::Status& status, const std::string& what) {
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(status.message(), what);
  };
  expect(AdmitTiny(Pushing(LeaseId{0}, 1, kKernel, 12)), "pushes 12 bytes for slice 0, which has 16");
  expect(AdmitTiny(Pushing(LeaseId{0}, 1, SliceId{2}, 8)), "names slice 2, but the model has 2");
  expect(AdmitTiny(Pushing(LeaseId{4}, 1, kBias, 8)), "names lease 4, but the job has 4");
  expect(AdmitTiny(Pushing(LeaseId{1}, 0, kBias, 8)), "pushes step 0 of lease 1, which has 3");
  expect(AdmitTiny(Pushing(LeaseId{1}, 4, kBias, 8)), "pushes step 4 of lease 1, which has 3");
  expect(AdmitTiny(Probe{.from = {}, .lease = LeaseId{9}, .slices = {}}), "names lease 9, but the job has 4");
  expect(AdmitTiny(Probe{.from = {}, .lease = {}, .slices = {{SliceId{7}, {}}}}), "names slice 7, but the model has 2");
  expect(AdmitTiny(Pull{.from = {}, .request = 1, .slices = {{SliceId{2}, {}, {}}}}),
         "names slice 2, but the model has 2");
}

TEST(AdmissionTest, OneBadSliceSpoilsTheMessage) {
  Push push = Pushing(LeaseId{0}, 1, kKernel, 16);
  push.slices.push_back({kBias, {}, {}, Payload::Zeros(4)});
  EXPECT_FALSE(AdmitTiny(push).ok());
}

TEST(AdmissionTest, AnAnswerFitsIntoOneMessage) {
  SliceGrid grid = TinyGrid();
  grid.slices[0].elements = kMaxSliceElements / 2;
  Pull pull;
  pull.slices.assign(2, {kKernel, {}, {}});
  EXPECT_TRUE(Admit(pull, grid, TinyPlan()).ok());
  pull.slices.push_back({kKernel, {}, {}});
  EXPECT_EQ(Admit(pull, grid, TinyPlan()).message(), "pulls 1572864 bytes in one message, of at most 1048576");
}

// A frame for each slice, small ones too.
TEST(AdmissionTest, AMessageNamesAsManySlicesAsItsAnswerHasFrames) {
  Pull pull;
  pull.slices.assign(kMaxFrames - 1, {kKernel, {}, {}});
  EXPECT_TRUE(AdmitTiny(pull).ok());
  pull.slices.push_back({kKernel, {}, {}});
  EXPECT_EQ(AdmitTiny(pull).message(), "names 1024 slices in one message, of at most 1023");
  Push push = Pushing(LeaseId{0}, 1, kKernel, 0);
  push.slices.resize(kMaxFrames - 1, push.slices[0]);
  EXPECT_TRUE(AdmitTiny(push).ok());
  push.slices.push_back(push.slices[0]);
  EXPECT_EQ(AdmitTiny(push).message(), "names 1024 slices in one message, of at most 1023");
}

TEST(AdmissionTest, AProbeNamesEachSliceOnce) {
  EXPECT_TRUE(AdmitTiny(Probe{.from = {}, .lease = {}, .slices = {{kBias, {}}, {kKernel, {}}}}).ok());
  EXPECT_EQ(AdmitTiny(Probe{.from = {}, .lease = {}, .slices = {{kBias, {}}, {kBias, {}}}}).message(),
            "probes slice 1 twice in one message");
}

TEST(EjectedPeersTest, KnowsThemByConnectionAndByProcess) {
  EjectedPeers ejected;
  ejected.Add(PeerId{100}, Incarnation{5});
  EXPECT_TRUE(ejected.Contains(PeerId{100}, Incarnation{6}));
  EXPECT_TRUE(ejected.Contains(PeerId{101}, Incarnation{5}));
  EXPECT_FALSE(ejected.Contains(PeerId{101}, Incarnation{6}));
}

TEST(EjectedPeersTest, RemembersTheLatestWhateverTheyCallThemselves) {
  EjectedPeers ejected;
  for (uint64_t i = 0; i <= EjectedPeers::kMost; ++i) ejected.Add(PeerId{100 + i}, Incarnation{9000 - i});
  const PeerId elsewhere{1};
  EXPECT_FALSE(ejected.Contains(elsewhere, Incarnation{9000}));
  EXPECT_TRUE(ejected.Contains(elsewhere, Incarnation{8999}));
  EXPECT_TRUE(ejected.Contains(elsewhere, Incarnation{9000 - EjectedPeers::kMost}));
}

}  // namespace
}  // namespace downpour
