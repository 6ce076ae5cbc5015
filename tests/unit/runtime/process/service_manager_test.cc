#include "runtime/process/service_manager.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstddef>
#include <cstdlib>

#include "runtime/posix/fd.h"

namespace downpour {
namespace {

class ManagerSide {
 public:
  explicit ManagerSide(const std::string& path) : fd_(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path.copy(address.sun_path, path.size());
    if (path[0] == '@') address.sun_path[0] = '\0';
    const auto bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + path.size());
    EXPECT_EQ(bind(fd_.get(), reinterpret_cast<const sockaddr*>(&address), bytes), 0) << path;
  }
  // The next thing said, or nothing.
  std::string Heard() {
    char words[256];
    const ssize_t got = recv(fd_.get(), words, sizeof(words), MSG_DONTWAIT);
    return got < 0 ? "" : std::string(words, static_cast<size_t>(got));
  }

 private:
  const UniqueFd fd_;
};

std::string Path() {
  const std::string path = testing::TempDir() + "/notify-" + std::to_string(getpid());
  unlink(path.c_str());
  return path;
}

TEST(ServiceManager, IsToldInDatagrams) {
  for (const std::string& path : {Path(), "@downpour-notify-" + std::to_string(getpid())}) {
    ManagerSide side(path);
    const ServiceManager manager(path, Duration::zero());
    manager.Ready();
    manager.Stopping();
    EXPECT_EQ(side.Heard(), "READY=1");
    EXPECT_EQ(side.Heard(), "STOPPING=1");
    EXPECT_EQ(side.Heard(), "");
  }
}

TEST(ServiceManager, HearsOfLifeTwicePerPeriod) {
  const std::string path = Path();
  ManagerSide side(path);
  ServiceManager manager(path, 2s);
  int signs = 0;
  for (Time now = Time(3600s); now < Time(3600s) + 10s; now += 20ms) {
    manager.Alive(now);
    if (side.Heard() == "WATCHDOG=1") ++signs;
  }
  EXPECT_EQ(signs, 10);
}

TEST(ServiceManager, TheEnvironmentSaysWhoItIs) {
  const std::string path = Path();
  ManagerSide side(path);
  setenv("NOTIFY_SOCKET", path.c_str(), 1);
  setenv("WATCHDOG_USEC", "1000000", 1);
  ServiceManager::FromEnvironment().Alive(Time(3600s));
  EXPECT_EQ(side.Heard(), "WATCHDOG=1");
  for (const char* pid : {"1", "x"}) {  // somebody else is watched
    setenv("WATCHDOG_PID", pid, 1);
    ServiceManager::FromEnvironment().Alive(Time(3600s));
    EXPECT_EQ(side.Heard(), "") << pid;
  }
  unsetenv("WATCHDOG_PID");
  for (const char* period : {"0", "-5", "soon"}) {
    setenv("WATCHDOG_USEC", period, 1);
    ServiceManager::FromEnvironment().Alive(Time(3600s));
    EXPECT_EQ(side.Heard(), "") << period;
  }
  unsetenv("WATCHDOG_USEC");
  unsetenv("NOTIFY_SOCKET");
  ServiceManager::FromEnvironment().Ready();
  EXPECT_EQ(side.Heard(), "");
}

TEST(ServiceManager, ThatIsGoneOrFarCostsNothing) {
  ServiceManager gone(Path(), 1s);
  gone.Ready();
  ServiceManager far(std::string(300, 'x'), 1s);
  far.Ready();
}

}  // namespace
}  // namespace downpour
