#include "runtime/http/listener.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>

#include "tests/unit/scratch_folder.h"

namespace downpour {
namespace {

constexpr const char* kTable =
    "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
    "   0: 0100007F:1B58 00000000:0000 0A 00000000:00000000 00:00000000 00000000     7        0 11 1 0 100 0\n"
    "   1: 0100007F:C001 0100007F:1B58 01 00000000:00000000 00:00000000 00000000  1000        0 12 1 0 20 4 30\n"
    "   2: 0100007F:C002 0100007F:1B58 04 00000000:00000000 00:00000000 00000000  1000        0 13 1 0 20 4 30\n"
    "   3: 0100007F:C003 0100007F:1B58 06 00000000:00000000 03:00000000 00000000     0        0 0 3 0\n"
    "   4: 0100007F:C004 0100007F:1B59 01 00000000:00000000 00:00000000 00000000  1000        0 14 1 0 20 4 30\n"
    "   5: 0100007F:C005 0100007F:1B58 01 00000000:00000000 00:00000000 00000000     0        0 0 1 0 20 4 30\n"
    "   6: 0100007F:1B58 0100007F:C006 01 00000000:00000000 00:00000000 00000000  1000        0 15 1 0 20 4 30\n";

TEST(HttpListenerTest, TheUserOfAStandingConnection) {
  EXPECT_EQ(UserOfConnection(kTable, "127.0.0.1", 0xC001, 7000), 1000);
}

TEST(HttpListenerTest, NobodyElseIsTakenForOne) {
  EXPECT_EQ(UserOfConnection(kTable, "127.0.0.1", 0xC002, 7000), -1) << "closed by its owner";
  EXPECT_EQ(UserOfConnection(kTable, "127.0.0.1", 0xC003, 7000), -1) << "of which the kernel says 0, as of root";
  EXPECT_EQ(UserOfConnection(kTable, "127.0.0.1", 0xC004, 7000), -1) << "to another server";
  EXPECT_EQ(UserOfConnection(kTable, "127.0.0.1", 0xC005, 7000), -1) << "without a socket";
  EXPECT_EQ(UserOfConnection(kTable, "127.0.0.1", 0xC006, 7000), -1) << "our own end";
  EXPECT_EQ(UserOfConnection(kTable, "10.0.0.1", 0xC001, 7000), -1);
  EXPECT_EQ(UserOfConnection(kTable, "::1", 0xC001, 7000), -1);
  EXPECT_EQ(UserOfConnection("", "127.0.0.1", 0xC001, 7000), -1);
  EXPECT_EQ(UserOfConnection("no table\n", "127.0.0.1", 0xC001, 7000), -1);
}

TEST(HttpListenerTest, TwoDoNotListenAtOnePort) {
  const absl::StatusOr<std::unique_ptr<HttpListener>> first = HttpListener::Open({.listen = "127.0.0.1:0"}, 4);
  ASSERT_TRUE(first.ok());
  const std::string address = (*first)->address();
  const absl::Status taken = HttpListener::Open({.listen = address.substr(address.rfind('/') + 1)}, 4).status();
  EXPECT_THAT(taken.message(), testing::HasSubstr("is it taken?"));
}

TEST(HttpListenerTest, EachTokenHasItsRightsAndNoOthers) {
  const ScratchFolder folder;
  const auto file = [&](const std::string& name, const std::string& token) {
    const std::string path = folder.path() + "/" + name;
    std::ofstream(path) << token << "\n";
    chmod(path.c_str(), 0600);
    return path;
  };
  const auto door = HttpListener::Open({.token_file = file("token", "0123456789abcdef"),
                                        .viewer_token_file = file("viewer", "fedcba9876543210"),
                                        .asker_token_file = file("asker", "asker-0123456789"),
                                        .submitter_token_file = file("submitter", "submitter-012345"),
                                        .deployer_token_file = file("deployer", "deployer-0123456")},
                                       /*most=*/1);
  ASSERT_TRUE(door.ok()) << door.status();
  const auto code = [&](const std::string& token, Rights any_of) {
    httplib::Request request;
    request.remote_addr = "127.0.0.1";  // of no connection that stands
    if (!token.empty()) request.set_header("Authorization", "Bearer " + token);
    return (*door)->CheckCaller(request, any_of).code();
  };
  for (const Rights right : {kMayLook, kMayAsk, kMaySubmit, kMayDeploy}) {
    const auto may = [&](Rights rights) {
      return (rights & right) != 0 ? absl::StatusCode::kOk : absl::StatusCode::kPermissionDenied;
    };
    EXPECT_EQ(code("0123456789abcdef", right), absl::StatusCode::kOk);
    EXPECT_EQ(code("fedcba9876543210", right), may(kMayLook));
    EXPECT_EQ(code("asker-0123456789", right), may(kMayAsk));
    EXPECT_EQ(code("submitter-012345", right), may(kMayLook | kMaySubmit));
    EXPECT_EQ(code("deployer-0123456", right), may(kMayLook | kMayAsk | kMayDeploy));
    EXPECT_EQ(code("fedcba987654321", right), absl::StatusCode::kUnauthenticated);
    EXPECT_EQ(code("", right), absl::StatusCode::kUnauthenticated);
  }
  EXPECT_EQ(code("asker-0123456789", kMayAsk | kMayLook), absl::StatusCode::kOk) << "any of them will do";
}

}  // namespace
}  // namespace downpour
