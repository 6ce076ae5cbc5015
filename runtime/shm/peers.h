// The peers of this host with whom a process shares memory, beside its connections to them over ZeroMQ.
//
//   peers.Expect(worker, key, boot, now);   // a listener's answer to ShareMemory
//   peers.Visit(ps, door, now);             // a dialler's, to MemoryDoor
//   peers.Tend(now);                        // and those that were waited for are there
//   if (SharedLink* link = peers.Find(peer)) link->Send(now, std::move(frames));
//
// Order: a peer that is found is one that was there at the last Tend.
// Cost: Tend is a look at a flag unless something came, or it is time. Memory for kMostGuests.
// Errors: whoever cannot be shared with is not found, and is spoken to over ZeroMQ.
// Threads: one.
// Tests: tests/unit/runtime/shm/peers_test.cc, tests/unit/runtime/zmq/driver_shm_test.cc.
#pragma once

#include <poll.h>

#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "runtime/role.h"
#include "runtime/shm/door.h"
#include "runtime/shm/link.h"

namespace downpour {

class SharedPeers {
 public:
  // One that dials anew each time, and keeps what it shared before, gets no more.
  static constexpr size_t kMostGuests = 1024;
  static constexpr size_t kMostParting = 64;  // that still read what they were lent

  // Null: nothing is shared.
  explicit SharedPeers(SharedArena* arena);
  SharedPeers(const SharedPeers&) = delete;
  ~SharedPeers();

  // What to say to a peer that dialled and asks, whose key is `key` (empty: there are none): a door, or none, unless it
  // is of this `boot` of the host.
  MemoryDoor Expect(PeerId peer, const std::string& key, const std::string& boot, Time now);
  // What to ask a peer that was dialled; an empty name: nothing.
  ShareMemory Question() const { return {.boot = arena_ == nullptr ? "" : boot_}; }
  void Visit(PeerId peer, const MemoryDoor& door, Time now);
  void Drop(PeerId peer);

  // Lets in and goes in. Those whose link ended since: what was on its way is lost.
  std::vector<PeerId> Tend(Time now);

  SharedLink* Find(PeerId peer);
  const std::string& KeyOf(PeerId peer) const { return links_.at(peer).key; }
  // The next number above `peer`; kNone: there is none.
  PeerId After(PeerId peer) const;

  bool Drained();
  void AddTo(std::vector<pollfd>* waited_on);
  // `waited_on`: what was added, with what happened to it.
  void Woken(const pollfd* waited_on);

  // Those that are gone count on.
  uint64_t bytes_in() const;
  uint64_t bytes_out() const;

 private:
  struct Shared {
    std::unique_ptr<SharedLink> link;
    std::string key;
  };
  void Add(PeerId peer, std::unique_ptr<SharedLink> link, const std::string& key);

  SharedArena* const arena_;
  const std::string boot_;
  std::unique_ptr<SharedDoor> door_;  // since somebody asked
  bool door_failed_ = false;
  bool told_ = false;  // people, that something is shared
  std::map<PeerId, std::unique_ptr<DoorVisit>> visits_;
  std::map<PeerId, Shared> links_;
  std::deque<std::unique_ptr<SharedLink>> parting_;
  bool woken_ = false;  // at the door, or on a visit
  Time next_look_{};
  uint64_t closed_bytes_in_ = 0;
  uint64_t closed_bytes_out_ = 0;
};

}  // namespace downpour
