// GradientSets: parts of shared memory that a Python process writes gradients to, each lent out as a payload until
// nobody holds it any more. So gradients travel from where they were written, without a copy.
//
//   GradientSets sets(memory, bytes_of_a_set, count);
//   const size_t set = sets.Free();                // the process is told to write there
//   Payload gradients = sets.Lend(set);            // empty: it was the last free one, so copy it
//
// Shapes: the sets lie one after the other from `memory` on.
// Cost: none. There is always a free set: the last one is not lent.
// Threads: Free and Lend from one; payloads may be dropped on any, also after this object has gone. They hold the
//   memory.
// Tests: tests/unit/worker/gradient_sets_test.cc.
#pragma once

#include <cstddef>
#include <memory>

#include "schema/payload.h"

namespace downpour {

class GradientSets {
 public:
  GradientSets() = default;
  // `memory` keeps alive what it points to.
  GradientSets(std::shared_ptr<std::byte> memory, size_t bytes, size_t count);

  size_t Free() const;
  std::byte* at(size_t set) const;
  Payload Lend(size_t set);  // a free one

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace downpour
