#include "job/job_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "runtime/prng.h"
#include "schema/text.h"
#include "tests/unit/job/job_text.h"

namespace downpour {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

TEST(JobFile, ReadsWhatIsThereAndFillsInTheRest) {
  const JobFileResult result = ParseJob(kJob, "j.yaml");
  ASSERT_THAT(result.errors, IsEmpty()) << ToString(result.errors[0]);
  const JobSpec& job = result.job;
  EXPECT_EQ(job.name, "mnist");
  EXPECT_EQ(job.seed, 1u);
  EXPECT_EQ(job.cluster.scale_tier, "CUSTOM");
  EXPECT_EQ(job.cluster.worker_count, 4);
  ASSERT_THAT(job.model.layers, SizeIs(2));
  EXPECT_EQ(job.model.layers[0].name, "dense_0");
  EXPECT_THAT(job.model.layers[0].from, ElementsAre("image"));
  EXPECT_THAT(job.model.layers[1].from, ElementsAre("dense_0"));
  EXPECT_EQ(std::get<DenseSpec>(job.model.layers[0].op), (DenseSpec{256, Activation::kRelu, true}));
  EXPECT_EQ(job.training.optimizer.kind, OptimizerKind::kMomentum);
  EXPECT_EQ(job.training.lease_batches, 16);
  EXPECT_TRUE(job.data.eval.empty());
  EXPECT_EQ(job.checkpoint.every, std::chrono::seconds(30));
}

TEST(JobFile, WhatAnOverrideTakesAwayIsMissingByIt) {
  const JobFileResult result = ParseJob(kJob, "j.yaml", {"name=null", "model.inputs=null"});
  ASSERT_THAT(result.errors, SizeIs(2));
  EXPECT_EQ(ToString(result.errors[0]), "--set: name: is missing");
  EXPECT_THAT(ToString(result.errors[1]), HasSubstr("--set: model.inputs: is missing"));
}

TEST(JobFile, EveryErrorIsReportedAtOnceWithItsPlace) {
  const std::string text = R"(nam: mnist
seed: -1
model:
  inputs: [{name: image, shape: [28, 0]}]
  layers: [{dens: {units: 2}}, {dense: {units: many}}]
  loss: softmaxCrossEntrpy
training:
  batch_size: 64
  epochs: 0
  epochs: 3
data: {format: leveldb, train: {images: a}}
)";
  EXPECT_THAT(
      ErrorsOf(text),
      ElementsAre(AllOf(HasSubstr("j.yaml:1:1: name: is missing")),
                  AllOf(HasSubstr("j.yaml:1:1: nam: unknown key; did you mean name?")),
                  AllOf(HasSubstr("j.yaml:2:7: seed: must be a whole number from 0"), HasSubstr("but is -1")),
                  AllOf(HasSubstr("j.yaml:4:38: model.inputs.0.shape.1: is 0, but must lie between 1 and")),
                  AllOf(HasSubstr("j.yaml:5:13: model.layers.0.dens: unknown key; did you mean dense?")),
                  AllOf(HasSubstr("j.yaml:5:48: model.layers.1.dense.units: must be a whole number, but is many")),
                  AllOf(HasSubstr("j.yaml:6:9: model.loss: is softmaxCrossEntrpy"), HasSubstr("meanSquaredError"),
                        HasSubstr("did you mean softmaxCrossEntropy?")),
                  AllOf(HasSubstr("j.yaml:8:3: training.batch_size: unknown key; did you mean batchSize?")),
                  AllOf(HasSubstr("j.yaml:9:11: training.epochs: is 0, but must lie between 1 and")),
                  AllOf(HasSubstr("j.yaml:10:3: the key epochs stands here a second time, the first in line 9")),
                  AllOf(HasSubstr("j.yaml:11:16: data.format: is leveldb, but must be one of idx")),
                  AllOf(HasSubstr("j.yaml:11:32: data.train.labels: is missing"))));
}

TEST(JobFile, UnknownKeysWithoutANeighbourListTheKnownOnes) {
  EXPECT_THAT(OnlyError(With("keep: 3", "zzz: 3")),
              HasSubstr("checkpoint.zzz: unknown key; known here: every, keep, via"));
}

