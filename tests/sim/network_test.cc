#include "tests/sim/network.h"

#include <gtest/gtest.h>

#include <set>

namespace downpour {
namespace {

constexpr Life kServer{1}, kClient{2}, kSuccessor{3};
constexpr PeerId kDialled{7};

Message Numbered(uint64_t n) { return Pull{.from = Incarnation{1}, .request = n, .slices = {}}; }
uint64_t NumberOf(const Message& message) { return std::get<Pull>(message).request; }

class NetworkTest : public testing::Test {
 protected:
  struct Arrival {
    Life at{};
    PeerId from{};
    uint64_t number = 0;
  };

  void Make(NetworkFaults faults) {
    network_.emplace(faults, /*seed=*/1, &events_, &findings_, [this](Life at, Input input) {
      if (const auto* received = std::get_if<Received>(&input)) {
        arrivals_.push_back({at, received->from, NumberOf(received->message)});
      } else {
        reconnected_.push_back({at, std::get<Reconnected>(input).peer});
      }
    });
    network_->Listen(kServer, "h:1");
    network_->Dial(kClient, kDialled, "h:1");
  }
  void RunAll() {
    while (events_.RunNext()) {
    }
  }
  std::vector<uint64_t> Numbers() const {
    std::vector<uint64_t> numbers;
    for (const Arrival& arrival : arrivals_) numbers.push_back(arrival.number);
    return numbers;
  }

  EventQueue events_;
  Findings findings_;
  std::optional<Network> network_;
  std::vector<Arrival> arrivals_;
  std::vector<std::pair<Life, PeerId>> reconnected_;
};

TEST_F(NetworkTest, CarriesBothWaysInOrder) {
  Make({});
  for (uint64_t n = 0; n < 50; ++n) network_->Send(kClient, kDialled, Numbered(n));
  RunAll();
  ASSERT_EQ(arrivals_.size(), 50u);
  const PeerId accepted = arrivals_[0].from;
  EXPECT_GE(accepted, PeerId::kFirstAccepted);
  for (uint64_t n = 0; n < 50; ++n) EXPECT_EQ(arrivals_[n].number, n);
  network_->Send(kServer, accepted, Numbered(99));
  RunAll();
  EXPECT_EQ(arrivals_.back().at, kClient);
  EXPECT_EQ(arrivals_.back().from, kDialled);
  EXPECT_TRUE(findings_.ok());
}

TEST_F(NetworkTest, ReordersWhenTold) {
  Make({.in_order = false});
  for (uint64_t n = 0; n < 50; ++n) network_->Send(kClient, kDialled, Numbered(n));
  RunAll();
  const std::vector<uint64_t> numbers = Numbers();
  EXPECT_EQ(std::set<uint64_t>(numbers.begin(), numbers.end()).size(), 50u);
  EXPECT_FALSE(std::is_sorted(numbers.begin(), numbers.end()));
}

TEST_F(NetworkTest, LosesAndDoubles) {
  Make({.loss = 0.5, .duplicate = 0.5});
  for (uint64_t n = 0; n < 1000; ++n) network_->Send(kClient, kDialled, Numbered(n));
  RunAll();
  const std::vector<uint64_t> numbers = Numbers();
  const size_t distinct = std::set<uint64_t>(numbers.begin(), numbers.end()).size();
  EXPECT_LT(distinct, 1000u);
  EXPECT_GT(numbers.size(), distinct);
  network_->Calm();
  arrivals_.clear();
  for (uint64_t n = 0; n < 100; ++n) network_->Send(kClient, kDialled, Numbered(n));
  RunAll();
  EXPECT_EQ(arrivals_.size(), 100u);
}

TEST_F(NetworkTest, SendsToNobodyAreLost) {
  Make({});
  network_->Send(kClient, PeerId{8}, Numbered(1));
  network_->Send(kServer, PeerId::kFirstAccepted, Numbered(2));
  network_->Vanish(kServer);
  network_->Send(kClient, kDialled, Numbered(3));
  RunAll();
  EXPECT_TRUE(arrivals_.empty());
}

TEST_F(NetworkTest, ADiallerReachesTheSuccessorUnderANewNumber) {
  Make({});
  network_->Send(kClient, kDialled, Numbered(1));
  RunAll();
  network_->Vanish(kServer);
  network_->Listen(kSuccessor, "h:1");
  network_->Send(kClient, kDialled, Numbered(2));
  RunAll();
  ASSERT_EQ(arrivals_.size(), 2u);
  EXPECT_EQ(arrivals_[1].at, kSuccessor);
  network_->Send(kSuccessor, arrivals_[1].from, Numbered(3));
  RunAll();
  EXPECT_EQ(arrivals_.back().at, kClient);
}

TEST_F(NetworkTest, MessagesOnTheirWayReachTheSuccessorOnlyWhenTold) {
  for (bool outlive : {false, true}) {
    arrivals_.clear();
    Make({.outlive = outlive});
    network_->Send(kClient, kDialled, Numbered(1));
    network_->Vanish(kClient);
    network_->Vanish(kServer);
    network_->Listen(kSuccessor, "h:1");
    RunAll();
    EXPECT_EQ(arrivals_.size(), outlive ? 1u : 0u);
  }
}

TEST_F(NetworkTest, AResetGivesTheDiallerANewNumber) {
  Make({});
  network_->Send(kClient, kDialled, Numbered(1));
  RunAll();
  network_->ResetOne();
  network_->Send(kServer, arrivals_[0].from, Numbered(2));
  network_->Send(kClient, kDialled, Numbered(3));
  RunAll();
  ASSERT_EQ(Numbers(), (std::vector<uint64_t>{1, 3}));
  EXPECT_NE(arrivals_[0].from, arrivals_[1].from);
  EXPECT_EQ(reconnected_, (std::vector{std::pair(kClient, kDialled)}));
}

TEST_F(NetworkTest, ACutLosesOrHoldsBackOneDirection) {
  for (bool loses : {false, true}) {
    arrivals_.clear();
    Make({});
    network_->Send(kClient, kDialled, Numbered(1));
    RunAll();
    const Time healed = events_.now() + 3s;
    network_->Cut(kClient, kServer, 3s, loses);
    network_->Send(kClient, kDialled, Numbered(2));
    network_->Send(kServer, arrivals_[0].from, Numbered(3));
    RunAll();
    EXPECT_EQ(Numbers(), loses ? (std::vector<uint64_t>{1, 3}) : (std::vector<uint64_t>{1, 3, 2}));
    EXPECT_EQ(events_.now() >= healed, !loses);
  }
}

TEST_F(NetworkTest, ARoleMustNotReuseANumber) {
  Make({});
  network_->Dial(kClient, kDialled, "h:2");
  EXPECT_FALSE(findings_.ok());
}

}  // namespace
}  // namespace downpour
