// ResourceMeter: what a process and all that it has started take of a machine.
//
//   ResourceMeter meter;
//   ResourceSample sample = meter.Sample();   // now and then
//
// Shapes: the children are those of /proc, with theirs: the interpreter in which a worker's Python code computes, and
//   the processes that load its data. Of a child's memory the pages count that no other process has. So nothing is
//   counted twice that it got from its parent or shares with this process. What children share among themselves alone
//   is not counted.
// Order: the processor time never falls, as it would with a child that somebody else has waited for.
// Errors: a child that ends meanwhile counts as far as it was seen, or in rare cases twice. Where the kernel does not
//   name children there are none.
// Cost: some microseconds for each thread of each of these processes. The kernel walks over each child's memory.
// Source: proc(5), "stat", "statm" and "smaps_rollup".
// Tests: tests/unit/runtime/process/resources_test.cc.
#pragma once

#include "runtime/role.h"

namespace downpour {

class ResourceMeter {
 public:
  // Processor time and memory; the rest is left to the caller.
  ResourceSample Sample();

 private:
  double seen_seconds_ = 0;  // of those that were there last time
  double gone_seconds_ = 0;  // of children that have ended, and whose time no process took over
};

}  // namespace downpour
