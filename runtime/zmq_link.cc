#include "runtime/zmq_link.h"

#include <algorithm>
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

std::optional<ZmqLink::Refusal> ZmqLink::Tend(Time now, const KeyRing* keys) {
  std::optional<Refusal> refusal;
  for (ZmqMonitor::Event event; (event = monitor_->Next()) != ZmqMonitor::Event::kNone;) {
    if (silent_until_) continue;  // of an attempt that was under way
    if (event == ZmqMonitor::Event::kShookHands) next_pause_ = kFirstPause;
    const bool refused = event == ZmqMonitor::Event::kKeyRefused || event == ZmqMonitor::Event::kNoCommonSpeech ||
                         event == ZmqMonitor::Event::kHungUp;
    if (!refused) continue;
    channel_.socket().StopDialling();
    refusal = Refusal{event, next_pause_};
    silent_until_ = now + next_pause_;
    next_pause_ = std::min(2 * next_pause_, kLongestPause);
  }
  if (silent_until_ && now >= *silent_until_) {
    silent_until_.reset();
    channel_.socket().DialAgain(keys, to_);
  }
  return refusal;
}

void ZmqLink::Close(Duration linger) {
  monitor_.reset();
  channel_.socket().Close(linger);
}

void ZmqLink::PopOldest() {
  bytes_ -= queue_.front().bytes;
  queue_.pop_front();
}

}  // namespace downpour
