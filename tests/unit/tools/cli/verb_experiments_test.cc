#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "tests/unit/tools/cli/made_checkpoint.h"
#include "tests/unit/tools/cli/made_journal.h"
#include "tests/unit/tools/cli/run_tool.h"

namespace downpour {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::MatchesRegex;
using testing::Not;

class ExperimentsTest : public testing::Test {
 protected:
  void SetUp() override { dir_ = FreshFolder("experiments"); }

  std::string FolderOf(const std::string& name) {
    std::filesystem::create_directories(dir_ + "/" + name);
    return dir_ + "/" + name + "/";
  }
  // A job that has ended with this accuracy.
  void Put(const std::string& name, double rate, const std::string& accuracy, const std::string& more = "") {
    JobSpec job = SmallJob();
    job.training.optimizer.learning_rate = rate;
    PutFile(FolderOf(name) + "journal.a", MadeJournalOf(job, "SUCCEEDED"));
    PutFile(FolderOf(name) + "summary.json", R"({"job": "small", "state": "SUCCEEDED", "epochs": 3, )" + more +
                                                 R"("elapsedSeconds": 12.5, "evalAccuracy": )" + accuracy + "}");
  }
  ToolOutcome Experiments(std::vector<std::string> more = {}) {
    std::vector<std::string> args = {"experiments", dir_};
    args.insert(args.end(), more.begin(), more.end());
    return RunDownpour(args);
  }
  std::vector<std::string> Sorted(std::vector<std::string> more) {
    more.insert(more.end(), {"-o", "json"});
    const ToolOutcome outcome = Experiments(more);
    EXPECT_EQ(outcome.code, kExitDone) << outcome.err;
    std::vector<std::string> folders;
    for (const auto& job : nlohmann::json::parse(outcome.out)) folders.push_back(job["folder"]);
    return folders;
  }
  std::string dir_;
};

TEST_F(ExperimentsTest, ShowsResultsAndTheSettingsThatDiffer) {
  Put("a", 0.5, "0.25", R"("evalMetrics": {"top2": 0.75}, )");
  Put("deep/er/b", 0.125, "0.5", R"("diverging": "it does", )");
  const ToolOutcome table = Experiments();
  ASSERT_EQ(table.code, kExitDone) << table.err;
  EXPECT_EQ(
      table.out,
      "folder     job    state                learningRate  accuracy  top2  epochs  seconds  began\n"
      "a          small  SUCCEEDED            0.5           0.25      0.75  3       12.5     2023-11-14 22:13:20\n"
      "deep/er/b  small  SUCCEEDED DIVERGING  0.125         0.5       -     3       12.5     2023-11-14 22:13:20\n");
  const nlohmann::json json = nlohmann::json::parse(Experiments({"-o", "json"}).out);
  ASSERT_EQ(json.size(), 2u);
  EXPECT_EQ(json[1]["training.optimizer.learningRate"], 0.125);
  EXPECT_EQ(json[0]["top2"], 0.75);
  EXPECT_FALSE(json[1].contains("top2"));
  EXPECT_FALSE(json[0].contains("seed")) << "it is the same in both";
}

TEST_F(ExperimentsTest, OfPythonCodeTheUsersWordsAreShownAndNothingOfItsMachinery) {
  const auto put = [&](const std::string& name, const std::string& args, int width, char code) {
    const std::string text = absl::StrCat(
        "name: own\npython: {module: trainer.task, bytes: ", width, ", sha256: ", std::string(64, code), ", args: [",
        args, "]}\nmodel: {variables: [{name: w, shape: [4, ", width,
        "]}, {name: b, shape: [2]}], initializeFrom: ", dir_, "/", name,
        "/python/initial.safetensors}\ndata: {format: python, trainExamples: 9}\ntraining: {optimizer: {name: ",
        width == 3 ? "momentum" : "sgd", "}}\n");
    const JobFileResult read = ParseJob(text, "job");
    ASSERT_TRUE(read.ok()) << ToString(read.errors.front());
    PutFile(FolderOf(name) + "journal.a", MadeJournalOf(read.job, "CANCELLED"));
    PutFile(FolderOf(name) + "summary.json", R"({"job": "own", "state": "CANCELLED"})");
  };
  put("a", "--rate, \"0.5\", --job-dir, /somewhere/a", 3, 'a');
  put("b", "--rate, \"0.25\", --words, two words", 5, 'b');
  const ToolOutcome outcome = Experiments({"-o", "csv"});
  EXPECT_EQ(outcome.code, kExitDone) << outcome.err;
  const std::string columns = outcome.out.substr(0, outcome.out.find(",accuracy"));
  EXPECT_EQ(columns,
            "folder,job,state,model.parameters,python.args,python.code,training.optimizer.momentum,"
            "training.optimizer.name");
  EXPECT_THAT(outcome.out, HasSubstr("\r\na,own,CANCELLED,14,--rate 0.5,aaaaaaaaaaaa,0.9,momentum,"));
  EXPECT_THAT(outcome.out, HasSubstr("\r\nb,own,CANCELLED,22,--rate 0.25 --words 'two words',bbbbbbbbbbbb,,sgd,"));
  EXPECT_THAT(Experiments().out,
              MatchesRegex("folder +job +state +parameters +args +code +momentum +optimizer.name +began\n.*"));
  EXPECT_EQ(Sorted({"--sort", "args"}), (std::vector<std::string>{"b", "a"}));
  EXPECT_EQ(Sorted({"--sort", "optimizer.name"}), (std::vector<std::string>{"a", "b"}));
}

TEST_F(ExperimentsTest, AListOfWordsOrNumbersIsOneSetting) {
  for (const auto& [name, metrics] : {std::pair{"a", "[]"}, std::pair{"b", "[top2, logLoss]"}}) {
    JobSpec job = SmallJob();
    job.training.metrics =
        ParseJob(CanonicalJob(job), "job", {absl::StrCat("training.metrics=", metrics)}).job.training.metrics;
    PutFile(FolderOf(name) + "journal.a", MadeJournalOf(job, ""));
  }
  EXPECT_THAT(Experiments().out, MatchesRegex("folder +job +state +metrics +began\na .* - .*\nb .* top2 logLoss .*\n"));
}

TEST_F(ExperimentsTest, SortsByAnyColumnAndWhatIsNotKnownComesLast) {
  Put("a", 0.5, "0.25");
  Put("b", 0.125, "null");
  Put("c", 0.25, "0.125");
  EXPECT_EQ(Sorted({}), (std::vector<std::string>{"a", "b", "c"}));
  EXPECT_EQ(Sorted({"--sort", "accuracy"}), (std::vector<std::string>{"c", "a", "b"}));
  EXPECT_EQ(Sorted({"--sort", "accuracy", "--reverse"}), (std::vector<std::string>{"a", "c", "b"}));
  EXPECT_EQ(Sorted({"--sort", "learningRate"}), (std::vector<std::string>{"b", "c", "a"}));
  EXPECT_EQ(Sorted({"--sort", "training.optimizer.learningRate", "--reverse"}),
            (std::vector<std::string>{"a", "c", "b"}));
  const ToolOutcome unknown = Experiments({"--sort", "acuracy"});
  EXPECT_EQ(unknown.code, kExitBadCommandLine);
  EXPECT_THAT(unknown.err, AllOf(HasSubstr("no column is named acuracy"), HasSubstr("did you mean accuracy?")));
}

TEST_F(ExperimentsTest, AColumnOfJustThatNameIsTakenBeforeASettingThatEndsSo) {
  Put("a", 0.5, "0.25", R"("evalLoss": 0.5, )");
  Put("b", 0.5, "0.25", R"("evalLoss": 0.75, )");
  JobSpec job = SmallJob();
  job.model.loss = Loss::kMeanSquaredError;
  PutFile(FolderOf("b") + "journal.a", MadeJournalOf(job, "SUCCEEDED"));
  EXPECT_EQ(Sorted({"--sort", "loss"}), (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(Sorted({"--sort", "model.loss"}), (std::vector<std::string>{"b", "a"}));
}

TEST_F(ExperimentsTest, ATableThatWouldBeTooWideLeavesOutSettingsOfTheFewest) {
  Put("a", 0.5, "0.25");
  JobSpec job = SmallJob();
  job.data.train.images = "/" + std::string(180, 'i');
  job.training.optimizer.learning_rate = 0.25;
  PutFile(FolderOf("b") + "journal.a", MadeJournalOf(job, ""));
  const ToolOutcome table = Experiments();
  EXPECT_THAT(table.out, AllOf(HasSubstr("accuracy"), Not(HasSubstr("iiii"))));
  EXPECT_THAT(table.err, HasSubstr("leaves out 2 settings: -o csv or json has all"));
  EXPECT_THAT(Experiments({"--sort", "data.train.images"}).out, HasSubstr("iiii"));
  EXPECT_THAT(Experiments({"-o", "csv"}).out, HasSubstr("iiii"));
}

TEST_F(ExperimentsTest, CsvQuotesWhatNeedsIt) {
  Put("a,\"b\"", 0.5, "0.25");
  EXPECT_THAT(Experiments({"-o", "csv"}).out,
              AllOf(HasSubstr("folder,job,state,"), HasSubstr("\r\n\"a,\"\"b\"\"\",small,")));
}

TEST_F(ExperimentsTest, WhatIsBrokenIsNamedAndTheRestIsShown) {
  Put("good", 0.5, "0.25");
  Put("torn", 0.5, "0.2");
  PutFile(FolderOf("torn") + "summary.json", "{");
  PutFile(FolderOf("foreign") + "summary.json", "[1, 2]");
  const ToolOutcome outcome = Experiments();
  EXPECT_EQ(outcome.code, kExitFailed);
  EXPECT_THAT(outcome.err, AllOf(HasSubstr(dir_ + "/torn: "), HasSubstr(dir_ + "/foreign: "), Not(HasSubstr("/good"))));
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("good     small"), HasSubstr("torn")));
}

TEST_F(ExperimentsTest, WhatIsNoPlainFileIsNotOpened) {
  Put("good", 0.5, "0.25");
  Put("pipe", 0.5, "0.25");
  std::filesystem::remove(dir_ + "/pipe/summary.json");
  ASSERT_EQ(mkfifo((dir_ + "/pipe/summary.json").c_str(), 0600), 0);
  std::filesystem::create_directories(dir_ + "/folder/journal.b");
  const ToolOutcome outcome = Experiments();
  EXPECT_EQ(outcome.code, kExitFailed);
  EXPECT_THAT(outcome.err, AllOf(HasSubstr(dir_ + "/pipe: summary.json is no plain file"),
                                 HasSubstr(dir_ + "/folder: journal.b is no plain file")));
  EXPECT_THAT(outcome.out, HasSubstr("good    small"));
}

TEST_F(ExperimentsTest, AJobThatGoesOnHasNoResultsOfAnEndBefore) {
  Put("a", 0.5, "0.25");
  PutFile(FolderOf("a") + "journal.b", MadeJournalOf(SmallJob(), "", /*number=*/2));
  const ToolOutcome outcome = Experiments();
  EXPECT_EQ(outcome.code, kExitDone) << outcome.err;
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("UNFINISHED"), Not(HasSubstr("0.25"))));
}

