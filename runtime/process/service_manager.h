// Tells the service manager that started this process that it is up, that it still lives, and that it ends.
//
//   ServiceManager manager = ServiceManager::FromEnvironment();
//   manager.Ready();
//   manager.Alive(now);  // from the loop that is to be watched: if it hangs, nothing is said, and the manager acts
//
// Cost: Alive compares two times; a datagram goes out twice in each watchdog period.
// Errors: none. Without a manager nothing is said, and what a busy manager does not take is lost.
// Source: sd_notify(3), sd_watchdog_enabled(3). The protocol is one datagram of text; libsystemd would bring four more
//   libraries into each role's process.
// Tests: tests/unit/runtime/process/service_manager_test.cc.
#pragma once

#include <string>
#include <utility>

#include "runtime/world_time.h"

namespace downpour {

class ServiceManager {
 public:
  // NOTIFY_SOCKET, WATCHDOG_USEC, WATCHDOG_PID.
  static ServiceManager FromEnvironment();
  // `socket`: a path, or @NAME in Linux's abstract namespace; empty: nobody listens. `watchdog`: 0: nobody watches.
  ServiceManager(std::string socket, Duration watchdog) : socket_(std::move(socket)), watchdog_(watchdog) {}

  void Ready() const { Say("READY=1"); }
  void Alive(Time now);
  void Stopping() const { Say("STOPPING=1"); }

 private:
  void Say(const std::string& words, int flags = 0) const;  // of sendto

  std::string socket_;
  Duration watchdog_;
  Time next_sign_of_life_{};
};

}  // namespace downpour
