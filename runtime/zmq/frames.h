// Messages as ZeroMQ carries them: runs of frames, borrowed from ZeroMQ on receive and lent to it on send.
//
// Order: a message is sent and received whole or not at all.
// Cost: two small allocations per frame each way; small frames are copied, which is cheaper.
// Threads: a channel belongs to one thread. Payloads lent to ZeroMQ are dropped on one of its I/O threads.
// Tests: tests/unit/runtime/zmq/frames_test.cc.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/link.h"
#include "runtime/zmq/sockets.h"
#include "schema/payload.h"

namespace downpour {

class ZmqChannel {
 public:
  // A listener's messages begin with the routing id of the peer they come from or go to; a dialled link has one peer.
  enum class Side { kListener, kDialler };
  ZmqChannel(ZmqSocket socket, Side side);

  using Receipt = Link::Receipt;  // kTooMany comes over several calls
  // Does not wait. Replaces *peer (empty for a dialler) and *frames.
  Receipt Receive(std::string* peer, std::vector<Payload>* frames);
  // Of a listener with keys: the key of whoever sent the last message (Z85).
  const std::string& speaker() const { return speaker_; }
  int speaker_fd() const { return speaker_fd_; }  // of the connection over which it came; else -1
  // Ends that connection. If that has ended meanwhile, another one may be in its place, whose dialler
  // then dials again.
  void CutOffSpeaker();

  using Sending = Link::Sending;  // kBusy: not connected, or too much is queued to that peer already
  Sending Send(const std::string& peer, const std::vector<Payload>& frames);

  // A descriptor to wait on, readable when something changed: but only while drained(), that is
  // while the last thing done to the channel was a Receive that found nothing. Any other call may
  // use up what the descriptor would have said.
  int fd() const { return fd_; }
  bool drained() const { return drained_; }
  bool CanSend();  // without waiting

  ZmqSocket& socket() { return socket_; }
  const ZmqSocket& socket() const { return socket_; }
  // Of all frames so far.
  uint64_t bytes_in() const { return bytes_in_; }
  uint64_t bytes_out() const { return bytes_out_; }

 private:
  Receipt ReceiveNow(std::string* peer, std::vector<Payload>* frames);
  bool DropRest();
  bool ReceiveFrame(Payload* payload, bool* more);

  ZmqSocket socket_;
  Side side_;
  int fd_ = -1;
  bool drained_ = false;
  std::string speaker_;
  int speaker_fd_ = -1;
  bool dropping_ = false;  // within a message of too many frames
  uint64_t bytes_in_ = 0;
  uint64_t bytes_out_ = 0;
};

}  // namespace downpour