TEST(JobFile, TiersFixTheCounts) {
  const std::string counts = "workerCount: 4, parameterServerCount: 2";
  const auto cluster = [&](const std::string& tier) {
    return ParseJob(With(counts, "scaleTier: " + tier), "j.yaml").job.cluster;
  };
  EXPECT_EQ(cluster("BASIC"), (ClusterSpec{"BASIC", 1, 1}));
  EXPECT_EQ(cluster("STANDARD_1"), (ClusterSpec{"STANDARD_1", 5, 3}));
  EXPECT_EQ(cluster("PREMIUM_1"), (ClusterSpec{"PREMIUM_1", 20, 11}));
  EXPECT_EQ(cluster("CUSTOM"), (ClusterSpec{"CUSTOM", 1, 1}));
  EXPECT_THAT(OnlyError(With(counts, "scaleTier: BASIC, workerCount: 2")),
              HasSubstr("j.yaml:2:42: cluster.workerCount: is fixed by scaleTier BASIC"));
  EXPECT_THAT(OnlyError(With(counts, "scaleTier: STANDARD-1")), HasSubstr("did you mean STANDARD_1?"));
  EXPECT_THAT(OnlyError(With(counts, "workerCount: 0")), HasSubstr("between 1 and 1024"));
}

// Job files of earlier releases have it, where 1 was the one value that it could have.
TEST(JobFile, ReplicasHaveNoMeaningAnyMore) {
  const JobFileResult one = ParseJob(With("epochs: 10", "replicas: 1"), "j.yaml");
  EXPECT_TRUE(one.ok());
  ASSERT_EQ(one.warnings.size(), 1u);
  EXPECT_THAT(ToString(one.warnings[0]), HasSubstr("training.replicas: has no meaning any more: there is one copy"));
  EXPECT_THAT(OnlyError(With("epochs: 10", "replicas: 2")), HasSubstr("training.replicas: is no key any more"));
}

TEST(JobFile, ConsistencyGroupsTheWorkers) {
  const auto training = [](const std::string& text) {
    const JobFileResult result = ParseJob(With("epochs: 10", text), "j.yaml");
    EXPECT_TRUE(result.ok()) << text << ": " << ToString(result.errors[0]);
    return result.job.training;
  };
  const TrainingSpec sync = training("consistency: sync\n  backupWorkers: 1\n  pushEvery: 3");
  EXPECT_EQ(sync.group_size, 3) << "of four workers";
  EXPECT_EQ(sync.lease_batches, 3) << "a lease of one step";
  EXPECT_EQ(training("consistency: ssp\n  groupSize: 7").group_size, 7);
  EXPECT_EQ(training("consistency: ssp").ssp_bound, 3);
  EXPECT_EQ(training("maxStaleness: 0").max_staleness, 0);
  EXPECT_EQ(training("epochs: 1").group_size, 1);
}

TEST(JobFile, SettingsOfAnotherConsistencyAreRefused) {
  const std::pair<const char*, const char*> bad[] = {
      {"sspBound: 2", "training.sspBound: means something only with consistency: ssp, but that is async"},
      {"consistency: ssp\n  backupWorkers: 1", "backupWorkers: means something only with consistency: sync"},
      {"groupSize: 2", "training.groupSize: means something only with consistency: ssp or sync, but that is async"},
      {"consistency: sync\n  backupWorkers: 4", "must be fewer than the job's workers, of which there are 4"},
      {"consistency: sync\n  maxStaleness: 4", "maxStaleness: with consistency: sync no gradient is stale"},
      {"consistency: sync\n  pullAhead: true", "training.pullAhead: what is pulled ahead is stale"},
      {"consistency: sync\n  leaseBatches: 16", "leaseBatches: is pushEvery, 1, with consistency: sync; leave it out"},
      {"consistency: ssp\n  sspBound: 0", "between 1 and 1000000"},
      {"consistency: bsp", "async"},
      {"consistency: snyc\n  backupWorkers: 1\n  groupSize: 2\n  pushEvery: 17", "training.consistency: "},
      {"maxStaleness: -1", "between 0 and"},
  };
  for (const auto& [text, error] : bad) {
    EXPECT_THAT(OnlyError(With("epochs: 10", text)), HasSubstr(error)) << text;
  }
}

