#include "chief/known/placement.h"

#include <glog/logging.h>

#include <algorithm>
#include <set>

namespace downpour {

std::vector<uint32_t> PlaceSlices(const SliceGrid& grid, uint32_t servers) {
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

}  // namespace downpour
