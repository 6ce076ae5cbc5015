// A cluster's keys, for the tests of sockets and driver.
#pragma once

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "runtime/posix/keys.h"
#include "tests/unit/runtime/zmq/test_peer.h"

namespace downpour {

inline std::string ReadText(const std::string& path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), {}};
}
// As a file of keys must be: whole at once, and nobody else's.
inline void WriteText(const std::string& path, const std::string& text) {
  using std::filesystem::perms;
  std::ofstream(path + ".tmp") << text;
  std::filesystem::permissions(path + ".tmp", perms::owner_read | perms::owner_write);
  std::filesystem::rename(path + ".tmp", path);
}

inline Join JoinOf(TaskRole role) {
  Join join;
  join.role = role;
  return join;
}
inline Welcome WelcomeAs(Incarnation incarnation) {
  Welcome welcome;
  welcome.you = incarnation;
  return welcome;
}
inline Heartbeat BeatOf(Incarnation from) {
  Heartbeat beat;
  beat.from = from;
  return beat;
}

struct TestKeys {
  TempDir dir;
  const std::string folder = dir / "keys";
  const bool made = WriteNewKeys(folder).ok();
  const KeyRing chief = LoadKeys(folder, PeerRole::kChief).value();
  const KeyRing ps = LoadKeys(folder, PeerRole::kPs).value();
  const KeyRing worker = LoadKeys(folder, PeerRole::kWorker).value();
  const KeyRing client = LoadKeys(folder, PeerRole::kClient).value();
  const KeyRing viewer = LoadKeys(folder, PeerRole::kViewer).value();
};

}  // namespace downpour