TEST(JobFile, APushHoldsBatchesOfOneLease) {
  EXPECT_THAT(ErrorsOf(With("epochs: 10", "pushEvery: 16")), IsEmpty());
  EXPECT_THAT(OnlyError(With("epochs: 10", "pushEvery: 17")),
              HasSubstr("training.pushEvery: a push holds batches of one lease, which has 16; take that at most"));
  EXPECT_THAT(ErrorsOf(With("epochs: 10", "pushEvery: 17\n  leaseBatches: 17")), IsEmpty());
  EXPECT_THAT(OnlyError(With("epochs: 10", "pushEvery: 0")), HasSubstr("training.pushEvery: is 0"));
}

// As YAML 1.2 has them.
TEST(JobFile, BooleansAndNothingAreThoseOfTheCoreSchema) {
  for (const std::string word : {"true", "True", "TRUE", "false", "False", "FALSE"}) {
    const JobFileResult read = ParseJob(With("units: 10", "units: 10, bias: " + word), "j.yaml");
    ASSERT_THAT(read.errors, IsEmpty()) << word;
    EXPECT_EQ(std::get<DenseSpec>(read.job.model.layers.back().op).bias, word[0] == 't' || word[0] == 'T') << word;
  }
  for (const std::string nothing : {"", "~", "null", "Null", "NULL"}) {
    EXPECT_THAT(ErrorsOf(With("units: 10", "units: 10, bias: " + nothing)), IsEmpty()) << nothing;
  }
  EXPECT_THAT(OnlyError(With("units: 10", "units: 10, bais: ~")), HasSubstr("bais")) << "a slip is told all the same";
}

TEST(JobFile, TextThatYamlTakesForSomethingElseMustBeQuoted) {
  for (const std::string word : {"yes", "Off", "true", "12", "1e3", "-.5"}) {
    EXPECT_THAT(OnlyError(With("name: mnist", "name: " + word)), HasSubstr("write \"" + word + "\"")) << word;
    EXPECT_THAT(ErrorsOf(With("name: mnist", "name: \"" + word + "\"")), IsEmpty()) << word;
  }
  EXPECT_THAT(OnlyError(With("name: mnist", "name:")),
              HasSubstr("name: is there, but holds nothing (null); give it a value"));
  EXPECT_THAT(OnlyError(With("name: mnist", "name: ../x")), HasSubstr("a name is 1 to 64 letters"));
  EXPECT_THAT(OnlyError(With("images: a", "images: ''")), HasSubstr("must not be empty"));
  EXPECT_THAT(OnlyError(With("epochs: 10", "epochs: \"10\"")), HasSubstr("must be a whole number, but is \"10\""));
  EXPECT_THAT(OnlyError(With("units: 10", "units: 10, bias: yes")), HasSubstr("must be true or false, but is yes"));
}

TEST(JobFile, LayersWithoutAnythingAreToldOnceWithTheRemedy) {
  EXPECT_THAT(OnlyError(With("- dense: {units: 10}", "- null")),
              HasSubstr("j.yaml:7:7: model.layers.1: must be a map of keys and values, but is nothing; write them"));
  EXPECT_THAT(OnlyError(With("- dense: {units: 10}", "- dense")),
              HasSubstr("model.layers.1: must be a map of keys and values, but is dense"));
  EXPECT_THAT(OnlyError(With("- dense: {units: 10}", "- dense:")),
              HasSubstr("j.yaml:7:7: model.layers.1.dense: is there, but holds nothing (null); write dense: {}"));
  const JobFileResult none = ParseJob("name: a\nmodel:\n  inputs: [{name: x, shape: [1]}]\n  layers: ~", "j.yaml");
  EXPECT_THAT(ToString(none.errors.back()),
              HasSubstr("j.yaml:4:3: model.layers: is there, but holds nothing (null); give it a value"));
}

TEST(JobFile, LayersNameTheirKindOnce) {
  EXPECT_THAT(
      OnlyError(With("- dense: {units: 10}", "- {name: x}")),
      HasSubstr(
          "j.yaml:7:7: model.layers.1: needs a kind of layer: dense, activation, dropout, add, multiply, dot, concat"));
  EXPECT_THAT(OnlyError(With("- dense: {units: 10}", "- {dense: {units: 2}, add: {}}")),
              HasSubstr("j.yaml:7:32: model.layers.1.add: a layer is of one kind, and this one is dense"));
  EXPECT_THAT(OnlyError(With("- dense: {units: 10}", "- dense: 10")),
              HasSubstr("must be a map of keys and values, but is 10"));
  EXPECT_THAT(OnlyError(With("- dense: {units: 10}", "- dense: {}")),
              HasSubstr("model.layers.1.dense.units: is missing"));
  EXPECT_THAT(OnlyError(With("- dense: {units: 10}", "- dropout: {rate: 1}")), HasSubstr("at least 0 and below 1"));
}

