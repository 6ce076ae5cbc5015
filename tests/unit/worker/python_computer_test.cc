// What a worker says to its Python process, and where it takes the gradients from. The process is a script that writes
// down what it hears.
#include "worker/python/python_computer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "job/slice_grid.h"
#include "runtime/plan.h"
#include "runtime/posix/package.h"
#include "runtime/row_frames.h"
#include "schema/sha256.h"
#include "tests/unit/scratch_folder.h"

namespace downpour {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr int64_t kExamples = 40;
// Its gradient is the sum of the numbers of the step's examples.
constexpr char kScript[] = R"(#!/usr/bin/env python3
import json, mmap, socket, struct, sys
value = lambda name: sys.argv[sys.argv.index(name) + 1]
channel = socket.socket(fileno=int(value("--channel")))
memory = mmap.mmap(int(value("--memory")), 0)
def say(message):
    data = json.dumps(message).encode()
    channel.sendall(struct.pack("<I", len(data)) + data)
variables = [{"name": "w", "shape": [3], "trainable": True}]
say({"ready": {"version": sys.argv[-1], "variables": variables, "trainExamples": 40, "evalExamples": 0, "metrics": []}})
while head := channel.recv(4, socket.MSG_WAITALL):
    text = channel.recv(struct.unpack("<I", head)[0], socket.MSG_WAITALL)
    with open(sys.argv[-2], "ab") as heard:
        heard.write(text + b"\n")
    train = json.loads(text)["train"]
    numbers = [number for batch in train["batches"] for number in batch["examples"]]
    struct.pack_into("<3f", memory, 4096 * (1 + train["set"]), *[sum(numbers)] * 3)
    say({"trained": {"lossSum": 1.0, "examples": len(numbers)}})
)";

class PythonComputerTest : public testing::Test {
 protected:
  PythonComputerTest() {
    scratch_.Write("script", kScript);
    fs::permissions(script_, fs::perms::owner_all);
    fs::create_directory(scratch_.path() + "/code");
    std::ofstream(scratch_.path() + "/code/task.py") << "";
    const std::string packed = PackFolder(scratch_.path() + "/code", "code").value();
    archive_ = Payload::CopyOf(packed.data(), packed.size());
    job_.model.loss = Loss::kOwn;
    job_.model.variables = {{"w", {3}}};
    job_.training.batch_size = 4;
    job_.training.lease_batches = 5;
    job_.data.format = kPythonFormat;
    job_.data.train_examples = kExamples;
    job_.python = {.module = "task",
                   .sha256 = Sha256Of({archive_}),
                   .bytes = static_cast<int64_t>(archive_.size()),
                   .args = {heard_, DOWNPOUR_VERSION}};
  }

  // The status of a Prepare whose process says `ready` in place of what it ought to.
  absl::Status PrepareWith(const std::string& ready) {
    const std::string script = kScript;
    const size_t begin = script.find("say({\"ready\""), end = script.find('\n', begin);
    scratch_.Write("script", script.substr(0, begin) + "say({\"ready\": " + ready + "})" + script.substr(end));
    absl::Status said;
    computer_.Run(downpour::Prepare{job_, {archive_}}, [&](const absl::Status& status, const ComputeResult& result) {
      said = status;
      if (status.ok()) fingerprint_ = std::get<Prepared>(result).fingerprint;
    });
    return said;
  }

  void Prepare() {
    computer_.Run(downpour::Prepare{job_, {archive_}}, [](const absl::Status& status, const ComputeResult& result) {
      ASSERT_TRUE(status.ok()) << status;
      EXPECT_TRUE(std::holds_alternative<Prepared>(result));
    });
  }

  // The gradient of one slice, from the first lease.
  Payload Train(Step step, std::optional<Step> next) {
    TrainStep request{.lease = LeaseId{0}, .step = step, .updates = {{SliceId{0}, Payload::Zeros(3 * sizeof(float))}}};
    if (next) request.next = std::pair(LeaseId{0}, *next);
    Payload gradient;
    computer_.Run(request, [&](const absl::Status& status, ComputeResult result) {
      ASSERT_TRUE(status.ok()) << status;
      gradient = std::get<Gradients>(result).slices[0].second;
    });
    return gradient;
  }

  std::vector<Json> Heard() const {
    std::ifstream file(heard_);
    std::vector<Json> heard;
    for (std::string line; std::getline(file, line);) heard.push_back(Json::parse(line)["train"]);
    return heard;
  }

