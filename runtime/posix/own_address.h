// The address by which other hosts reach a process that listens on all addresses of this one. It is a number: this
// host's name may be known to nobody else.
//
//   AsOthersReachIt("0.0.0.0:40123", "h0:7000")   // "10.0.0.2:40123", from which this host reaches h0
//
// Order: the address from which this host reaches `towards`. Where that is loopback or there is no way, the one of the
//   default route; else that of the first interface which is up; else loopback.
// Cost: nothing is sent, but the resolver is asked for a name in `towards`, and waited for. A number costs nothing.
// Tests: tests/unit/runtime/posix/own_address_test.cc.
#pragma once

#include <optional>
#include <string>

namespace downpour {

// `endpoint` as it is, unless it listens on all addresses. `towards` is HOST:PORT, ipc or empty.
std::string AsOthersReachIt(const std::string& endpoint, const std::string& towards);

// The address from which this host reaches a number of that family; none if there is no way, or only over loopback.
std::optional<std::string> AddressTowards(const std::string& number, int family);

}  // namespace downpour
