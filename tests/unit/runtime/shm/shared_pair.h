// Two ends of shared memory in one process, each with an arena of its own; and the raw memory and socket of one end,
// for a peer that keeps no rule.
#pragma once

#include <fcntl.h>
#include <sys/socket.h>

#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "runtime/shm/link.h"
#include "runtime/shm/packet.h"

namespace downpour {

inline constexpr Time kNow{1000s};

struct SharedPair {
  SharedPair() {
    int sockets[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, sockets) != 0) std::abort();
    listeners_socket = UniqueFd(sockets[0]);
    diallers_socket = UniqueFd(sockets[1]);
    auto ours = SharedMemory::Make(SharedLink::kControlBytes, SharedMemory::Others::kWrite).value();
    UniqueFd copy(fcntl(ours.fd(), F_DUPFD_CLOEXEC, 0));
    listeners_memory = std::make_shared<SharedMemory>(std::move(ours));
    diallers_memory = std::make_shared<SharedMemory>(
        SharedMemory::Map(std::move(copy), SharedLink::kControlBytes, SharedMemory::Others::kWrite).value());
  }
  SharedLink& listener() {
    if (listening == nullptr) {
      listening = std::make_unique<SharedLink>(SharedLink::Side::kListener, listeners_memory,
                                               std::move(listeners_socket), &listeners_arena);
    }
    return *listening;
  }
  SharedLink& dialler() {
    if (dialled == nullptr) {
      dialled = std::make_unique<SharedLink>(SharedLink::Side::kDialler, diallers_memory, std::move(diallers_socket),
                                             &diallers_arena);
    }
    return *dialled;
  }

  SharedArena listeners_arena, diallers_arena;
  std::shared_ptr<SharedMemory> listeners_memory, diallers_memory;
  UniqueFd listeners_socket, diallers_socket;
  std::unique_ptr<SharedLink> listening, dialled;
};

inline std::vector<Payload> FramesOf(const std::vector<std::string>& texts) {
  std::vector<Payload> frames;
  for (const std::string& text : texts) frames.push_back(Payload::CopyOf(text.data(), text.size()));
  return frames;
}

inline std::vector<std::string> TextsOf(const std::vector<Payload>& frames) {
  std::vector<std::string> texts;
  for (const Payload& frame : frames) {
    texts.emplace_back(reinterpret_cast<const char*>(frame.data()), frame.size());
  }
  return texts;
}

}  // namespace downpour