  float SumOf(Step step) const {
    std::vector<uint64_t> ids;
    Plan(job_, kExamples).Examples(LeaseId{0}, step, &ids);
    float sum = 0;
    for (const uint64_t id : ids) sum += static_cast<float>(id);
    return sum;
  }

  ScratchFolder scratch_;
  const std::string script_ = scratch_.path() + "/script", heard_ = scratch_.path() + "/heard";
  Payload archive_;
  JobSpec job_;
  uint64_t fingerprint_ = 0;  // by PrepareWith
  PythonComputer computer_{{.interpreter = script_, .code_folder = scratch_.path() + "/cache"}};
};

// The user's code shares the process that has the channel.
TEST_F(PythonComputerTest, RefusesAReadyWhoseFieldsAreOfOtherKinds) {
  for (const char* variables :
       {"{'a': 1}", "'w'", "7", "[1]", "['w']", "[None]", "[[1]]", "[{'name': {}, 'shape': 'x'}]"}) {
    const absl::Status status = PrepareWith(absl::StrCat("{'version': sys.argv[-1], 'variables': ", variables,
                                                         ", 'trainExamples': 40, 'evalExamples': 0}"));
    EXPECT_THAT(status.message(), testing::HasSubstr("variable 0")) << variables;
  }
  EXPECT_THAT(PrepareWith("{'version': []}").message(), testing::HasSubstr("is of version []"));
  EXPECT_THAT(PrepareWith("0}) if 0 else say({'ready': eval('[' * 90 + ']' * 90)").message(),
              testing::HasSubstr("lies too deep in each other"));
}

TEST_F(PythonComputerTest, RowsOfOtherFilesAreOtherData) {
  const auto fingerprint = [&](const char* of_data) {
    const absl::Status status = PrepareWith(absl::StrCat(
        "{'version': sys.argv[-1], 'variables': variables, 'trainExamples': 40, ", "'evalExamples': 0", of_data, "}"));
    EXPECT_TRUE(status.ok()) << status;
    return fingerprint_;
  };
  const uint64_t of_none = fingerprint("");
  EXPECT_EQ(fingerprint(", 'dataFingerprints': [0]"), of_none) << "as jobs had it before rows of files were told apart";
  EXPECT_EQ(fingerprint(", 'dataFingerprints': ['x', -3]"), of_none);
  const uint64_t of_file = fingerprint(", 'dataFingerprints': [18446744073709551615, 0]");
  EXPECT_NE(of_file, of_none);
  EXPECT_NE(fingerprint(", 'dataFingerprints': [18446744073709551614, 0]"), of_file);
}

TEST_F(PythonComputerTest, AProcessThatIsKilledBeforeItIsReadySaysNothingOfTheCode) {
  const auto ends_by = [this](const std::string& what) {
    return PrepareWith(absl::StrCat("{}}) if 0 else __import__('os').", what, " #"));
  };
  for (const char* signal : {"SIGKILL", "SIGTERM"}) {
    const absl::Status status = ends_by(absl::StrCat("kill(0, __import__('signal').", signal, ")"));
    EXPECT_TRUE(absl::IsCancelled(status)) << signal;
    const bool blames_memory = status.message().find("the likely cause: out of memory") != std::string::npos;
    EXPECT_EQ(blames_memory, signal == std::string("SIGKILL")) << status;
  }
  for (const char* own : {"abort()", "_exit(0)", "_exit(3)"}) {
    const absl::Status status = ends_by(own);
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_THAT(status.message(), testing::HasSubstr("before it called downpour.fit; this worker's log says why"));
  }
}

TEST_F(PythonComputerTest, WhatDescribesTheProcessMayBeOfAnyKind) {
  const absl::Status status = PrepareWith(
      "{'version': sys.argv[-1], 'variables': variables, 'trainExamples': 40, 'evalExamples': 0, 'arithmetic': 7,"
      " 'metrics': {'a': 1}}");
  EXPECT_TRUE(status.ok()) << status;
}

