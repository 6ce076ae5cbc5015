#include "runtime/shm/peers.h"

#include <glog/logging.h>

#include <algorithm>
#include <utility>

#include "runtime/posix/process.h"

namespace downpour {
namespace {

// Of a door where somebody waits, or a visit: its patience ends.
constexpr Duration kLookEvery = 1s;

}  // namespace

SharedPeers::SharedPeers(SharedArena* arena) : arena_(arena), boot_(arena == nullptr ? "" : BootId()) {}

MemoryDoor SharedPeers::Expect(PeerId peer, const std::string& key, const std::string& boot, Time now) {
  if (arena_ == nullptr || boot.empty() || boot != boot_ || door_failed_) return {};
  if (door_ == nullptr) {
    absl::StatusOr<std::unique_ptr<SharedDoor>> door = SharedDoor::Open(arena_);
    if (!door.ok()) {
      door_failed_ = true;
      LOG(WARNING) << door.status().message();
      return {};
    }
    door_ = *std::move(door);
  }
  return door_->Expect(peer, key, now);
}

void SharedPeers::Visit(PeerId peer, const MemoryDoor& door, Time now) {
  if (arena_ == nullptr) return;
  std::unique_ptr<DoorVisit> visit = DoorVisit::Begin(door, now, arena_);
  if (visit != nullptr) visits_[peer] = std::move(visit);
}

void SharedPeers::Drop(PeerId peer) {
  visits_.erase(peer);
  if (door_ != nullptr) door_->Forget(peer);
  const auto found = links_.find(peer);
  if (found == links_.end()) return;
  std::unique_ptr<SharedLink> link = std::move(found->second.link);
  links_.erase(found);
  closed_bytes_in_ += link->bytes_in();
  closed_bytes_out_ += link->bytes_out();
  link->Part();
  if (link->HasParted()) return;
  if (parting_.size() == kMostParting) parting_.pop_front();  // a peer that never gives back has only itself to blame
  parting_.push_back(std::move(link));
}

// A thread of this process may still compute, and would write over what was lent: that stays until the process ends.
SharedPeers::~SharedPeers() {
  while (!links_.empty()) Drop(links_.begin()->first);
  for (std::unique_ptr<SharedLink>& link : parting_) static_cast<void>(link.release());
}

void SharedPeers::Add(PeerId peer, std::unique_ptr<SharedLink> link, const std::string& key) {
  Drop(peer);
  LOG_IF(INFO, !std::exchange(told_, true)) << "speaks to a process of this host through memory that both see";
  links_[peer] = {std::move(link), key};
}

std::vector<PeerId> SharedPeers::Tend(Time now) {
  std::vector<PeerId> ended;
  for (const auto& [peer, shared] : links_) {
    if (!shared.link->ended()) continue;
    LOG_IF(WARNING, shared.link->broken()) << "a process of this host does not keep to the rules of shared memory: it "
                                              "is spoken to as one of another host";
    ended.push_back(peer);
  }
  for (const PeerId peer : ended) Drop(peer);
  if (!std::exchange(woken_, false) && now < next_look_) return ended;
  next_look_ = now + kLookEvery;
  std::erase_if(parting_, [](const auto& link) { return link->HasParted(); });
  if (door_ != nullptr) {
    for (SharedDoor::Guest& guest : door_->Admit(now)) {
      if (links_.size() < kMostGuests) Add(guest.whom, std::move(guest.link), guest.key);
    }
  }
  for (auto visit = visits_.begin(); visit != visits_.end();) {
    const PeerId peer = visit->first;
    std::unique_ptr<SharedLink> link = visit->second->Finish(now);
    if (link == nullptr && !visit->second->failed()) {
      ++visit;
      continue;
    }
    visit = visits_.erase(visit);
    if (link == nullptr) continue;
    if (links_.contains(peer)) ended.push_back(peer);  // the end of the process before came late
    Add(peer, std::move(link), "");
  }
  return ended;
}

SharedLink* SharedPeers::Find(PeerId peer) {
  const auto found = links_.find(peer);
  return found == links_.end() ? nullptr : found->second.link.get();
}

PeerId SharedPeers::After(PeerId peer) const {
  const auto found = links_.upper_bound(peer);
  return found == links_.end() ? PeerId::kNone : found->first;
}

bool SharedPeers::Drained() {
  for (const auto& [peer, shared] : links_) {
    if (!shared.link->Drained()) return false;
  }
  return !woken_;
}

void SharedPeers::AddTo(std::vector<pollfd>* waited_on) {
  for (const auto& [peer, shared] : links_) waited_on->push_back({shared.link->fd(), POLLIN, 0});
  for (const auto& [peer, visit] : visits_) waited_on->push_back({visit->fd(), POLLIN, 0});
  if (door_ != nullptr) door_->AddTo(waited_on);
}

void SharedPeers::Woken(const pollfd* waited_on) {
  for (const auto& [peer, shared] : links_) {
    if (waited_on++->revents != 0) shared.link->NoteReadable();
  }
  const size_t at_doors = visits_.size() + (door_ == nullptr ? 0 : door_->descriptors());
  woken_ = std::any_of(waited_on, waited_on + at_doors, [](const pollfd& waited) { return waited.revents != 0; });
}

uint64_t SharedPeers::bytes_in() const {
  uint64_t bytes = closed_bytes_in_;
  for (const auto& [peer, shared] : links_) bytes += shared.link->bytes_in();
  return bytes;
}

uint64_t SharedPeers::bytes_out() const {
  uint64_t bytes = closed_bytes_out_;
  for (const auto& [peer, shared] : links_) bytes += shared.link->bytes_out();
  return bytes;
}

}  // namespace downpour
