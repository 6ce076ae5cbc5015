#include "worker/in_flight.h"

#include <gtest/gtest.h>

#include <vector>

namespace downpour {
namespace {

constexpr SliceId kX{0}, kY{1};

std::vector<Step> StepsOf(InFlight& in_flight) {
  std::vector<Step> steps;
  for (const InFlight::StepEntry& entry : in_flight.steps()) steps.push_back(entry.step);
  return steps;
}

TEST(InFlightTest, KeepsStepsInOrderUntilEverySliceLetsGo) {
  InFlight in_flight(2);
  in_flight.Add(3, kX, Payload::Zeros(4), {}, InFlight::State::kReady);
  in_flight.Add(1, kY, Payload::Zeros(4), {}, InFlight::State::kReady);  // computed again
  in_flight.Add(3, kY, Payload::Zeros(4), {}, InFlight::State::kReady);
  EXPECT_EQ(StepsOf(in_flight), (std::vector<Step>{1, 3}));

  std::vector<Step> dropped;
  const auto note = [&](Step step, const InFlight::RetainedGradient&) { dropped.push_back(step); };
  in_flight.RetainOnly(kX, 3, 3, note);
  EXPECT_EQ(dropped, std::vector<Step>{3});
  EXPECT_EQ(StepsOf(in_flight), (std::vector<Step>{1, 3})) << "Y still has both";
  in_flight.RetainOnly(kY, 1, 3, note);
  EXPECT_EQ(StepsOf(in_flight), std::vector<Step>{3});
  in_flight.RetainOnly(kY, 0, 2, note);  // sent back to step 2: what lies behind is of no use
  EXPECT_TRUE(in_flight.steps().empty());
}

TEST(InFlightTest, VisitsWhatIsKeptOfOneSlice) {
  InFlight in_flight(2);
  in_flight.Add(1, kX, Payload(), {}, InFlight::State::kBlocked);  // an empty push is kept like any other
  in_flight.Add(2, kX, Payload::Zeros(4), {}, InFlight::State::kSent);
  in_flight.Add(1, kY, Payload::Zeros(4), {}, InFlight::State::kSent);
  int visited = 0;
  in_flight.ForEach(kX, [&](InFlight::RetainedGradient& retained) {
    ++visited;
    retained.state = InFlight::State::kReady;
  });
  EXPECT_EQ(visited, 2);
  EXPECT_EQ(in_flight.steps()[0].slices[ToNumber(kY)].state, InFlight::State::kSent);
}

bool Concludes(InFlight& in_flight, Step step, bool counted) {
  const std::vector<InFlight::Concluded> concluded = in_flight.TakeConcluded();
  return concluded.size() == 1 && concluded[0].step == step && concluded[0].counted == counted;
}

TEST(InFlightTest, AStepCountedWhereEachSliceTookItOutOfOneComputation) {
  InFlight in_flight(2);
  const auto keep = [&](SliceId slice) { in_flight.Add(1, slice, Payload::Zeros(4), {}, InFlight::State::kSent); };
  const auto drop = [&](SliceId slice) {
    in_flight.RetainOnly(slice, 1, 1, [](Step, const InFlight::RetainedGradient&) {});
  };
  for (const bool both : {true, false}) {
    keep(kX), keep(kY);
    in_flight.Count(1, kX);
    drop(kX);
    EXPECT_TRUE(in_flight.TakeConcluded().empty()) << "Y has not answered";
    if (both) in_flight.Count(1, kY);
    in_flight.Count(2, kY);
    drop(kY);
    EXPECT_TRUE(Concludes(in_flight, 1, both));
  }
  keep(kX), keep(kY);
  in_flight.Count(1, kX);
  drop(kX);
  drop(kY), keep(kX);  // Y had it already, X went back and lacks it
  in_flight.Count(1, kX);
  drop(kX);
  const std::vector<InFlight::Concluded> concluded = in_flight.TakeConcluded();
  for (const InFlight::Concluded& one : concluded) EXPECT_FALSE(one.counted);
  EXPECT_EQ(concluded.size(), 2u);
}

TEST(InFlightTest, AStepThatWasComputedTwiceForSomeSlicesDidNotCount) {
  InFlight in_flight(2);
  const auto keep = [&](SliceId slice) { in_flight.Add(1, slice, Payload::Zeros(4), {}, InFlight::State::kSent); };
  const auto drop = [&](SliceId slice) {
    in_flight.RetainOnly(slice, 1, 1, [](Step, const InFlight::RetainedGradient&) {});
  };
  keep(kX), keep(kY);
  in_flight.Count(1, kX);
  drop(kX);
  keep(kX);  // its slice went back, while Y's gradient is still on its way
  in_flight.Count(1, kX), in_flight.Count(1, kY);
  drop(kX), drop(kY);
  EXPECT_TRUE(Concludes(in_flight, 1, false));
}

}  // namespace
}  // namespace downpour
