// What becomes of slices as servers come, and come in the place of others.
#include "chief/assignment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "tests/unit/chief/slice_restore_fixture.h"

namespace downpour {
namespace {

using ::testing::SizeIs;

class AssignmentTest : public SliceRestoreTest {};

TEST_F(AssignmentTest, TellsWorkersWhereSlicesAre) {
  Place();
  const Placement placement = assignment.ToPlacement(Incarnation{7});
  EXPECT_EQ(placement.to, Incarnation{7});
  EXPECT_EQ(placement.term, 3u);
  EXPECT_EQ(placement.train_examples, 12u);
  ASSERT_THAT(placement.servers, SizeIs(1));
  EXPECT_EQ(placement.servers[0].incarnation, ps->incarnation);
  EXPECT_EQ(placement.servers[0].endpoint, "h1:1");
  ASSERT_THAT(placement.slices, SizeIs(2));
  EXPECT_EQ(placement.slices[1].epoch, (SliceEpoch{3, 1}));
}

TEST_F(AssignmentTest, TellsWorkersWhereAPsIsNow) {
  Place();
  const uint64_t before = placement.number();
  assignment.Follow(*ps);
  EXPECT_EQ(placement.number(), before);
  ps->process.endpoint = "h2:1";
  assignment.Follow(*ps);
  const Placement placement = assignment.ToPlacement(Incarnation{7});
  EXPECT_EQ(placement.number, before + 1) << "or no worker would look at it";
  EXPECT_EQ(placement.servers[0].endpoint, "h2:1");
  EXPECT_EQ(placement.slices[1].epoch, (SliceEpoch{3, 1})) << "it holds what it held";
}

TEST_F(AssignmentTest, AReplacedServersSlicesAreRenewedAndNoOthers) {
  Membership both({.scale_tier = "CUSTOM", .worker_count = 1, .parameter_server_count = 2}, Timing{});
  both.Begin(context.now, 3, 1);
  const auto admit = [&](int32_t index, uint64_t nonce) {
    Join join;
    join.role = TaskRole::kPs;
    join.index = index;
    join.nonce = nonce;
    join.endpoint = "h1:1";
    Task* task = both.Admit(context.now, kControl, join).task;
    task->bulk = kBulk;
    return task;
  };
  SlicePlacement where{grid};
  SliceRestore whence(context, storage, both, failures, where, Timing{});
  Assignment two(context, where, whence);
  const auto report = [&](const Task* task, SliceId slice, const IntervalSet& finished) {
    SliceReport said{.from = task->incarnation, .slices = {}};
    said.slices.push_back({slice, where.epochs()[ToNumber(slice)], "", finished});
    EXPECT_TRUE(whence.Receive(said).ok());
    effects = Settle();
  };
  const std::vector<Task*> servers = {admit(0, 1), admit(1, 2)};
  const auto slice_of = [&](int64_t number) { return where.At(*where.FindNumber(number)).slices.at(0); };
  two.Place(3, servers, 12, {});
  report(servers[0], slice_of(0), SetOf({0, 1}));
  report(servers[1], slice_of(1), SetOf({0, 1}));
  ASSERT_TRUE(whence.complete());
  whence.TakeFinished();
  const SliceId kept = slice_of(0), lost = slice_of(1);
  servers[1]->state = TaskState::kLost;
  admit(1, 3);
  two.TakeOver(servers, {PutCheckpoint({3, 1}, {{0}, {0}})});
  effects = Settle();
  EXPECT_FALSE(whence.complete());
  EXPECT_EQ(where.epochs()[ToNumber(kept)], (SliceEpoch{3, 1}));
  EXPECT_EQ(where.epochs()[ToNumber(lost)], (SliceEpoch{3, 2}));
  ASSERT_THAT(Restores(), SizeIs(1));
  EXPECT_EQ(Restores()[0].round, (Round{3, 1})) << "a checkpoint of after the first placement";
  report(servers[1], lost, SetOf({0}));
  EXPECT_TRUE(whence.complete());
  EXPECT_EQ(whence.TakeFinished(), SetOf({0})) << "of those placed again; the others said theirs before";
}

}  // namespace
}  // namespace downpour
