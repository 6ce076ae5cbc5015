#include "runtime/posix/own_address.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include "schema/host_port.h"

namespace downpour {
namespace {

TEST(OwnAddressTest, WhatNamesAnAddressStaysAsItIs) {
  for (const char* endpoint : {"127.0.0.1:7000", "10.0.0.2:7000", "h0:7000", "[::1]:7000", "ipc:///tmp/s", ""}) {
    EXPECT_EQ(AsOthersReachIt(endpoint, "h1:7000"), endpoint);
  }
}

// No host's name stands there, which others may not know.
TEST(OwnAddressTest, AllAddressesBecomeANumberWithTheSamePort) {
  for (const char* endpoint : {"0.0.0.0:7001", "[::]:7001"}) {
    for (const char* chief : {"", "127.0.0.1:7000", "[::1]:7000", "no-such-host.invalid:7000", "ipc:///tmp/s"}) {
      const std::optional<HostPort> reached = ParseHostPort(AsOthersReachIt(endpoint, chief));
      ASSERT_TRUE(reached.has_value()) << endpoint << " " << chief;
      EXPECT_EQ(reached->port, 7001);
      EXPECT_NE(reached->host, "0.0.0.0");
      EXPECT_NE(reached->host, "::");
      EXPECT_EQ(reached->host.find_first_not_of("0123456789abcdef.:"), std::string::npos) << reached->host;
    }
  }
}

// What is reached over loopback is on this host, and others reach this host otherwise.
TEST(OwnAddressTest, LoopbackIsNoAddressForOthers) {
  EXPECT_EQ(AddressTowards("127.0.0.1", AF_INET), std::nullopt);
  EXPECT_EQ(AddressTowards("no-number", AF_INET), std::nullopt);
}

TEST(OwnAddressTest, IsTheOneFromWhichTheChiefIsReached) {
  const std::optional<std::string> route = AddressTowards("192.0.2.1", AF_INET);
  if (!route) GTEST_SKIP() << "this machine has no default route";
  EXPECT_EQ(AsOthersReachIt("0.0.0.0:7001", "192.0.2.1:7000"), *route + ":7001");
  // A host reaches itself from the address by which it was asked for.
  EXPECT_EQ(AsOthersReachIt("0.0.0.0:7001", *route + ":7000"), *route + ":7001");
}

}  // namespace
}  // namespace downpour
