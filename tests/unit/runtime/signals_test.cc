#include "runtime/signals.h"

#include <gtest/gtest.h>
#include <poll.h>

#include <csignal>

namespace downpour {
namespace {

class SignalsTest : public testing::TestWithParam<int> {
 protected:
  SignalsTest() { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
};

TEST_P(SignalsTest, TheFirstIsToldOnce) {
  const auto in_a_process_of_its_own = [] {
    StopSignals signals;
    raise(GetParam());
    pollfd told{signals.fd(), POLLIN, 0};
    const bool readable = poll(&told, 1, 0) == 1;
    const int first = signals.Take();
    exit(readable && first == GetParam() && signals.Take() == 0 ? 0 : 1);
  };
  EXPECT_EXIT(in_a_process_of_its_own(), testing::ExitedWithCode(0), "");
}

TEST_P(SignalsTest, TheSecondEndsTheProcessAtOnce) {
  const auto in_a_process_of_its_own = [](int second) {
    StopSignals signals;
    raise(GetParam());
    raise(second);
    exit(0);
  };
  for (const int second : {SIGTERM, SIGINT}) {
    EXPECT_EXIT(in_a_process_of_its_own(second), testing::KilledBySignal(second), "");
  }
}

INSTANTIATE_TEST_SUITE_P(Each, SignalsTest, testing::Values(SIGTERM, SIGINT),
                         [](const auto& each) { return each.param == SIGTERM ? "Term" : "Int"; });

}  // namespace
}  // namespace downpour
