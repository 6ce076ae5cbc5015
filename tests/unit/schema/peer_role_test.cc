#include "schema/peer_role.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <utility>
#include <vector>

namespace downpour {
namespace {

using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

// One of each kind; whoever joins says that it is what `joiner` says.
template <size_t... i>
std::vector<Message> OneOfEach(TaskRole joiner, std::index_sequence<i...>) {
  std::vector<Message> all = {std::variant_alternative_t<i, MessageKinds>()...};
  for (Message& message : all) {
    if (auto* join = std::get_if<Join>(&message)) join->role = joiner;
  }
  return all;
}
std::vector<Message> OneOfEach(TaskRole joiner) {
  return OneOfEach(joiner, std::make_index_sequence<std::variant_size_v<MessageKinds>>());
}

std::set<std::string> WhatMaySay(PeerRole role, TaskRole joiner = TaskRole::kWorker) {
  std::set<std::string> may;
  for (const Message& message : OneOfEach(joiner)) {
    if (CheckSpeaker(role, message).ok()) may.insert(NameOf(message));
  }
  return may;
}

TEST(PeerRoleTest, EachRoleSaysItsOwn) {
  EXPECT_THAT(WhatMaySay(PeerRole::kClient), UnorderedElementsAre("StatusRequest", "Control"));
  EXPECT_THAT(WhatMaySay(PeerRole::kViewer),
              UnorderedElementsAre("StatusRequest", "PlacementRequest", "Pull", "ShareMemory"));
  EXPECT_THAT(
      WhatMaySay(PeerRole::kWorker),
      UnorderedElementsAre("Join", "Heartbeat", "Leave", "DataReport", "WorkRequest", "LeaseDone", "EvalDone", "Push",
                           "Probe", "Pull", "CodeRequest", "RecordRequest", "EpilogueDone", "ShareMemory"));
  EXPECT_THAT(WhatMaySay(PeerRole::kPs, TaskRole::kPs),
              UnorderedElementsAre("Join", "Heartbeat", "OpenBulk", "Leave", "SliceReport", "Violation", "PushReply",
                                   "PullReply", "SliceRecord", "ShardWritten", "MemoryDoor"));
}

TEST(PeerRoleTest, EachMessageHasASpeaker) {
  for (const Message& message : OneOfEach(TaskRole::kPs)) {
    size_t speakers = 0;
    for (const PeerRole role : kAllPeerRoles) speakers += CheckSpeaker(role, message).ok();
    EXPECT_GE(speakers, 1u) << NameOf(message);
    EXPECT_LE(speakers, 2u) << NameOf(message);
  }
}

TEST(PeerRoleTest, NobodyJoinsAsAnother) {
  Join join;
  join.role = TaskRole::kPs;
  EXPECT_TRUE(CheckSpeaker(PeerRole::kPs, join).ok());
  const absl::Status status = CheckSpeaker(PeerRole::kWorker, join);
  EXPECT_EQ(status.code(), absl::StatusCode::kPermissionDenied);
  EXPECT_THAT(std::string(status.message()), HasSubstr("its key is a worker's, who may not say Join as another role"));
  join.role = TaskRole::kChief;
  for (const PeerRole role : kAllPeerRoles) EXPECT_FALSE(CheckSpeaker(role, join).ok()) << NameOf(role);
}

TEST(PeerRoleTest, AViewerReadsAsNobody) {
  Pull pull;
  EXPECT_TRUE(CheckSpeaker(PeerRole::kViewer, pull).ok());
  pull.from = Incarnation{9};
  EXPECT_TRUE(CheckSpeaker(PeerRole::kWorker, pull).ok());
  const absl::Status status = CheckSpeaker(PeerRole::kViewer, pull);
  EXPECT_EQ(status.code(), absl::StatusCode::kPermissionDenied);
  EXPECT_THAT(std::string(status.message()), HasSubstr("may not say Pull in the name of a member"));
}

TEST(PeerRoleTest, WhatMembersSayNamesThem) {
  constexpr Incarnation kSpeaker{9};
  Violation violation;
  violation.from = kSpeaker;
  violation.by = Incarnation{3};
  EXPECT_EQ(SpeakerOf(violation), kSpeaker);
  Push push;
  push.from = kSpeaker;
  EXPECT_EQ(SpeakerOf(push), kSpeaker);
  EXPECT_EQ(SpeakerOf(Join()), Incarnation::kNone);
  EXPECT_EQ(SpeakerOf(StatusRequest()), Incarnation::kNone);
}

}  // namespace
}  // namespace downpour
