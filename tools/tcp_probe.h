// Whether somebody answers at an address, and whether one could listen there: looked up and tried, nothing said.
//
// Cost: at most a second of waiting, and as long as the system's resolver takes.
// Threads: any.
#pragma once

#include <string>

#include "schema/host_port.h"

namespace downpour {

struct TcpProbe {
  std::string no_address;  // why the host has none; else empty
  int error = 0;           // an errno; 0: it can be done
};
TcpProbe TryToConnect(const HostPort& address);
TcpProbe TryToListen(const HostPort& address);

}  // namespace downpour
