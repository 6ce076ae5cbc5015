#include "worker/placement_map.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"

namespace downpour {

bool PlacementMap::Newer(const Placement& placement) const {
  return std::tie(placement.term, placement.number) > std::tie(term_, number_);
}

PsLink* PlacementMap::Find(PeerId peer) {
  for (const auto& link : links_) {
    if (link->peer == peer) return link.get();
  }
  return nullptr;
}

const PsLink* PlacementMap::Find(Incarnation incarnation) const {
  for (const auto& link : links_) {
    if (link->incarnation == incarnation) return link.get();
  }
  return nullptr;
}

absl::StatusOr<std::vector<SliceId>> PlacementMap::Changes(const Placement& placement) const {
  if (placement.number == 0) return absl::InvalidArgumentError("it has no number");
  std::vector<SliceId> changed;
  std::vector<bool> named(epochs_.size());
  for (const Placement::Item& item : placement.slices) {
    const size_t slice = ToNumber(item.slice);
    if (slice >= named.size() || named[slice] || item.server >= placement.servers.size()) {
      return absl::InvalidArgumentError(absl::StrCat("slice ", slice, " is unknown, named twice or at no server"));
    }
    named[slice] = true;
    if (item.epoch == SliceEpoch{}) return absl::InvalidArgumentError(absl::StrCat("slice ", slice, " has no epoch"));
    if (item.epoch > epochs_[slice]) {
      changed.push_back(item.slice);
    } else if (item.epoch < epochs_[slice] ||
               link_of_[slice]->incarnation != placement.servers[item.server].incarnation) {
      return absl::InvalidArgumentError(absl::StrCat("slice ", slice, " moves without a newer epoch"));
    }
  }
  if (!std::all_of(named.begin(), named.end(), [](bool b) { return b; })) {
    return absl::InvalidArgumentError("not every slice is placed");
  }
  return changed;
}

std::vector<PeerId> PlacementMap::Adopt(const Placement& placement, Effects& effects) {
  term_ = placement.term;
  number_ = placement.number;
  std::vector<std::unique_ptr<PsLink>> links;
  std::vector<PeerId> redialled;
  for (const Placement::Server& server : placement.servers) {
    const auto known = std::find_if(links_.begin(), links_.end(), [&](const std::unique_ptr<PsLink>& link) {
      return link != nullptr && link->incarnation == server.incarnation;
    });
    if (known != links_.end()) {
      links.push_back(std::move(*known));
    } else {
      links.push_back(std::make_unique<PsLink>());
      links.back()->incarnation = server.incarnation;
    }
    PsLink& link = *links.back();
    link.name = server.name;
    link.slices.clear();
    link.asked = 0;
    const PeerId before = link.peer;
    if (before != PeerId::kNone && link.endpoint == server.endpoint) continue;
    link.peer = PeerId{next_peer_++};
    link.endpoint = server.endpoint;
    if (before != PeerId::kNone) {
      effects.Add(HangUp{before});
      redialled.push_back(link.peer);
    }
    effects.Add(Dial{link.peer, link.endpoint, PeerRole::kPs});
  }
  for (const auto& gone : links_) {
    if (gone != nullptr) effects.Add(HangUp{gone->peer});
  }
  links_ = std::move(links);
  for (const Placement::Item& item : placement.slices) {
    epochs_[ToNumber(item.slice)] = item.epoch;
    link_of_[ToNumber(item.slice)] = links_[item.server].get();
    links_[item.server]->slices.push_back(item.slice);
  }
  return redialled;
}

void PlacementMap::Clear(Effects& effects) {
  for (const auto& link : links_) effects.Add(HangUp{link->peer});
  links_.clear();
  term_ = 0;
  number_ = 0;
  std::fill(epochs_.begin(), epochs_.end(), SliceEpoch{});
  std::fill(link_of_.begin(), link_of_.end(), nullptr);
}

}  // namespace downpour
