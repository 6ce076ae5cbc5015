#include "runtime/posix/listener.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "runtime/posix/fd.h"

namespace downpour {
namespace {

TEST(PosixListenerTest, TellsWhoListensAtAPort) {
  for (const bool is_v6 : {false, true}) {
    UniqueFd fd(socket(is_v6 ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in6 v6{};
    v6.sin6_family = AF_INET6;
    v6.sin6_addr = in6addr_loopback;
    sockaddr_in v4{.sin_family = AF_INET, .sin_port = 0, .sin_addr = {htonl(INADDR_LOOPBACK)}, .sin_zero = {}};
    auto* address = is_v6 ? reinterpret_cast<sockaddr*>(&v6) : reinterpret_cast<sockaddr*>(&v4);
    socklen_t bytes = is_v6 ? sizeof(v6) : sizeof(v4);
    ASSERT_EQ(bind(fd.get(), address, bytes), 0);
    ASSERT_EQ(getsockname(fd.get(), address, &bytes), 0);
    const int port = ntohs(is_v6 ? v6.sin6_port : v4.sin_port);
    EXPECT_FALSE(ListenerAt(port).has_value()) << "it does not listen yet";
    ASSERT_EQ(listen(fd.get(), 8), 0);
    const auto who = ListenerAt(port);
    ASSERT_TRUE(who.has_value());
    EXPECT_EQ(who->pid, getpid());
    const std::string program = std::filesystem::read_symlink("/proc/self/exe").filename();
    EXPECT_EQ(who->program, program);
    EXPECT_THAT(who->words.at(0), testing::EndsWith(program));
    fd = UniqueFd();
    EXPECT_FALSE(ListenerAt(port).has_value());
  }
}

}  // namespace
}  // namespace downpour
