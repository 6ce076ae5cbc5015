// Whether somebody answers at an address, and whether one could listen there: looked up and tried, nothing said.
//
// Cost: at most a second of waiting, and as long as the system's resolver takes.
// Threads: any.
// Tests: tests/unit/runtime/posix/tcp_probe_test.cc.
#pragma once

#include <string>

#include "schema/host_port.h"

namespace downpour {

struct TcpProbe {
  std::string no_address;  // why the host has none; else empty
  int error = 0;           // an errno; 0: it can be done
  bool ok() const { return no_address.empty() && error == 0; }
};
TcpProbe TryToConnect(const HostPort& address);
TcpProbe TryToListen(const HostPort& address);

// Of one that did not connect, in the words of the system: "connection refused".
std::string WhyOf(const TcpProbe& probe);
// What mends it. `whom`: who was to answer there, such as "the chief".
std::string RemedyOf(const TcpProbe& probe, const std::string& whom);

// Looks why nobody answers at HOST:PORT, and says it in the log with the remedy. Says nothing of ipc.
void LogWhySilent(const std::string& whom, const std::string& endpoint);

}  // namespace downpour
