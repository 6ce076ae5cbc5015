#include "runtime/posix/listener.h"

#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <system_error>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace downpour {
namespace {

namespace fs = std::filesystem;

// Of sockets that listen at that port, as links in /proc/PID/fd name them.
std::set<std::string> SocketsAt(int port) {
  std::set<std::string> sockets;
  for (const char* table : {"/proc/net/tcp", "/proc/net/tcp6"}) {
    std::ifstream file(table);
    std::string line;
    std::getline(file, line);  // what the columns are
    while (std::getline(file, line)) {
      constexpr const char* kListens = "0A";
      std::istringstream columns(line);
      std::string slot, local, remote, state, queues, timer, retransmits, user, timeout, inode;
      columns >> slot >> local >> remote >> state >> queues >> timer >> retransmits >> user >> timeout >> inode;
      int at = 0;
      const bool is_there = absl::SimpleHexAtoi(local.substr(local.rfind(':') + 1), &at) && at == port;
      if (is_there && state == kListens) sockets.insert(absl::StrCat("socket:[", inode, "]"));
    }
  }
  return sockets;
}

bool HoldsOneOf(const fs::path& process, const std::set<std::string>& sockets) {
  std::error_code error;
  for (fs::directory_iterator it(process / "fd", error), end; !error && it != end; it.increment(error)) {
    std::error_code gone;
    if (sockets.contains(fs::read_symlink(it->path(), gone).string())) return true;
  }
  return false;
}

}  // namespace

std::optional<Listener> ListenerAt(int port) {
  const std::set<std::string> sockets = SocketsAt(port);
  if (sockets.empty()) return std::nullopt;
  std::error_code error;
  for (fs::directory_iterator it("/proc", error), end; !error && it != end; it.increment(error)) {
    Listener found;
    if (!absl::SimpleAtoi(it->path().filename().string(), &found.pid) || !HoldsOneOf(it->path(), sockets)) continue;
    std::error_code gone;
    found.program = fs::read_symlink(it->path() / "exe", gone).filename();
    std::ifstream file(it->path() / "cmdline");
    std::ostringstream words;
    words << file.rdbuf();
    found.words = absl::StrSplit(words.str(), '\0', absl::SkipEmpty());
    return found;
  }
  return std::nullopt;
}

}  // namespace downpour
