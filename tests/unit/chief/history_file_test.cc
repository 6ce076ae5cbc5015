#include "chief/folder/history_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/chief/parts_fixture.h"

namespace downpour {
namespace {

using ::testing::HasSubstr;

class HistoryFileTest : public PartsFixture {
 protected:
  HistoryFileTest() { file.Open("file"); }
  std::string Written() { return disk.Has("file") ? disk.At("file") : ""; }
  std::vector<std::string> Warnings() {
    std::vector<std::string> warnings;
    for (const Effect& effect : Settle()) {
      if (const auto* log = std::get_if<Log>(&effect)) warnings.push_back(log->text);
    }
    return warnings;
  }
  HistoryFile file{context, storage, "\n"};
};

TEST_F(HistoryFileTest, OneAppendIsUnderWayAndTheRestFollows) {
  for (const char* line : {"one\n", "two\n", "three\n"}) file.Add(line);
  std::vector<Effect> effects = context.out.Take();
  ASSERT_EQ(effects.size(), 1u);
  storage.Complete(disk.Carry(std::get<StorageOp>(effects[0])));
  EXPECT_EQ(Written(), "one\n");
  Settle();
  EXPECT_EQ(Written(), "one\ntwo\nthree\n");
}

TEST_F(HistoryFileTest, AFullDiskIsWarnedOfOnceAndTriedAgainWithTheNextLine) {
  disk.fate = [](const StorageOp&) { return absl::ResourceExhaustedError("no space left on device"); };
  file.Add("one\n");
  EXPECT_THAT(Warnings(), ::testing::ElementsAre(HasSubstr("file: no space left on device; training continues")));
  file.Add("two\n");
  EXPECT_THAT(Warnings(), ::testing::IsEmpty());
  disk.fate = nullptr;
  file.Add("three\n");
  Settle();
  EXPECT_EQ(Written(), "\none\ntwo\nthree\n") << "a part of the first line may stand there";
}

TEST_F(HistoryFileTest, ADiskThatStaysFullCostsBoundedMemory) {
  disk.fate = [](const StorageOp&) { return absl::ResourceExhaustedError("no space left on device"); };
  const std::string line(HistoryFile::kMostPending / 4, 'x');
  for (int i = 0; i < 100; ++i) {
    file.Add(line);
    Settle();
  }
  disk.fate = nullptr;
  file.Add("\nlast\n");
  Settle();
  EXPECT_LE(Written().size(), HistoryFile::kMostPending);
  EXPECT_GE(Written().size(), HistoryFile::kMostPending / 2);
  file.Add("more\n");
  Settle();
  EXPECT_THAT(Written(), ::testing::EndsWith("more\n")) << "it goes on once there is room";
}

}  // namespace
}  // namespace downpour
