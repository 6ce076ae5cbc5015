// Tables and embedding layers in a job file: what is read, what is refused, and what belongs to the plan.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "job/job_file.h"
#include "job/plan_check.h"
#include "job/slice_grid.h"
#include "job/variables.h"

namespace downpour {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

constexpr char kJobWithTables[] = R"(name: j
model:
  tables: [{name: users, width: 8}, {name: wide, width: 2, optimizer: {name: ftrl, l1: 0.5}}]
  inputs: [{name: age}]
  layers:
    - {name: deep, embedding: {table: users, columns: [user, job]}}
    - {name: both, from: [deep, age], concat: {}}
    - {name: logits, dense: {units: 2}}
    - {name: linear, embedding: {table: wide, columns: [user, job], join: sum}}
    - {name: out, from: [logits, linear], add: {}}
data:
  format: csv
  train: a.csv
  columns: [age, {name: job, vocabulary: [x, y]}, {name: user, key: integer}]
  label: income
)";

std::vector<std::string> ErrorsWith(const std::vector<std::string>& overrides,
                                    const std::string& text = kJobWithTables) {
  std::vector<std::string> errors;
  for (const JobError& error : ParseJob(text, "j.yaml", overrides).errors) {
    errors.push_back(absl::StrCat(error.key, ": ", error.what, error.remedy.empty() ? "" : "; ", error.remedy));
  }
  return errors;
}

JobSpec GoodJob(const std::vector<std::string>& overrides = {}, const std::string& text = kJobWithTables) {
  const JobFileResult result = ParseJob(text, "j.yaml", overrides);
  for (const JobError& error : result.errors) ADD_FAILURE() << ToString(error);
  return result.job;
}

TEST(JobTablesTest, TablesHaveDefaults) {
  const JobSpec job = GoodJob();
  ASSERT_THAT(job.model.tables, SizeIs(2));
  ModelTable users{.name = "users", .width = 8};
  EXPECT_EQ(job.model.tables[0], users);
  EXPECT_EQ(job.model.tables[0].optimizer, DefaultsOf(OptimizerKind::kAdagrad)) << "whatever training.optimizer is";
  EXPECT_EQ(job.model.tables[1].optimizer.kind, OptimizerKind::kFtrl);
  EXPECT_EQ(job.model.tables[1].optimizer.l1, 0.5);
  EXPECT_EQ(job.model.table_buckets, 32);
  const SliceGrid grid = GridOf(job.model).value();
  EXPECT_EQ(grid.buckets, 32u);
  EXPECT_THAT(grid.row_widths, ElementsAre(8, 2));
}

TEST(JobTablesTest, EachSettingIsReadAndWritten) {
  const JobSpec job = GoodJob(
      {"model.tables.0.optimizer={name: adagrad, learningRate: 0.5, weightDecay: 0.25, initialAccumulator: 0.125, "
       "epsilon: 0.0625, rowWise: true, schedule: {name: step, stepEvery: 7, warmupSteps: 3}}",
       "model.tables.0.initializer={uniform: 0.375}", "model.tables.0.admitAfter=2", "model.tables.0.evictAfter=1000",
       "model.tables.0.maxRows=5000000000", "model.tables.0.precision=bf16", "model.tables.1.initializer=zeros",
       "model.tableBuckets=8", "model.layers.0.embedding.pooling=sqrtN"});
  const ModelTable& users = job.model.tables[0];
  EXPECT_EQ(users.optimizer.learning_rate, 0.5);
  EXPECT_EQ(users.optimizer.weight_decay, 0.25);
  EXPECT_EQ(users.optimizer.initial_accumulator, 0.125);
  EXPECT_EQ(users.optimizer.epsilon, 0.0625);
  EXPECT_EQ(users.optimizer.schedule.step_every, 7);
  EXPECT_TRUE(users.row_wise);
  EXPECT_EQ(users.initial, 0.375);
  EXPECT_EQ(users.admit_after, 2);
  EXPECT_EQ(users.evict_after, 1000);
  EXPECT_EQ(users.max_rows, 5000000000);
  EXPECT_TRUE(users.halves);
  EXPECT_EQ(job.model.tables[1].initial, 0);
  EXPECT_EQ(job.model.table_buckets, 8);
  EXPECT_EQ(std::get<EmbeddingSpec>(job.model.layers[0].op),
            (EmbeddingSpec{"users", {"user", "job"}, Pooling::kSqrtN, false}));
  EXPECT_EQ(std::get<EmbeddingSpec>(job.model.layers[3].op),
            (EmbeddingSpec{"wide", {"user", "job"}, Pooling::kSum, true}));
  const std::string text = CanonicalJob(job);
  const absl::StatusOr<JobSpec> again = ParseCanonicalJob(text);
  ASSERT_TRUE(again.ok()) << again.status() << text;
  EXPECT_EQ(*again, job) << text;
  EXPECT_EQ(CanonicalJob(*again), text);
  for (const char* kind : {"sgd", "adam"}) {
    const JobSpec other = GoodJob({absl::StrCat("model.tables.0.optimizer={name: ", kind, "}")});
    EXPECT_EQ(*ParseCanonicalJob(CanonicalJob(other)), other);
  }
}

