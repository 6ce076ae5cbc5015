#include "runtime/process/glog_warning_tap.h"

#include <glog/logging.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace downpour {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

std::vector<std::string> Passed(Mailbox& mailbox) {
  std::vector<std::string> texts;
  if (!mailbox.has_mail()) return texts;
  for (const Input& input : mailbox.Take()) texts.push_back(std::get<Warned>(input).text);
  return texts;
}

TEST(WarningTapTest, WarningsAndErrorsReachTheRole) {
  WarningTap tap;
  Mailbox mailbox;
  LOG(WARNING) << "before it runs";
  tap.DeliverTo(&mailbox);
  LOG(INFO) << "all is well";
  LOG(WARNING) << "a door refuses";
  LOG(ERROR) << "a device fails";
  EXPECT_THAT(Passed(mailbox), ElementsAre("before it runs", "a door refuses", "a device fails"));
}

TEST(WarningTapTest, WhatTheRoleSaysIsNotSaidToItAgain) {
  WarningTap tap;
  Mailbox mailbox;
  tap.DeliverTo(&mailbox);
  {
    const WarningTap::RolesOwn own;
    LOG(WARNING) << "the role's own";
  }
  EXPECT_THAT(Passed(mailbox), IsEmpty());
  LOG(WARNING) << "the world's";
  EXPECT_THAT(Passed(mailbox), ElementsAre("the world's"));
}

TEST(WarningTapTest, WhatIsKeptUntilARoleRunsIsBounded) {
  WarningTap tap;
  Mailbox mailbox;
  for (size_t i = 0; i < 2 * WarningTap::kMostKept; ++i) LOG(WARNING) << i;
  tap.DeliverTo(&mailbox);
  EXPECT_THAT(Passed(mailbox), SizeIs(WarningTap::kMostKept));
}

TEST(WarningTapTest, AfterItsEndNothingIsPassedOn) {
  Mailbox mailbox;
  {
    WarningTap tap;
    tap.DeliverTo(&mailbox);
  }
  LOG(WARNING) << "too late";
  EXPECT_THAT(Passed(mailbox), IsEmpty());
}

}  // namespace
}  // namespace downpour
