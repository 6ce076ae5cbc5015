#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/unit/tools/cli/made_checkpoint.h"
#include "tests/unit/tools/cli/mnist_job.h"
#include "tests/unit/tools/cli/run_tool.h"

namespace downpour {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

TEST(Check, SaysWhatWouldRun) {
  const std::string dir = FreshFolder("check");
  PutFile(dir + "/job.yaml", MnistJob());
  WritePair(dir + "/images", dir + "/labels", 1000, 28, 1000);
  const ToolOutcome outcome = RunDownpour({"check", dir + "/job.yaml"});
  EXPECT_EQ(outcome.code, kExitDone) << outcome.err;
  EXPECT_THAT(outcome.err, IsEmpty());
  EXPECT_THAT(
      outcome.out,
      AllOf(HasSubstr("1 chief, 2 parameter servers, 4 workers"), HasSubstr("235,146 parameters in 6 variables"),
            HasSubstr("dense_0/kernel"), HasSubstr("ps-1: "), HasSubstr("1,000 examples: 16 steps in 4 leases"),
            HasSubstr("160 steps in all"), HasSubstr("Evaluation    none"), Not(HasSubstr("Not here"))));
}

TEST(Check, AFieldThatAFileLacksIsAnErrorAndNotAnAbsentFile) {
  const std::string dir = FreshFolder("check_field");
  const std::string rest =
      "train: t, label: y}\nmodel: {inputs: [{name: r, columns: all}], layers: [{dense: {units: 2}}]}\n";
  PutFile(dir + "/csv.yaml", "name: c\ndata: {format: csv, separator: ',', header: true, columns: [pric], " + rest);
  PutFile(dir + "/libsvm.yaml", "name: c\ndata: {format: libsvm, columns: [pric], " + rest);
  for (const auto& [format, text] : {std::pair("csv", "price,y\n1,0\n2,1\n"), std::pair("libsvm", "0 1:1\n1 1:2\n")}) {
    PutFile(dir + "/t", text);
    const ToolOutcome outcome = RunDownpour({"check", dir + "/" + format + ".yaml"});
    EXPECT_EQ(outcome.code, kExitBadJobFile) << format << outcome.out;
    EXPECT_THAT(outcome.err, AllOf(HasSubstr("has no field 'pric'"), Not(HasSubstr("bring it there"))));
  }
}

TEST(Check, DataWithoutAnExampleAreAnError) {
  const std::string dir = FreshFolder("check_empty");
  PutFile(dir + "/job.yaml",
          "name: c\ndata: {format: csv, header: true, train: t, label: y, columns: [x], skip: 3}\n"
          "model: {inputs: [{name: r, columns: all}], layers: [{dense: {units: 2}}]}\n");
  for (const char* text : {"x,y\n", "x,y\na,0\nb,1\n"}) {
    PutFile(dir + "/t", text);
    const ToolOutcome outcome = RunDownpour({"check", dir + "/job.yaml"});
    EXPECT_EQ(outcome.code, kExitBadJobFile) << outcome.out;
    EXPECT_THAT(outcome.err, HasSubstr("data.train: has no record that can be read")) << text;
  }
}

TEST(Check, AFaultOfTheColumnsLeavesAModelOfUnknownWidth) {
  const std::string dir = FreshFolder("check_columns");
  PutFile(dir + "/job.yaml",
          "name: c\ndata: {format: csv, train: t, label: y, columns: []}\n"
          "model: {inputs: [{name: r, columns: all}], layers: [{dense: {units: 2}}]}\n");
  const ToolOutcome outcome = RunDownpour({"check", dir + "/job.yaml"});
  EXPECT_EQ(outcome.code, kExitBadJobFile) << outcome.out;
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("data.columns: has 0 entries"), HasSubstr("1 error;")));
}

TEST(Check, SaysItAsJson) {
  const std::string dir = FreshFolder("check_json");
  PutFile(dir + "/job.yaml", MnistJob());
  WritePair(dir + "/images", dir + "/labels", 1000, 28, 1000);
  const ToolOutcome outcome = RunDownpour({"check", dir + "/job.yaml", "-o", "json"});
  EXPECT_EQ(outcome.code, kExitDone) << outcome.err;
  const auto json = nlohmann::json::parse(outcome.out);
  EXPECT_EQ(json["errors"].size(), 0u);
  EXPECT_EQ(json["job"]["training"]["batchSize"], 64);
  EXPECT_EQ(json["servers"].size(), 2u);
  EXPECT_EQ(json["servers"][0]["valueBytes"], json["servers"][0]["slotBytes"]);
  EXPECT_EQ(json["steps"], 160);
  EXPECT_EQ(json["trainExamples"], 1000);
}

