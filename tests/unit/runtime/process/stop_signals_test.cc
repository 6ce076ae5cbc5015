#include "runtime/process/stop_signals.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include <csignal>
#include <thread>
#include <variant>
#include <vector>

#include "runtime/process/glog_setup.h"

namespace downpour {
namespace {

// As others send it: to the process, not to one of its threads.
void SendSelf(int signal) { kill(getpid(), signal); }

std::vector<Input> Await(Mailbox& mailbox) {
  pollfd mail{mailbox.fd(), POLLIN, 0};
  while (poll(&mail, 1, -1) < 0) continue;
  return mailbox.Take();
}

// As a process that leads a role has them.
struct Heard {
  Mailbox mailbox;
  StopSignals signals;
  Heard() { signals.DeliverTo(&mailbox); }
};

class PosixSignalsTest : public testing::TestWithParam<int> {
 protected:
  PosixSignalsTest() { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
};

class IgnoredSignalTest : public testing::Test {
 protected:
  IgnoredSignalTest() { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
};

TEST_P(PosixSignalsTest, TheFirstBecomesMail) {
  const auto in_a_process_of_its_own = [] {
    Heard heard;
    SendSelf(GetParam());
    const std::vector<Input> mail = Await(heard.mailbox);
    const auto* stop = mail.size() == 1 ? std::get_if<StopRequested>(&mail[0]) : nullptr;
    _exit(stop != nullptr && stop->signal == GetParam() ? 0 : 1);
  };
  EXPECT_EXIT(in_a_process_of_its_own(), testing::ExitedWithCode(0), "");
}

TEST_P(PosixSignalsTest, BeforeThereIsARoleTheFirstEndsTheProcess) {
  const auto in_a_process_of_its_own = [] {
    StopSignals signals;
    SendSelf(GetParam());
    while (true) pause();
  };
  EXPECT_EXIT(in_a_process_of_its_own(), testing::KilledBySignal(GetParam()), "");
}

TEST_P(PosixSignalsTest, TheSecondEndsTheProcessAtOnce) {
  const auto in_a_process_of_its_own = [](int second) {
    Heard heard;
    SendSelf(GetParam());
    Await(heard.mailbox);
    while (true) SendSelf(second);
  };
  for (const int second : {SIGTERM, SIGINT}) {
    EXPECT_EXIT(in_a_process_of_its_own(second), testing::KilledBySignal(second), "");
  }
}

TEST_P(PosixSignalsTest, TwoThatComeTogetherAreOneWish) {
  const auto in_a_process_of_its_own = [] {
    Heard heard;
    SendSelf(SIGTERM);
    SendSelf(SIGINT);
    Await(heard.mailbox);
    while (true) SendSelf(SIGTERM);
  };
  // Of two that wait for the process the lower number would end it, SIGINT.
  EXPECT_EXIT(in_a_process_of_its_own(), testing::KilledBySignal(SIGTERM), "");
}

// A script's background ignores SIGINT, which waits for the process too where it is blocked.
TEST_F(IgnoredSignalTest, WhatTheCallerIgnoresStaysIgnored) {
  const auto in_a_process_of_its_own = [] {
    std::signal(SIGINT, SIG_IGN);
    Heard heard;
    SendSelf(SIGINT);
    SendSelf(SIGTERM);
    const std::vector<Input> mail = Await(heard.mailbox);
    const auto* stop = mail.size() == 1 ? std::get_if<StopRequested>(&mail[0]) : nullptr;
    _exit(stop != nullptr && stop->signal == SIGTERM ? 0 : 1);
  };
  EXPECT_EXIT(in_a_process_of_its_own(), testing::ExitedWithCode(0), "");
}

// Logging hears SIGTERM too, as a failure: it would end the process.
TEST_F(IgnoredSignalTest, SigtermIsHeardThoughTheCallerIgnoresIt) {
  const auto in_a_process_of_its_own = [] {
    std::signal(SIGTERM, SIG_IGN);
    Heard heard;
    if (!SetUpLogging("program", "", "ps-0").ok()) _exit(2);
    SendSelf(SIGTERM);
    const std::vector<Input> mail = Await(heard.mailbox);
    const auto* stop = mail.size() == 1 ? std::get_if<StopRequested>(&mail[0]) : nullptr;
    _exit(stop != nullptr && stop->signal == SIGTERM ? 0 : 1);
  };
  EXPECT_EXIT(in_a_process_of_its_own(), testing::ExitedWithCode(0), "");
}

TEST_P(PosixSignalsTest, NobodyListensAfterTheEnd) {
  const auto in_a_process_of_its_own = [] {
    Mailbox mailbox;
    {
      StopSignals signals;
      signals.DeliverTo(&mailbox);
    }
    SendSelf(GetParam());
    _exit(mailbox.has_mail() ? 1 : 0);
  };
  EXPECT_EXIT(in_a_process_of_its_own(), testing::ExitedWithCode(0), "");
}

// Libraries take an interrupted call for an error.
TEST_P(PosixSignalsTest, NoCallIsInterrupted) {
  const auto in_a_process_of_its_own = [] {
    Heard heard;
    int pipe_ends[2];
    if (pipe(pipe_ends) != 0) _exit(2);
    int result = 0;
    std::thread reader([&] {
      pollfd end{pipe_ends[0], POLLIN, 0};
      result = poll(&end, 1, -1);
    });
    SendSelf(GetParam());
    Await(heard.mailbox);
    if (write(pipe_ends[1], "x", 1) != 1) _exit(3);
    reader.join();
    _exit(result == 1 ? 0 : 1);
  };
  EXPECT_EXIT(in_a_process_of_its_own(), testing::ExitedWithCode(0), "");
}

INSTANTIATE_TEST_SUITE_P(Each, PosixSignalsTest, testing::Values(SIGTERM, SIGINT),
                         [](const auto& each) { return each.param == SIGTERM ? "Term" : "Int"; });

}  // namespace
}  // namespace downpour
