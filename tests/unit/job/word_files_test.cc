#include "job/word_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "job/job_file.h"

namespace downpour {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

constexpr char kJobOfFiles[] = R"(name: j
model:
  inputs: [{name: x, columns: all}]
  layers: [{dense: {units: 2}}]
data:
  format: csv
  train: a.csv
  columns: [{name: city, vocabulary: {file: cities.txt}}]
  label: {column: y, classes: {file: classes.txt}}
)";

// Of the job with these files.
JobFileResult ParseFiles(const std::string& cities, const std::string& classes = "no\nyes\n",
                         const std::vector<std::string>& overrides = {}) {
  const std::map<std::string, std::string> files = {{"cities.txt", cities}, {"classes.txt", classes}};
  return ParseJob(kJobOfFiles, "j.yaml", overrides, [&](const std::string& path, bool) -> absl::StatusOr<std::string> {
    const auto file = files.find(path);
    if (file == files.end()) return absl::UnavailableError("cannot be read: there is none");
    return file->second;
  });
}

std::vector<std::string> Told(const JobFileResult& result) {
  std::vector<std::string> errors;
  for (const JobError& error : result.errors) errors.push_back(ToString(error));
  return errors;
}

TEST(WordFiles, EachLineIsAWord) {
  const JobFileResult result = ParseFiles("\xEF\xBB\xBFUlm\r\nS\xC3\xA3o Paulo\n42\ntrue\nnull\n\"old\"");
  ASSERT_THAT(Told(result), IsEmpty());
  EXPECT_THAT(result.job.data.columns[0].vocabulary,
              ElementsAre("Ulm", "S\xC3\xA3o Paulo", "42", "true", "null", "\"old\""));
  EXPECT_EQ(result.job.model.inputs[0].shape[0], 7) << "all other words are one more";
  EXPECT_THAT(result.job.data.label.classes, ElementsAre(ElementsAre("no"), ElementsAre("yes")));
}

TEST(WordFiles, AJobThatTravelsHasTheWords) {
  const JobFileResult result = ParseFiles("Ulm\nBern\n");
  ASSERT_THAT(Told(result), IsEmpty());
  const absl::StatusOr<JobSpec> travelled = ParseCanonicalJob(CanonicalJob(result.job));
  ASSERT_TRUE(travelled.ok()) << travelled.status();
  EXPECT_EQ(*travelled, result.job);
  EXPECT_EQ(result.origins.at("data.columns.0.vocabulary.file"), "j.yaml:8");
}

TEST(WordFiles, AnOverrideIsReadAsGivenByHand) {
  bool of_hand = false;
  const auto read = [&](const std::string& path, bool by_hand) -> absl::StatusOr<std::string> {
    if (path == "mine.txt") of_hand = by_hand;
    EXPECT_EQ(by_hand, path == "mine.txt") << path;
    return "a\nb";
  };
  EXPECT_TRUE(ParseJob(kJobOfFiles, "j.yaml", {"data.columns.0.vocabulary={file: mine.txt}"}, read).ok());
  EXPECT_TRUE(of_hand);
}

struct LineRefusal {
  std::string cities;
  const char* error;
};

TEST(WordFiles, ALineThatIsNoWordIsNamed) {
  const LineRefusal refusals[] = {
      {"", "line 1 of cities.txt has no word; take the line away"},
      {"Ulm\n\nBern\n", "line 2 of cities.txt has no word"},
      {"Ulm\n\n", "line 2 of cities.txt has no word"},
      {"Ulm\nBern\nUlm\n", "line 3 of cities.txt 'Ulm' stands there twice"},
      {"Ulm\n Bern\n", "line 2 of cities.txt ' Bern' has blanks around it; take them away"},
      {"Ulm\t\n", "has blanks around it"},
      {"S\xE3o Paulo\n", "line 1 of cities.txt 'S?o Paulo' is not UTF-8, or has control characters"},
      {std::string("a\0b\n", 4), "is not UTF-8, or has control characters"},
      {std::string((size_t{1} << 20) + 1, 'a'), "cities.txt: the words of a job have at most 1048576 bytes together"},
  };
  for (const LineRefusal& refusal : refusals) {
    const std::vector<std::string> errors = Told(ParseFiles(refusal.cities));
    ASSERT_THAT(errors, SizeIs(1)) << refusal.error;
    EXPECT_THAT(errors[0], HasSubstr("j.yaml:8:45: data.columns.0.vocabulary.file: "));
    EXPECT_THAT(errors[0], HasSubstr(refusal.error));
  }
}

TEST(WordFiles, WhatIsNoFileIsNamed) {
  const auto first = [](const std::string& setting) {
    const std::vector<std::string> errors = Told(ParseFiles("Ulm\n", "no\nyes\n", {setting}));
    return errors.empty() ? "" : errors[0];
  };
  EXPECT_THAT(first("data.columns.0.vocabulary={file: none.txt}"),
              HasSubstr("--set: data.columns.0.vocabulary.file: none.txt: cannot be read: there is none"));
  EXPECT_THAT(first("data.columns.0.vocabulary={file: gs://b/c.txt}"), HasSubstr("gs://b/c.txt is an address; copy"));
  EXPECT_THAT(first("data.columns.0.vocabulary={flie: c.txt}"), HasSubstr("vocabulary.file: is missing"));
  EXPECT_THAT(first("data.columns.0.vocabulary={file: [c.txt]}"), HasSubstr("data.columns.0.vocabulary.file: "));
  EXPECT_THAT(first("data.columns.0.vocabulary=cities.txt"), HasSubstr("must be a list of words, or {file: PATH}"));
  EXPECT_THAT(first("data.label.classes={file: classes.tx}"), HasSubstr("data.label.classes.file: classes.tx: cannot"));
}

TEST(WordFiles, WhoHasOnlyTheTextSaysSo) {
  const std::vector<std::string> errors = Told(ParseJob(kJobOfFiles, "j.yaml"));
  ASSERT_THAT(errors, SizeIs(testing::Ge(2)));
  EXPECT_THAT(errors[0],
              HasSubstr("cities.txt is a file, and none is read here; send the job by downpour jobs submit"));
}

TEST(WordFiles, AllFilesOfAJobHaveRoomTogether) {
  std::string words;
  for (int i = 0; i < 70'000; ++i) absl::StrAppend(&words, 1'000'000 + i, "\n");
  EXPECT_THAT(Told(ParseFiles(words, words)),
              testing::Contains(HasSubstr("classes.txt: the words of a job have at most 1048576 bytes together")));
}

TEST(WordFiles, SoManyWordsAsAJobMayHaveAndNoMore) {
  std::string words;
  for (int i = 0; i < 100'001; ++i) absl::StrAppend(&words, i, "\n");
  const std::vector<std::string> errors = Told(ParseFiles(words));
  ASSERT_THAT(errors, SizeIs(testing::Ge(1)));
  EXPECT_THAT(errors[0], HasSubstr("has 100001 entries, but 1 to 100000 are allowed"));
}

}  // namespace
}  // namespace downpour
