// Two drivers of one host: what a ps and who dialled it say to each other goes through shared memory where both have
// some, and roles see no difference.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "runtime/shm/arena.h"
#include "tests/unit/runtime/zmq/test_keys.h"
#include "tests/unit/runtime/zmq/test_peer.h"
#include "tests/unit/runtime/zmq/test_roles.h"

namespace downpour {
namespace {

constexpr PeerId kServer{1};

Push PushOf(Step step) {
  Push push;
  push.step = step;
  push.slices.resize(1);
  push.slices[0].gradient = Payload::CopyOf(std::string(100'000, 'g').data(), 100'000);
  return push;
}

// Pushes, each once the one before is answered, until `enough`; then ends its server and itself.
class PushingRole final : public Role {
 public:
  PushingRole(std::string endpoint, std::function<bool()> enough)
      : endpoint_(std::move(endpoint)), enough_(std::move(enough)) {}
  void Step(Time, Input input, Effects& effects) override {
    if (std::holds_alternative<Started>(input)) effects.Add(Dial{kServer, endpoint_, PeerRole::kPs});
    if (std::holds_alternative<Reconnected>(input)) ++reconnected;
    if (const PullReply* reply = As<PullReply>(input)) {
      EXPECT_LE(reply->request, answered + 1) << "in order";
      again += reply->request <= answered;
      EXPECT_EQ(reply->slices.at(0).values.size(), 100'000u);
      EXPECT_EQ(reply->slices.at(0).values.as<char>()[99'999], 'g');
      answered = std::max<uint64_t>(answered, reply->request);
    }
    if (enough_()) {
      effects.SendTo(kServer, Leave{});
      effects.Add(Exit{0, "done"});
    } else if (As<PullReply>(input) != nullptr || std::holds_alternative<Tick>(input)) {
      if (As<PullReply>(input) == nullptr && sent > answered) return;
      sent = answered + 1;
      effects.SendTo(kServer, PushOf(sent));
    }
  }
  uint64_t answered = 0, sent = 0;
  int again = 0;  // answers that had come before
  std::atomic<int> reconnected{0};

 private:
  const std::string endpoint_;
  const std::function<bool()> enough_;
};

class DriverShmTest : public testing::TestWithParam<bool> {
 protected:
  std::string listen() const { return GetParam() ? "127.0.0.1:0" : "ipc://" + dir_ / "s"; }
  TempDir dir_;
  SharedArena ps_, worker_;
};
INSTANTIATE_TEST_SUITE_P(TcpAndIpc, DriverShmTest, testing::Bool(),
                         [](const auto& about) { return about.param ? "tcp" : "ipc"; });

TEST_P(DriverShmTest, BothSidesShareAndEachAnswerComesOnceAndInOrder) {
  Running server(listen(), std::make_unique<EchoRole>(), {.memory = &ps_});
  auto role = std::make_unique<PushingRole>(
      server.endpoint(), [&, more = 0]() mutable { return ps_.chunks() > 0 && worker_.chunks() > 0 && ++more > 500; });
  const PushingRole& pushing = *role;
  Running worker("", std::move(role), {.memory = &worker_});
  EXPECT_EQ(worker.join(), 0);
  EXPECT_EQ(server.join(), 7);
  EXPECT_EQ(pushing.again, 0) << "each once";
}

TEST_P(DriverShmTest, WhereOneSideHasNoneAllGoesOverZeroMq) {
  for (const bool server_has_some : {true, false}) {
    Running server(server_has_some ? listen() : "127.0.0.1:0", std::make_unique<EchoRole>(),
                   {.memory = server_has_some ? &ps_ : nullptr});
    auto role = std::make_unique<PushingRole>(server.endpoint(), [more = 0]() mutable { return ++more > 100; });
    Running worker("", std::move(role), {.memory = server_has_some ? nullptr : &worker_});
    EXPECT_EQ(worker.join(), 0);
    server.join();
    EXPECT_EQ(ps_.chunks() + worker_.chunks(), 0u);
  }
}

// It ends without a word, and another one comes at its address: what was on its way is asked for again.
TEST_P(DriverShmTest, AServerThatComesBackIsSharedWithAgain) {
  const std::string endpoint = "ipc://" + dir_ / "back";
  SharedArena later;
  std::atomic<bool> end_first{false};
  auto first = std::make_unique<Running>(endpoint, std::make_unique<FunctionRole>([&](Input& input, Effects& effects) {
                                           if (const Push* push = As<Push>(input)) {
                                             effects.SendTo(From(input), ReplyOf(push->step, push->slices[0].gradient));
                                           }
                                           if (ps_.chunks() > 0) {
                                             end_first = true;
                                             effects.Add(Exit{0, "gone"});
                                           }
                                         }),
                                         DriverWorld{.memory = &ps_});
  auto role = std::make_unique<PushingRole>(endpoint, [&] { return later.chunks() > 0; });
  PushingRole& pushing = *role;
  Running worker("", std::make_unique<FunctionRole>([&, again = false](Input& input, Effects& effects) mutable {
                   // What a role does where a connection stands again: it says what was not answered.
                   const bool stands_again = std::holds_alternative<Reconnected>(input);
                   pushing.Step(Time(), Input(input), effects);
                   if (stands_again && pushing.sent > pushing.answered) effects.SendTo(kServer, PushOf(pushing.sent));
                 }),
                 {.memory = &worker_});
  EXPECT_EQ(first->join(), 0);
  first.reset();
  Running second(endpoint, std::make_unique<EchoRole>(), {.memory = &later});
  EXPECT_EQ(worker.join(), 0);
  EXPECT_EQ(second.join(), 7);
  EXPECT_GE(pushing.reconnected, 1);
}

TEST(DriverShmKeysTest, AKeyThatIsTakenAwayEndsWhatItShares) {
  const TestKeys keys;
  SharedArena ps, worker_memory;
  Mailbox mailbox;
  Running server("127.0.0.1:0", std::make_unique<FunctionRole>([&](Input& input, Effects& effects) {
                   if (const Push* push = As<Push>(input)) {
                     effects.SendTo(From(input), ReplyOf(push->step, push->slices[0].gradient));
                   }
                   if (std::holds_alternative<StopRequested>(input)) effects.Add(Exit{3, "done"});
                 }),
                 {.mailbox = &mailbox, .memory = &ps}, LoadKeys(keys.folder, PeerRole::kPs).value(), keys.folder);
  bool taken_away = false;
  auto role = std::make_unique<PushingRole>(server.endpoint(), [&] {
    if (worker_memory.chunks() > 0 && !std::exchange(taken_away, true)) {
      WriteText(keys.folder + "/worker.public", "downpour-key 1\ncluster " + keys.chief.cluster +
                                                    "\nrole worker\npublic " + MakeCurvePair().public_key + "\n");
    }
    return taken_away && !ps.in_use();
  });
  Running worker("", std::move(role), {.memory = &worker_memory}, keys.worker);
  EXPECT_EQ(worker.join(), 0);
  EXPECT_FALSE(ps.in_use()) << "nothing is shared any more";
  mailbox.Post(StopRequested{});
  EXPECT_EQ(server.join(), 3);
}

}  // namespace
}  // namespace downpour
