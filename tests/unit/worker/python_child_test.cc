// How a worker sees its Python process end. The process is a shell script.
#include "worker/python/python_child.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>

#include <filesystem>
#include <memory>
#include <string>
#include <utility>

#include "tests/unit/scratch_folder.h"

namespace downpour {
namespace {

namespace fs = std::filesystem;

class PythonChildTest : public testing::Test {
 protected:
  // How a process ends that runs this; $channel is its end of the channel.
  std::string EndOf(const std::string& script) { return std::string(StatusOf(script).message()); }
  absl::Status StatusOf(const std::string& script) { return Started(script)->Receive("ready").status(); }
  std::unique_ptr<PythonChild> Started(const std::string& script) {
    folder_.Write("script", "#!/bin/bash\nwhile [ \"$1\" != --channel ]; do shift; done\nchannel=$2\n" + script);
    fs::permissions(folder_.path() + "/script", fs::perms::owner_all);
    PythonSpec code;
    code.module = "task";
    auto child = PythonChild::Start({.interpreter = folder_.path() + "/script"}, code, folder_.path(), {.bytes = 64});
    EXPECT_TRUE(child.ok()) << child.status();
    return *std::move(child);
  }
  ScratchFolder folder_;
};

TEST_F(PythonChildTest, EndsThoughAProcessThatItStartedHasItsChannel) {
  const std::string late = folder_.path() + "/late";
  EXPECT_THAT(EndOf("(sleep 60; touch " + late + ") & kill -9 $$\n"), testing::HasSubstr("signal 9 (SIGKILL)"));
  EXPECT_FALSE(fs::exists(late)) << "it was waited for";
}

TEST_F(PythonChildTest, WhatItSaidBeforeItsEndIsHeard) {
  const std::string word = "printf '\\x1f\\0\\0\\0{\"error\":{\"message\":\"no luck\"}}' >&$channel\n";
  EXPECT_THAT(EndOf("sleep 1000 &\n" + word + "exit 0\n"), testing::HasSubstr("no luck"));
}

TEST_F(PythonChildTest, WhatItSaidBeforeItWasAskedIsHeardThoughItHasEnded) {
  const std::string ready = "printf '\\x0c\\0\\0\\0{\"ready\":{}}' >&$channel\n";
  const std::string raised = "printf '\\x1f\\0\\0\\0{\"error\":{\"message\":\"no luck\"}}' >&$channel\n";
  const auto child = Started(ready + raised + "exit 1\n");
  ASSERT_TRUE(child->Receive("ready").ok());
  const pid_t pid = child->pid();
  siginfo_t ended;
  ASSERT_EQ(waitid(P_PID, pid, &ended, WEXITED | WNOWAIT), 0);
  EXPECT_EQ(child->Ask({{"train", 1}}, "trained").status(), absl::AbortedError("the Python code: no luck"));
}

TEST_F(PythonChildTest, AQuestionThatCannotBeWrittenWhollyIsWaitedForNoMore) {
  const auto child = Started(R"(exec python3 - <<END
import signal, socket
channel = socket.socket(fileno=$channel)
channel.shutdown(socket.SHUT_RD)
channel.sendall(b'\x0c\0\0\0{"ready":{}}')
signal.alarm(100)  # ends what hangs
signal.pause()
END
)");
  ASSERT_TRUE(child->Receive("ready").ok());
  const absl::Status status = child->Ask({{"train", 1}}, "trained").status();
  EXPECT_EQ(status, absl::AbortedError("the Python code closed the channel to its worker")) << "it was waited for";
  EXPECT_EQ(child->killed_by(), 0) << "by nobody else";
}

TEST_F(PythonChildTest, CodeThatEndedInGoodOrderIsToldFromCodeThatRaised) {
  const auto status_of = [this](const std::string& length, const std::string& ended) {
    return StatusOf("printf '\\x" + length + "\\0\\0\\0{\"error\":{\"message\":\"m\",\"ended\":" + ended +
                    "}}' >&$channel\nexit 0\n");
  };
  EXPECT_TRUE(absl::IsCancelled(status_of("26", "true"))) << status_of("26", "true");
  EXPECT_TRUE(absl::IsAborted(status_of("27", "false"))) << status_of("27", "false");
}

TEST_F(PythonChildTest, OneThatClosesItsChannelAndHearsNoSignalIsKilled) {
  EXPECT_THAT(EndOf("trap '' TERM\neval \"exec $channel>&-\"\nwhile :; do sleep 0.1; done\n"),
              "the Python code closed the channel to its worker");
}

}  // namespace
}  // namespace downpour
