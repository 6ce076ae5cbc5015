// Assignment: who gets which slice, and whether it has the slice's state already. It decides; where slices are then
// stands in SlicePlacement, and how their state gets there is up to SliceRestore.
//
//   assignment.Place(term, servers, train_examples, sources);
//   assignment.TakeOver(servers, checkpoints);   // other processes came in the place of some
//
// Order: a slice leaves its ps only if another process has joined for the same task (B11): one that is merely silent
//   keeps its slices.
// Cost: Place and TakeOver are linear in slices.
// Errors: none; SliceRestore::failure() says whether slices can have their state.
// Source: protocol rules B11, core 4 and 6 (schema/PROTOCOL.md).
// Tests: tests/unit/chief/assignment_test.cc.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "chief/known/membership.h"
#include "chief/known/slice_placement.h"
#include "chief/known/step_context.h"
#include "chief/slice_restore.h"

namespace downpour {

class Assignment {
 public:
  Assignment(StepContext& context, SlicePlacement& placement, SliceRestore& restore)
      : context_(context), placement_(placement), restore_(restore) {}

  void Place(uint32_t term, const std::vector<Task*>& servers, uint64_t train_examples, SliceRestore::Sources sources);
  // Where another process is under a server's number now, that one gets the server's slices, in new epochs.
  void TakeOver(const std::vector<Task*>& servers, std::vector<Manifest> checkpoints);
  // The same process, perhaps at another address now: workers learn it with the next placement.
  void Follow(const Task& server);

  Placement ToPlacement(Incarnation to) const { return placement_.ToMessage(to, train_examples_); }

 private:
  void Move(SliceId slice, const Task& to);

  StepContext& context_;
  SlicePlacement& placement_;
  SliceRestore& restore_;
  uint64_t train_examples_ = 0;  // of the plan, which workers and ps are told
};

}  // namespace downpour
