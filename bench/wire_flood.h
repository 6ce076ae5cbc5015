// Strangers at a listener's door, for as long as the object lives: 50 sockets with keys that nobody knows, which ZeroMQ
// lets try again and again; a hundred handshakes that stop after their first byte; and junk, one connection after
// another.
#pragma once

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "runtime/posix/fd.h"
#include "runtime/posix/keys.h"
#include "runtime/zmq/sockets.h"

namespace downpour {

class WireFlood {
 public:
  // `keys` tell the listener's public key; the strangers' own are drawn.
  WireFlood(const std::string& endpoint, const KeyRing& keys);
  ~WireFlood();

 private:
  void ThrowJunk();

  const std::string endpoint_;
  ZmqContext context_ = ZmqContext::Create(1).value();
  std::vector<ZmqSocket> unknown_;
  std::vector<UniqueFd> half_open_;
  std::atomic<bool> over_ = false;
  std::thread junk_;
};

}  // namespace downpour