TEST(JobFile, ModelsWhoseShapesDoNotFitNameTheLayerAndItsPlace) {
  EXPECT_THAT(OnlyError(With("- dense: {units: 10}", "- {dense: {units: 10}, from: dense_O}")),
              HasSubstr("errors: 2"));  // and nobody reads dense_0
  EXPECT_THAT(ErrorsOf(With("- dense: {units: 10}", "- {name: out, dense: {units: 10}, from: dense_O}")),
              Contains(AllOf(HasSubstr("j.yaml:7:7: model.layers.1: layer out: reads dense_O"),
                             HasSubstr("did you mean dense_0?"))));
  EXPECT_THAT(OnlyError(With("- dense: {units: 10}", "- {add: {}, from: [image, dense_0]}")),
              HasSubstr("layer add_0: adds image of shape [28, 28, 1] and dense_0 of shape [256]"));
  EXPECT_THAT(OnlyError(With("units: 10", "units: 17000000000")), HasSubstr("layer dense_1: with 17000000000 units"));
}

// With a model of these layers.
std::vector<std::string> ErrorsOfLayers(const std::string& layers, const std::string& more = "") {
  return ErrorsOf("name: m\nmodel:\n  inputs: [{name: image, shape: [4]}]\n" + more + "  layers:\n" + layers +
                  "training: {epochs: 0}\ndata: {train: {images: a, labels: b}}\n");
}

TEST(JobFile, GraphErrorsStandBesideAllOthersAndNoneFollowsFromAnother) {
  const auto epochs = HasSubstr("training.epochs: is 0");
  EXPECT_THAT(ErrorsOfLayers("    - {name: a, dense: {units: x}}\n"
                             "    - {name: b, dense: {units: 3}, from: [aa]}\n"
                             "    - {name: c, add: {}, from: [a, b, image]}\n"),
              ElementsAre(HasSubstr("units: must be"), HasSubstr("model.layers.1: layer b: reads aa"), epochs));
}

TEST(JobFile, WhatAFaultMayExplainIsNotReported) {
  const auto epochs = HasSubstr("training.epochs: is 0");
  // Of unknown width, name, kind, reader and loss.
  EXPECT_THAT(ErrorsOfLayers("    - {name: a, dense: {units: x}}\n    - {add: {}, from: [a, image]}\n"),
              ElementsAre(HasSubstr("units: must be"), epochs));
  EXPECT_THAT(ErrorsOfLayers("    - {nam: a, dense: {units: 3}}\n    - {dense: {units: 3}, from: a}\n"),
              ElementsAre(HasSubstr("unknown key; did you mean name?"), epochs));
  EXPECT_THAT(ErrorsOfLayers("    - dens: {units: 3}\n    - {dense: {units: 3}, from: dense_0}\n"),
              ElementsAre(HasSubstr("unknown key; did you mean dense?"), epochs));
  EXPECT_THAT(ErrorsOfLayers("    - {name: a, dense: {units: 3}}\n    - {dense: {units: 3}, from: 7}\n"),
              ElementsAre(HasSubstr("model.layers.1.from"), epochs));
  EXPECT_THAT(ErrorsOfLayers("    - dense: {units: 1}\n", "  loss: squared\n"),
              ElementsAre(HasSubstr("model.loss: is squared"), epochs));
}

TEST(JobFile, AnErrorBeginsWithWhatIsKnownOfItsPlace) {
  EXPECT_EQ(ToString({.file = "j.yaml", .key = "seed", .what = "is no number", .remedy = "write one"}),
            "j.yaml: seed: is no number; write one");
  EXPECT_EQ(ToString({.file = "", .key = "seed", .what = "is no number"}), "seed: is no number");
  EXPECT_EQ(ToString({.file = "", .key = "", .what = "is no number"}), "is no number");
}

