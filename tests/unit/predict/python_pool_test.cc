// Processes that answer, with a short program in their place that speaks as python/downpour/serving.py does.
#include "predict/python_pool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "tests/unit/scratch_folder.h"

namespace downpour {
namespace {

using Json = nlohmann::json;
using testing::HasSubstr;
namespace fs = std::filesystem;

// Its instances say what it does.
constexpr const char* kProgram = R"(#!/usr/bin/env python3
import array, json, mmap, os, signal, socket, sys
channel = socket.socket(fileno=int(sys.argv[sys.argv.index("--channel") + 1]))
def say(message):
    data = json.dumps(message).encode() if isinstance(message, dict) else message
    channel.sendall(len(data).to_bytes(4, "little") + data)
def read(count):
    data = b""
    while len(data) < count:
        more = channel.recv(count - len(data))
        if not more:
            sys.exit()
        data += more
    return data
def hear():
    return json.loads(read(int.from_bytes(read(4), "little")))
def rows_for(count):
    rows = mmap.mmap(int(sys.argv[sys.argv.index("--rows") + 1]), 0)
    rows[:8 * count] = array.array("Q", range(count)).tobytes()
    say({"predicted": {"needs": [[0, count]]}})
    return hear()["rows"]
START
print("it was started", flush=True)
say({"ready": {"version": "VERSION", "variables": [{"name": "w", "shape": [2], "trainable": True}], "tables": TABLES}})
while True:
    asked = hear()
    for told in asked.get("predict", {"instances": ["warm"]})["instances"]:
        if told == "exit":
            os._exit(3)
        if told == "hang":
            say({"warning": "the Python code has been in one call for 1 s, at task.py:7"})
            signal.pause()
        if told == "junk":
            say(b"no JSON")
        if told == "print":
            print("x" * (1 << 20), flush=True)
        if told == "wait":
            open(FOLDER + "/waits", "w").close()
            open(FOLDER + "/go").close()
        refused = told == "many rows" and rows_for(256).get("refused") and rows_for(1).get("refused")
        if told == "few rows" and rows_for(2):
            os._exit(6)
    if refused:
        say({"predicted": {"failed": {"message": "send fewer rows", "where": "", "isOfRequest": True}}})
    elif asked.get("predict", {"instances": [0]})["instances"][0] == "raise":
        say({"predicted": {"failed": {"message": "ValueError: no", "where": "task.py:3", "isOfRequest": False}}})
    else:
        say({"predicted": {"predictions": [os.getpid()]}})
)";

PythonPool::Model OfTwoNumbers() {
  PythonPool::Model model;
  model.job.model.loss = Loss::kOwn;
  model.job.model.variables = {{.name = "w", .shape = {2}, .trainable = true}};
  return model;
}

// A frame of its one bucket has room for fewer than 256 rows with their keys.
PythonPool::Model WithOneTable() {
  PythonPool::Model model = OfTwoNumbers();
  model.job.model.tables = {{.name = "t", .width = 1024}};
  model.job.model.table_buckets = 1;
  model.grid = GridOf(model.job.model).value();
  TableRows rows({.id = 0, .width = 1024});
  EXPECT_EQ(rows.Allocate(), absl::OkStatus());
  EXPECT_EQ(rows.Finish(), absl::OkStatus());
  model.tables.push_back(std::move(rows));
  return model;
}

class PythonPoolTest : public testing::Test {
 protected:
  std::unique_ptr<PythonPool> Pool(const std::string& start = "", PythonServing how = {},
                                   PythonPool::Model model = OfTwoNumbers()) {
    std::string program = kProgram;
    model.code.spec.module = "task";
    model.code.unpacked.path = folder_.path();
    model.memory = SharedBytes::Make(8192).value();
    program.replace(program.find("START"), 5, absl::StrCat("FOLDER = \"", folder_.path(), "\"\n", start));
    program.replace(program.find("VERSION"), 7, DOWNPOUR_VERSION);
    program.replace(program.find("TABLES"), 6, model.tables.empty() ? "[]" : R"([{"name": "t", "width": 1024}])");
    how.interpreter = folder_.Write("program", program);
    fs::permissions(how.interpreter, fs::perms::owner_all);
    how.log = folder_.path() + "/log";
    return std::make_unique<PythonPool>(std::move(model), how);
  }
  static absl::StatusOr<Json> Ask(PythonPool& pool, const std::string& told) {
    return pool.Ask(Json{{"predict", {{"instances", {told}}}}}.dump());
  }
  // Which process answers.
  static int PidOf(PythonPool& pool) { return Ask(pool, "").value()["predictions"][0].get<int>(); }
  std::string Log() {
    std::ifstream file(folder_.path() + "/log");
    return {std::istreambuf_iterator<char>(file), {}};
  }
  ScratchFolder folder_;
};

TEST_F(PythonPoolTest, OneThatAnsweredTheWarmUpIsAskedAndWhatItRaisesEndsItNot) {
  const auto pool = Pool();
  ASSERT_EQ(pool->Start(), absl::OkStatus());
  const int pid = PidOf(*pool);
  EXPECT_EQ(Ask(*pool, "raise").status(), absl::InternalError("the Python code: ValueError: no, at task.py:3"));
  EXPECT_EQ(PidOf(*pool), pid);
  EXPECT_THAT(Log(), HasSubstr("it was started"));
}

TEST_F(PythonPoolTest, OneThatEndsAsItAnswersCostsThatQuestionAndIsStartedAgain) {
  const auto pool = Pool();
  ASSERT_EQ(pool->Start(), absl::OkStatus());
  const int pid = PidOf(*pool);
  const absl::Status ended = Ask(*pool, "exit").status();
  EXPECT_TRUE(absl::IsInternal(ended)) << ended;
  EXPECT_THAT(std::string(ended.message()), HasSubstr("the Python process ended: exit code 3 as it answered"));
  EXPECT_NE(PidOf(*pool), pid);
  EXPECT_TRUE(absl::IsInternal(Ask(*pool, "junk").status()));
  PidOf(*pool);
}

TEST_F(PythonPoolTest, OneThatIsKilledBetweenQuestionsCostsNone) {
  const auto pool = Pool();
  ASSERT_EQ(pool->Start(), absl::OkStatus());
  const int pid = PidOf(*pool);
  kill(pid, SIGKILL);
  siginfo_t ended;
  ASSERT_EQ(waitid(P_PID, static_cast<id_t>(pid), &ended, WEXITED | WNOWAIT), 0);
  EXPECT_NE(PidOf(*pool), pid);
}

TEST_F(PythonPoolTest, OneThatHangsIsEndedAndItsLineIsTold) {
  PythonServing how;
  how.call = std::chrono::milliseconds(1500);
  const auto pool = Pool("", how);
  ASSERT_EQ(pool->Start(), absl::OkStatus());
  const int pid = PidOf(*pool);
  EXPECT_EQ(Ask(*pool, "hang").status(),
            absl::DeadlineExceededError(
                "the Python code has been in one call for 1 s, at task.py:7; a request may take 1.5 s"));
  EXPECT_NE(PidOf(*pool), pid);
  EXPECT_NE(kill(pid, 0), 0) << "it lives on";
}

TEST_F(PythonPoolTest, OneThatCannotStartSaysWhyAndIsTriedAgain) {
  const std::string raises = R"(say({"error": {"message": "no luck", "where": "task.py:1"}}); sys.exit(1))";
  const auto pool = Pool(raises);
  EXPECT_EQ(pool->Start(), absl::AbortedError("the Python code: no luck, at task.py:1"));
  EXPECT_THAT(std::string(Ask(*pool, "").status().message()), HasSubstr("cannot be started: the Python code: no luck"));
  const auto other = Pool("sys.exit(4)");
  EXPECT_THAT(std::string(other->Start().message()),
              HasSubstr("ended: exit code 4 before it came to its model; its log says why"));
  folder_.Write("ready", "");
  const auto late = Pool("os.path.exists('" + folder_.path() + "/now') or sys.exit(5)");
  EXPECT_FALSE(late->Start().ok());
  folder_.Write("now", "");
  while (!Ask(*late, "").ok()) std::this_thread::yield();
}

TEST_F(PythonPoolTest, AnotherModelThanThatOfTheCheckpointIsRefused) {
  const auto pool =
      Pool(R"(say({"ready": {"version": ")" DOWNPOUR_VERSION R"(", "variables": [{"name": "v", "shape": [2]}]}}))");
  EXPECT_THAT(std::string(pool->Start().message()), HasSubstr("the Python code's variable 0 is \"v\" [2] here"));
}

TEST_F(PythonPoolTest, SeveralProcessesAnswerAtATime) {
  PythonServing how;
  how.processes = 2;
  const auto pool = Pool("", how);
  ASSERT_EQ(pool->Start(), absl::OkStatus());
  ASSERT_EQ(mkfifo((folder_.path() + "/go").c_str(), 0600), 0);
  std::thread waits([&] { EXPECT_TRUE(Ask(*pool, "wait").ok()); });
  while (!fs::exists(folder_.path() + "/waits")) std::this_thread::yield();
  for (int i = 0; i < 5; ++i) PidOf(*pool);
  std::ofstream(folder_.path() + "/go").close();  // which waits for the other end
  waits.join();
}

// Returns once it is dead, which the pool may not know yet.
void KillWhole(int pid) {
  kill(pid, SIGKILL);
  siginfo_t ended;
  ASSERT_EQ(waitid(P_PID, static_cast<id_t>(pid), &ended, WEXITED | WNOWAIT), 0);
}

TEST_F(PythonPoolTest, OneThatIsKilledKeepsNobodyFromAnotherThatIsFree) {
  PythonServing how;
  how.processes = 2;
  const auto pool =
      Pool("if os.path.exists(FOLDER + '/hang'): open(FOLDER + '/hangs', 'w').close(); signal.pause()", how);
  ASSERT_EQ(pool->Start(), absl::OkStatus());
  ASSERT_EQ(mkfifo((folder_.path() + "/go").c_str(), 0600), 0);
  std::thread waits([&] { EXPECT_TRUE(Ask(*pool, "wait").ok()); });
  while (!fs::exists(folder_.path() + "/waits")) std::this_thread::yield();
  PidOf(*pool);                                   // of the other one, so both were started
  std::ofstream(folder_.path() + "/go").close();  // which waits for the other end
  waits.join();
  const int first = PidOf(*pool);
  folder_.Write("hang", "");
  KillWhole(first);
  const absl::StatusOr<Json> predicted = Ask(*pool, "");
  ASSERT_TRUE(predicted.ok()) << predicted.status();
  const int second = (*predicted)["predictions"][0];
  EXPECT_NE(second, first);
  // The start that hangs, since it was the first to begin, keeps this one from no start of its own.
  while (!fs::exists(folder_.path() + "/hangs")) std::this_thread::yield();
  fs::remove(folder_.path() + "/hang");
  KillWhole(second);
  EXPECT_NE(PidOf(*pool), second);
}

TEST_F(PythonPoolTest, MoreRowsOfTablesThanFitAreRefusedAndEndNoProcess) {
  const auto pool = Pool("", {}, WithOneTable());
  ASSERT_EQ(pool->Start(), absl::OkStatus());
  const int pid = PidOf(*pool);
  for (int i = 0; i < 3; ++i)
    EXPECT_EQ(Ask(*pool, "many rows").status(), absl::InvalidArgumentError("send fewer rows"));
  EXPECT_TRUE(Ask(*pool, "few rows").ok());
  EXPECT_EQ(PidOf(*pool), pid);
}

TEST_F(PythonPoolTest, ItsEndWaitsForNoStart) {
  auto pool = Pool("signal.pause()");
  std::thread starts([&] { pool->Start().IgnoreError(); });
  while (Log().empty() && !fs::exists(folder_.path() + "/log")) std::this_thread::yield();
  pool->End();
  starts.join();
  pool = nullptr;
}

TEST_F(PythonPoolTest, ItsLogIsBounded) {
  const auto pool = Pool();
  ASSERT_EQ(pool->Start(), absl::OkStatus());
  for (size_t i = 0; i <= PythonPool::kMostLogBytes >> 20; ++i) ASSERT_TRUE(Ask(*pool, "print").ok());
  while (!fs::exists(folder_.path() + "/log.1")) std::this_thread::yield();
  while (fs::file_size(folder_.path() + "/log") > PythonPool::kMostLogBytes) std::this_thread::yield();
}

}  // namespace
}  // namespace downpour