TEST(JobTablesTest, AnEmbeddingYieldsRowsSideBySideOrTheirSum) {
  const ModelShapes shapes = InferShapes(GoodJob().model);
  EXPECT_THAT(shapes.outputs[0], ElementsAre(2, 8));
  EXPECT_THAT(shapes.outputs[1], ElementsAre(17));
  EXPECT_THAT(shapes.outputs[3], ElementsAre(2));
  EXPECT_THAT(InferShapes(GoodJob({"model.layers.0.embedding={table: users, column: user}"}).model).outputs[0],
              ElementsAre(8));
}

TEST(JobTablesTest, AModelMayHaveNoInputs) {
  const char* text = R"(name: j
model:
  tables: [{name: t, width: 4}]
  layers: [{embedding: {table: t, column: user}}, {dense: {units: 2}}]
data: {format: jsonl, train: a, label: y, columns: [{name: user, key: text, width: 5}]}
)";
  const JobSpec job = GoodJob({}, text);
  EXPECT_THAT(job.model.inputs, IsEmpty());
  EXPECT_THAT(job.model.layers[0].from, IsEmpty());
  EXPECT_EQ(job.model.layers[0].name, "embedding_0");
  EXPECT_THAT(job.model.layers[1].from, ElementsAre("embedding_0"));
  EXPECT_TRUE(job.data.columns[0].key_is_text);
  EXPECT_EQ(job.data.columns[0].numbers, 5);
  EXPECT_EQ(*ParseCanonicalJob(CanonicalJob(job)), job);
  EXPECT_EQ(GoodJob({"model.inputs=[]"}, text), job);
  EXPECT_THAT(ErrorsWith({"model.layers.0={dense: {units: 2}}"}, text),
              testing::Contains(HasSubstr("model.layers.0.from: is missing: without model.inputs the first layer is an "
                                          "embedding")));
}

TEST(JobTablesTest, AllColumnsOfAnInputAreThoseWithoutKeys) {
  const JobSpec job = GoodJob({"model.inputs.0={name: age, columns: all}"});
  EXPECT_THAT(job.model.inputs[0].columns, ElementsAre("age", "job"));
  EXPECT_THAT(ErrorsWith({"model.inputs.0={name: age, columns: all}",
                          "data.columns=[{name: job, key: text}, {name: user, key: integer}]"}),
              ElementsAre(HasSubstr("model.inputs.0.columns: is all, but all of data.columns have keys")));
}

struct Refusal {
  const char* override_;
  const char* error;
};

