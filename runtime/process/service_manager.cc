#include "runtime/process/service_manager.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstddef>
#include <cstdlib>

#include "absl/strings/numbers.h"
#include "runtime/posix/fd.h"

namespace downpour {
namespace {

std::string Variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

}  // namespace

ServiceManager ServiceManager::FromEnvironment() {
  int64_t period_us = 0;
  const std::string watched = Variable("WATCHDOG_PID");
  const bool for_us = watched.empty() || watched == std::to_string(getpid());
  if (!for_us || !absl::SimpleAtoi(Variable("WATCHDOG_USEC"), &period_us) || period_us < 0) period_us = 0;
  return {Variable("NOTIFY_SOCKET"), std::chrono::microseconds(period_us)};
}

void ServiceManager::Alive(Time now) {
  if (watchdog_ == Duration::zero() || now < next_sign_of_life_) return;
  next_sign_of_life_ = now + watchdog_ / 2;
  Say("WATCHDOG=1", MSG_DONTWAIT);  // the next one will do as well
}

void ServiceManager::Say(const std::string& words, int flags) const {
  sockaddr_un address{};
  if (socket_.empty() || socket_.size() >= sizeof(address.sun_path)) return;
  address.sun_family = AF_UNIX;
  socket_.copy(address.sun_path, socket_.size());
  if (socket_[0] == '@') address.sun_path[0] = '\0';
  const auto bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + socket_.size());
  const UniqueFd sender(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  [[maybe_unused]] const ssize_t sent = sendto(sender.get(), words.data(), words.size(), flags | MSG_NOSIGNAL,
                                               reinterpret_cast<const sockaddr*>(&address), bytes);
}

}  // namespace downpour
