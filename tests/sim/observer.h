// What looks on while roles take their steps, and says what breaks a rule. Each keeps to one conversation.
//
// Order: Before a Step, then OnEffect for each effect that is carried out, then After. A process that dies within a
//   Step has no further effects, but its After.
#pragma once

#include "runtime/role.h"

namespace downpour {

struct Process;

class Observer {
 public:
  virtual ~Observer() = default;
  virtual void Before(const Process&, const Input&) {}
  virtual void OnEffect(const Process&, const Effect&) {}
  virtual void After(const Process&) {}
};

}  // namespace downpour
