// A LocalRun of small shell scripts that play the roles.
#pragma once

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <filesystem>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "cluster/job_folder.h"
#include "cluster/local_run.h"
#include "tests/unit/scratch_folder.h"
#include "tests/unit/tools/acting_buffer.h"

namespace downpour {

// The chief announces itself and ends with the code that someone writes into its fifo.
class LocalRunTest : public ::testing::Test {
 protected:
  static constexpr const char* kHead =
      "#!/bin/sh\n"
      "for word in \"$@\"; do case $word in --attempt=*) attempt=${word#--attempt=};; esac; done\n";

  LocalRunTest() {
    // Before a FakeChief's threads are there, which would take SIGCHLD from the Supervisor: it would wait for seconds.
    sigset_t ends;
    sigemptyset(&ends);
    sigaddset(&ends, SIGCHLD);
    pthread_sigmask(SIG_BLOCK, &ends, &mask_before_);
    interrupt_before_ = signal(SIGINT, SIG_DFL);  // which is ignored in a script's background
    std::filesystem::create_directories(folder_.path() + "/logs");
    mkfifo(Path("fifo").c_str(), 0600);
    cluster_.job_dir = folder_.path();
    cluster_.command = "run it";
    cluster_.workers = 1;
    cluster_.servers = 1;
    cluster_.chief_program = Script("chief", Announce() + "read code <" + Path("fifo") + "; exit $code");
    cluster_.ps_program = Script("ps", "exit 0");
    cluster_.worker_program = Script("worker", "exit 0");
  }

  ~LocalRunTest() override {
    signal(SIGINT, interrupt_before_);
    pthread_sigmask(SIG_SETMASK, &mask_before_, nullptr);
  }

  std::string Path(const std::string& name) const { return folder_.path() + "/" + name; }
  std::string Script(const std::string& name, const std::string& body) const {
    const std::string path = folder_.Write(name, kHead + body + "\n");
    std::filesystem::permissions(path, std::filesystem::perms::owner_all);
    return path;
  }
  std::string Announce(const std::string& endpoint = "127.0.0.1:1") const {
    return "echo '{\"endpoint\": \"" + endpoint + "\", \"pid\": '$$', \"term\": 3}' >" + Path("new") + "; mv " +
           Path("new") + " " + Path("chief.json") + "\n";
  }
  // Writes the script's pid, all at once. Before Announce, where a cue reads it: the run talks to a chief from then on.
  std::string Mark(const std::string& name) const {
    return "echo $$ >" + Path("new_mark") + "; mv " + Path("new_mark") + " " + Path(name) + "\n";
  }
  std::string EndChief(int code) const { return "echo " + std::to_string(code) + " >" + Path("fifo"); }

  RunPace pace_ = {.restarts = {.shortest = 1ms, .longest = 10ms},
                   .after_refusal = 10ms,
                   .question_every = 10ms,
                   .members_leave_within = 10ms};

  RunResult Run(std::vector<ActingBuffer::Cue> cues = {}) {
    auto supervisor = std::move(Supervisor::Create()).value();
    ActingBuffer buffer(std::move(cues));
    std::ostream words(&buffer);
    words.exceptions(std::ios::badbit);  // else a cue that throws would be lost, and what waits for it would hang
    Talk talk(words, TerminalTraits());
    const auto journalled = [this] { return std::stod(ReadTextFile(Path("journalled")).value_or("0")); };
    const RunResult result =
        LocalRun(cluster_, *supervisor, talk, /*show_progress=*/true, journalled, pace_).UntilEnd();
    EXPECT_EQ(supervisor->running(), 0u);
    talk_ = buffer.str();
    return result;
  }

  // From here on no file can be opened: all descriptors below three are taken. (With less than that poll fails, too.)
  void TakeDescriptors() {
    getrlimit(RLIMIT_NOFILE, &descriptors_);
    const rlimit no_more = {.rlim_cur = 3, .rlim_max = descriptors_.rlim_max};
    setrlimit(RLIMIT_NOFILE, &no_more);
  }
  void GiveDescriptors() { setrlimit(RLIMIT_NOFILE, &descriptors_); }

  ScratchFolder folder_;
  // A chief that knows of no reason to end, and does so when asked.
  std::string ChiefUntilAsked() const {
    return Script("chief", "trap 'echo \"{\\\"state\\\": \\\"CANCELLED\\\", \\\"term\\\": 3}\" >" +
                               Path("summary.json") + "; exit 143' TERM\n" + Announce() + "read code <" + Path("fifo"));
  }
  LocalCluster cluster_;
  rlimit descriptors_{};
  sigset_t mask_before_{};
  sighandler_t interrupt_before_ = SIG_DFL;
  std::string talk_;
};

}  // namespace downpour
