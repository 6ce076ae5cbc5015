#include "tools/cli/ledger.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/unit/tools/cli/made_checkpoint.h"
#include "tests/unit/tools/cli/run_tool.h"

namespace downpour {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Pair;

// 7 examples in batches of 2, leases of 2 batches: an epoch has leases of 4 and of 3 examples.
class LedgerTest : public ::testing::Test {
 protected:
  LedgerTest() {
    checkpoint_.job = SmallJob();
    checkpoint_.job.training.lease_batches = 2;
    checkpoint_.job.training.epochs = 3;
    checkpoint_.manifest.train_examples = 7;
    checkpoint_.slices.resize(2);
    for (uint32_t i = 0; i < 2; ++i) checkpoint_.slices[i].slice = SliceId{i};
  }
  void Finish(uint64_t begin, uint64_t end) {
    for (SliceState& slice : checkpoint_.slices) {
      slice.finished.InsertRange(begin, end);
      slice.version += 2 * (end - begin);
    }
  }
  void Begin(uint32_t slice, uint64_t lease, Step consumed) {
    checkpoint_.slices[slice].counters.push_back({LeaseId{lease}, consumed});
    checkpoint_.slices[slice].version += consumed;
  }
  LoadedCheckpoint checkpoint_;
};

TEST_F(LedgerTest, CountsWhatEverySliceHas) {
  Finish(0, 3);
  Finish(5, 6);
  const Ledger ledger = MakeLedger(checkpoint_);
  EXPECT_THAT(ledger.everywhere, ElementsAre(Pair(0, 7), Pair(1, 4), Pair(2, 3)));
  EXPECT_THAT(ledger.doubled, IsEmpty());
  EXPECT_EQ(ledger.without_effect, 0u);
  EXPECT_FALSE(ledger.complete());
  EXPECT_EQ(LedgerLines(ledger),
            "epoch 1: 7 of 7 samples took effect, each exactly once on every slice\n"
            "epoch 2: 4 of 7 samples took effect, each exactly once on every slice; the others are open\n"
            "epoch 3: 3 of 7 samples took effect, each exactly once on every slice; the others are open\n");
}

TEST_F(LedgerTest, OfALeaseThatIsOpenOnlyTheStepsThatAllSlicesHaveCount) {
  Begin(0, 1, 1);
  EXPECT_THAT(MakeLedger(checkpoint_).everywhere, IsEmpty());
  Begin(1, 1, 2);
  EXPECT_THAT(MakeLedger(checkpoint_).everywhere, ElementsAre(Pair(0, 2)));
  checkpoint_.slices[0].counters.clear();
  checkpoint_.slices[0].finished.Insert(1);
  EXPECT_THAT(MakeLedger(checkpoint_).everywhere, ElementsAre(Pair(0, 3)));  // the last batch is short
}

TEST_F(LedgerTest, ACompleteJobIsOneLine) {
  Finish(0, 6);
  const Ledger ledger = MakeLedger(checkpoint_);
  EXPECT_TRUE(ledger.complete());
  EXPECT_EQ(LedgerLines(ledger), "epochs 1 to 3: 7 of 7 samples took effect, each exactly once on every slice\n");
  EXPECT_EQ(LedgerLines({.epochs = 3, .samples = {{0, 7}}, .everywhere = {{1, 7}}, .without_effect = 0, .doubled = {}}),
            "epoch 1: open\nepoch 2: 7 of 7 samples took effect, each exactly once on every slice\nepoch 3: open\n");
}

TEST_F(LedgerTest, AVersionBeyondTheStepsIsAPushThatCountedTwice) {
  Finish(0, 1);
  --checkpoint_.slices[0].version;  // a push without effect
  ++checkpoint_.slices[1].version;
  const Ledger ledger = MakeLedger(checkpoint_);
  EXPECT_EQ(ledger.without_effect, 1u);
  EXPECT_THAT(ledger.doubled, ElementsAre(Pair(1, 1)));
  EXPECT_THAT(LedgerLines(ledger), HasSubstr("slice 1: DOUBLED, 1 more pushes changed it than it has counted steps"));
}

TEST(VerbLedger, ReadsTheFolderAndTheSummaryOfItsChief) {
  const std::string dir = FreshFolder("verb_ledger");
  EXPECT_EQ(RunDownpour({"ledger", "--job-dir", dir}).code, kExitFailed);
  Manifest manifest = MakeCheckpoint(dir, SmallJob(), {1, 1}, [](uint32_t, int64_t) { return 0.0f; });
  manifest.train_examples = 7;
  PutFile(dir + "/checkpoints/1-1/MANIFEST", EncodeManifest(manifest));
  const ToolOutcome doubled = RunDownpour({"ledger", "--job-dir", dir});
  EXPECT_EQ(doubled.code, kExitFailed);
  EXPECT_THAT(doubled.out, HasSubstr("slice 0: DOUBLED, 10 more"));  // its version says so, and nothing is finished
  EXPECT_THAT(doubled.err, HasSubstr("counts are unknown"));

  PutFile(dir + "/chief.json", R"({"endpoint": "127.0.0.1:1", "pid": 1, "term": 1})");
  PutFile(dir + "/summary.json",
          R"({"state": "SUCCEEDED", "term": 1, "pushesResent": 5, "pushesRefused": 3, "pushesDuplicate": 4,
                "leasesHandedOn": 2})");
  const auto json = nlohmann::json::parse(RunDownpour({"ledger", "--job-dir", dir, "-o", "json"}).out);
  EXPECT_EQ(json["lost"], true);
  EXPECT_EQ(json["doubled"], 21);
  EXPECT_EQ(json["counts"],
            nlohmann::json({{"pushesResent", 5}, {"pushesRefused", 3}, {"pushesDuplicate", 4}, {"leasesHandedOn", 2}}));
  EXPECT_THAT(RunDownpour({"ledger", "--job-dir", dir}).out,
              HasSubstr("pushes of the processes that its last chief has seen: 5 retried, "
                        "3 refused for now, 4 duplicates, without effect\n"
                        "in the whole job: 2 leases reassigned\nLOST"));
}

}  // namespace
}  // namespace downpour
