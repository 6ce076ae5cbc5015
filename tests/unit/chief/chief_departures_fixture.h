// Ps that are told to stop, leave, and are replaced by others.
#pragma once

#include <set>
#include <string>

#include "tests/unit/chief/chief_role_fixture.h"

namespace downpour {

class ChiefDeparturesTest : public ChiefRoleTest {
 protected:
  void Tell(int index) {
    cluster->ps[index].leaving = "SIGTERM";
    cluster->Beat(cluster->ps[index]);
  }
  bool MayLeave(int index) const {
    bool may_leave = false;
    for (const HeartbeatReply& reply : cluster->Sent<HeartbeatReply>(cluster->ps[index])) {
      EXPECT_NE(reply.to, Incarnation::kNone) << "nobody would hear it";
      may_leave |= reply.may_leave && reply.to == cluster->ps[index].id;
    }
    return may_leave;
  }
  void LetGo(int index) {
    Tell(index);
    cluster->Wait(3s);
    ASSERT_TRUE(MayLeave(index));
  }
  void Leave(int index) {
    FakeMember& server = cluster->ps[index];
    server.alive = false;
    cluster->Say(server.control, downpour::Leave{server.id, "ended by SIGTERM; its chief let it go"});
  }
  // Another process comes in its place, which knows of nothing.
  void Succeed(int index) {
    FakeMember& server = cluster->ps[index];
    server.join.nonce += 1000;
    server.slices.clear();
    server.leaving.clear();
    server.alive = true;
    cluster->JoinPs(index);
  }
  bool Durable(const std::string& round) const { return cluster->disk->Has("checkpoints/" + round + "/MANIFEST"); }
  size_t RoundsAsked() const {
    std::set<Round> rounds;
    for (const SnapshotRequest& request : cluster->Sent<SnapshotRequest>(cluster->ps[0].bulk)) {
      rounds.insert(request.round);
    }
    return rounds.size();
  }
  std::string Failures() const { return cluster->Status()["failures"].dump(); }
  std::string Waits() const { return cluster->Status()["waits"].dump(); }
};

}  // namespace downpour