TEST(Check, WarnsOfSettingsThatWereMeasuredToBeUnstable) {
  const std::string dir = FreshFolder("check_unstable");
  PutFile(dir + "/job.yaml", MnistJob());
  WritePair(dir + "/images", dir + "/labels", 4200, 28, 4200);
  const auto warned = [&](std::vector<std::string> settings) {
    std::vector<std::string> arguments = {"check", dir + "/job.yaml", "--set", "training.leaseBatches=1"};
    for (const std::string& setting : settings) arguments.insert(arguments.end(), {"--set", setting});
    const ToolOutcome outcome = RunDownpour(arguments);
    EXPECT_EQ(outcome.code, kExitDone);
    return outcome.err;
  };
  const std::string none = "training.staleness.method=none";
  EXPECT_THAT(warned({none, "cluster.workerCount=8"}),
              AllOf(HasSubstr("warning: --set: training.staleness.method: none and a momentum of 0.9 or more with 8"),
                    HasSubstr("--set training.staleness.method=auto")));
  EXPECT_THAT(warned({none, "cluster.workerCount=7"}), IsEmpty());
  EXPECT_THAT(warned({none, "cluster.workerCount=8", "training.consistency=sync"}), IsEmpty());
  EXPECT_THAT(warned({none, "cluster.workerCount=8", "training.optimizer.momentum=0.8"}), IsEmpty());
  EXPECT_THAT(warned({none, "cluster.workerCount=8", "training.optimizer={name: sgd}"}), IsEmpty());
  const std::string adam = "training.optimizer={name: adam}";
  EXPECT_THAT(warned({none, "cluster.workerCount=4", adam}), HasSubstr("none and adam with 4 workers is unstable"));
  EXPECT_THAT(warned({none, "cluster.workerCount=3", adam}), IsEmpty());
  EXPECT_THAT(warned({none, "cluster.workerCount=4", "training.optimizer={name: adamw}"}), HasSubstr("none and adamw"));
  EXPECT_THAT(warned({none, "cluster.workerCount=4", "training.optimizer={name: rmsprop}"}), HasSubstr("and rmsprop"));
  const std::string nesterov = "training.optimizer={name: nesterov}", adagrad = "training.optimizer={name: adagrad}";
  EXPECT_THAT(warned({none, "cluster.workerCount=8", nesterov}), HasSubstr("a momentum of 0.9 or more with 8"));
  EXPECT_THAT(warned({none, "cluster.workerCount=7", nesterov}), IsEmpty());
  EXPECT_THAT(warned({none, "cluster.workerCount=16", adagrad}), HasSubstr("none and adagrad with 16"));
  EXPECT_THAT(warned({none, "cluster.workerCount=15", adagrad}), IsEmpty());
  EXPECT_THAT(warned({none, "cluster.workerCount=16", "training.optimizer={name: ftrl}"}), HasSubstr("none and ftrl"));
  EXPECT_THAT(warned({"cluster.workerCount=16"}), IsEmpty());
  EXPECT_THAT(warned({"cluster.workerCount=32", "training.pullAhead=true"}), HasSubstr("training.pullAhead=false"));
  EXPECT_THAT(warned({"cluster.workerCount=16", "training.pullAhead=true"}), IsEmpty());
  EXPECT_THAT(warned({"cluster.workerCount=16", "training.staleness.method=rate"}), HasSubstr("learns less"));
  const std::string sgd = "training.optimizer={name: sgd}", steep = "training.staleness.method=steepRate";
  EXPECT_THAT(warned({"cluster.workerCount=16", sgd, steep}), IsEmpty());
  EXPECT_THAT(warned({"cluster.workerCount=16", sgd}), IsEmpty());
  EXPECT_THAT(warned({"cluster.workerCount=16", "training.optimizer={name: adam}"}), IsEmpty());
  const std::string rate = "training.staleness.method=rate";
  EXPECT_THAT(warned({"cluster.workerCount=4", "training.optimizer={name: adam}", rate}),
              AllOf(HasSubstr("with 4 workers"), HasSubstr("--set training.staleness.method=auto")));
  const std::string rmsprop = "training.optimizer={name: rmsprop}";
  EXPECT_THAT(warned({"cluster.workerCount=4", rmsprop, rate}), HasSubstr("with 4 workers"));
  EXPECT_THAT(warned({"cluster.workerCount=3", rmsprop, rate}), IsEmpty());
  EXPECT_THAT(warned({"cluster.workerCount=4", rmsprop}), IsEmpty());
  EXPECT_THAT(warned({"cluster.workerCount=4", "training.optimizer={name: sgd}", rate}), IsEmpty());
  const std::string whole = "training.leaseBatches=8", local = "training.localSteps=8",
                    diloco = "training.outer.name=nesterov";
  EXPECT_THAT(warned({whole, local, "cluster.workerCount=1"}), IsEmpty());
  EXPECT_THAT(warned({whole, local, "cluster.workerCount=8"}), IsEmpty());
  EXPECT_THAT(warned({whole, local, diloco, "cluster.workerCount=1"}),
              AllOf(HasSubstr("training.outer.momentum: 0.9 or more with 1 worker counts what local steps changed"),
                    HasSubstr("--set training.outer.name=sgd")));
  EXPECT_THAT(warned({whole, local, diloco, "cluster.workerCount=4"}), IsEmpty());
  EXPECT_THAT(warned({whole, local, diloco, "training.outer.momentum=0.8", "cluster.workerCount=1"}), IsEmpty());
  EXPECT_THAT(warned({whole, local, none, "cluster.workerCount=4"}), HasSubstr("none and local steps with 4 workers"));
  EXPECT_THAT(warned({"cluster.workerCount=16", "training.optimizer={name: adagrad}"}), IsEmpty());
}

