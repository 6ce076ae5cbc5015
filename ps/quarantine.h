// Pushes that crash their server: each would do so again after every restart, until the job is given up.
//
//   Quarantine quarantine(crashes);               // of the processes of this task before, one name each
//   if (!quarantine.Contains(name)) { applying.Begin(name); ...; applying.End(); }
//
// Order: the first crash may have had any cause; what crashed two processes is held from then on.
// Tests: tests/unit/ps/ps_role_test.cc.
#pragma once

#include <map>
#include <vector>

#include "runtime/applying.h"

namespace downpour {

class Quarantine {
 public:
  static constexpr int kCrashes = 2;

  explicit Quarantine(const std::vector<PushName>& crashes) {
    for (const PushName& name : crashes) ++crashes_[name];
  }
  bool Contains(const PushName& name) const {
    const auto found = crashes_.find(name);
    return found != crashes_.end() && found->second >= kCrashes;
  }

 private:
  std::map<PushName, int> crashes_;
};

}  // namespace downpour
