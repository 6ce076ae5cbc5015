// What goes through the socket beside shared memory: a kind, some text, a descriptor. Of packets (SOCK_SEQPACKET), so
// that each comes whole.
//
// Errors: a full socket takes nothing and says so; what is no packet of ours is kEnd.
// Tests: tests/unit/runtime/shm/link_test.cc, door_test.cc.
#pragma once

#include <string>
#include <string_view>

#include "runtime/posix/fd.h"

namespace downpour {

enum class Packet : char {
  kNone = 0,      // there is none
  kEnd = 1,       // the peer is gone
  kWake = 'w',    // look at the ring
  kChunk = 'c',   // the descriptor of a chunk of the arena, in their order
  kTicket = 't',  // "let me in"
  kMemory = 'm',  // "come in": the proof, and the descriptor of what both write
};

struct ReceivedPacket {
  Packet kind = Packet::kNone;
  std::string text = {};
  UniqueFd fd = {};  // of whoever sent it: close() may wait (closing.h)
};

// Neither waits.
bool SendPacket(int socket, Packet kind, std::string_view text = "", int fd = -1);
ReceivedPacket ReceivePacket(int socket);

}  // namespace downpour
