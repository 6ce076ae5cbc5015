// Data with records in a job file: what is read, what it comes to in the model, and what is refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "job/job_file.h"
#include "job/label_key.h"
#include "job/slice_grid.h"
#include "job/variables.h"

namespace downpour {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::string JobOnRecords(const std::string& data, const std::string& model = "") {
  const std::string usual = "  inputs: [{name: x, columns: all}]\n  layers: [{dense: {units: 2}}]\n";
  return absl::StrCat("name: j\nmodel:\n", model.empty() ? usual : model, "data:\n  format: csv\n", data);
}
constexpr char kRecords[] = "  train: a.csv\n  columns: [age, {name: job, vocabulary: [x, 'y']}]\n  label: income\n";

std::string RefusalOf(const std::string& text, const std::vector<std::string>& overrides = {}) {
  const JobFileResult result = ParseJob(text, "j.yaml", overrides);
  return result.ok() ? "" : ToString(result.errors[0]);
}

JobSpec GoodJob(const std::string& text) {
  const JobFileResult result = ParseJob(text, "j.yaml");
  for (const JobError& error : result.errors) ADD_FAILURE() << ToString(error);
  return result.job;
}

TEST(JobDataTest, ColumnsSayWhatTheyAre) {
  const JobSpec job = GoodJob(JobOnRecords(R"(  train: {files: [a.csv, b-*.csv]}
  eval: c.csv
  label: {column: income, classes: [[<=50K, <=50K.], ">50K"]}
  separator: tab
  header: true
  skip: 3
  columns:
    - age
    - {name: gain, from: capital gain, clip: [0, 100], log: true, scale: {mean: 2, deviation: 0.5}, default: 0}
    - {name: group, from: age, buckets: [18, 65]}
    - {name: job, vocabulary: [a, 1, ""]}
    - {name: crossed, from: [age, job], hash: 10}
)"));
  EXPECT_THAT(job.data.train.files, ElementsAre("a.csv", "b-*.csv"));
  EXPECT_THAT(job.data.eval.files, ElementsAre("c.csv"));
  EXPECT_EQ(job.data.separator, '\t');
  EXPECT_EQ(job.data.order, DataOrder::kBlocks);
  EXPECT_EQ(job.data.skip, 3);
  EXPECT_THAT(job.data.label.classes, ElementsAre(ElementsAre("<=50K", "<=50K."), ElementsAre(">50K")));
  const std::vector<ColumnSpec>& columns = job.data.columns;
  ASSERT_EQ(columns.size(), 5u);
  EXPECT_THAT(columns[0].from, ElementsAre("age"));
  EXPECT_EQ(columns[1].from[0], "capital gain");
  EXPECT_EQ(columns[1].fill, 0);
  EXPECT_EQ(columns[1].most, 100);
  EXPECT_TRUE(columns[1].log);
  EXPECT_EQ(columns[1].deviation, 0.5);
  EXPECT_EQ(columns[2].categories(), 3);
  EXPECT_EQ(columns[3].categories(), 4) << "all other words are one more";
  EXPECT_THAT(columns[3].vocabulary, ElementsAre("a", "1", ""));
  EXPECT_THAT(columns[4].from, ElementsAre("age", "job"));
  EXPECT_EQ(job.model.inputs[0].shape, std::vector<int64_t>{1 + 1 + 3 + 4 + 10});
}

TEST(JobDataTest, WhatIsWrittenIsRead) {
  for (const char* data :
       {kRecords,
        "  train: a\n  columns: [{name: a, default: 0.1, scale: {mean: 1.5}}, {name: b, hash: 7, from: [x, y]}]\n"
        "  label: {column: '1', classes: [['0', no], '1']}\n  fields: [a, x, y, '1']\n  separator: ';'\n"
        "  order: examples\n  skip: 9\n  header: false\n  eval: [b, c]\n"}) {
    const JobSpec job = GoodJob(JobOnRecords(data));
    const absl::StatusOr<JobSpec> again = ParseCanonicalJob(CanonicalJob(job));
    ASSERT_TRUE(again.ok()) << again.status();
    EXPECT_EQ(*again, job) << CanonicalJob(job);
  }
}

TEST(JobDataTest, AJobOfIdxIsWrittenAsBefore) {
  const std::string text =
      "name: j\nmodel:\n  inputs: [{name: x, shape: [4]}]\n  layers: [{dense: {units: 2}}]\n"
      "data:\n  train: {images: a, labels: b}\n";
  EXPECT_THAT(CanonicalJob(GoodJob(text)), HasSubstr(R"("data":{"format":"idx","train":{"images":"a","labels":"b"}})"));
  EXPECT_THAT(CanonicalJob(GoodJob(text)), HasSubstr(R"("inputs":[{"name":"x","shape":[4]}])"));
}

TEST(JobDataTest, SeveralInputsTakeColumnsByName) {
  const JobSpec job = GoodJob(JobOnRecords(kRecords,
                                           "  inputs: [{name: job}, {name: deep, columns: [age, job]}]\n"
                                           "  layers: [{dense: {units: 3}, from: deep}, {concat: {}, from: [dense_0, "
                                           "job]}, {dense: {units: 2}}]\n"));
  EXPECT_THAT(job.model.inputs[0].columns, ElementsAre("job"));
  EXPECT_EQ(job.model.inputs[0].shape[0], 3);
  EXPECT_EQ(job.model.inputs[1].shape[0], 4);
}

TEST(JobDataTest, ASquaredErrorOfOneOutputLearnsNumbers) {
  const std::string one = "  inputs: [{name: age}]\n  layers: [{dense: {units: 1}}]\n  loss: meanSquaredError\n";
  EXPECT_TRUE(GoodJob(JobOnRecords(kRecords, one)).data.label.is_number);
  EXPECT_FALSE(GoodJob(JobOnRecords(kRecords)).data.label.is_number);
  const std::string classes = "  train: a\n  columns: [age]\n  label: {column: y, classes: [a, b]}\n";
  EXPECT_FALSE(GoodJob(JobOnRecords(classes, one)).data.label.is_number) << "words are classes";
}

TEST(JobDataTest, ALabelThatIsANumberMayBeScaled) {
  const std::string one = "  inputs: [{name: age}]\n  layers: [{dense: {units: 1}}]\n  loss: meanSquaredError\n";
  const std::string data = "  train: a\n  columns: [age]\n  separator: ';'\n  decimal: ','\n";
  const JobSpec job = GoodJob(JobOnRecords(data + "  label: {column: y, scale: {mean: 3, deviation: 2}}\n", one));
  EXPECT_EQ(job.data.label.mean, 3);
  EXPECT_EQ(job.data.label.deviation, 2);
  EXPECT_EQ(job.data.decimal, ',');
  EXPECT_EQ(*ParseCanonicalJob(CanonicalJob(job)), job);
  EXPECT_THAT(RefusalOf(JobOnRecords(data + "  label: {column: y, scale: {mean: 3}}\n")),
              HasSubstr("data.label.scale: means something only where numbers are learned"));
  const std::string both = JobOnRecords(data + "  label: {column: y, classes: [a, b], scale: {mean: 1}}\n");
  EXPECT_THAT(RefusalOf(both), HasSubstr("scale: means something only with a number"));
  EXPECT_THAT(RefusalOf(JobOnRecords(kRecords), {"data.decimal=','", "data.separator=','"}),
              HasSubstr("data.decimal: is the separator too"));
}

constexpr char kSigmoids[] = "  inputs: [{name: age}]\n  layers: [{dense: {units: 3}}]\n  loss: sigmoidCrossEntropy\n";

TEST(JobDataTest, ALabelMayBeASetOfClasses) {
  const std::string data = "  train: a\n  columns: [age]\n";
  const auto good = [&](const std::string& label) {
    JobSpec job = GoodJob(JobOnRecords(data + "  label: " + label + "\n", kSigmoids));
    EXPECT_TRUE(job.data.label.is_set());
    EXPECT_EQ(job.data.label.outputs, 3);
    EXPECT_EQ(*ParseCanonicalJob(CanonicalJob(job)), job) << label;
    return job.data.label;
  };
  EXPECT_EQ(good("{column: tags, multiple: true, separator: '|'}").separator, '|');
  EXPECT_EQ(good("{column: tags, multiple: true, separator: tab, classes: [x, y]}").separator, '\t');
  EXPECT_THAT(good("[spam, toxic, threat]").of_outputs, ElementsAre("spam", "toxic", "threat"));
  EXPECT_THAT(good("{columns: [spam, toxic, threat]}").fields(), ElementsAre("spam", "toxic", "threat"));
  const auto refusal = [&](const std::string& label, const std::string& model = kSigmoids) {
    return RefusalOf(JobOnRecords(data + "  label: " + label + "\n", model));
  };
  EXPECT_THAT(refusal("{column: tags, multiple: true}"),
              HasSubstr("data.label.separator: is missing: a field of csv is one text"));
  EXPECT_THAT(refusal("{column: tags, multiple: true, separator: ', '}"), HasSubstr("must be one character"));
  EXPECT_THAT(refusal("{column: tags, separator: ','}"), HasSubstr("means something only with multiple: true"));
  EXPECT_THAT(refusal("{column: tags, multiple: true, separator: ';', scale: {mean: 1}}"),
              HasSubstr("data.label.scale: means something only with a number"));
  EXPECT_THAT(refusal("{columns: [a, b, c], classes: [x, y, z]}"),
              HasSubstr("data.label.classes: means something only with a single field"));
  EXPECT_THAT(refusal("[a, b]"), HasSubstr("data.label: names 2 of the classes, but the model's output, dense_0, has 3 "
                                           "units"));
  EXPECT_THAT(refusal("[a, a, b]"), HasSubstr("'a' stands there twice"));
  EXPECT_THAT(refusal("{column: t, multiple: true, separator: ';', classes: [a, b, c, d]}"),
              HasSubstr("data.label.classes: names 4 of the classes"));
  EXPECT_THAT(refusal("[a, b]", "  inputs: [{name: age}]\n  layers: [{dense: {units: 2}}]\n"),
              HasSubstr("data.label: is a set of classes, which only the loss sigmoidCrossEntropy learns"));
}

TEST(JobDataTest, MetricsOfASetJudgeEachOutput) {
  const std::string data = "  train: a\n  columns: [age]\n  label: [a, b, c]\n";
  const std::string metrics = "training: {metrics: [auc, logLoss, calibration]}\n";
  EXPECT_EQ(GoodJob(JobOnRecords(data, kSigmoids) + metrics).training.metrics.size(), 3u);
  EXPECT_THAT(RefusalOf(JobOnRecords("  train: a\n  columns: [age]\n  label: y\n", kSigmoids) + metrics),
              HasSubstr("auc needs two classes, or a single output"));
}

TEST(JobDataTest, AFieldMayWeighTheExamples) {
  const std::string data = "  train: a\n  columns: [age]\n  label: y\n";
  const JobSpec job = GoodJob(JobOnRecords(data + "  weight: fnlwgt\n"));
  EXPECT_EQ(job.data.weight, "fnlwgt");
  EXPECT_TRUE(job.data.counts_weights());
  EXPECT_EQ(*ParseCanonicalJob(CanonicalJob(job)), job);
  JobSpec other = job;
  other.data.weight.clear();
  EXPECT_THAT(PlanDifferences(other, job), ElementsAre("data.weight"));
  EXPECT_THAT(RefusalOf(JobOnRecords(data + "  weight: y\n")), HasSubstr("data.weight: is a field of the label too"));
  EXPECT_THAT(RefusalOf(JobOnRecords(data + "  weight: [a, b]\n")),
              HasSubstr("data.weight: must be the name of a field"));
  const std::string idx =
      "name: j\nmodel:\n  inputs: [{name: x, shape: [4]}]\n  layers: [{dense: {units: 2}}]\n"
      "data:\n  train: {images: a, labels: b}\n  weight: w\n";
  EXPECT_THAT(RefusalOf(idx),
              HasSubstr("data.weight: means something only with a format with records, but that is idx"));
}

TEST(JobDataTest, ThePlanIsOfColumnsLabelsAndOrder) {
  const JobSpec job = GoodJob(JobOnRecords(kRecords));
  const auto differs = [&](const std::function<void(DataSpec*)>& change) {
    JobSpec other = job;
    change(&other.data);
    return PlanDifferences(other, job);
  };
  EXPECT_THAT(differs([](DataSpec* data) { data->columns[0].mean = 1; }), ElementsAre("data.columns"));
  EXPECT_THAT(differs([](DataSpec* data) { data->label.classes = {{"a"}}; }), ElementsAre("data.label"));
  EXPECT_THAT(differs([](DataSpec* data) { data->order = DataOrder::kExamples; }), ElementsAre("data.order"));
  EXPECT_THAT(differs([](DataSpec* data) { data->block_examples = 1; }), ElementsAre("data.blockExamples"));
  EXPECT_THAT(differs([](DataSpec* data) { data->fields = {"x"}; }), ElementsAre("data.fields"));
  EXPECT_THAT(differs([](DataSpec* data) { data->train.files = {"elsewhere"}; }), IsEmpty());
}

TEST(JobDataTest, PathsBeginAtTheJobsFolderOrWhereTheyWereSet) {
  JobFileResult read = ParseJob(JobOnRecords("  train: [a.csv, /b.csv]\n  eval: c.csv\n  columns: [age]\n  label: y\n"),
                                "j.yaml", {"data.eval=d.csv"});
  ResolveDataPaths("/job", "/here", &read);
  EXPECT_THAT(read.job.data.train.files, ElementsAre("/job/a.csv", "/b.csv"));
  EXPECT_THAT(read.job.data.eval.files, ElementsAre("/here/d.csv"));
  read = ParseJob(JobOnRecords("  train: [\"s3://b/day-*.csv\", https://h/a.csv]\n  columns: [age]\n  label: y\n"), "");
  ResolveDataPaths("/job", "/here", &read);
  EXPECT_THAT(read.job.data.train.files, ElementsAre("s3://b/day-*.csv", "https://h/a.csv"));
}

TEST(JobDataTest, EachFormatHasItsKeys) {
  const std::string of_lists = "  train: a\n  columns: [{name: x, width: 4}]\n  label: y\n";
  const auto job_of = [&](const std::string& format) {
    std::string text = JobOnRecords(of_lists);
    return text.replace(text.find("csv"), 3, format);
  };
  for (const std::string format : {"jsonl", "libsvm", "tfrecord", "parquet", "cifar10", "cifar100"}) {
    const JobSpec job = GoodJob(job_of(format));
    EXPECT_EQ(job.data.format, format);
    EXPECT_EQ(job.model.inputs[0].shape, std::vector<int64_t>{4});
    EXPECT_EQ(*ParseCanonicalJob(CanonicalJob(job)), job);
    for (const std::string key : {"separator=tab", "header=true", "fields=[a]"}) {
      EXPECT_THAT(RefusalOf(job_of(format), {"data." + key}),
                  HasSubstr("means something only with format: csv, but that is " + format));
    }
  }
  EXPECT_THAT(RefusalOf(job_of("csv")), HasSubstr("data.columns.0.width: a field of csv has one number"));
  EXPECT_THAT(RefusalOf(job_of("criteo")), HasSubstr("data.columns.0.width: a field of criteo has one number"));
  EXPECT_EQ(GoodJob(job_of("parquet")).data.block_examples, 8192) << "a page is decoded as a whole";
  EXPECT_EQ(GoodJob(job_of("jsonl")).data.block_examples, 128);
}

TEST(JobDataTest, LabelsThatAreNumbersAreComparedAsSuch) {
  for (const char* word : {"1", "+1", "1.0", "1e0"}) EXPECT_EQ(LabelKey(word), "1") << word;
  for (const char* word : {"0", "-0", "0.0"}) EXPECT_EQ(LabelKey(word), "0") << word;
  for (const char* word : {"", "+", "+-1", "--1", "1x", "inf", "nan", "<=50K"}) EXPECT_EQ(LabelKey(word), word);
  EXPECT_EQ(LabelKey("-1.50"), "-1.5");
}

struct Refusal {
  const char* override_;
  const char* error;
};

TEST(JobDataTest, WhatMakesNoSenseIsNamed) {
  const Refusal refusals[] = {
      {"data.columns.0={name: job}", "two columns are named job"},
      {"data.train=ftp://h/a.csv", "data.train: has the scheme ftp://"},
      {"data.train=['http://h/*.csv']", "data.train.0: is a pattern"},
      {"data.columns.0={name: label}", "label is the name of what is learned"},
      {"data.columns.0={name: age, buckets: [2, 1]}", "data.columns.0.buckets.1: is not above the boundary before it"},
      {"data.columns.0={name: age, hash: 3, vocabulary: [a]}", "a column is of one kind"},
      {"data.columns.0={name: age, from: [a, b]}", "several fields are crossed, which needs hash"},
      {"data.columns.0={name: age, hash: 3, log: true}", "log: means something only with a number"},
      {"data.columns.0={name: age, hash: 3, default: 1}", "default: means something only with a number or buckets"},
      {"data.columns.0={name: age, clip: [1]}", "must be a list of two numbers"},
      {"data.columns.0={name: age, clip: [2, 1]}", "must have the smaller number first"},
      {"data.columns.0={name: age, scale: {deviation: 0}}", "deviation: is 0, but must be above 0"},
      {"data.columns.0={name: age, scale: {deviatoin: 1}}", "deviatoin: unknown key"},
      {"data.columns.1.vocabulary=[a, a]", "'a' stands there twice"},
      {"data.label={column: y, classes: [[a, b], b]}", "'b' stands there twice"},
      {"data.label={column: y, classes: ['-1', '1', '+1.0']}", "'+1.0' stands there twice, where 1, +1 and 1.0"},
      {"data.separator=ab", "must be one character"},
      {"data.fields=[a, a]", "'a' stands there twice"},
      {"data.train={files: {a: b}}", "data.train.files: must be a path or a list of paths"},
      {"data.train=[]", "data.train"},
      {"data.trainExamples=3", "means something only with format: python"},
      {"data.order=sorted", "must be one of examples, blocks"},
      {"model.inputs.0={name: x, columns: [aeg]}", "'aeg' is none of data.columns; did you mean age?"},
      {"model.inputs.0={name: x}", "columns: is missing: which of data.columns it has"},
      {"model.inputs.0={name: age, shape: [1]}", "shape: means something only with data of another format"},
  };
  for (const Refusal& refusal : refusals) {
    EXPECT_THAT(RefusalOf(JobOnRecords(kRecords), {refusal.override_}), HasSubstr(refusal.error)) << refusal.override_;
  }
  const JobFileResult bare = ParseJob(JobOnRecords("  train: a\n  label: y\n"), "j.yaml");
  ASSERT_EQ(bare.errors.size(), 1u) << ToString(bare.errors[0]);
  EXPECT_THAT(ToString(bare.errors[0]), HasSubstr("data.columns: is missing"));
  EXPECT_THAT(RefusalOf(JobOnRecords("  train: a\n  columns: [age]\n")), HasSubstr("data.label: is missing"));
  const std::string idx =
      "name: j\nmodel:\n  inputs: [{name: x, shape: [4], columns: [a]}]\n"
      "  layers: [{dense: {units: 2}}]\ndata: {train: {images: a, labels: b}, skip: 1}\n";
  EXPECT_THAT(RefusalOf(idx), HasSubstr("model.inputs.0.columns: means something only with"));
  EXPECT_THAT(ToString(ParseJob(idx, "j").errors[1]), HasSubstr("data.skip: means something only with"));
}

}  // namespace
}  // namespace downpour
