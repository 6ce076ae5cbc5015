#include "service/job_logs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "service/log_times.h"
#include "tests/unit/scratch_folder.h"

namespace downpour {
namespace {

using testing::ElementsAre;

std::vector<std::string> Shown(const std::vector<LogEntry>& entries) {
  std::vector<std::string> lines;
  for (const LogEntry& entry : entries) {
    lines.push_back(entry.time.substr(11) + " " + entry.task + " " + entry.severity + " " + entry.message);
  }
  return lines;
}

std::vector<LogEntry> ReadLogs(const Job& job, const std::string& job_dir) {
  std::vector<LogEntry> entries;
  for (LogReader logs({{job, job_dir}}, {}); logs.HasLine(); logs.Pop()) entries.push_back(logs.Entry());
  return entries;
}

TEST(JobLogsTest, AreOneStreamByTimeUnderAiPlatformsNames) {
  const ScratchFolder folder;
  folder.Write("logs/chief.log", "I 2026-01-31 10:00:00.001 one\nW 2026-01-31 10:00:00.003 three\n");
  folder.Write("logs/worker-0.log", "E 2026-01-31 10:00:00.002 two\n");
  folder.Write("logs/ps-12.log", "F 2026-01-31 10:00:00.004 four\n");
  EXPECT_THAT(Shown(ReadLogs({}, folder.path())),
              ElementsAre("10:00:00.001Z master-replica-0 INFO one", "10:00:00.002Z worker-replica-0 ERROR two",
                          "10:00:00.003Z master-replica-0 WARNING three", "10:00:00.004Z ps-replica-12 CRITICAL four"));
}

TEST(JobLogsTest, ALineWithoutATimeNeverComesBeforeOneThatWasShown) {
  const ScratchFolder folder;
  folder.Write("logs/service.log",
               "I 2026-01-31 10:00:00.001 begins\nuser's words\nI 2026-01-31 10:00:09.000 goes on\n"
               "more words\nhalf a li");
  EXPECT_THAT(Shown(ReadLogs({}, folder.path())),
              ElementsAre("10:00:00.001Z service INFO begins", "10:00:09.000Z service DEFAULT user's words",
                          "10:00:09.000Z service INFO goes on"));
  const Job over{.name = "over", .state = JobState::kFailed, .ended_ms = 1'769'853'610'000};
  const std::vector<LogEntry> entries = ReadLogs(over, folder.path());
  ASSERT_EQ(entries.size(), 5u);
  EXPECT_EQ(entries[4].message, "half a li");
  EXPECT_EQ(entries[4].time, "2026-01-31T10:00:10.000Z");
}

TEST(JobLogsTest, ALineOfTheServicesLogHasTheTimeAtWhichItWasSeen) {
  constexpr int64_t kTen = 1'769'853'600'000;  // 2026-01-31 10:00
  const ScratchFolder folder;
  folder.Write("service/job.json", "{}");
  const std::string path = folder.Write("logs/service.log", "I 2026-01-31 10:00:00.001 begins\nuser's words\n");
  NoteLogTime(folder.path(), kTen + 1000);
  LogMarks marks;
  EXPECT_THAT(Shown(ReadNewLogs({}, folder.path(), {}, &marks)),
              ElementsAre("10:00:00.001Z service INFO begins", "10:00:01.000Z service DEFAULT user's words"));
  NoteLogTime(folder.path(), kTen + 2000);
  std::ofstream(path, std::ios::app) << "more\nhalf";
  EXPECT_TRUE(ReadNewLogs({}, folder.path(), {}, &marks).empty()) << "nobody has seen it come";
  NoteLogTime(folder.path(), kTen + 3000);
  std::ofstream(path, std::ios::app) << " a line\n";
  EXPECT_THAT(Shown(ReadNewLogs({}, folder.path(), {}, &marks)), ElementsAre("10:00:03.000Z service DEFAULT more"));
  std::ofstream(path, std::ios::app) << "I 2026-01-31 10:00:03.500 ends\nlast words\n";
  NoteLogTime(folder.path(), kTen + 4000);
  const std::vector<std::string> all = {
      "10:00:00.001Z service INFO begins",  "10:00:01.000Z service DEFAULT user's words",
      "10:00:03.000Z service DEFAULT more", "10:00:03.500Z service DEFAULT half a line",
      "10:00:03.500Z service INFO ends",    "10:00:04.000Z service DEFAULT last words"};
  EXPECT_EQ(Shown(ReadLogs({}, folder.path())), all);
  const Job over{.name = "over", .state = JobState::kFailed, .ended_ms = kTen + 10'000};
  EXPECT_EQ(Shown(ReadLogs(over, folder.path())), all) << "the times are those that were shown";
}

TEST(LogTimesTest, ARecordThatAFullDiskHasCutCostsNothingElse) {
  const ScratchFolder folder;
  const std::string times = folder.Write("service/log_times", "");
  const std::string log = folder.Write("logs/service.log", "one\n");
  NoteLogTime(folder.path(), 1000);
  std::ofstream(times, std::ios::app) << "00000000000000";
  std::ofstream(log, std::ios::app) << "two\n";
  NoteLogTime(folder.path(), 2000);  // takes the place of the half
  NoteLogTime(folder.path(), 3000);  // nothing has come since
  LogTimes two(folder.path());
  EXPECT_EQ(two.Of(4), 1000);
  EXPECT_EQ(two.Of(8), 2000);
  EXPECT_EQ(two.Of(9), std::nullopt);
}

TEST(LogTimesTest, ALogThatWasCutIsNotedOnceItIsLongerThanBefore) {
  const ScratchFolder folder;
  folder.Write("service/log_times", "");
  folder.Write("logs/service.log", "ten bytes\n");
  NoteLogTime(folder.path(), 1000);
  folder.Write("logs/service.log", "cut\n");
  NoteLogTime(folder.path(), 2000);
  folder.Write("logs/service.log", "cut\nand more\n");
  NoteLogTime(folder.path(), 3000);
  LogTimes times(folder.path());
  EXPECT_EQ(times.Of(10), 1000);
  EXPECT_EQ(times.Of(13), 3000);
}

TEST(LogTimesTest, WhatIsNoRecordCountsAsALookAtAnEmptyLog) {
  const ScratchFolder folder;
  folder.Write("service/log_times", "0000000000000007 xxxxxxxxxxxxxxxx\n0000000000000012 0000000000001000\n");
  EXPECT_EQ(LogTimes(folder.path()).Of(5), 1000);
}

TEST(LogTimesTest, OfManyLooksEachLineHasTheFirstThatFoundIt) {
  const ScratchFolder folder;
  folder.Write("service/log_times", "");
  std::ofstream log(folder.Write("logs/service.log", ""));
  for (int look = 1; look <= 100; ++look) {
    log << "a line\nand one\n" << std::flush;
    NoteLogTime(folder.path(), look);
  }
  LogTimes times(folder.path());
  for (int look : {100, 1, 37, 38, 64, 99}) {
    EXPECT_EQ(times.Of(look * 15 - 8), look);
    EXPECT_EQ(times.Of(look * 15), look);
    EXPECT_EQ(times.Of((look - 1) * 15 + 1), look);
  }
  EXPECT_EQ(times.Of(1501), std::nullopt);
}

TEST(JobLogsTest, AReaderContinuesWhereAnotherWasLeft) {
  const ScratchFolder folder;
  folder.Write("logs/service.log",
               "I 2026-01-31 10:00:00.001 begins\nwords\nI 2026-01-31 10:00:09.000 goes on\nmore\n");
  folder.Write("logs/worker-0.log", "user's\nown\nwords\n" + std::string(20'000, 'x') + "\nand on\n");
  folder.Write("logs/chief.log", "I 2026-01-31 10:00:00.002 one\n\nE 2026-01-31 10:00:00.003 two\n");
  const Job over{.name = "over", .state = JobState::kFailed, .ended_ms = 1'769'853'610'000};
  for (const auto& [job, lines] : {std::pair(Job(), 6u), std::pair(over, 12u)}) {
    const std::vector<LogEntry> whole = ReadLogs(job, folder.path());
    ASSERT_EQ(whole.size(), lines);
    LogPlaces places;
    for (const LogEntry& entry : whole) {
      LogReader logs({{job, folder.path()}}, places);
      ASSERT_TRUE(logs.HasLine());
      EXPECT_EQ(Shown({logs.Entry()}), Shown({entry}));
      EXPECT_EQ(logs.Entry().id, entry.id);
      logs.Pop();
      places = PlacesIn(TextOf(logs.places())).value();
    }
    EXPECT_FALSE(LogReader({{job, folder.path()}}, places).HasLine());
  }
}

TEST(JobLogsTest, WhatComesLateIsTold) {
  const ScratchFolder folder;
  folder.Write("logs/ps-0.log", "I 2026-01-31 10:00:00.009 nine\n");
  LogReader before({{{}, folder.path()}}, {});
  before.Pop();
  folder.Write("logs/chief.log", "I 2026-01-31 10:00:00.001 one\n");
  EXPECT_THAT(Shown({LogReader({{{}, folder.path()}}, before.places()).Entry()}),
              ElementsAre("10:00:00.001Z master-replica-0 INFO one"));
}

TEST(JobLogsTest, ALaterReaderLooksForATimeFromWhereAnEarlierOneHasLooked) {
  const ScratchFolder folder;
  const std::string path = folder.Write("logs/ps-0.log", "user's words\nmore\n");
  const LogReader before({{{}, folder.path()}}, {});
  EXPECT_FALSE(before.HasLine());
  EXPECT_EQ(TextOf(before.places()), "ps-0:0:18");
  folder.Write("logs/ps-0.log", "I 2026-01-31 10:00:00.009\nI 2026-01-31 10:00:00.007 seven\n");
  EXPECT_EQ(LogReader({{{}, folder.path()}}, {{"ps-0", {1, 26}}}).Entry().time, "2026-01-31T10:00:00.007Z");
}

TEST(JobLogsTest, OfALongLogTheEndIsReadFromAWholeLineOn) {
  const ScratchFolder folder;
  std::string words;
  while (static_cast<int64_t>(words.size()) <= kMostLogBytesRead) words += "I 2026-01-31 10:00:00.002 chatter\n";
  folder.Write("logs/ps-0.log", words);
  const LogEntry first = LogReader({{{}, folder.path()}}, {}).Entry();
  EXPECT_EQ(first.message, "chatter");
  EXPECT_EQ(first.id, "ps-replica-0-000000000034-0");

  const std::string before = "I 2026-01-31 10:00:00.002 chatter\n", begin = "I 2026-01-31 10:00:00.003 ";
  folder.Write("logs/ps-0.log", before + begin + std::string(kMostLogBytesRead - begin.size() - 1, 'x') + "\n");
  const LogReader whole({{{}, folder.path()}}, {});
  ASSERT_TRUE(whole.HasLine()) << "a line that just fits";
  EXPECT_EQ(whole.Entry().id, "ps-replica-0-000000000034-0");
}

// The service's clock stood before that of whoever wrote the first line.
TEST(JobLogsTest, NoLineIsOlderThanTheOneBeforeIt) {
  const ScratchFolder folder;
  folder.Write("service/log_times", "");
  folder.Write("logs/service.log", "I 2026-01-31 10:00:00.009 nine\nwords\n");
  NoteLogTime(folder.path(), 1000);
  LogReader logs({{{}, folder.path()}}, {});
  logs.Pop();
  ASSERT_TRUE(logs.HasLine());
  EXPECT_EQ(logs.Entry().time, "2026-01-31T10:00:00.009Z");
}

TEST(JobLogsTest, ATrialsEntriesSayWhoseTheyAre) {
  const ScratchFolder folder;
  folder.Write("logs/service.log", "I 2026-01-31 10:00:00.001 begins\n");
  folder.Write("trials/3/logs/service.log", "I 2026-01-31 10:00:00.000 trains\n");
  LogReader logs({{{.name = "wd1"}, folder.path()}, {{.name = "wd1/3"}, folder.path() + "/trials/3"}}, {});
  EXPECT_EQ(logs.Entry().trial, 3);
  EXPECT_EQ(logs.Entry().id, "trial-3-service-000000000000-0");
  logs.Pop();
  EXPECT_EQ(logs.Entry().message, "begins");
  EXPECT_EQ(TextOf(logs.places()), "3/service:33,service:0");
}

TEST(JobLogsTest, WhatIsNoPlaceIsRefused) {
  for (const char* text :
       {"", "7", "ps-0", "ps-0:", "ps-0:x", "ps-0:-1", "ps-0:7:6", "ps-0:7:x", "ps-0:1:2:3", "ps-0:1,"}) {
    EXPECT_FALSE(PlacesIn(text)) << text;
  }
}

TEST(JobLogsTest, ReadsOnWhereItEnded) {
  const ScratchFolder folder;
  const std::string path = folder.Write("logs/ps-0.log", "I 2026-01-31 10:00:00.001 one\nuser's words\nhalf");
  LogMarks marks;
  EXPECT_EQ(Shown(ReadNewLogs({}, folder.path(), {}, &marks)).size(), 1u);
  std::ofstream(path, std::ios::app) << " a line\nI 2026-01-31 10:00:00.002 two\n";
  EXPECT_THAT(Shown(ReadNewLogs({}, folder.path(), {}, &marks)),
              ElementsAre("10:00:00.002Z ps-replica-0 DEFAULT user's words",
                          "10:00:00.002Z ps-replica-0 DEFAULT half a line", "10:00:00.002Z ps-replica-0 INFO two"));
  EXPECT_TRUE(ReadNewLogs({}, folder.path(), {}, &marks).empty());
  std::ofstream(path, std::ios::app) << "its last words";
  const Job over{.name = "over", .state = JobState::kFailed, .ended_ms = 1'769'853'610'000};
  EXPECT_EQ(ReadNewLogs(over, folder.path(), {}, &marks).size(), 1u);
  EXPECT_TRUE(ReadNewLogs(over, folder.path(), {}, &marks).empty());
  marks["ps-0"] = 1'000'000;  // of another file of that name
  EXPECT_EQ(ReadNewLogs(over, folder.path(), {}, &marks).size(), 5u);
}

TEST(JobLogsTest, OneTaskOrSevereWordsAreFoundInWhatIsLong) {
  const ScratchFolder folder;
  std::string words = "E 2026-01-31 10:00:00.001 early\n";
  while (words.size() < kMostUnchosenLogBytes) words += "I 2026-01-31 10:00:00.002 chatter\n";
  folder.Write("logs/ps-0.log", words);
  folder.Write("logs/worker-0.log", "W 2026-01-31 10:00:00.000 a warning\nwords\nE 2026-01-31 10:00:00.003 late\n");
  const auto read = [&](const LogChoice& choice) {
    LogMarks marks;
    return ReadNewLogs({}, folder.path(), choice, &marks);
  };
  EXPECT_NE(read({}).front().message, "early");
  EXPECT_EQ(read({.task = "ps-replica-0"}).front().message, "early");
  EXPECT_THAT(Shown(read({.severity = "ERROR"})),
              ElementsAre("10:00:00.001Z ps-replica-0 ERROR early", "10:00:00.003Z worker-replica-0 ERROR late"));
  EXPECT_EQ(read({.task = "worker-replica-0", .severity = "WARNING"}).size(), 2u);
  EXPECT_EQ(read({.task = "worker-replica-0", .severity = "no severity"}).size(), 3u);
}

TEST(JobLogsTest, OneLogsPathIsFoundByTheTasksNameAlone) {
  const ScratchFolder folder;
  folder.Write("secret.log", "mine\n");
  const std::string log = folder.Write("logs/ps-0.log", "one\n");
  EXPECT_EQ(LogFileOf(folder.path(), "ps-replica-0"), log);
  for (const char* task : {"ps-0", "", "../secret", "ps-replica-1"}) {
    EXPECT_EQ(LogFileOf(folder.path(), task), "") << task;
  }
}

TEST(JobLogsTest, AJobWithoutAFolderHasNone) { EXPECT_TRUE(ReadLogs({}, "/none").empty()); }

}  // namespace
}  // namespace downpour
