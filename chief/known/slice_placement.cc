#include "chief/known/slice_placement.h"

#include <glog/logging.h>

#include <algorithm>
#include <set>

namespace downpour {

std::vector<uint32_t> SpreadSlices(const SliceGrid& grid, uint32_t servers) {
  CHECK_GE(servers, 1u);
  std::vector<SliceId> largest_first;
  for (size_t i = 0; i < grid.dense(); ++i) largest_first.push_back(grid.slices[i].id);
  std::stable_sort(largest_first.begin(), largest_first.end(),
                   [&grid](SliceId a, SliceId b) { return grid.at(a).bytes() > grid.at(b).bytes(); });

  struct Load {
    int64_t bytes = 0;
    uint32_t slices = 0;
    uint32_t server = 0;
    auto operator<=>(const Load&) const = default;
  };
  std::set<Load> lightest_first;
  for (uint32_t server = 0; server < servers; ++server) lightest_first.insert({0, 0, server});

  std::vector<uint32_t> server_of(grid.size());
  for (const SliceId slice : largest_first) {
    Load load = *lightest_first.begin();
    lightest_first.erase(lightest_first.begin());
    server_of[ToNumber(slice)] = load.server;
    load.bytes += grid.at(slice).bytes();
    ++load.slices;
    lightest_first.insert(load);
  }
  // Nobody knows how large buckets will be; keys are spread evenly over them. Who has least of the rest is first.
  auto next = lightest_first.begin();
  for (uint32_t bucket = 0; bucket < grid.buckets; ++bucket) {
    server_of[ToNumber(grid.BucketAt(bucket))] = next->server;
    if (++next == lightest_first.end()) next = lightest_first.begin();
  }
  return server_of;
}

void SlicePlacement::Begin(uint32_t term) {
  term_ = term;
  homes_.assign(grid_.size(), ServerId());
  // A11: every term places all slices again, so that no epoch of an earlier chief is given out twice.
  epochs_.assign(grid_.size(), {term, 0});
}

void SlicePlacement::Add(ServerId id, const std::string& name, const std::string& endpoint) {
  const bool is_new = servers_.insert({id, {.name = name, .endpoint = endpoint, .slices = {}}}).second;
  CHECK(is_new) << name;
}

void SlicePlacement::Remove(ServerId id) {
  CHECK(At(id).slices.empty()) << At(id).name;
  servers_.erase(id);
}

void SlicePlacement::Move(SliceId slice, ServerId to) {
  ServerId& home = homes_[ToNumber(slice)];
  if (home != to) {
    if (const auto left = servers_.find(home); left != servers_.end()) {
      std::vector<SliceId>& slices = left->second.slices;
      slices.erase(std::lower_bound(slices.begin(), slices.end(), slice));
    }
    std::vector<SliceId>& slices = servers_.at(to).slices;
    slices.insert(std::lower_bound(slices.begin(), slices.end(), slice), slice);
    home = to;
  }
  // core 4: the epoch rises before any message names the new place, so the old one cannot answer for the slice.
  ++epochs_[ToNumber(slice)].n;
  ++number_;
}

void SlicePlacement::SetEndpoint(ServerId id, const std::string& endpoint) {
  servers_.at(id).endpoint = endpoint;
  ++number_;
}

const ServerId* SlicePlacement::Find(Incarnation incarnation) const {
  const auto found = std::find_if(servers_.begin(), servers_.end(), [incarnation](const auto& server) {
    return server.first.incarnation == incarnation;
  });
  return found == servers_.end() ? nullptr : &found->first;
}

const ServerId* SlicePlacement::FindNumber(int64_t number) const {
  const auto found = servers_.lower_bound({number, Incarnation::kNone});
  return found == servers_.end() || found->first.number != number ? nullptr : &found->first;
}

Placement SlicePlacement::ToMessage(Incarnation to, uint64_t train_examples) const {
  Placement message{
      .to = to, .number = number_, .term = term_, .train_examples = train_examples, .servers = {}, .slices = {}};
  message.slices.resize(homes_.size());
  for (const auto& [id, server] : servers_) {
    const auto row = static_cast<uint32_t>(message.servers.size());
    message.servers.push_back({id.incarnation, server.name, server.endpoint});
    for (const SliceId slice : server.slices) message.slices[ToNumber(slice)] = {slice, EpochOf(slice), row};
  }
  return message;
}

}  // namespace downpour
