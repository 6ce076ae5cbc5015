#include "runtime/posix/tcp_probe.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>

#include "runtime/zmq/sockets.h"

namespace downpour {
namespace {

using testing::HasSubstr;

TEST(PosixTcpProbeTest, TellsWhyNobodyAnswersAndWhatMendsIt) {
  ZmqContext context = ZmqContext::Create(1).value();
  std::string endpoint;
  {
    const ZmqSocket listener = Listen(context, "127.0.0.1:0").value();
    endpoint = listener.endpoint();
    EXPECT_TRUE(TryToConnect(*ParseHostPort(endpoint)).ok());
  }
  const TcpProbe refused = TryToConnect({"127.0.0.1", 1});
  EXPECT_EQ(WhyOf(refused), "connection refused");
  EXPECT_EQ(RemedyOf(refused, "the ps"), "start the ps, or correct its port: that host is there");
  const TcpProbe nameless = TryToConnect({"a..b", 1});
  EXPECT_EQ(WhyOf(nameless), nameless.no_address);
  EXPECT_THAT(RemedyOf(nameless, "the ps"), HasSubstr("correct the name"));
  EXPECT_THAT(RemedyOf({.no_address = "", .error = ETIMEDOUT}, "the ps"), HasSubstr("open the port"));
}

TEST(PosixTcpProbeTest, TheLogNamesWhomCauseAndRemedy) {
  const auto logged = [](const std::string& endpoint) {
    testing::internal::CaptureStderr();
    LogWhySilent("the chief", endpoint);
    return testing::internal::GetCapturedStderr();
  };
  EXPECT_THAT(logged("127.0.0.1:1"),
              HasSubstr("the chief at 127.0.0.1:1 cannot be reached: connection refused; start the chief, or correct"));
  ZmqContext context = ZmqContext::Create(1).value();
  const ZmqSocket listener = Listen(context, "127.0.0.1:0").value();
  EXPECT_THAT(logged(listener.endpoint()), HasSubstr("says nothing, though somebody listens there"));
  EXPECT_EQ(logged("ipc:///tmp/s"), "");
}

}  // namespace
}  // namespace downpour
