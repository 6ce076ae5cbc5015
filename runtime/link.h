// A connection to one peer, as an event loop sees it: messages of frames, whole or not at all.
//
// There are two: over ZeroMQ to any host (runtime/zmq/link.h), and through shared memory (runtime/shm/link.h).
//
// Order: messages arrive in the order in which they were sent, or not at all.
// Errors: what is sent to a peer that is gone is lost, as any message may be.
// Threads: one.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/world_time.h"
#include "schema/payload.h"

namespace downpour {

class Link {
 public:
  virtual ~Link() = default;

  enum class Receipt {
    kNothing,  // there is none yet
    kMessage,
    kTooMany,  // of more than kMaxFrames frames: dropped
  };
  // Does not wait. Replaces *frames.
  virtual Receipt Receive(Time now, std::vector<Payload>* frames) = 0;

  enum class Sending {
    kSent,  // handed over, and may still be lost
    kBusy,  // not now: nothing was sent
    kGone,  // no such peer
  };
  // Takes the frames if it sends them.
  virtual Sending Send(Time now, std::vector<Payload>&& frames) = 0;

  // Whether nothing can be done before the descriptor becomes readable: until then nothing else may be done to the
  // link.
  virtual bool Drained() = 0;
  virtual int fd() const = 0;

  virtual uint64_t bytes_in() const = 0;  // of all frames so far
  virtual uint64_t bytes_out() const = 0;
};

}  // namespace downpour
