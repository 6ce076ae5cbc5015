// SlicePlacement: which ps has which slice, and in which epoch. From where a slice's state comes is not its concern
// (chief/slice_restore.h).
//
//   placement.Begin(term);
//   placement.Add({task.index, task.incarnation}, task.name, endpoint);   // each ps
//   const std::vector<uint32_t> server_of = SpreadSlices(grid, servers);
//   placement.Move(slice, server);                                        // each slice
//   ...another process comes in the place of a dead one...
//   placement.Add(successor, name, endpoint);
//   placement.Move(slice, successor);                                     // each slice of the dead one
//   placement.Remove(dead);
//
// Order: servers are in the order of their numbers. A move raises the slice's epoch, so the place that it leaves cannot
//   answer for it any more (core 4). A slice may move to where it is: its state is then to come from elsewhere. Epochs
//   begin in a term that no earlier chief had, so none is given out twice (A11).
// Cost: Move is linear in the slices of the two servers, ToMessage in all slices, the rest logarithmic in servers.
// Errors: none. A server that was not added, or is removed with slices, is a mistake of ours (CHECK).
// Source: protocol rules core 4, A11 (schema/PROTOCOL.md).
// Tests: tests/unit/chief/slice_placement_test.cc.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "job/slice_grid.h"
#include "schema/message.h"

namespace downpour {

// Which server holds which slice at first: a pure function of the grid and of the number of servers, at least 1.
// The largest slice goes first, each to the server with the fewest bytes so far (Graham 1969), so no server holds more
// than the mean and one largest slice. Servers beyond the number of slices stay empty. O(slices * log).
std::vector<uint32_t> SpreadSlices(const SliceGrid& grid, uint32_t servers);  // [i]: of slice i, below `servers`

// A process that may hold slices, in the order of tasks: while one takes over from another, both have the same number.
struct ServerId {
  int64_t number = 0;  // of its task, among all ps
  Incarnation incarnation = Incarnation::kNone;
  auto operator<=>(const ServerId&) const = default;
};

class SlicePlacement {
 public:
  struct Server {
    std::string name;
    std::string endpoint;
    std::vector<SliceId> slices;  // ascending
  };

  explicit SlicePlacement(const SliceGrid& grid) : grid_(grid) {}
  SlicePlacement(const SlicePlacement&) = delete;
  SlicePlacement& operator=(const SlicePlacement&) = delete;

  // `term`: of every epoch that is given out here. No slice is anywhere yet.
  void Begin(uint32_t term);
  void Add(ServerId id, const std::string& name, const std::string& endpoint);
  void Remove(ServerId id);
  // From now on the slice is at `to`, in its next epoch.
  void Move(SliceId slice, ServerId to);
  // The same process at another address.
  void SetEndpoint(ServerId id, const std::string& endpoint);

  const SliceGrid& grid() const { return grid_; }
  uint32_t term() const { return term_; }
  bool placed() const { return !homes_.empty(); }
  uint64_t number() const { return number_; }  // rises with each change of any epoch or address

  const std::map<ServerId, Server>& servers() const { return servers_; }
  // Nothing where no server here is this process, or has this number.
  const ServerId* Find(Incarnation incarnation) const;
  const ServerId* FindNumber(int64_t number) const;
  const Server& At(ServerId id) const { return servers_.at(id); }

  // Of a slice that has been moved somewhere.
  ServerId ServerOf(SliceId slice) const { return homes_[ToNumber(slice)]; }
  SliceEpoch EpochOf(SliceId slice) const { return epochs_[ToNumber(slice)]; }
  const std::vector<SliceEpoch>& epochs() const { return epochs_; }  // by slice; empty before Begin

  Placement ToMessage(Incarnation to, uint64_t train_examples) const;

 private:
  const SliceGrid& grid_;
  uint32_t term_ = 0;
  std::map<ServerId, Server> servers_;
  std::vector<ServerId> homes_;     // by slice
  std::vector<SliceEpoch> epochs_;  // by slice; none ever falls
  uint64_t number_ = 0;             // a worker with an older placement gets this one
};

}  // namespace downpour