TEST_F(PythonComputerTest, AStepNamesTheBatchThatComesNext) {
  Prepare();
  Train(1, 2);
  Train(2, 4);
  Train(3, std::nullopt);
  Train(4, 6);
  const std::vector<Json> heard = Heard();
  ASSERT_EQ(heard.size(), 4u);
  EXPECT_EQ(heard[0]["next"], heard[1]["batches"][0]);
  EXPECT_EQ(heard[1]["next"], heard[3]["batches"][0]);
  EXPECT_FALSE(heard[2].contains("next"));
  EXPECT_FALSE(heard[3].contains("next")) << "the lease has no sixth step";
}

TEST_F(PythonComputerTest, WhatTheCodeRaisesIsToldWithTheExamplesThatItWasGiven) {
  std::string script = kScript;
  const std::string answer = "say({\"trained\"";
  script.insert(script.find(answer),
                "say({\"error\": {\"message\": \"ValueError: of nine\", \"where\": \"task.py:9\"}})\n    ");
  scratch_.Write("script", script);
  Prepare();
  absl::Status said;
  computer_.Run(TrainStep{.lease = LeaseId{0}, .step = 2, .updates = {{SliceId{0}, Payload::Zeros(3 * sizeof(float))}}},
                [&](const absl::Status& status, const ComputeResult&) { said = status; });
  std::vector<uint64_t> ids;
  Plan(job_, kExamples).Examples(LeaseId{0}, 2, &ids);
  EXPECT_EQ(said, absl::AbortedError(absl::StrCat("step 2 of lease 0 (examples ", absl::StrJoin(ids, ", "),
                                                  "): the Python code: ValueError: of nine, at task.py:9")));
}

TEST_F(PythonComputerTest, WhatTheCodeRaisedBeforeItWasAskedIsOfNoStep) {
  for (const bool ended : {false, true}) {
    std::string script = kScript;
    script.insert(script.find("while head"),
                  absl::StrCat("say({\"error\": {\"message\": \"behind the probe\", \"unasked\": True, \"ended\": ",
                               ended ? "True" : "False", "}})\n"));
    scratch_.Write("script", script);
    Prepare();
    absl::Status said;
    computer_.Run(
        TrainStep{.lease = LeaseId{0}, .step = 1, .updates = {{SliceId{0}, Payload::Zeros(3 * sizeof(float))}}},
        [&](const absl::Status& status, const ComputeResult&) { said = status; });
    const std::string told = "the Python code: behind the probe";
    EXPECT_EQ(said, ended ? absl::CancelledError(told) : absl::AbortedError(told));
  }
}

// As one does that crashes, or whose code calls exit. One that was killed says nothing of the code.
TEST_F(PythonComputerTest, AProcessThatEndsByItselfInAStepHasFailedAsCodeThatRaises) {
  for (const auto& [how, code, words] :
       {std::tuple("kill(0, 11)", absl::StatusCode::kAborted, "(examples "),
        std::tuple("_exit(5)", absl::StatusCode::kAborted, "the Python process ended: exit code 5"),
        std::tuple("kill(0, 9)", absl::StatusCode::kUnavailable, "signal 9 (SIGKILL)")}) {
    std::string script = kScript;
    script.insert(script.find("say({\"trained\""), absl::StrCat("__import__('os').", how, "\n    "));
    scratch_.Write("script", script);
    Prepare();
    absl::Status said;
    computer_.Run(
        TrainStep{.lease = LeaseId{0}, .step = 2, .updates = {{SliceId{0}, Payload::Zeros(3 * sizeof(float))}}},
        [&](const absl::Status& status, const ComputeResult&) { said = status; });
    EXPECT_EQ(said.code(), code) << said;
    EXPECT_THAT(said.message(), testing::HasSubstr(words));
  }
}

