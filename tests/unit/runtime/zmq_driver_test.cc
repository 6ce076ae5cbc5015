#include "runtime/zmq_driver.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <atomic>
#include <cstring>
#include <fstream>
#include <functional>
#include <memory>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/unit/runtime/zmq_test_peer.h"

namespace downpour {
namespace {

using testing::HasSubstr;

// A role made of a function.
class FunctionRole final : public Role {
 public:
  using Handler = std::function<void(Input&, Effects&)>;
  explicit FunctionRole(Handler handler) : handler_(std::move(handler)) {}
  void Step(Time, Input input, Effects& effects) override { handler_(input, effects); }

 private:
  Handler handler_;
};

template <typename Kind>
const Kind* As(const Input& input) {
  const auto* received = std::get_if<Received>(&input);
  return received == nullptr ? nullptr : std::get_if<Kind>(&received->message);
}
PeerId From(const Input& input) { return std::get<Received>(input).from; }

PullReply ReplyOf(uint64_t request, Payload values) {
  PullReply reply;
  reply.request = request;
  reply.slices.resize(1);
  reply.slices[0].values = std::move(values);
  return reply;
}

// Answers a Pull with as many replies as it names slices, of 1 MiB each, and a StatusRequest with what it counted;
// leaves with code 7 when told to.
class EchoRole final : public Role {
 public:
  void Step(Time, Input input, Effects& effects) override {
    if (std::holds_alternative<Tick>(input)) ++ticks;
    if (std::holds_alternative<Malformed>(input)) ++malformed;
    if (const Pull* pull = As<Pull>(input)) {
      for (size_t i = 0; i < pull->slices.size(); ++i) effects.SendTo(From(input), ReplyOf(i, megabyte_));
    }
    if (const Push* push = As<Push>(input)) {
      effects.SendTo(From(input), ReplyOf(push->step, push->slices.at(0).gradient));
    }
    if (As<StatusRequest>(input) != nullptr) {
      effects.SendTo(From(input), StatusReply{std::to_string(ticks) + " " + std::to_string(malformed)});
    }
    if (As<Leave>(input) != nullptr) effects.Add(Exit{7, "told to leave"});
  }

 private:
  Payload megabyte_ = Payload::Zeros(kMaxFrameBytes);
  int ticks = 0;
  int malformed = 0;
};

// A driver running a role on a thread of its own; join() gives its exit code.
class Running {
 public:
  Running(const std::string& listen, std::unique_ptr<Role> role, DriverWorld world = {}) : role_(std::move(role)) {
    if (world.mailbox == nullptr) world.mailbox = &mailbox_;
    driver_ = ZmqDriver::Open({.listen = listen}, world).value();
    endpoint_ = driver_->endpoint();
    thread_ = std::thread([this] {
      exit_code_ = driver_->Run(*role_);
      driver_.reset();
    });
  }
  ~Running() {
    if (thread_.joinable()) thread_.join();
  }
  int join() {
    thread_.join();
    return exit_code_;
  }
  const std::string& endpoint() const { return endpoint_; }

