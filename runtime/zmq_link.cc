#include "runtime/zmq_link.h"

#include <utility>

namespace downpour {

void ZmqLink::Send(Time now, std::vector<Payload> frames) {
  Waiting message{now, 0, std::move(frames)};
  for (const Payload& frame : message.frames) message.bytes += frame.size();
  bytes_ += message.bytes;
  queue_.push_back(std::move(message));
  Flush(now);
  for (; queue_.size() > kWaitingMessages || bytes_ > kWaitingBytes; ++lost_) PopOldest();
}

void ZmqLink::Flush(Time now) {
  while (!queue_.empty()) {
    if (now - queue_.front().since > kPatience) {
      PopOldest();
      continue;
    }
    if (channel_.Send("", queue_.front().frames) == ZmqChannel::Sending::kBusy) return;
    PopOldest();
  }
}

void ZmqLink::PopOldest() {
  bytes_ -= queue_.front().bytes;
  queue_.pop_front();
}

}  // namespace downpour