// What stands behind fit() may do as it likes with its channel: its exit code tells how it ended. Who kills it says
// nothing of it, so another worker is to run it again.
TEST_F(PythonComputerTest, TheRestOfTheProgramEndsAsItsExitCodeSays) {
  const auto status_of = [this](const std::string& ends, std::string* error) {
    std::string script = kScript;
    const std::string train = "    train = json.loads(text)[\"train\"]\n";
    const std::string sees =
        "    import os; sees = struct.unpack_from('<3f', memory) == (1, 2, 3)\n"
        "    sees = sees and json.loads(text) == {'finish': {'history': [{'epoch': 7}]}}\n";
    scratch_.Write("script", script.replace(script.find(train), train.size(), sees + "    " + ends + "\n"));
    Prepare();
    Payload values = Payload::Zeros(3 * sizeof(float));
    for (size_t i = 0; i < 3; ++i) values.mutable_floats()[i] = static_cast<float>(i + 1);
    absl::Status said;
    computer_.Run(EpilogueStep{.values = {{SliceId{0}, values}}, .history = R"([{"epoch":7}])"},
                  [&](const absl::Status& status, const ComputeResult& result) {
                    said = status;
                    if (status.ok()) *error = std::get<EpilogueEnded>(result).error;
                  });
    return said;
  };
  std::string error = "unset";
  for (const char* well :
       {"sys.exit(not sees)", "say({'finished': {}}); os._exit(not sees)", "channel.close(); sys.exit(not sees)"}) {
    ASSERT_TRUE(status_of(well, &error).ok()) << well;
    EXPECT_EQ(error, "") << well;
  }
  for (const char* badly : {"sys.exit(3)", "say({'finished': {}}); os._exit(3)"}) {
    ASSERT_TRUE(status_of(badly, &error).ok()) << badly;
    EXPECT_THAT(error, testing::HasSubstr("exit code 3")) << badly;
  }
  ASSERT_TRUE(status_of("say({'error': {'message': 'no luck', 'where': 'task.py:1'}}); sys.exit(1)", &error).ok());
  EXPECT_EQ(error, "the Python code: no luck, at task.py:1");
  const absl::Status killed = status_of("os.kill(os.getpid(), 9)", &error);
  EXPECT_TRUE(absl::IsUnavailable(killed)) << killed;
}

TEST_F(PythonComputerTest, OfSeveralBatchesInAStepTheFirstIsNamed) {
  job_.training.push_every = 2;
  Prepare();
  Train(1, 2);
  Train(2, std::nullopt);
  const std::vector<Json> heard = Heard();
  EXPECT_EQ(heard[1]["batches"].size(), 2u);
  EXPECT_EQ(heard[0]["next"], heard[1]["batches"][0]);
}

TEST_F(PythonComputerTest, EachLocalStepNamesTheNextOne) {
  job_.training.local_steps = 2;
  Prepare();
  Train(1, 2);
  Train(2, std::nullopt);
  const std::vector<Json> heard = Heard();
  ASSERT_EQ(heard.size(), 4u);
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ(heard[i]["next"], heard[i + 1]["batches"][0]) << i;
  EXPECT_FALSE(heard[3].contains("next"));
}

TEST_F(PythonComputerTest, GradientsStayWhatTheyAreHoweverLongTheyAreHeld) {
  Prepare();
  std::vector<Payload> held;
  for (Step step = 1; step <= 5; ++step) held.push_back(Train(step, step + 1));
  for (Step step = 1; step <= 5; ++step) {
    EXPECT_THAT(held[step - 1].floats(), testing::Each(SumOf(step))) << "step " << step;
  }
  const std::vector<Json> heard = Heard();
  EXPECT_EQ(heard[0]["set"], 0);
  EXPECT_EQ(heard[1]["set"], 1);
  for (size_t i = 2; i < 5; ++i) EXPECT_EQ(heard[i]["set"], 2) << "which is copied";
  held.clear();
  Train(1, 2);
  EXPECT_EQ(Heard().back()["set"], 0) << "it is free again";
}

// Its table has rows of two numbers, in one bucket. The script asks for the keys 5 and 9 amid a step, and then for 7;
// the gradient of a row is that row.
class PythonTablesTest : public PythonComputerTest {
 protected:
  PythonTablesTest() {
    job_.model.tables = {{.name = "t", .width = 2}};
    job_.model.table_buckets = 1;
    SetUpScript("False");
  }