TEST(JobTablesTest, WhatMakesNoSenseIsNamed) {
  const Refusal refusals[] = {
      {"model.tables.0={width: 8}", "model.tables.0.name: is missing"},
      {"model.tables.0={name: users}", "model.tables.0.width: is missing"},
      {"model.tables.0.width=4097", "model.tables.0.width: is 4097, but must lie between 1 and 4096"},
      {"model.tables.0.name=wide", "model.tables.1.name: two tables are named wide"},
      {"model.tables=[]", "model.tables: has 0 entries, but 1 to 256 are allowed"},
      {"model.tables.0.optimizer={name: momentum}", "must be one of sgd, adagrad, adam, ftrl"},
      {"model.tables.0.optimizer={name: sgd, beta1: 0.5}", "beta1: means something only with name: adam"},
      {"model.tables.0.optimizer={name: adam, rowWise: true}",
       "model.tables.0.optimizer.rowWise: means something only with name: adagrad, but name is adam"},
      {"model.tables.0.optimizer={clipNorm: 1}",
       "model.tables.0.optimizer.clipNorm: gradients of rows are not clipped; leave it out"},
      {"model.tables.0.optimizer={overrides: []}", "overrides: are of variables, and a table has one rule"},
      {"model.tables.0.optimizer={learningRate: 1, weightDecay: 1}", "weightDecay: is 1, and times the learning rate"},
      {"model.tables.0.initializer=ones", "model.tables.0.initializer: is ones, but must be zeros or a map"},
      {"model.tables.0.initializer={uniform: 0}", "initializer.uniform: is 0, but must be between 1e-37 and 1e30"},
      {"model.tables.0.initializer={}", "model.tables.0.initializer.uniform: is missing"},
      {"model.tables.0.admitAfter=0", "admitAfter: is 0, but must lie between 1 and 16777216"},
      {"model.tables.0.evictAfter=16777217", "but must lie between 0 and 16777216"},
      {"model.tables.0.precision=fp16", "must be one of fp32, bf16"},
      {"model.tables.0.rows=3", "model.tables.0.rows: unknown key"},
      {"model.tableBuckets=4097", "model.tableBuckets: is 4097, but must lie between 1 and 4096"},
      {"model.layers.0.from=age", "model.layers.0.from: means something only with another kind of layer, but an"},
      {"model.layers.0.embedding.table=user", "reads table user, which is none of model.tables; did you mean users?"},
      {"model.layers.0.embedding={table: users}", "model.layers.0.embedding.column: is missing: which of"},
      {"model.layers.0.embedding={column: user}", "model.layers.0.embedding.table: is missing"},
      {"model.layers.0.embedding.column=user", "embedding.columns: stands beside column"},
      {"model.layers.0.embedding.columns=[user, user]", "embedding.columns.1: user stands there twice"},
      {"model.layers.0.embedding.columns=[usr]", "columns.0: 'usr' is none of data.columns; did you mean user?"},
      {"model.layers.0.embedding.columns=[age]",
       "columns.0: column age is a number, and a table has rows of categories or keys; give the column buckets, a "
       "vocabulary, a hash or a key"},
      {"model.layers.0.embedding.pooling=max", "must be one of sum, mean, sqrtN"},
      {"model.layers.0.embedding.join=add", "must be one of concat, sum"},
      {"model.layers.3.embedding.join=concat", "adds logits of shape [2] and linear of shape [2, 2]"},
      {"model.inputs.0={name: age, columns: [age, user]}",
       "model.inputs.0.columns: 'user' has keys, of which there are too many to lie in an input; read it by a layer: "
       "{embedding: {table: ..., column: user}}"},
      {"training.consistency=sync", "training.consistency: does not go with model.tables in this version: sync sums"},
      {"training.localSteps=2", "training.localSteps: does not go with model.tables in this version"},
      {"training.pullAhead=true", "training.pullAhead: does not go with model.tables in this version"},
      {"data.columns.2={name: user, key: string}", "data.columns.2.key: is string, but must be one of integer, text"},
      {"data.columns.2={name: user, key: text, hash: 3}", "a column is of one kind"},
      {"data.columns.2={name: user, key: text, width: 2}", "data.columns.2.width: a field of csv has one key"},
      {"data.columns.2={name: user, key: text, log: true}", "log: means something only with a number, but this column"},
      {"data.columns.2={name: user, key: text, default: 1}", "default: means something only with a number or buckets"},
      {"data.columns.2={name: user, key: text, from: [a, b], width: 2}", "width: fields that are crossed are one key"},
      {"data.columns.2={name: user, key: integer, from: [a, b]}", "several fields are crossed, which needs hash"},
  };
  for (const Refusal& refusal : refusals) {
    EXPECT_THAT(ErrorsWith({refusal.override_}), ElementsAre(HasSubstr(refusal.error))) << refusal.override_;
  }
}

