#include "runtime/http/listener.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>

#include "tests/unit/scratch_folder.h"

namespace downpour {
namespace {

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
