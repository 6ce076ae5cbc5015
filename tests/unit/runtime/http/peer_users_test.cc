#include "runtime/http/peer_users.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>

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

TEST(PeerUsersTest, TheUserOfAStandingConnection) {
  EXPECT_EQ(UserOfConnection(kTable, "127.0.0.1", 0xC001, 7000), 1000);
}

TEST(PeerUsersTest, NobodyElseIsTakenForOne) {
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

// Says what it is asked about, one connection after the other, and counts how often the table is read.
class AskedKernel {
 public:
  PeerUsers Users() {
    return PeerUsers([this](const std::string&, int, int) { return told; },
                     [this] {
                       ++tables_read;
                       return std::string(kTable);
                     });
  }
  std::optional<int64_t> told;
  int tables_read = 0;
};

TEST(PeerUsersTest, AKernelThatTellsOfNoConnectionIsAskedForItsTable) {
  AskedKernel kernel;
  const PeerUsers users = kernel.Users();
  EXPECT_EQ(users.Of("127.0.0.1", 0xC001, 7000), 1000);
  EXPECT_EQ(users.Of("127.0.0.1", 0xC002, 7000), -1);
  EXPECT_EQ(kernel.tables_read, 2);
}

// The table takes milliseconds: whoever closes what they open would keep all others waiting for them.
TEST(PeerUsersTest, AConnectionThatIsClosedCostsNoTableWhereTheKernelTells) {
  AskedKernel kernel;
  const PeerUsers users = kernel.Users();
  kernel.told = 1001;
  EXPECT_EQ(users.Of("127.0.0.1", 0xC001, 7000), 1001);
  kernel.told = std::nullopt;
  EXPECT_EQ(users.Of("127.0.0.1", 0xC001, 7000), -1);
  EXPECT_EQ(kernel.tables_read, 0);
}

}  // namespace
}  // namespace downpour