TEST(JobTablesTest, TablesNeedReadersAndRecords) {
  EXPECT_THAT(
      ErrorsWith({"model.layers.3.embedding.table=users", "model.tables.0.width=2"}),
      ElementsAre("model.tables.1: no layer reads table wide; add one, {embedding: {table: wide, column: ...}}, "
                  "or leave the table out"));
  EXPECT_THAT(ErrorsWith({"model.tables="}), ElementsAre(HasSubstr("reads table users, which is none of model.tables"),
                                                         HasSubstr("reads table wide, which is none of model.tables")));
  const std::string idx =
      "name: j\nmodel: {inputs: [{name: x, shape: [4]}], layers: [{dense: {units: 2}}]}\n"
      "data: {train: {images: a, labels: b}}\n";
  EXPECT_THAT(ErrorsWith({"model.tables=[{name: t, width: 1}]"}, idx),
              testing::Contains("model.tables: are read by columns of data, but data.format is idx; use one with "
                                "records, such as csv or parquet"));
  EXPECT_THAT(ErrorsWith({"model.tableBuckets=8"}, idx),
              ElementsAre("model.tableBuckets: means something only with tables, but this model has none"));
  const std::string own =
      "name: j\npython: {module: t, sha256: ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad, bytes: "
      "3}\n"
      "model: {variables: [{name: v, shape: []}], initializeFrom: f, tables: []}\n"
      "data: {format: python, trainExamples: 1}\n";
  EXPECT_THAT(ErrorsWith({}, own), ElementsAre("model.tables: has 0 entries, but 1 to 256 are allowed"));
}

TEST(JobTablesTest, ThePlanHasTablesButNotTheirRates) {
  const JobSpec job = GoodJob();
  const auto differences = [&](const std::string& override) { return PlanDifferences(GoodJob({override}), job); };
  for (const char* rate : {"model.tables.1.optimizer.l1=0.25", "model.tables.0.optimizer.learningRate=0.5",
                           "model.tables.0.optimizer.schedule.warmupSteps=5"}) {
    EXPECT_THAT(differences(rate), IsEmpty()) << rate;
  }
  for (const char* another :
       {"model.tables.0.name=wide2", "model.tables.0.width=9", "model.tables.0.optimizer.name=adam",
        "model.tables.0.optimizer.rowWise=true", "model.tables.0.precision=bf16", "model.tables.0.admitAfter=2",
        "model.tables.0.evictAfter=2", "model.tables.0.maxRows=2", "model.tables.0.initializer=zeros"}) {
    const std::string name = "model.layers.0.embedding.table=" + std::string(another).substr(20);
    const bool renames = std::string(another).starts_with("model.tables.0.name");
    const JobSpec other = renames ? GoodJob({another, name}) : GoodJob({another});
    EXPECT_THAT(PlanDifferences(other, job), testing::Contains("model.tables")) << another;
  }
  EXPECT_THAT(differences("model.tableBuckets=8"), ElementsAre("model.tableBuckets"));
  EXPECT_THAT(differences("model.layers.0.embedding.pooling=mean"), ElementsAre("model"));
  EXPECT_THAT(differences("data.columns.2.key=text"), ElementsAre("data.columns"));
  const JobSpec buckets = GoodJob({"model.tableBuckets=8"});
  EXPECT_THAT(std::string(CheckSamePlan(buckets, CanonicalJob(job), "it").message()),
              HasSubstr("model.tableBuckets (32 there, 8 here)"));
}

}  // namespace
}  // namespace downpour
