// Who is at the other end of a listening socket: ZeroMQ's routing ids, drawn per connection, and the role's PeerIds.
//
// Order: numbers rise from kFirstAccepted and are never reused.
// Cost: bounded: of more than `capacity` peers the one that was silent for longest is forgotten; if it speaks again,
//   it is a new peer.
// Tests: tests/unit/runtime/zmq/peer_table_test.cc.
#pragma once

#include <cstddef>
#include <list>
#include <map>
#include <string>

#include "runtime/role.h"

namespace downpour {

class PeerTable {
 public:
  explicit PeerTable(size_t capacity) : capacity_(capacity) {}

  // The peer that just spoke; kNone if it was muted.
  PeerId Spoke(const std::string& routing_id);
  // Null if it is not, or no longer, known, or muted.
  const std::string* Find(PeerId peer) const;
  void Forget(PeerId peer);  // its connection is gone
  void Mute(PeerId peer);    // nothing goes to it or comes from it any more
  size_t size() const { return by_id_.size(); }

 private:
  struct Peer {
    PeerId id{};
    std::string routing_id;
    bool muted = false;
  };
  using Peers = std::list<Peer>;

  size_t capacity_;
  uint64_t next_ = static_cast<uint64_t>(PeerId::kFirstAccepted);
  Peers peers_;  // the one that spoke last is first
  std::map<std::string, Peers::iterator> by_routing_id_;
  std::map<PeerId, Peers::iterator> by_id_;
};

}  // namespace downpour
