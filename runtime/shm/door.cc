#include "runtime/shm/door.h"

#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/posix/process.h"
#include "runtime/shm/closing.h"
#include "runtime/shm/packet.h"

namespace downpour {
namespace {

constexpr int kBacklog = 128;

struct Abstract {
  sockaddr_un address{};
  socklen_t bytes = 0;
};

// nullopt: no such name can be.
std::optional<Abstract> AbstractOf(const std::string& name) {
  Abstract abstract;
  abstract.address.sun_family = AF_UNIX;
  if (name.empty() || name.size() + 1 > sizeof(abstract.address.sun_path)) return std::nullopt;
  std::copy(name.begin(), name.end(), abstract.address.sun_path + 1);  // behind a zero
  abstract.bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  return abstract;
}

UniqueFd NewSocket() { return UniqueFd(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)); }

}  // namespace

absl::StatusOr<std::unique_ptr<SharedDoor>> SharedDoor::Open(SharedArena* arena) {
  UniqueFd socket = NewSocket();
  const std::string name = absl::StrCat("downpour-", RandomSecret());
  const std::optional<Abstract> at = AbstractOf(name);
  if (!socket.ok() || !at || bind(socket.get(), reinterpret_cast<const sockaddr*>(&at->address), at->bytes) != 0 ||
      listen(socket.get(), kBacklog) != 0) {
    return absl::ErrnoToStatus(errno, "no door for processes of this host, which get all over ZeroMQ");
  }
  return std::unique_ptr<SharedDoor>(new SharedDoor(std::move(socket), name, arena));
}

MemoryDoor SharedDoor::Expect(PeerId whom, const std::string& key, Time now) {
  std::erase_if(tickets_, [&](const auto& held) { return held.second.whom == whom || now >= held.second.until; });
  if (tickets_.size() >= kMostTickets || TooManyWaitToBeClosed()) return {};
  MemoryDoor told = {.address = address_, .ticket = RandomSecret(), .proof = RandomSecret()};
  tickets_[told.ticket] = {whom, key, told.proof, now + kPatience};
  return told;
}

void SharedDoor::Forget(PeerId whom) {
  std::erase_if(tickets_, [whom](const auto& held) { return held.second.whom == whom; });
}

std::vector<SharedDoor::Guest> SharedDoor::Admit(Time now) {
  Accept(now);
  std::vector<Guest> guests;
  for (auto stranger = strangers_.begin(); stranger != strangers_.end() && !TooManyWaitToBeClosed();) {
    ReceivedPacket packet = ReceivePacket(stranger->socket.get());
    CloseElsewhere(std::move(packet.fd));
    if (packet.kind == Packet::kNone && now < stranger->until) {
      ++stranger;
      continue;
    }
    const auto ticket = packet.kind == Packet::kTicket ? tickets_.find(packet.text) : tickets_.end();
    if (ticket != tickets_.end()) {
      if (now < ticket->second.until) {
        std::unique_ptr<SharedLink> link = Welcome(*stranger, ticket->second.proof);
        if (link != nullptr) guests.push_back({ticket->second.whom, ticket->second.key, std::move(link)});
      }
      tickets_.erase(ticket);
    }
    EndElsewhere(std::move(stranger->socket));
    stranger = strangers_.erase(stranger);
  }
  return guests;
}

// Where nobody can be let in the door rests until the next look: to wait on it would be to spin.
void SharedDoor::Accept(Time now) {
  resting_ = TooManyWaitToBeClosed();
  for (size_t i = 0; i < kMostStrangers && !resting_; ++i) {
    UniqueFd socket(accept4(socket_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    resting_ = !socket.ok() && errno != EAGAIN;
    if (!socket.ok()) return;
    if (strangers_.size() >= kMostStrangers) {
      EndElsewhere(std::move(strangers_.front().socket));
      strangers_.pop_front();
    }
    strangers_.push_back({std::move(socket), now + kPatience});
  }
}

std::unique_ptr<SharedLink> SharedDoor::Welcome(Stranger& stranger, const std::string& proof) {
  absl::StatusOr<SharedMemory> memory = SharedMemory::Make(SharedLink::kControlBytes, SharedMemory::Others::kWrite);
  if (!memory.ok() || !memory->Reserve(0, SharedLink::kControlBytes).ok()) return nullptr;
  if (!SendPacket(stranger.socket.get(), Packet::kMemory, proof, memory->fd())) return nullptr;
  memory->CloseDescriptor();
  return std::make_unique<SharedLink>(SharedLink::Side::kListener, std::make_shared<SharedMemory>(*std::move(memory)),
                                      std::move(stranger.socket), arena_);
}

void SharedDoor::AddTo(std::vector<pollfd>* waited_on) const {
  waited_on->push_back({resting_ ? -1 : socket_.get(), POLLIN, 0});
  for (const Stranger& stranger : strangers_) waited_on->push_back({resting_ ? -1 : stranger.socket.get(), POLLIN, 0});
}

std::unique_ptr<DoorVisit> DoorVisit::Begin(const MemoryDoor& door, Time now, SharedArena* arena) {
  const std::optional<Abstract> at = AbstractOf(door.address);
  if (!at) return nullptr;
  UniqueFd socket = NewSocket();
  if (!socket.ok() || connect(socket.get(), reinterpret_cast<const sockaddr*>(&at->address), at->bytes) != 0 ||
      !SendPacket(socket.get(), Packet::kTicket, door.ticket)) {
    return nullptr;
  }
  return std::unique_ptr<DoorVisit>(new DoorVisit(std::move(socket), door.proof, now + SharedDoor::kPatience, arena));
}

DoorVisit::~DoorVisit() { EndElsewhere(std::move(socket_)); }

std::unique_ptr<SharedLink> DoorVisit::Finish(Time now) {
  if (failed_) return nullptr;
  ReceivedPacket packet = ReceivePacket(socket_.get());
  if (packet.kind == Packet::kNone && now < until_) return nullptr;
  failed_ = true;
  if (packet.kind != Packet::kMemory || packet.text != proof_) {
    CloseElsewhere(std::move(packet.fd));
    return nullptr;
  }
  absl::StatusOr<SharedMemory> memory =
      SharedMemory::Map(std::move(packet.fd), SharedLink::kControlBytes, SharedMemory::Others::kWrite);
  if (!memory.ok()) return nullptr;
  return std::make_unique<SharedLink>(SharedLink::Side::kDialler, std::make_shared<SharedMemory>(*std::move(memory)),
                                      std::move(socket_), arena_);
}

}  // namespace downpour