 private:
  Mailbox mailbox_;
  std::unique_ptr<Role> role_;
  std::unique_ptr<ZmqDriver> driver_;
  std::string endpoint_;
  int exit_code_ = -1;
  std::thread thread_;
};

Pull PullOf(size_t slices) {
  Pull pull;
  pull.slices.resize(slices);
  return pull;
}

class ZmqDriverTest : public testing::TestWithParam<bool> {
 protected:
  std::string listen() const { return GetParam() ? "127.0.0.1:0" : "ipc://" + dir_ / "s"; }
  TempDir dir_;
};
INSTANTIATE_TEST_SUITE_P(TcpAndIpc, ZmqDriverTest, testing::Bool(),
                         [](const auto& about) { return about.param ? "tcp" : "ipc"; });

TEST(ZmqDriverLogTest, WhatIsQuotedBeginsNoLineOfItsOwn) {
  testing::internal::CaptureStderr();
  Running role("", std::make_unique<FunctionRole>([](Input&, Effects& effects) {
                 effects.Warn("said \"sad\nE 2024-01-01 00:00:00.000 forged\"");
                 effects.Add(Exit{1, "gone:\na reason"});
               }));
  role.join();
  const std::string logged = testing::internal::GetCapturedStderr();
  EXPECT_THAT(logged, HasSubstr("said \"sad E 2024-01-01 00:00:00.000 forged\"\n"));
  EXPECT_THAT(logged, HasSubstr("gone: a reason\n"));
}

TEST_P(ZmqDriverTest, MessagesGoBothWaysUntilTheRoleExits) {
  Running role(listen(), std::make_unique<EchoRole>());
  TestPeer peer(role.endpoint());
  Push push;
  push.step = 5;
  push.slices.resize(1);
  push.slices[0].gradient = Payload::CopyOf(std::string(100'000, 'g').data(), 100'000);
  peer.Send(push);
  const PullReply echo = peer.Receive<PullReply>();
  EXPECT_EQ(echo.request, 5u);
  ASSERT_EQ(echo.slices.size(), 1u);
  ASSERT_EQ(echo.slices[0].values.size(), 100'000u);
  EXPECT_EQ(std::memcmp(echo.slices[0].values.data(), push.slices[0].gradient.data(), 100'000), 0);
  peer.Send(Leave{});
  EXPECT_EQ(role.join(), 7);
}

TEST_P(ZmqDriverTest, TwoHundredRepliesOfAMegabyteFromOneStepAllArriveInOrder) {
  Running role(listen(), std::make_unique<EchoRole>());
  TestPeer peer(role.endpoint());
  peer.Send(PullOf(200));
  for (uint64_t i = 0; i < 200; ++i) ASSERT_EQ(peer.Receive<PullReply>().request, i);
  peer.Send(Leave{});
}

TEST_P(ZmqDriverTest, AWindowOfEightNeverLosesAReply) {
  Running role(listen(), std::make_unique<EchoRole>());
  TestPeer peer(role.endpoint());
  for (int i = 0; i < 8; ++i) peer.Send(PullOf(1));
  for (int i = 0; i < 200; ++i) {
    ASSERT_EQ(peer.Receive<PullReply>().slices.size(), 1u);
    if (i < 192) peer.Send(PullOf(1));
  }
  peer.Send(Leave{});
}

TEST_P(ZmqDriverTest, JunkIsMalformedOrNothingAndOthersAreServed) {
  Running role(listen(), std::make_unique<EchoRole>());
  TestPeer hostile(role.endpoint());
  const Payload junk = Payload::CopyOf(std::string(500, '\xa5').data(), 500);
  std::vector<Payload> torn = Encode(PullOf(3));
  torn[0] = torn[0].Sub(0, torn[0].size() / 2);
  std::vector<Payload> surplus = Encode(PullOf(3));
  surplus.push_back(junk);
  const std::vector<std::vector<Payload>> all_malformed = {{Payload()}, {junk},  {junk, junk},
                                                           torn,        surplus, std::vector<Payload>(2000, junk)};
  for (const std::vector<Payload>& frames : all_malformed) hostile.SendFrames(frames);
  hostile.Send(StatusRequest{});
  EXPECT_THAT(hostile.Receive<StatusReply>().json, testing::EndsWith(" 6"));
  hostile.SendFrames({Payload::Zeros(kMaxHeaderBytes + 1)});  // ends that connection, not the role

  TestPeer good(role.endpoint());
  good.Send(PullOf(1));
  EXPECT_EQ(good.Receive<PullReply>().slices.size(), 1u);
  good.Send(Leave{});
  EXPECT_EQ(role.join(), 7);
}

TEST_P(ZmqDriverTest, AFloodDelaysNeitherTicksNorOtherPeers) {
  Running role(listen(), std::make_unique<EchoRole>());
  std::atomic<bool> flooding{true};
  std::thread flood([&] {
    TestPeer hostile(role.endpoint());
    while (flooding) hostile.Send(Violation{});
  });
  TestPeer good(role.endpoint());
  int ticks = 0;
  while (ticks < 5) {  // for ever, if ticks starve
    good.Send(StatusRequest{});
    std::istringstream(good.Receive<StatusReply>().json) >> ticks;
    ASSERT_FALSE(HasFailure());
  }
  flooding = false;
  flood.join();
  good.Send(Leave{});
}

TEST_P(ZmqDriverTest, ARoleMayDialSendAndHangUpInOneStep) {
  Running server(listen(), std::make_unique<EchoRole>());
  constexpr PeerId kServer{1}, kNowhere{2};
  uint64_t got = 0;
  Running client("", std::make_unique<FunctionRole>([&](Input& input, Effects& effects) {
                   if (std::holds_alternative<Started>(input)) {
                     effects.Add(Dial{kNowhere, "not an endpoint"});
                     effects.SendTo(kNowhere, StatusRequest{});
                     effects.Add(HangUp{kNowhere});
                     effects.Add(Dial{kServer, server.endpoint()});
                     effects.SendTo(kServer, PullOf(2));
                   }
                   if (As<PullReply>(input) != nullptr && ++got == 2) {
                     effects.SendTo(kServer, Leave{});
                     effects.Add(HangUp{kServer});
                     effects.SendTo(kServer, Leave{});  // lost: it is gone
                     effects.Add(Exit{0, "done"});
                   }
                 }));
  EXPECT_EQ(client.join(), 0);
  EXPECT_EQ(server.join(), 7);
}

TEST_P(ZmqDriverTest, WhatWasSentBeforeAnExitStillArrives) {
  constexpr uint64_t kLast = 16;  // fewer than ZeroMQ reads ahead, since nobody reads before the exit
  const ZmqContext context = ZmqContext::Create(1).value();
  ZmqChannel listener(Listen(context, listen()).value(), ZmqChannel::Side::kListener);
  const std::string endpoint = listener.socket().endpoint();
  Running role("", std::make_unique<FunctionRole>([&](Input& input, Effects& effects) {
                 if (std::holds_alternative<Started>(input)) {
                   effects.Add(Dial{PeerId{1}, endpoint});
                   effects.SendTo(PeerId{1}, StatusRequest{});
                 }
                 if (As<StatusReply>(input) == nullptr) return;
                 for (uint64_t i = 1; i <= kLast; ++i)
                   effects.SendTo(PeerId{1}, ReplyOf(i, Payload::Zeros(kMaxFrameBytes)));
                 effects.Add(Exit{3, "done"});
                 effects.SendTo(PeerId{1}, ReplyOf(kLast + 1, Payload()));
               }));
  listener.Send(WaitFor(listener).peer, Encode(StatusReply{}));
  EXPECT_EQ(role.join(), 3);
  for (uint64_t i = 1; i <= kLast; ++i)
    EXPECT_EQ(std::get<PullReply>(Decode(WaitFor(listener).frames).value()).request, i);
  std::string peer;
  std::vector<Payload> frames;
  EXPECT_EQ(listener.Receive(&peer, &frames), ZmqChannel::Receipt::kNothing);
}

TEST_P(ZmqDriverTest, WhoIsHungUpOnIsHeardNoMore) {
  PeerId first{};
  int heard = 0;
  Running role(listen(), std::make_unique<FunctionRole>([&](Input& input, Effects& effects) {
                 if (As<StatusRequest>(input) != nullptr) {
                   ++heard;
                   effects.SendTo(From(input), StatusReply{"bye"});
                   effects.Add(HangUp{first = From(input)});
                 }
                 if (As<Leave>(input) != nullptr) {
                   effects.SendTo(first, StatusReply{"lost"});
                   effects.SendTo(From(input), StatusReply{std::to_string(heard)});
                 }
                 if (As<JobEnd>(input) != nullptr) effects.Add(Exit{0, "done"});
               }));
  TestPeer muted(role.endpoint());
  muted.Send(StatusRequest{});
  EXPECT_EQ(muted.Receive<StatusReply>().json, "bye");
  for (int i = 0; i < 100; ++i) muted.Send(StatusRequest{});
  TestPeer other(role.endpoint());
  other.Send(Leave{});
  EXPECT_EQ(other.Receive<StatusReply>().json, "1");
  other.Send(JobEnd{});
}

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
        auto driver = ZmqDriver::Open({}, {.mailbox = &mailbox, .signals = &signals}).value();
        FunctionRole role([](Input& input, Effects& effects) {
          if (std::holds_alternative<Started>(input)) raise(SIGTERM);
          if (const auto* stop = std::get_if<StopRequested>(&input)) effects.Add(Exit{stop->signal, "stopped"});
        });
        if (driver->Run(role) == SIGTERM) raise(SIGINT);
      },
      testing::KilledBySignal(SIGINT), "");
}

}  // namespace
}  // namespace downpour
