// How two processes of one host come to share memory, once an authenticated connection has let one know the other.
//
//   ps:     MemoryDoor told = door->Expect(whom, key, now);    // said over ZeroMQ to whoever asked
//           for (auto& guest : door->Admit(now)) ...guest.whom has guest.link...
//   worker: auto visit = DoorVisit::Begin(told, now, &arena);
//           if (auto link = visit->Finish(now)) ...
//
// The door is a socket in the host's abstract namespace. Its name is drawn at random, so that no process can take it
// beforehand, and is no secret. A peer shows a ticket, which is one, and which lets it in once, within kPatience. The
// door shows a proof that it is the process that gave the ticket, and hands over the memory that both write. So who may
// share is decided where it was before, by keys or by who may speak on loopback.
//
// Cost: a descriptor for each guest. Of strangers kMostStrangers wait at a time, for kPatience. Without descriptors
//   those who come wait until the next Admit. What strangers pass is closed elsewhere (closing.h): where too much of it
//   does not close, nobody is let in meanwhile.
// Errors: Open: RESOURCE_EXHAUSTED and the like, without which there is no shared memory. A guest that cannot be let in
//   is sent away; a visit that fails says null for good, as where the other one is in another network namespace.
// Threads: one.
// Tests: tests/unit/runtime/shm/door_test.cc.
#pragma once

#include <poll.h>

#include <cstddef>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "runtime/posix/fd.h"
#include "runtime/role.h"
#include "runtime/shm/arena.h"
#include "runtime/shm/link.h"
#include "runtime/world_time.h"
#include "schema/message.h"

namespace downpour {

class SharedDoor {
 public:
  static constexpr Duration kPatience = 3s;
  static constexpr size_t kMostStrangers = 64;
  static constexpr size_t kMostTickets = 4096;

  static absl::StatusOr<std::unique_ptr<SharedDoor>> Open(SharedArena* arena);

  // A ticket for `whom`, whose key is `key`. An earlier one of the same is void.
  MemoryDoor Expect(PeerId whom, const std::string& key, Time now);
  void Forget(PeerId whom);  // its ticket is void
  struct Guest {
    PeerId whom{};
    std::string key;
    std::unique_ptr<SharedLink> link;
  };
  // Those that have shown their tickets. Does not wait.
  std::vector<Guest> Admit(Time now);
  void AddTo(std::vector<pollfd>* waited_on) const;
  size_t descriptors() const { return 1 + strangers_.size(); }  // that AddTo adds

 private:
  struct Ticket {
    PeerId whom{};
    std::string key;
    std::string proof;
    Time until;
  };
  struct Stranger {
    UniqueFd socket;
    Time until;
  };
  SharedDoor(UniqueFd socket, std::string address, SharedArena* arena)
      : socket_(std::move(socket)), address_(std::move(address)), arena_(arena) {}
  void Accept(Time now);
  std::unique_ptr<SharedLink> Welcome(Stranger& stranger, const std::string& proof);

  UniqueFd socket_;
  const std::string address_;
  SharedArena* const arena_;
  std::map<std::string, Ticket> tickets_;
  std::list<Stranger> strangers_;
  bool resting_ = false;  // nobody can be let in
};

class DoorVisit {
 public:
  // Null: nobody is there.
  static std::unique_ptr<DoorVisit> Begin(const MemoryDoor& door, Time now, SharedArena* arena);

  ~DoorVisit();
  DoorVisit(const DoorVisit&) = delete;

  // Once: the link. Does not wait.
  std::unique_ptr<SharedLink> Finish(Time now);
  bool failed() const { return failed_; }
  int fd() const { return socket_.get(); }  // readable when Finish has something to do

 private:
  DoorVisit(UniqueFd socket, std::string proof, Time until, SharedArena* arena)
      : socket_(std::move(socket)), proof_(std::move(proof)), until_(until), arena_(arena) {}

  UniqueFd socket_;
  const std::string proof_;
  const Time until_;
  SharedArena* const arena_;
  bool failed_ = false;
};

}  // namespace downpour
