// A chief without keys, which only whoever may read its chief.json can ask or command.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "chief/lifecycle.h"
#include "chief/shutdown.h"
#include "tests/unit/chief/chief_role_fixture.h"

namespace downpour {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr PeerId kTool{99};
constexpr const char* kSecret = "0123456789abcdef";

class SecretTest : public ChiefRoleTest {
 protected:
  SecretTest() {
    cluster = std::make_unique<ChiefHarness>(SmallJob());
    cluster->role = std::make_unique<ChiefRole>(ChiefOptions{.job = SmallJob(),
                                                             .job_dir = "/jobs/small",
                                                             .host = "h0",
                                                             .pid = 4711,
                                                             .secret = kSecret,
                                                             .nonce = ChiefHarness::kRun,
                                                             .timing = {}});
  }
  Control Stop(const std::string& secret) const {
    return {.term = cluster->role->term(),
            .number = cluster->role->commands() + 1,
            .nonce = 1,
            .kind = ControlKind::kStop,
            .secret = secret};
  }
};

TEST_F(SecretTest, ItsFileTellsOnlyItsOwner) {
  cluster->Start();
  EXPECT_EQ(nlohmann::json::parse(cluster->disk->At("chief.json"))["secret"], kSecret);
  EXPECT_TRUE(cluster->disk->IsPrivate("chief.json"));
  EXPECT_FALSE(cluster->disk->IsPrivate("journal.a"));
}

TEST_F(SecretTest, WhereKeysTellWhoMayAskEverybodyMayReadWhereItListens) {
  ChiefHarness locked(SmallJob());
  locked.Start();
  EXPECT_FALSE(nlohmann::json::parse(locked.disk->At("chief.json")).contains("secret"));
  EXPECT_FALSE(locked.disk->IsPrivate("chief.json"));
}

TEST_F(SecretTest, WhoDoesNotSayItIsToldNothingAndObeyedInNothing) {
  cluster->Start();
  cluster->RunToRunning();
  const uint64_t rejected = cluster->Status()["chief"]["rejected"];
  for (const char* said : {"", "0123456789abcdee", "0123456789abcdef0"}) {
    cluster->Say(kTool, StatusRequest{.again_in_ms = 1, .secret = said});
    cluster->Say(kTool, Stop(said));
    cluster->Say(kTool, PlacementRequest{.secret = said}, /*run=*/0);
  }
  EXPECT_THAT(cluster->Sent<StatusReply>(kTool), IsEmpty());
  EXPECT_THAT(cluster->Sent<Placement>(kTool), IsEmpty());
  EXPECT_THAT(cluster->Sent<ControlReply>(kTool), IsEmpty());
  EXPECT_EQ(cluster->role->state(), JobState::kRunning);
  EXPECT_EQ(cluster->role->commands(), 0u);
  ASSERT_THAT(cluster->Sent<Refused>(kTool), SizeIs(9)) << "each is told why";
  EXPECT_EQ(cluster->Sent<Refused>(kTool)[0].code, RefusalCode::kSecretWanted);
  EXPECT_EQ(cluster->Status()["chief"]["rejected"], rejected + 9);
  cluster->Stop(SIGTERM);
  cluster->Wait(Lifecycle::kLastRound + 2 * Shutdown::kGoodbye);
  EXPECT_THAT(cluster->Sent<StatusReply>(kTool), IsEmpty()) << "no watcher, who hears the end";
}

TEST_F(SecretTest, WhoSaysItIsAnsweredAndObeyed) {
  cluster->Start();
  cluster->Say(kTool, StatusRequest{.secret = kSecret});
  EXPECT_THAT(cluster->Sent<StatusReply>(kTool), SizeIs(1));
  cluster->RunToRunning();
  cluster->Say(kTool, Stop(kSecret));
  ASSERT_THAT(cluster->Sent<ControlReply>(kTool), SizeIs(1));
  EXPECT_EQ(cluster->role->commands(), 1u);
}

TEST_F(SecretTest, PeopleAreSentToTheFolderThatHasIt) {
  cluster->Start();
  EXPECT_THAT(cluster->Status()["next"].dump(), HasSubstr("downpour watch --job-dir /jobs/small"));
}

}  // namespace
}  // namespace downpour