  void SetUpScript(const std::string& knows_keys) {
    std::string script = kScript;
    const auto put = [&](const std::string& before, const std::string& text) {
      script.insert(script.find(before), text);
    };
    put("def say", "rows = mmap.mmap(int(value('--rows')), 0)\nmost = len(rows) // 16\n");
    put("while head", R"(
def hear():
    return json.loads(channel.recv(struct.unpack("<I", channel.recv(4, socket.MSG_WAITALL))[0], socket.MSG_WAITALL))
def lay(keys):
    struct.pack_into(f"<{len(keys)}Q", rows, 0, *keys)
    return {"needs": [[0, len(keys)]]}
)");
    put("    train =", R"(    if "find" in json.loads(text):
        say({"found": lay([5, 9])})
        continue
)");
    put("    say({\"trained\"", absl::StrCat("    for keys in [] if ", knows_keys, R"( else [[5, 9], [7]]:
        say({"trained": lay(keys)})
        assert hear() == {"rows": {}}
    rows[12 * most:12 * most + 24] = rows[8 * most:8 * most + 24]
)"));
    put("\"metrics\": []",
        absl::StrCat("\"knowsKeys\": ", knows_keys, ", \"tables\": [{\"name\": \"t\", \"width\": 2}], "));
    scratch_.Write("script", script);
  }

  ComputeResult Run(const ComputeRequest& request) {
    ComputeResult answer;
    computer_.Run(request, [&](const absl::Status& status, ComputeResult result) {
      ASSERT_TRUE(status.ok()) << status;
      answer = std::move(result);
    });
    return answer;
  }

  // The keys of the bucket.
  std::vector<uint64_t> Found(const ComputeResult& result) {
    const SliceValues& keys = std::get<KeysFound>(result).keys;
    return keys.empty() ? std::vector<uint64_t>() : UnpackKeys(keys[0].second, kWidths)->keys;
  }

  static SliceValues RowsOf(const std::vector<float>& numbers) {
    return {{kBucket, Payload::CopyOf(numbers.data(), numbers.size() * sizeof(float))}};
  }

  static constexpr uint32_t kWidths[] = {2};
  static constexpr SliceId kBucket{1};
  const FindKeys find_ = {.step = std::pair(LeaseId{0}, Step{1})};
  const SliceValues updates_ = {{SliceId{0}, Payload::Zeros(3 * sizeof(float))}};
};

TEST_F(PythonTablesTest, AStepEndsWhereItNeedsRowsAndGoesOnWithThem) {
  Prepare();
  EXPECT_THAT(Found(Run(find_)), testing::IsEmpty());
  EXPECT_THAT(Found(Run(TrainStep{.lease = LeaseId{0}, .step = 1, .updates = updates_})), testing::ElementsAre(5, 9));
  EXPECT_THAT(Found(Run(MoreRows{.rows = RowsOf({1, 2, 3, 4})})), testing::ElementsAre(7));
  const auto gradients = std::get<Gradients>(Run(MoreRows{.rows = RowsOf({5, 6})}));
  ASSERT_EQ(gradients.slices.size(), 2u);
  EXPECT_EQ(gradients.slices[1].first, kBucket);
  const RowGradients push = UnpackGradients(gradients.slices[1].second, kWidths).value();
  EXPECT_THAT(push.rows.keys, testing::ElementsAre(5, 7, 9));
  EXPECT_THAT(push.numbers, testing::ElementsAre(1, 2, 5, 6, 3, 4));
}

TEST_F(PythonTablesTest, WhatNobodyWantsEndsWithoutRows) {
  Prepare();
  Run(find_);
  Run(TrainStep{.lease = LeaseId{0}, .step = 1, .updates = updates_});
  EXPECT_THAT(Found(Run(MoreRows{.rows = {}, .in_vain = true})), testing::ElementsAre(7));
  EXPECT_TRUE(std::get<Gradients>(Run(MoreRows{.rows = {}, .in_vain = true})).last);
}

TEST_F(PythonTablesTest, CodeThatKnowsItsKeysIsAskedForThemBefore) {
  SetUpScript("True");
  Prepare();
  EXPECT_THAT(Found(Run(find_)), testing::ElementsAre(5, 9));
  TrainStep step{.lease = LeaseId{0}, .step = 1, .updates = updates_};
  step.updates.push_back(RowsOf({1, 2, 3, 4})[0]);
  const auto gradients = std::get<Gradients>(Run(step));
  EXPECT_THAT(UnpackGradients(gradients.slices[1].second, kWidths)->numbers, testing::ElementsAre(1, 2, 3, 4));
}

TEST_F(PythonTablesTest, OtherTablesThanThoseOfTheJobAreRefused) {
  job_.model.tables[0].width = 3;
  absl::Status said;
  computer_.Run(downpour::Prepare{job_, {archive_}},
                [&](const absl::Status& status, const ComputeResult&) { said = status; });
  EXPECT_THAT(said.message(), testing::HasSubstr("table 0 is \"t\" of width 2 here, and was \"t\" of width 3 when"));
}

}  // namespace
}  // namespace downpour
