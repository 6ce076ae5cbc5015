#include "runtime/zmq/peer_table.h"

namespace downpour {

PeerId PeerTable::Spoke(const std::string& routing_id) {
  if (auto known = by_routing_id_.find(routing_id); known != by_routing_id_.end()) {
    peers_.splice(peers_.begin(), peers_, known->second);
    return known->second->muted ? PeerId::kNone : known->second->id;
  }
  if (peers_.size() == capacity_) Forget(peers_.back().id);
  peers_.push_front({PeerId{next_++}, routing_id});
  by_routing_id_[routing_id] = peers_.begin();
  by_id_[peers_.front().id] = peers_.begin();
  return peers_.front().id;
}

const std::string* PeerTable::Find(PeerId peer) const {
  auto known = by_id_.find(peer);
  return known == by_id_.end() || known->second->muted ? nullptr : &known->second->routing_id;
}

void PeerTable::Forget(PeerId peer) {
  auto known = by_id_.find(peer);
  if (known == by_id_.end()) return;
  by_routing_id_.erase(known->second->routing_id);
  peers_.erase(known->second);
  by_id_.erase(known);
}

void PeerTable::Mute(PeerId peer) {
  if (auto known = by_id_.find(peer); known != by_id_.end()) known->second->muted = true;
}

}  // namespace downpour