TEST(JobFile, GraphsAreReadWithFromAndDefaults) {
  const JobFileResult result = ParseJob(With("- dense: {units: 10}",
                                             "- {name: wide, from: image, dense: {units: 8}}\n"
                                             "    - {concat: {}, from: [dense_0, wide]}\n"
                                             "    - activation: {function: tanh}\n"
                                             "    - dropout: {rate: 0.25}\n"
                                             "    - dense: {units: 10, bias: false}"),
                                        "j.yaml");
  ASSERT_THAT(result.errors, IsEmpty()) << ToString(result.errors[0]);
  const std::vector<LayerSpec>& layers = result.job.model.layers;
  ASSERT_THAT(layers, SizeIs(6));
  EXPECT_THAT(layers[2].from, ElementsAre("dense_0", "wide"));
  EXPECT_EQ(layers[3].name, "activation_0");
  EXPECT_THAT(layers[3].from, ElementsAre("concat_0"));
  EXPECT_EQ(std::get<ActivationSpec>(layers[3].op).function, Activation::kTanh);
  EXPECT_EQ(std::get<DropoutSpec>(layers[4].op).rate, 0.25);
  EXPECT_EQ(layers[5].name, "dense_2");
  EXPECT_FALSE(std::get<DenseSpec>(layers[5].op).bias);
}

TEST(JobFile, TheFirstLayerOfSeveralInputsSaysWhichItReads) {
  const std::string two = With("[{name: image, shape: [28, 28, 1]}]", "[{name: a, shape: [4]}, {name: b, shape: [4]}]");
  EXPECT_THAT(ErrorsOf(two), ElementsAre(HasSubstr("model.inputs: has several inputs, but data of format idx feed one"),
                                         HasSubstr("model.layers.0.from: is missing")));
}

TEST(JobFile, StoppingEarlyNeedsEvaluationsOfItsMetric) {
  const std::vector<std::string> eval = {"data.eval={images: c, labels: d}"};
  const auto errors_of = [&](std::vector<std::string> settings) {
    settings.insert(settings.end(), eval.begin(), eval.end());
    std::vector<std::string> errors;
    for (const JobError& error : ParseJob(kJob, "j.yaml", settings).errors) errors.push_back(ToString(error));
    return errors;
  };
  const JobFileResult good = ParseJob(kJob, "j.yaml", {"training.stopEarly={}", eval[0]});
  ASSERT_THAT(good.errors, IsEmpty()) << ToString(good.errors[0]);
  EXPECT_EQ(good.job.training.stop_early, StopEarlySpec());
  EXPECT_EQ(ParseJob(kJob, "j.yaml").job.training.stop_early, std::nullopt);
  EXPECT_THAT(errors_of({"training.stopEarly={metric: accuracy, patience: 1, minDelta: 0.5}"}), IsEmpty());
  EXPECT_THAT(errors_of({"training.stopEarly={patience: 0}"}), ElementsAre(HasSubstr("training.stopEarly.patience")));
  EXPECT_THAT(errors_of({"training.stopEarly={minDelta: -1}"}), ElementsAre(HasSubstr("training.stopEarly.minDelta")));
  EXPECT_THAT(errors_of({"training.stopEarly={}", "training.evaluateEveryEpochs=0"}),
              ElementsAre(HasSubstr("training.stopEarly: counts evaluations, but training.evaluateEveryEpochs is 0")));
  EXPECT_THAT(errors_of({"training.stopEarly={metric: accuracy}", "model.loss=meanSquaredError"}),
              ElementsAre(HasSubstr("training.stopEarly.metric")));
  EXPECT_THAT(errors_of({"training.stopEarly={metric: top5}"}), ElementsAre(HasSubstr("training.stopEarly.metric")));
  EXPECT_THAT(errors_of({"training.stopEarly={metric: top5}", "training.metrics=[top5]"}), IsEmpty());
  const JobFileResult blind = ParseJob(kJob, "j.yaml", {"training.stopEarly={}", "data.eval="});
  ASSERT_EQ(blind.errors.size(), 1u);
  EXPECT_THAT(ToString(blind.errors[0]), HasSubstr("but there is no data.eval"));
}

