// A cluster's keys, for the tests of sockets and driver.
#pragma once

#include <string>

#include "runtime/posix_keys.h"
#include "tests/unit/runtime/zmq_test_peer.h"

namespace downpour {

struct TestKeys {
  TempDir dir;
  const std::string folder = dir / "keys";
  const bool made = WriteNewKeys(folder).ok();
  const KeyRing chief = LoadKeys(folder, PeerRole::kChief).value();
  const KeyRing ps = LoadKeys(folder, PeerRole::kPs).value();
  const KeyRing worker = LoadKeys(folder, PeerRole::kWorker).value();
  const KeyRing client = LoadKeys(folder, PeerRole::kClient).value();
};

}  // namespace downpour