TEST(Check, WarnsOfAWarmUpThatOutlastsTheJob) {
  const std::string dir = FreshFolder("check_warmup");
  PutFile(dir + "/job.yaml", MnistJob());
  WritePair(dir + "/images", dir + "/labels", 1000, 28, 1000);
  const auto warned = [&](int steps) {
    const ToolOutcome outcome = RunDownpour(
        {"check", dir + "/job.yaml", "--set", "training.optimizer.schedule.warmupSteps=" + std::to_string(steps)});
    EXPECT_EQ(outcome.code, kExitDone);
    return outcome.err;
  };
  EXPECT_THAT(warned(160), IsEmpty());
  EXPECT_THAT(warned(161), AllOf(HasSubstr("schedule.warmupSteps: the job has 160 steps and the warm-up 161"),
                                 HasSubstr("raise training.epochs")));
}

TEST(Check, SaysWhatBeginsWithAFilesValues) {
  const std::string dir = FreshFolder("check_initial");
  PutFile(dir + "/job.yaml", MnistJob());
  WritePair(dir + "/images", dir + "/labels", 1000, 28, 1000);
  const auto check = [&] {
    return RunDownpour({"check", dir + "/job.yaml", "--set", "model.initializeFrom=" + dir + "/m.safetensors"});
  };
  EXPECT_THAT(check().out, HasSubstr("Begins with   " + dir + "/m.safetensors is not on this machine; the chief's"));
  const auto put = [&](const std::string& shape, size_t bytes) {
    std::string header = R"({"dense_2/bias": {"dtype": "F32", "shape": )" + shape + R"(, "data_offsets": [0, )" +
                         std::to_string(bytes) + "]}}";
    header.insert(0, {static_cast<char>(header.size()), 0, 0, 0, 0, 0, 0, 0});
    PutFile(dir + "/m.safetensors", header + std::string(bytes, '\0'));
  };
  put("[10]", 40);
  EXPECT_THAT(check().out,
              HasSubstr("Begins with   1 variable from " + dir + "/m.safetensors; it lacks dense_0/kernel"));
  const std::string finite = check().err;
  EXPECT_THAT(finite, IsEmpty());
  std::fstream(dir + "/m.safetensors", std::ios::in | std::ios::out | std::ios::binary).seekp(-2, std::ios::end)
      << "\x80\x7f";
  const ToolOutcome infinite = check();
  EXPECT_EQ(infinite.code, kExitBadJobFile);
  EXPECT_THAT(infinite.err, HasSubstr("its tensor dense_2/bias is not finite as float32 at element 9"));
  EXPECT_THAT(RunDownpour({"doctor", dir + "/job.yaml", "--set", "model.initializeFrom=" + dir + "/m.safetensors"}).out,
              HasSubstr("PROBLEM  model      model.initializeFrom: "));
  put("[9]", 36);
  const ToolOutcome outcome = check();
  EXPECT_EQ(outcome.code, kExitBadJobFile);
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("--set: model.initializeFrom: "), HasSubstr("has the shape [9]")));
}