TEST(JobFile, TheBestCheckpointIsChosenByWhatEvaluationsTell) {
  const auto best_of = [](std::vector<std::string> settings) {
    settings.push_back("data.eval={images: c, labels: d}");
    return ParseJob(kJob, "j.yaml", settings).job.checkpoint.best;
  };
  EXPECT_EQ(best_of({}), "loss");
  EXPECT_EQ(best_of({"training.stopEarly={metric: accuracy}"}), "accuracy");
  EXPECT_EQ(best_of({"training.stopEarly={metric: accuracy}", "checkpoint.best=loss"}), "loss");
  EXPECT_EQ(best_of({"training.metrics=[top5]", "checkpoint.best=top5"}), "top5");
  EXPECT_EQ(best_of({"checkpoint.best=none"}), kNoBest);
  const JobFileResult wrong = ParseJob(kJob, "j.yaml", {"checkpoint.best=top5"});
  ASSERT_EQ(wrong.errors.size(), 1u);
  EXPECT_THAT(ToString(wrong.errors[0]), HasSubstr("checkpoint.best"));
  EXPECT_THAT(ToString(wrong.errors[0]), HasSubstr("none"));
}

TEST(JobFile, OverridesBeatTheFile) {
  const JobFileResult result =
      ParseJob(kJob, "j.yaml",
               {"training.epochs=3", "model.layers.0.dense.units=64", "data.eval={images: c, labels: d}",
                "training.evaluateEveryEpochs=0", "training.epochs=4",
                "training.optimizer.momentum=", "training.optimizer.name=sgd", "checkpoint.every=1m"});
  ASSERT_THAT(result.errors, IsEmpty()) << ToString(result.errors[0]);
  EXPECT_EQ(result.job.training.epochs, 4);
  EXPECT_EQ(result.job.training.evaluate_every_epochs, 0);
  EXPECT_EQ(std::get<DenseSpec>(result.job.model.layers[0].op).units, 64);
  EXPECT_EQ(result.job.data.eval.labels, "d");
  EXPECT_EQ(result.job.training.optimizer.kind, OptimizerKind::kSgd);
  EXPECT_EQ(result.job.checkpoint.every, std::chrono::minutes(1));
  EXPECT_EQ(result.origins.at("data.eval.images"), "--set");
  EXPECT_EQ(result.origins.at("training.optimizer.name"), "--set");
  EXPECT_EQ(result.origins.at("training.batchSize"), "j.yaml:9");
  EXPECT_EQ(result.origins.count("training.optimizer.momentum"), 0u);
  EXPECT_EQ(result.origins.count("training.leaseBatches"), 0u);
}

TEST(JobFile, OverridesMayMakeWholeSections) {
  const JobFileResult result =
      ParseJob("", "j.yaml",
               {"name=x", "model.inputs=[{name: i, shape: [4]}]", "model.layers=[{dense: {units: 2}}]",
                "data.train.images=a", "data.train.labels=b"});
  ASSERT_THAT(result.errors, IsEmpty()) << ToString(result.errors[0]);
  EXPECT_EQ(result.job.data.train.images, "a");
}

TEST(JobFile, BadOverridesAreNamed) {
  EXPECT_THAT(ErrorsOf(kJob, {"training.epoch=3"}),
              ElementsAre(HasSubstr("--set: training.epoch: unknown key; did you mean epochs?")));
  EXPECT_THAT(ErrorsOf(kJob, {"training.epochs=three"}),
              ElementsAre(HasSubstr("--set: training.epochs: must be a whole number, but is three")));
  EXPECT_THAT(ErrorsOf(kJob, {"training.epochs"}), ElementsAre(HasSubstr("not of the form")));
  EXPECT_THAT(ErrorsOf(kJob, {"=3"}), ElementsAre(HasSubstr("not of the form")));
  EXPECT_THAT(ErrorsOf(kJob, {"training..epochs=3"}), ElementsAre(HasSubstr("not of the form")));
  EXPECT_THAT(ErrorsOf(kJob, {"name.first=x"}),
              ElementsAre(HasSubstr("--set: name.first: there is no first in mnist")));
  EXPECT_THAT(ErrorsOf(kJob, {"model.layers.2.dense.units=1"}), ElementsAre(HasSubstr("2 is no place in a list of 2")));
  EXPECT_THAT(ErrorsOf(kJob, {"model.layers.x=1"}), ElementsAre(HasSubstr("x is no place in a list")));
  EXPECT_THAT(ErrorsOf(kJob, {"training.epochs=[1"}), ElementsAre(HasSubstr("--set: training.epochs: ")));
  EXPECT_THAT(ErrorsOf(kJob, {"cluster.scaleTier=BASIC"}), SizeIs(2));
}

