// WarningTap: what a process logs as a warning or an error outside of its role (a connection that fails, a door that
// refuses, a device), as Warned inputs. So the chief, `downpour logs` and the status hear of it too.
//
//   WarningTap tap;             // before anything is logged
//   ...
//   tap.DeliverTo(&mailbox);    // whose role passes it on
//   { const WarningTap::RolesOwn own; LOG(WARNING) << ...; }   // the role said this itself: it is not passed back
//
// Cost: at most kMostKept lines are kept until DeliverTo; the oldest ones.
// Threads: any may log. DeliverTo and the destructor: one.
// Tests: tests/unit/runtime/process/glog_warning_tap_test.cc.
#pragma once

#include <cstddef>
#include <memory>

#include "runtime/posix/mailbox.h"

namespace downpour {

class WarningTap {
 public:
  static constexpr size_t kMostKept = 100;

  WarningTap();
  ~WarningTap();
  void DeliverTo(Mailbox* mailbox);  // which outlives this

  // What the thread logs while one of these lives is its role's own.
  class RolesOwn {
   public:
    RolesOwn();
    ~RolesOwn();
    RolesOwn(const RolesOwn&) = delete;
    RolesOwn& operator=(const RolesOwn&) = delete;
  };

 private:
  class Sink;  // its header hides glog's, whose names of flags are ours as well
  std::unique_ptr<Sink> sink_;
};

}  // namespace downpour