TEST(Check, SaysHowOftenIsPushedAndInWhat) {
  const std::string dir = FreshFolder("check_push");
  PutFile(dir + "/job.yaml", MnistJob());
  WritePair(dir + "/images", dir + "/labels", 1000, 28, 1000);
  const ToolOutcome outcome = RunDownpour({"check", dir + "/job.yaml", "--set", "training.pushEvery=6", "--set",
                                           "training.precision=tf32", "--set", "training.wire=bf16", "--set",
                                           "training.pullAhead=true", "--set", "training.leaseBatches=16"});
  EXPECT_EQ(outcome.code, kExitDone) << outcome.err;
  EXPECT_THAT(outcome.out,
              AllOf(HasSubstr("1,000 examples: 3 steps in 1 lease"), HasSubstr("a push for every 6 batches"),
                    HasSubstr("pulled while the step before is computed"),
                    HasSubstr("products in tf32, pushes and pulls in bf16")));
}

TEST(Check, BytesOfTheServersAddUpAndGrowWithTheSlots) {
  const std::string dir = FreshFolder("check_bytes");
  PutFile(dir + "/job.yaml", MnistJob());
  const auto total = [&](const std::string& optimizer, const std::string& method = "auto") {
    return RunDownpour({"check", dir + "/job.yaml", "--set", "cluster.parameterServerCount=1", "--set",
                        "training.optimizer={name: " + optimizer + "}", "--set", "training.staleness.method=" + method})
        .out;
  };
  EXPECT_THAT(total("sgd", "rate"), HasSubstr("918.5 KiB (values 918.5 KiB, optimizer's slots 0 B)"));
  EXPECT_THAT(total("sgd"), HasSubstr("1.8 MiB (values 918.5 KiB, optimizer's slots 918.5 KiB)"));
  EXPECT_THAT(total("momentum"), HasSubstr("1.8 MiB (values 918.5 KiB, optimizer's slots 918.5 KiB)"));
  EXPECT_THAT(total("adam"), HasSubstr("2.7 MiB (values 918.5 KiB, optimizer's slots 1.8 MiB)"));
}

TEST(Check, NumbersOfHalfTheSizeOnTheWireTakeMemoryOnBothSides) {
  const std::string dir = FreshFolder("check_rounded");
  PutFile(dir + "/job.yaml", MnistJob());
  const auto check = [&](const std::string& wire, const std::string& format) {
    return RunDownpour({"check", dir + "/job.yaml", "--set", "cluster.parameterServerCount=1", "--set",
                        "training.optimizer={name: sgd}", "--set", "training.wire=" + wire, "-o", format})
        .out;
  };
  EXPECT_THAT(check("bf16", "table"),
              AllOf(HasSubstr("2.2 MiB (values 918.5 KiB, optimizer's slots 918.5 KiB, values in bf16 459.3 KiB)"),
                    HasSubstr("each worker keeps 918.5 KiB of what rounding took from its gradients")));
  EXPECT_THAT(check("fp32", "table"), Not(HasSubstr("rounding")));
  const auto rounded = nlohmann::json::parse(check("bf16", "json")),
             full = nlohmann::json::parse(check("fp32", "json"));
  EXPECT_EQ(rounded["servers"][0]["roundedBytes"], 2 * 235146);
  EXPECT_EQ(rounded["residualBytes"], 4 * 235146);
  EXPECT_EQ(full["servers"][0]["roundedBytes"], 0);
  EXPECT_EQ(full["residualBytes"], 0);
}

TEST(Check, DataThatIsElsewhereIsNoError) {
  const std::string dir = FreshFolder("check_elsewhere");
  PutFile(dir + "/job.yaml", MnistJob());
  const ToolOutcome outcome = RunDownpour({"check", dir + "/job.yaml"});
  EXPECT_EQ(outcome.code, kExitDone);
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("Not here"), HasSubstr(dir + "/images"), Not(HasSubstr("steps in all"))));
}

