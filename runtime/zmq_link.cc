#include "runtime/zmq_link.h"

#include <utility>

namespace downpour {

void ZmqLink::Send(Time now, std::vector<Payload> frames) {
  Waiting message{now, 0, std::move(frames)};
  for (const Payload& frame : message.frames) message.bytes += frame.size();
  bytes_ += message.bytes;
  queue_.push_back(std::move(message));
  Flush(now);
  while (queue_.size() > kWaitingMessages || bytes_ > kWaitingBytes) DropOldest();
}

void ZmqLink::Flush(Time now) {
  while (!queue_.empty()) {
    if (now - queue_.front().since > kPatience) {
      DropOldest();
      continue;
    }
    switch (channel_.Send("", queue_.front().frames)) {
      case ZmqChannel::Sending::kBusy:
        return;
      case ZmqChannel::Sending::kGone:
        ++lost_;
        break;
      case ZmqChannel::Sending::kSent:
        break;
    }
    bytes_ -= queue_.front().bytes;
    queue_.pop_front();
  }
}

void ZmqLink::DropOldest() {
  bytes_ -= queue_.front().bytes;
  queue_.pop_front();
  ++lost_;
}

}  // namespace downpour
