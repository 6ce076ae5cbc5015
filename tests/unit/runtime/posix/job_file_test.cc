#include "runtime/posix/job_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace downpour {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;

std::string Write(const std::string& name, const std::string& text) {
  const std::filesystem::path path = std::filesystem::path(testing::TempDir()) / (std::to_string(getpid()) + name);
  std::ofstream(path) << text;
  return path.string();
}

constexpr char kJob[] =
    "name: x\nmodel: {inputs: [{name: i, shape: [4]}], layers: [{dense: {units: 2}}]}\n"
    "data: {train: {images: a, labels: /b}}\n";

TEST(PosixJobFile, PathsBeginWhereTheyWereWritten) {
  const std::string path = Write("job.yaml", kJob);
  const JobFileResult result = LoadJobFile(path, {"data.train.labels=c"});
  ASSERT_TRUE(result.ok()) << ToString(result.errors[0]);
  EXPECT_EQ(result.job.data.train.images, (std::filesystem::path(path).parent_path() / "a").string());
  EXPECT_EQ(result.job.data.train.labels, (std::filesystem::current_path() / "c").string());
  EXPECT_EQ(LoadJobFile(path).job.data.train.labels, "/b");
}

TEST(PosixJobFile, WordsComeFromTheFileThatTheirWriterMeant) {
  const std::string words = Write("words.txt", "a\nb\n");
  const std::string name = std::filesystem::path(words).filename();
  const std::string path = Write("words.yaml",
                                 "name: x\nmodel: {inputs: [{name: i, columns: all}], layers: [{dense: {units: 2}}]}\n"
                                 "data: {format: csv, train: a.csv, label: y, columns: [{name: w, vocabulary: {file: " +
                                     name + "}}]}\n");
  const JobFileResult beside = LoadJobFile(path);
  ASSERT_TRUE(beside.ok()) << ToString(beside.errors[0]);
  EXPECT_THAT(beside.job.data.columns[0].vocabulary, ElementsAre("a", "b"));
  const std::string here = std::to_string(getpid()) + "-words-here.txt";
  std::ofstream(here) << "c\n";
  const JobFileResult by_hand = LoadJobFile(path, {"data.columns.0.vocabulary.file=" + here});
  std::filesystem::remove(here);
  ASSERT_TRUE(by_hand.ok()) << ToString(by_hand.errors[0]);
  EXPECT_THAT(by_hand.job.data.columns[0].vocabulary, ElementsAre("c"));
  ASSERT_EQ(mkfifo((words + ".pipe").c_str(), 0600), 0);
  EXPECT_EQ(ReadNamedText(words + ".pipe").status().message(), "is no regular file");
  std::filesystem::remove(words + ".pipe");
  std::filesystem::remove(words);
  const JobFileResult without = LoadJobFile(path);
  ASSERT_THAT(without.errors, Not(IsEmpty()));
  EXPECT_THAT(ToString(without.errors[0]),
              HasSubstr("data.columns.0.vocabulary.file: " + name + ": cannot be read: No such file"));
}

TEST(PosixJobFile, FilesThatCannotBeReadAreNamed) {
  const std::string folder = testing::TempDir();
  for (const std::string& path : {folder + "/there-is-none.yaml", folder}) {
    const JobFileResult result = LoadJobFile(path);
    ASSERT_THAT(result.errors, SizeIs(1));
    EXPECT_THAT(ToString(result.errors[0]), HasSubstr(path + ": cannot be read: "));
  }
}

TEST(PosixJobFile, OfAConfigFileWhatNobodyKnowsAtItsTopIsNamed) {
  const auto read = [](const std::string& top) {
    return LoadConfigFile(Write("config.yaml", top + "trainingInput: {scaleTier: BASIC, region: x, args: [y]}\n"));
  };
  const ConfigFileResult known = read("jobId: j\nlabels: {}\nstate: QUEUED\n");
  EXPECT_THAT(known.errors, SizeIs(0));
  ASSERT_THAT(known.warnings, SizeIs(3));
  EXPECT_EQ(known.warnings[0].key, "labels");
  EXPECT_EQ(known.warnings[1].key, "trainingInput.region") << "in the order of the file";
  const ConfigFileResult unknown = read("lables: {}\n");
  ASSERT_THAT(unknown.errors, SizeIs(1));
  EXPECT_THAT(ToString(unknown.errors[0]), HasSubstr(":1:1: lables: unknown key; did you mean labels?"));
}

TEST(PosixJobFile, LargeFilesAreNotReadWhole) {
  const JobFileResult result = LoadJobFile(Write("large.yaml", std::string(kMaxJobTextBytes + 5, '#')));
  ASSERT_THAT(result.errors, SizeIs(1));
  EXPECT_THAT(ToString(result.errors[0]), HasSubstr("larger than"));
}

}  // namespace
}  // namespace downpour