TEST(Check, DataThatAreHereAndCannotBeReadAreErrors) {
  const std::string dir = FreshFolder("check_unreadable");
  PutFile(dir + "/job.yaml", MnistJob());
  WritePair(dir + "/images", dir + "/labels", 10, 28, 10);
  std::filesystem::remove(dir + "/images");
  std::filesystem::create_symlink("images", dir + "/images");  // itself
  const ToolOutcome outcome = RunDownpour({"check", dir + "/job.yaml"});
  EXPECT_EQ(outcome.code, kExitBadJobFile);
  EXPECT_THAT(outcome.err, HasSubstr("cannot open " + dir + "/images: "));
}

TEST(Check, AnInputBeyondAllBoundsIsNotMeasuredAgainstTheData) {
  const std::string dir = FreshFolder("check_bounds");
  PutFile(dir + "/job.yaml", MnistJob());
  WritePair(dir + "/images", dir + "/labels", 10, 28, 10);
  const ToolOutcome outcome = RunDownpour({"check", dir + "/job.yaml", "--set", "model.layers=[]", "--set",
                                           "model.inputs.0.shape=[17179869184, 17179869184]"});
  EXPECT_EQ(outcome.code, kExitBadJobFile);
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("model.layers"), Not(HasSubstr("images of 28x28"))));
}

TEST(Check, DataThatDoNotFitAreErrors) {
  const std::string dir = FreshFolder("check_misfit");
  PutFile(dir + "/job.yaml", MnistJob());
  WritePair(dir + "/images", dir + "/labels", 10, 14, 9);
  const ToolOutcome outcome = RunDownpour({"check", dir + "/job.yaml"});
  EXPECT_EQ(outcome.code, kExitBadJobFile);
  EXPECT_THAT(outcome.out, IsEmpty());
  EXPECT_THAT(outcome.err,
              AllOf(HasSubstr("holds 10 images, but"), HasSubstr("images of 14x14"), HasSubstr("2 errors")));
  WritePair(dir + "/images", dir + "/labels", 10, 28, 10);
  std::filesystem::resize_file(dir + "/images", 16 + 10 * 28 * 28 - 5);
  EXPECT_THAT(RunDownpour({"check", dir + "/job.yaml"}).err,
              HasSubstr("job.yaml:8: data.train.images: " + dir + "/images: truncated at byte 7851"));
  PutFile(dir + "/images", "not an idx file");
  EXPECT_THAT(RunDownpour({"check", dir + "/job.yaml"}).err, HasSubstr(dir + "/images"));
}

TEST(Check, TheModelsOutputIsMeasuredAgainstTheLabels) {
  const std::string dir = FreshFolder("check_classes");
  PutFile(dir + "/job.yaml", MnistJob());
  WritePair(dir + "/images", dir + "/labels", 20, 28, 20, /*classes=*/12);
  const ToolOutcome fewer = RunDownpour({"check", dir + "/job.yaml"});
  EXPECT_EQ(fewer.code, kExitBadJobFile);
  EXPECT_THAT(fewer.err, HasSubstr("job.yaml:8: data.train.labels: " + dir +
                                   "/labels holds labels of 12 classes (0 to 11), but model.layers.2 (" + dir +
                                   "/job.yaml:5), the model's output, has 10 units; "));
  const ToolOutcome more = RunDownpour({"check", dir + "/job.yaml", "--set", "model.layers.2.dense.units=13"});
  EXPECT_EQ(more.code, kExitDone) << "units that are never right do no harm";
  EXPECT_THAT(more.err, AllOf(HasSubstr("warning: "), HasSubstr("model.layers.2 (--set), the model's output, has 13")));
  const auto check = [&](const std::string& units) {
    return RunDownpour({"check", dir + "/job.yaml", "--set", "model.loss=meanSquaredError", "--set",
                        "model.layers.2.dense.units=" + units, "--set", "training.batchSize=1"});
  };
  EXPECT_THAT(check("1").err, IsEmpty()) << "one number, no classes";
  EXPECT_THAT(check("2").err, HasSubstr("has 2 units"));
}