TEST_F(ExperimentsTest, AJobThatGoesOnShowsWhatItsChiefHasNoted) {
  Put("over", 0.5, "0.25");
  PutFile(FolderOf("runs") + "journal.a", MadeJournalOf(SmallJob(), ""));
  const std::string lines = R"({"kind": "train", "elapsed": 2, "epoch": 1, "loss": 9, "examplesPerSecond": 100}
{"kind": "eval", "elapsed": 3, "epoch": 1, "loss": 0.75, "accuracy": 0.5, "metrics": {"top2": 0.625}}
{"kind": "train", "elapsed": 4, "epoch": 2, "loss": 8, "examplesPerSecond": 200}
)";
  PutFile(FolderOf("runs") + "metrics.jsonl", R"({"kind": "job", "run": "0000000000000007"})"
                                              "\n" +
                                                  lines);
  const auto shown = [&] { return nlohmann::json::parse(Experiments({"-o", "json"}).out)[1]; };
  nlohmann::json job = shown();
  EXPECT_EQ(job["folder"], "runs");
  const std::pair<const char*, double> numbers[] = {{"accuracy", 0.5}, {"loss", 0.75}, {"top2", 0.625},
                                                    {"epochs", 2},     {"seconds", 4}, {"examplesPerSecond", 200}};
  for (const auto& [name, number] : numbers) EXPECT_EQ(job[name], number) << name;
  EXPECT_THAT(Experiments().out, HasSubstr("top2"));
  PutFile(FolderOf("runs") + "metrics.jsonl", R"({"kind": "job", "run": "0000000000000006"})"
                                              "\n" +
                                                  lines);
  EXPECT_FALSE(shown().contains("accuracy")) << "that is of a run before";
}

TEST_F(ExperimentsTest, LinksAreNotFollowedNorWordsObeyed) {
  Put("a\033[2Jb", 0.5, "0.25");
  std::filesystem::create_directory_symlink(dir_, dir_ + "/again");
  const ToolOutcome outcome = Experiments();
  EXPECT_EQ(outcome.code, kExitDone) << outcome.err;
  EXPECT_THAT(outcome.out, AllOf(Not(HasSubstr("\033")), Not(HasSubstr("again"))));
}

TEST_F(ExperimentsTest, AFolderWithoutJobsSaysSo) {
  const ToolOutcome outcome = Experiments();
  EXPECT_EQ(outcome.code, kExitFailed);
  EXPECT_THAT(outcome.err, HasSubstr("no job has its folder under " + dir_));
  EXPECT_THAT(outcome.out, IsEmpty());
  EXPECT_EQ(RunDownpour({"experiments", dir_ + "/nowhere"}).code, kExitBadCommandLine);
}

}  // namespace
}  // namespace downpour
