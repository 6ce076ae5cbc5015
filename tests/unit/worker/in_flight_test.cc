#include "worker/in_flight.h"

#include <gtest/gtest.h>

#include <vector>

#include "tests/unit/worker/two_slices.h"

namespace downpour {
namespace {

std::vector<Step> StepsOf(InFlight& in_flight) {
  std::vector<Step> steps;
  for (const InFlight::StepEntry& entry : in_flight.steps()) steps.push_back(entry.step);
  return steps;
}

TEST(InFlightTest, KeepsStepsInOrderUntilEverySliceLetsGo) {
  InFlight in_flight(2);
  in_flight.Add(3, kX, Payload::Zeros(4), {});
  in_flight.Add(1, kY, Payload::Zeros(4), {});  // computed again
  in_flight.Add(3, kY, Payload::Zeros(4), {});
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
  in_flight.Add(1, kX, Payload(), {});  // an empty push is kept like any other
  in_flight.Add(2, kX, Payload::Zeros(4), {}).state = InFlight::State::kSent;
  in_flight.Add(1, kY, Payload::Zeros(4), {}).state = InFlight::State::kSent;
  std::vector<Step> visited;
  in_flight.ForEach(kX, [&](Step step, InFlight::RetainedGradient& retained) {
    visited.push_back(step);
    retained.state = InFlight::State::kReady;
  });
  EXPECT_EQ(visited, (std::vector<Step>{1, 2}));
  EXPECT_EQ(in_flight.at(2, kX).state, InFlight::State::kReady);
  EXPECT_EQ(in_flight.steps()[0].slices[ToNumber(kY)].state, InFlight::State::kSent);
}

}  // namespace
}  // namespace downpour