TEST(Check, LabelsOfOneClassAloneAreNothingToLearn) {
  const std::string dir = FreshFolder("check_one_class");
  PutFile(dir + "/job.yaml", MnistJob());
  WritePair(dir + "/images", dir + "/labels", 20, 28, 20, /*classes=*/1);
  EXPECT_THAT(RunDownpour({"check", dir + "/job.yaml"}).err,
              AllOf(HasSubstr("holds labels of one class alone, 0"), HasSubstr("name labels of all classes")));
  ASSERT_TRUE(WriteIdx(dir + "/labels", {20}, std::vector<uint8_t>(20, 9)).ok());
  EXPECT_THAT(RunDownpour({"check", dir + "/job.yaml"}).err, HasSubstr("holds labels of one class alone, 9"))
      << "its number is no number of classes";
}

TEST(Check, ServersThatWouldHoldNothingAreTold) {
  const std::string dir = FreshFolder("check_idle");
  PutFile(dir + "/job.yaml", MnistJob());
  WritePair(dir + "/images", dir + "/labels", 1000, 28, 1000);
  const auto check = [&](const std::string& servers) {
    return RunDownpour({"check", dir + "/job.yaml", "--set", "cluster.parameterServerCount=" + servers}).err;
  };
  EXPECT_THAT(check("8"),
              AllOf(HasSubstr("warning: --set: cluster.parameterServerCount: 8 parameter servers for a model "
                              "of 6 slices: 2 servers would hold nothing"),
                    HasSubstr("take 6 at most")));
  EXPECT_THAT(check("6"), IsEmpty());
}

TEST(Check, WhatOneErrorSaysNothingOfIsLookedAtAllTheSame) {
  const std::string dir = FreshFolder("check_independent");
  PutFile(dir + "/job.yaml", MnistJob());
  WritePair(dir + "/images", dir + "/labels", 20, 14, 20, /*classes=*/12);
  EXPECT_THAT(RunDownpour({"check", dir + "/job.yaml", "--set", "model.loss=x"}).err,
              AllOf(HasSubstr("model.loss"), HasSubstr("images of 14x14"), HasSubstr("2 errors")));
  EXPECT_THAT(RunDownpour({"check", dir + "/job.yaml", "--set", "model.inputs.0.shape=[x]"}).err,
              AllOf(HasSubstr("model.inputs.0.shape.0"), Not(HasSubstr("images of 14x14")), HasSubstr("1 error")));
  EXPECT_THAT(RunDownpour({"check", dir + "/job.yaml", "--set", "data.eval.images=a"}).err,
              AllOf(HasSubstr("data.eval.labels"), HasSubstr("images of 14x14"), HasSubstr("12 classes"),
                    HasSubstr("3 errors")));
  EXPECT_THAT(RunDownpour({"check", dir + "/job.yaml", "--set", "model.layers=[]"}).err,
              AllOf(HasSubstr("model.layers"), HasSubstr("images of 14x14"), HasSubstr("2 errors")));
}

TEST(Check, RunAndDoctorSayEveryErrorThatItSays) {
  const std::string dir = FreshFolder("check_same");
  PutFile(dir + "/job.yaml", std::string(MnistJob()) + "epoch: 3\n");
  WritePair(dir + "/images", dir + "/labels", 20, 14, 20, /*classes=*/12);
  for (const char* verb : {"check", "run", "doctor"}) {
    const ToolOutcome outcome = RunDownpour({verb, dir + "/job.yaml"});
    EXPECT_NE(outcome.code, kExitDone) << verb;
    EXPECT_THAT(outcome.err,
                AllOf(HasSubstr("epoch: unknown key"), HasSubstr("images of 14x14"), HasSubstr("labels of 12 classes")))
        << verb;
  }
}

TEST(Check, WhatIsMissingOfACodesJobHasARemedy) {
  const std::string dir = FreshFolder("check_missing");
  PutFile(dir + "/job.yaml", "name: x\n");
  EXPECT_THAT(RunDownpour({"check", dir + "/job.yaml"}).err,
              AllOf(HasSubstr("model: is missing; write it"), HasSubstr("data: is missing; write it")));
}

TEST(Check, AFolderIsNoFileOfData) {
  const std::string dir = FreshFolder("check_folder");
  PutFile(dir + "/job.yaml", MnistJob());
  WritePair(dir + "/images", dir + "/labels", 1000, 28, 1000);
  EXPECT_THAT(RunDownpour({"check", dir + "/job.yaml", "--set", "data.train.images=" + dir}).err,
              HasSubstr(dir + " is no regular file: name a file of data; name whole files"));
}

