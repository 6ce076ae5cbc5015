// An end that a chief wrote into summary.json, and was killed before it journalled it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "chief/status.h"
#include "tests/unit/chief/startup_fixture.h"

namespace downpour {
namespace {

using ::testing::HasSubstr;

class StartupEndTest : public StartupTest {
 protected:
  // As the last chief writes it, but for that.
  void PutSummary(const nlohmann::json& but) {
    const JobRecord& record = journal->record();
    nlohmann::json summary = {{"run", NameOfRun(record.run)},
                              {"chiefRestarts", record.chiefs - 1},
                              {"state", "CANCELLED"},
                              {"errorMessage", ""}};
    summary.update(but);
    disk.Put("summary.json", summary.dump());
  }
};

TEST_F(StartupEndTest, AnEndThatOnlyTheSummaryTellsIsKnown) {
  Run();
  PutCheckpoint({1, 1});
  Run();
  for (const char* state : {"CANCELLED", "FAILED"}) {
    PutSummary({{"state", state}, {"errorMessage", "ended by SIGTERM"}});
    const Startup::Outcome outcome = Run();
    EXPECT_THAT(outcome.why, HasSubstr("add --resume")) << state;
    EXPECT_FALSE(outcome.over);
    EXPECT_EQ(journal->record().why, "ended by SIGTERM");
    EXPECT_TRUE(journal->durable() && journal->record().ended == state) << "before anybody is told";
    EXPECT_NE(Run(/*resume=*/true).term, 0u);
    EXPECT_TRUE(Run().goes_on) << "the summary is of the chief before";
  }
  PutSummary({{"state", "SUCCEEDED"}});
  const Startup::Outcome succeeded = Run();
  EXPECT_EQ(succeeded.exit_code, 0);
  EXPECT_THAT(succeeded.why, HasSubstr("has succeeded"));
}

// As after a restore of some files alone.
TEST_F(StartupEndTest, ASummaryAloneTellsThatTheRestWasLost) {
  disk.Put("summary.json", "{}");
  for (const bool resume : {false, true}) {
    const Startup::Outcome outcome = Run(resume);
    EXPECT_EQ(outcome.exit_code, 1);
    EXPECT_THAT(outcome.why, HasSubstr("neither its journal nor a checkpoint is left. Bring its files back, or begin"));
  }
  PutCheckpoint({1, 2});
  EXPECT_EQ(Run(/*resume=*/true).exit_code, 0);
}

TEST_F(StartupEndTest, ASummaryThatIsNotOfTheLastChiefTellsNothing) {
  Run();
  const nlohmann::json others[] = {{{"state", "RUNNING"}},  {{"state", 3}},         {{"run", "0000000000000001"}},
                                   {{"run", nullptr}},      {{"run", 71}},          {{"chiefRestarts", 1}},
                                   {{"chiefRestarts", ""}}, {{"chiefRestarts", -1}}};
  for (const nlohmann::json& other : others) {
    Run();
    PutSummary(other);
    EXPECT_TRUE(Run().goes_on) << other;
  }
  for (const char* text : {"", "{", "[1, 2]", "3"}) {
    disk.Put("summary.json", text);
    EXPECT_TRUE(Run().goes_on) << text;
  }
}

}  // namespace
}  // namespace downpour
