// Whoever reads the values of a job in training asks its chief where they are.
#include <gmock/gmock.h>

#include "job/job_file.h"
#include "tests/unit/chief/chief_role_fixture.h"

namespace downpour {
namespace {

using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

class ReaderTest : public ChiefRoleTest {
 protected:
  Placement AskedWhere(uint32_t term = 0, uint64_t number = 0) {
    cluster->Forget();
    cluster->Say(kStranger, PlacementRequest{.term = term, .number = number}, /*run=*/0);
    const std::vector<Placement> said = cluster->Sent<Placement>(kStranger);
    return said.empty() ? Placement{.number = 777, .servers = {}, .slices = {}} : said.back();
  }
};

TEST_F(ReaderTest, BeforeTheJobRunsThereIsNoPlacement) {
  cluster = std::make_unique<ChiefHarness>(SmallJob());
  cluster->Start();
  cluster->JoinPs(0);
  const Placement said = AskedWhere();
  EXPECT_EQ(said.number, 0u);
  EXPECT_THAT(said.slices, IsEmpty());
}

TEST_F(ReaderTest, OfAJobThatRunsItHearsOnceWhereAllIs) {
  StartRunning();
  const Placement said = AskedWhere();
  EXPECT_EQ(said.to, Incarnation::kNone);
  EXPECT_EQ(said.slices.size(), cluster->grid().size());
  EXPECT_THAT(said.servers, SizeIs(2));
  EXPECT_EQ(said.job, CanonicalJob(SmallJob()));
  const Placement again = AskedWhere(said.term, said.number);
  EXPECT_THAT(again.slices, IsEmpty()) << "it knows them";
  EXPECT_EQ(again.number, said.number);
  EXPECT_THAT(AskedWhere(said.term - 1, said.number).slices, Not(IsEmpty())) << "by another chief's numbers";
}

// It is no member: nothing waits for it, and it counts nowhere.
TEST_F(ReaderTest, AReaderIsNobody) {
  StartRunning();
  const nlohmann::json before = cluster->Status();
  AskedWhere();
  EXPECT_EQ(cluster->Status()["tasks"].size(), before["tasks"].size());
  EXPECT_EQ(cluster->Status()["chief"]["rejected"], before["chief"]["rejected"]);
}

TEST_F(ReaderTest, ItIsToldOfTheEnd) {
  StartRunning();
  TrainAndEvaluate();
  cluster->Forget();
  cluster->Say(kStranger, PlacementRequest{}, /*run=*/0);
  ASSERT_THAT(cluster->Sent<JobEnd>(kStranger), SizeIs(1));
  EXPECT_TRUE(cluster->Sent<JobEnd>(kStranger)[0].succeeded);
}

}  // namespace
}  // namespace downpour