TEST(Check, EveryErrorAtOnceAndExit78) {
  const std::string dir = FreshFolder("check_errors");
  PutFile(dir + "/job.yaml", std::string(MnistJob()) + "epoch: 3\nseed: x\n");
  const ToolOutcome outcome = RunDownpour({"check", dir + "/job.yaml", "--set", "training.epoch=3"});
  EXPECT_EQ(outcome.code, kExitBadJobFile);
  EXPECT_THAT(outcome.err,
              AllOf(HasSubstr("job.yaml:9:1: epoch: unknown key"), HasSubstr("job.yaml:10:7: seed: "),
                    HasSubstr("--set: training.epoch: unknown key; did you mean epochs?"), HasSubstr("3 errors")));
  PutFile(dir + "/labels", "not an idx file");
  PutFile(dir + "/job.yaml", std::string(MnistJob()) + "epoch: 3\n");
  const ToolOutcome both = RunDownpour({"check", dir + "/job.yaml", "-o", "json"});
  EXPECT_EQ(both.code, kExitBadJobFile);
  EXPECT_THAT(both.err, HasSubstr("2 errors"));
  const auto errors = nlohmann::json::parse(both.out)["errors"];
  ASSERT_EQ(errors.size(), 2u);
  EXPECT_EQ(errors[0]["place"], dir + "/job.yaml:9:1");
  EXPECT_EQ(errors[0]["key"], "epoch");
  EXPECT_THAT(errors[0]["what"].get<std::string>(), HasSubstr("unknown key"));
  EXPECT_EQ(errors[1]["key"], "data.train.labels");
  EXPECT_THAT(errors[1]["remedy"].get<std::string>(), HasSubstr("name whole files"));
  const ToolOutcome odd = RunDownpour({"check", dir + "/job.yaml", "--set", "training.consistency=a; b", "-o", "json"});
  const auto said = nlohmann::json::parse(odd.out)["errors"];
  const auto choice = std::find_if(said.begin(), said.end(),
                                   [](const nlohmann::json& error) { return error["key"] == "training.consistency"; });
  ASSERT_NE(choice, said.end());
  EXPECT_EQ((*choice)["what"], "is a; b, but must be one of async, ssp, sync");
  EXPECT_THAT((*choice)["remedy"].get<std::string>(), HasSubstr("docs/JOB_FILE.md"));
  EXPECT_EQ(RunDownpour({"check", dir + "/none.yaml"}).code, kExitBadJobFile);
  EXPECT_EQ(RunDownpour({"check"}).code, kExitBadCommandLine);
}

TEST(Check, SaysWhichTablesThereAre) {
  const std::string dir = FreshFolder("check_tables");
  PutFile(dir + "/job.yaml",
          "name: t\ncluster: {parameterServerCount: 2}\n"
          "data: {format: csv, header: true, train: t.csv, label: y, columns: [{name: user, key: integer}]}\n"
          "model:\n"
          "  tables: [{name: users, width: 8, precision: bf16, optimizer: {rowWise: true, learningRate: 0.5}}]\n"
          "  tableBuckets: 8\n"
          "  layers: [{embedding: {table: users, column: user}}, {name: out, dense: {units: 2}}]\n");
  PutFile(dir + "/t.csv", "user,y\n-5,0\n18446744073709551615,1\n,1\n");
  const ToolOutcome shown = RunDownpour({"check", dir + "/job.yaml"});
  ASSERT_EQ(shown.code, kExitDone) << shown.err;
  EXPECT_THAT(shown.out, AllOf(HasSubstr("18 parameters in 2 variables, 2 slices"),
                               HasSubstr("1, whose rows lie in 8 buckets; they grow as keys come"),
                               HasSubstr("adagrad, row-wise, at 0.5, in bf16"), HasSubstr("and 4 buckets")));
  const auto json = nlohmann::json::parse(RunDownpour({"check", dir + "/job.yaml", "-o", "json"}).out);
  EXPECT_EQ(json["slices"], 2);
  EXPECT_EQ(json["buckets"], 8);
  EXPECT_EQ(json["servers"][0]["buckets"].get<int>() + json["servers"][1]["buckets"].get<int>(), 8);
  EXPECT_EQ(json["job"]["model"]["tables"][0]["name"], "users");
}

}  // namespace
}  // namespace downpour
