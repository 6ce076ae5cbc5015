#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstring>
#include <fstream>
#include <functional>
#include <memory>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "runtime/posix/storage.h"
#include "runtime/process/stop_signals.h"
#include "runtime/zmq/driver.h"
#include "tests/unit/runtime/zmq/test_peer.h"
#include "tests/unit/runtime/zmq/test_roles.h"

namespace downpour {
namespace {

using testing::HasSubstr;
TEST(ZmqDriverWorldTest, StartedNamesTheEndpointAndSamplesCountBytes) {
  Mailbox mailbox;
  auto driver = ZmqDriver::Open({.listen = "127.0.0.1:0"}, {.mailbox = &mailbox}).value();
  std::string endpoint;
  ResourceSample sample;
  FunctionRole role([&](Input& input, Effects& effects) {
    if (const auto* started = std::get_if<Started>(&input)) {
      endpoint = started->endpoint;
      EXPECT_GT(started->unix_ms, 0);
      effects.Add(Dial{PeerId{1}, endpoint});  // itself
      effects.SendTo(PeerId{1}, ReplyOf(1, Payload::Zeros(50'000)));
    }
    if (const auto* taken = std::get_if<ResourceSample>(&input); taken != nullptr && taken->bytes_in > 50'000) {
      sample = *taken;
      effects.Add(Exit{0, "done"});
    }
  });
  EXPECT_EQ(driver->Run(role), 0);
  EXPECT_EQ(endpoint, "127.0.0.1:" + endpoint.substr(endpoint.rfind(':') + 1));
  EXPECT_GT(sample.resident_bytes, 1'000'000u);
  EXPECT_GT(sample.cpu_seconds, 0);
  EXPECT_GT(sample.bytes_out, 50'000u);
}

// Each on another address than the one before, as after a link that was cut.
std::string AddressThatChanges(const std::string& endpoint, const std::string& towards) {
  static int asked = 0;
  return endpoint + " asked " + std::to_string(++asked) + " for " + towards;
}

TEST(ZmqDriverWorldTest, AJoinNamesTheAddressOfWhenItIsSent) {
  Mailbox mailbox;
  auto driver = ZmqDriver::Open({.listen = "127.0.0.1:0", .chief = "h0:7000", .as_others_reach_it = AddressThatChanges},
                                {.mailbox = &mailbox})
                    .value();
  std::string started_at;
  std::vector<std::string> joined_at;
  FunctionRole role([&](Input& input, Effects& effects) {
    if (const auto* started = std::get_if<Started>(&input)) {
      started_at = started->endpoint;
      effects.Add(Dial{PeerId{1}, started_at.substr(0, started_at.find(' '))});  // itself
      for (int i = 0; i < 2; ++i) effects.SendTo(PeerId{1}, Join());
    }
    if (const Join* join = As<Join>(input)) joined_at.push_back(join->endpoint);
    if (joined_at.size() == 2) effects.Add(Exit{0, "done"});
  });
  EXPECT_EQ(driver->Run(role), 0);
  EXPECT_THAT(started_at, testing::EndsWith("asked 1 for h0:7000"));
  EXPECT_THAT(joined_at,
              testing::ElementsAre(testing::EndsWith("asked 2 for h0:7000"), testing::EndsWith("asked 3 for h0:7000")));
}

TEST(ZmqDriverWorldTest, APortInUseIsSaidBeforeAnythingRuns) {
  Mailbox mailbox;
  auto first = ZmqDriver::Open({.listen = "127.0.0.1:0"}, {.mailbox = &mailbox}).value();
  const auto second = ZmqDriver::Open({.listen = first->endpoint()}, {.mailbox = &mailbox});
  EXPECT_THAT(std::string(second.status().message()), HasSubstr("the port is in use"));
}

TEST(ZmqDriverWorldTest, WhatIsNotZeroMqAtAllHarmsNobody) {
  Running role("127.0.0.1:0", std::make_unique<EchoRole>());
  const int port = std::stoi(role.endpoint().substr(role.endpoint().rfind(':') + 1));
  const std::string bytes(10'000, 'G');
  // "", a torn greeting, a greeting that announces 2^63 bytes, and no greeting at all.
  for (const std::string& said : {std::string(), std::string("\xff\0\0\0\0\0\0\0\1\x7f", 10),
                                  std::string("\xff\x7f\xff\xff\xff\xff\xff\xff\xff\x7f\x03", 11), bytes}) {
    const UniqueFd raw(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address{
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr = {htonl(INADDR_LOOPBACK)}, .sin_zero = {}};
    ASSERT_EQ(connect(raw.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
    ASSERT_EQ(send(raw.get(), said.data(), said.size(), MSG_NOSIGNAL), static_cast<ssize_t>(said.size()));
  }
  TestPeer good(role.endpoint());
  good.Send(StatusRequest{});
  EXPECT_THAT(good.Receive<StatusReply>().json, testing::EndsWith(" 0"));
  good.Send(Leave{});
  EXPECT_EQ(role.join(), 7);
}

TEST(ZmqDriverWorldTest, TheTraceIsWrittenBeforeWhatFollowsIsSent) {
  TempDir dir;
  auto trace = TraceFile::Open(dir / "trace").value();
  Running role("127.0.0.1:0", std::make_unique<FunctionRole>([](Input& input, Effects& effects) {
                 if (As<Leave>(input) != nullptr) effects.Add(Exit{0, "done"});
                 if (As<StatusRequest>(input) == nullptr) return;
                 TraceRecord acked;
                 acked.kind = TraceRecord::Kind::kAcked;
                 acked.lease = LeaseId{9};
                 acked.step = 2;
                 effects.Add(acked);
                 effects.SendTo(From(input), StatusReply{"traced"});
               }),
               {.trace = &trace});
  TestPeer peer(role.endpoint());
  peer.Send(StatusRequest{});
  peer.Receive<StatusReply>();
  std::string line;
  std::getline(std::ifstream(dir / "trace"), line);
  EXPECT_EQ(line, "acked 0 9 2 0 0.0 0 0");
  peer.Send(Leave{});
  EXPECT_EQ(role.join(), 0);
}

// Completions of storage and device come back as inputs, each under its ticket.
TEST(ZmqDriverWorldTest, StorageAndDeviceAnswerByTicket) {
  class Counter final : public Computer {
    void Run(const ComputeRequest& request, const Done& done) override {
      done(absl::OkStatus(), Evaluated{.examples = std::get<EvalStep>(request).batches});
    }
  };
  TempDir dir;
  Mailbox mailbox;
  auto storage = PosixStorage::Open(dir.path(), &mailbox).value();
  ComputeThread computer(std::make_unique<Counter>(), &mailbox);
  auto driver = ZmqDriver::Open({}, {.mailbox = &mailbox, .storage = storage.get(), .computer = &computer}).value();
  EXPECT_EQ(driver->endpoint(), "");
  int done = 0;
  FunctionRole role([&](Input& input, Effects& effects) {
    if (std::holds_alternative<Started>(input)) {
      StorageOp write;
      write.kind = StorageOp::Kind::kWrite;
      write.ticket = Ticket{11};
      write.path = "file";
      effects.Add(std::move(write));
      effects.Add(Compute{Ticket{12}, EvalStep{0, 3, {}}});
    }
    if (const auto* stored = std::get_if<StorageDone>(&input)) {
      EXPECT_EQ(stored->ticket, Ticket{11});
      EXPECT_TRUE(stored->status.ok()) << stored->status;
      ++done;
    }
    if (const auto* computed = std::get_if<ComputeDone>(&input)) {
      EXPECT_EQ(computed->ticket, Ticket{12});
      EXPECT_EQ(std::get<Evaluated>(computed->result).examples, 3u);
      ++done;
    }
    if (done == 2) effects.Add(Exit{0, "done"});
  });
  EXPECT_EQ(driver->Run(role), 0);
  EXPECT_TRUE(std::filesystem::exists(dir / "file"));
}

TEST(ZmqDriverWorldTest, WhoAsksToBeWokenDoesNotWaitForTheNextTick) {
  Mailbox mailbox;
  auto driver = ZmqDriver::Open({.listen = "", .tick = std::chrono::hours(24)}, {.mailbox = &mailbox}).value();
  int ticks = 0;
  FunctionRole role([&](Input& input, Effects& effects) {
    if (std::holds_alternative<Started>(input)) effects.Add(Wake{1ms});
    if (!std::holds_alternative<Tick>(input)) return;
    if (++ticks == 2) return effects.Add(Exit{0, "done"});
    effects.Add(Wake{1ms});
    effects.Add(Wake{std::chrono::hours(48)});  // puts nothing off
  });
  EXPECT_EQ(driver->Run(role), 0);
  EXPECT_EQ(ticks, 2);
}

TEST(ZmqDriverWorldTest, WithoutAFolderStorageSaysSo) {
  Mailbox mailbox;
  auto driver = ZmqDriver::Open({}, {.mailbox = &mailbox}).value();
  absl::Status status;
  FunctionRole role([&](Input& input, Effects& effects) {
    if (std::holds_alternative<Started>(input)) effects.Add(StorageOp{});
    if (const auto* stored = std::get_if<StorageDone>(&input)) {
      status = stored->status;
      effects.Add(Exit{0, "done"});
    }
  });
  driver->Run(role);
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
}

TEST(ZmqDriverWorldDeathTest, TheFirstSignalIsAnInputAndTheSecondTheEnd) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        StopSignals signals;
        Mailbox mailbox;
        signals.DeliverTo(&mailbox);
        auto driver = ZmqDriver::Open({}, {.mailbox = &mailbox}).value();
        FunctionRole role([](Input& input, Effects& effects) {
          if (std::holds_alternative<Started>(input)) kill(getpid(), SIGTERM);
          if (const auto* stop = std::get_if<StopRequested>(&input)) effects.Add(Exit{stop->signal, "stopped"});
        });
        const bool was_heard = driver->Run(role) == SIGTERM;
        while (was_heard) kill(getpid(), SIGINT);
      },
      testing::KilledBySignal(SIGINT), "");
}

}  // namespace
}  // namespace downpour
