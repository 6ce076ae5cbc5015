// A connection to one peer, as an event loop sees it: messages of frames, whole or not at all.
//
// Order: messages arrive in the order in which they were sent, or not at all.
// Errors: what is sent to a peer that is gone is lost, as any message may be.
// Threads: one.
#pragma once

#include <cstdint>
#include <vector>

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
  virtual Receipt Receive(std::vector<Payload>* frames) = 0;

  enum class Sending {
    kSent,  // handed over, and may still be lost
    kBusy,  // not now: nothing was sent
    kGone,  // no such peer
  };
  virtual Sending Send(const std::vector<Payload>& frames) = 0;

  // A descriptor to wait on, readable when something changed: but only after drained() was true, and as long as nothing
  // else was done to the link.
  virtual int fd() const = 0;
  virtual bool drained() = 0;

  virtual uint64_t bytes_in() const = 0;  // of all frames so far
  virtual uint64_t bytes_out() const = 0;
};

}  // namespace downpour