TEST(JobFile, TextsThatAreNoJobAreRefused) {
  EXPECT_THAT(OnlyError(""), HasSubstr("must be a map of keys and values, but is nothing"));
  EXPECT_THAT(OnlyError("[1, 2]"), HasSubstr("but is a list"));
  EXPECT_THAT(OnlyError("a: [1\nb: 2"), HasSubstr("j.yaml:"));
  EXPECT_THAT(OnlyError(std::string(1, '\xff')), HasSubstr("j.yaml"));
  EXPECT_THAT(ParseJob(With("name: mnist", "<<: {name: x}\nname: y"), "").errors, SizeIs(1));
}

TEST(JobFile, MutatedTextsAreReadOrRefused) {
  Prng prng(1);
  const std::string inserts = "{}[]:,-&*?!|>%@\"'#~\n\t 0\xff";
  int read = 0;
  for (int i = 0; i < 3000; ++i) {
    std::string text = kJob;
    for (uint64_t n = prng.Below(4) + 1; n > 0; --n) {
      const size_t at = prng.Below(text.size());
      if (prng.Chance(0.5)) text.erase(at, prng.Below(20));
      if (prng.Chance(0.5)) text.insert(std::min(at, text.size()), 1, inserts[prng.Below(inserts.size())]);
    }
    const JobFileResult result = ParseJob(text, "j.yaml");
    if (!result.ok()) continue;
    ++read;
    const absl::StatusOr<JobSpec> back = ParseCanonicalJob(CanonicalJob(result.job));
    ASSERT_TRUE(back.ok()) << back.status() << "\n" << text;
    ASSERT_EQ(*back, result.job) << text;
  }
  EXPECT_GT(read, 50);
}

TEST(JobFile, SizesAreBounded) {
  std::string layers = "[{dense: {units: 2}}";
  for (int i = 0; i < 1000; ++i) layers += ", {dense: {units: 2}}";
  EXPECT_THAT(ErrorsOf(kJob, {"model.layers=" + layers + "]"}),
              ElementsAre(HasSubstr("model.layers: has 1001 entries, but 1 to 1000 are allowed")));
  std::string keys = kJob;
  for (int i = 0; i < 100000; ++i) keys += "k" + std::to_string(i) + ": 1\n";
  EXPECT_THAT(ErrorsOf(keys), SizeIs(100));
}

TEST(JobFile, DataPathsAreResolvedAgainstWhereTheyWereWritten) {
  JobFileResult result = ParseJob(With("images: a", "images: sub/../a"), "j.yaml", {"data.train.labels=./mine"});
  ResolveDataPaths("/jobs", "/home/ada", &result);
  EXPECT_EQ(result.job.data.train.images, "/jobs/a");
  EXPECT_EQ(result.job.data.train.labels, "/home/ada/mine");
  EXPECT_TRUE(result.job.data.eval.empty());
  EXPECT_EQ(result.job.model.initialize_from, "") << "no path is no folder";
  result = ParseJob(kJob, "j.yaml", {"model.initializeFrom=m.safetensors"});
  ResolveDataPaths("/jobs", "/home/ada", &result);
  EXPECT_EQ(result.job.model.initialize_from, "/home/ada/m.safetensors");
  EXPECT_EQ(*ParseCanonicalJob(CanonicalJob(result.job)), result.job);
  result = ParseJob(With("images: a", "images: /data/a"), "j.yaml");
  ResolveDataPaths("/jobs", "/home/ada", &result);
  EXPECT_EQ(result.job.data.train.images, "/data/a");
}

TEST(JobFile, FoldersThatMakeADataPathUnfitToTravelAreErrors) {
  const std::string text = With("images: a", "images: a");
  for (const auto& [folder, fault] : {std::pair<std::string, std::string>("/caf\xe9", "not valid UTF-8"),
                                      {"/" + std::string(5000, 'x'), "longer than 4096 bytes"}}) {
    JobFileResult result = ParseJob(text, "j.yaml");
    ASSERT_TRUE(result.ok());
    ResolveDataPaths(folder, "/home/ada", &result);
    ASSERT_FALSE(result.ok());
    EXPECT_THAT(ToString(result.errors[0]),
                AllOf(HasSubstr("data.train.images: begins in this folder"), HasSubstr(fault)));
    EXPECT_TRUE(IsText(ToString(result.errors[0])));
  }
}

}  // namespace
}  // namespace downpour
