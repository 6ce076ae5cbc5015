#include "runtime/zmq/peer_table.h"

#include <gtest/gtest.h>

namespace downpour {
namespace {

TEST(PeerTableTest, APeerKeepsItsNumberAndNumbersAreNeverReused) {
  PeerTable peers(10);
  const PeerId a = peers.Spoke("a");
  const PeerId b = peers.Spoke("b");
  EXPECT_EQ(a, PeerId::kFirstAccepted);
  EXPECT_NE(a, b);
  EXPECT_EQ(peers.Spoke("a"), a);
  EXPECT_EQ(*peers.Find(b), "b");
  peers.Forget(b);
  EXPECT_EQ(peers.Find(b), nullptr);
  EXPECT_GT(peers.Spoke("b"), b);
}

TEST(PeerTableTest, TheLongestSilentGivesWay) {
  PeerTable peers(2);
  const PeerId a = peers.Spoke("a");
  const PeerId b = peers.Spoke("b");
  peers.Spoke("a");
  const PeerId c = peers.Spoke("c");
  EXPECT_EQ(peers.size(), 2u);
  EXPECT_EQ(peers.Find(b), nullptr);
  EXPECT_EQ(*peers.Find(a), "a");
  EXPECT_EQ(*peers.Find(c), "c");
}

TEST(PeerTableTest, AMutedPeerNeitherSpeaksNorIsSpokenTo) {
  PeerTable peers(2);
  const PeerId a = peers.Spoke("a");
  peers.Mute(a);
  EXPECT_EQ(peers.Spoke("a"), PeerId::kNone);
  EXPECT_EQ(peers.Find(a), nullptr);
}

}  // namespace
}  // namespace downpour
