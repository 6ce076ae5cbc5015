#include "schema/host_port.h"

#include <gtest/gtest.h>

namespace downpour {
namespace {

TEST(HostPort, IsCutAtItsLastColon) {
  for (const auto& [text, host, port] :
       {std::tuple("h0:7000", "h0", 7000), std::tuple("10.0.0.1:0", "10.0.0.1", 0),
        std::tuple("[::1]:65535", "::1", 65535), std::tuple("a-b_c.example:1", "a-b_c.example", 1)}) {
    const std::optional<HostPort> parsed = ParseHostPort(text);
    ASSERT_TRUE(parsed.has_value()) << text;
    EXPECT_EQ(parsed->host, host);
    EXPECT_EQ(parsed->port, port);
    EXPECT_EQ(ToString(*parsed), text);
  }
}

TEST(HostPort, NothingElseIsOne) {
  for (const char* text : {"", ":", "h0", "h0:", ":7000", "h0:70000", "h0:-1", "h0:+1", "h0: 1", "h0:7000 ", "h 0:1",
                           "::1:7000", "[h0]:1", "[::1]", "tcp://h0:1", "h0;h1:2", "h0:000001", "h0/x:1"}) {
    EXPECT_FALSE(ParseHostPort(text).has_value()) << text;
  }
}

TEST(HostPort, WhatCanBeDialled) {
  for (const char* endpoint : {"h0:1", "[::1]:7000", "ipc:///run/x"}) EXPECT_TRUE(IsDialable(endpoint)) << endpoint;
  for (const char* endpoint : {"", "h0", "h0:0", "ipc://x", "tcp://h0:1"})
    EXPECT_FALSE(IsDialable(endpoint)) << endpoint;
}

TEST(HostPort, LoopbackIsThisMachineAlone) {
  for (const char* host : {"127.0.0.1", "127.0.1.1", "::1"}) EXPECT_TRUE(IsLoopback(host)) << host;
  for (const char* host : {"10.0.0.1", "128.0.0.1", "0.0.0.0", "::", "::2", "localhost", ""}) {
    EXPECT_FALSE(IsLoopback(host)) << host;
  }
}

}  // namespace
}  // namespace downpour
