#include "runtime/zmq/link.h"

#include <algorithm>
#include <string>
#include <utility>

namespace downpour {
namespace {

bool IsRefusal(ZmqMonitor::Event event) {
  return event == ZmqMonitor::Event::kKeyRefused || event == ZmqMonitor::Event::kNoCommonSpeech ||
         event == ZmqMonitor::Event::kHungUp;
}

}  // namespace

Link::Sending ZmqLink::Send(Time now, std::vector<Payload>&& frames) {
  Waiting message{now, 0, std::move(frames)};
  for (const Payload& frame : message.frames) message.bytes += frame.size();
  bytes_ += message.bytes;
  queue_.push_back(std::move(message));
  Flush(now);
  for (; queue_.size() > kWaitingMessages || bytes_ > kWaitingBytes; ++lost_) DropOldest();
  return Sending::kSent;
}

Link::Receipt ZmqLink::Receive(Time now, std::vector<Payload>* frames) {
  Flush(now);
  std::string nobody;
  return channel_.Receive(&nobody, frames);
}

bool ZmqLink::Drained() { return !(waiting() && channel_.CanSend()) && channel_.drained(); }

void ZmqLink::Flush(Time now) {
  while (!queue_.empty()) {
    if (now - queue_.front().since > kPatience) {
      DropOldest();
      continue;
    }
    if (channel_.Send("", queue_.front().frames) == ZmqChannel::Sending::kBusy) return;
    PopOldest();
  }
}

std::optional<ZmqMonitor::Event> ZmqLink::Tend(Time now) {
  std::optional<ZmqMonitor::Event> outcome;
  for (ZmqMonitor::Event event; (event = monitor_->Next()) != ZmqMonitor::Event::kNone;) {
    if (event == ZmqMonitor::Event::kShookHands || IsRefusal(event)) outcome = event;
    if (event == ZmqMonitor::Event::kShookHands) {
      connected_ = true;
      newly_connected_ = true;
      reconnected_ |= std::exchange(lost_words_, false);
    }
    if (event == ZmqMonitor::Event::kEnded) {
      connected_ = false;
      lost_words_ = true;
    }
  }
  if (dial_at_ || !outcome) return std::nullopt;  // what comes in a pause is of an attempt that was under way
  if (*outcome == ZmqMonitor::Event::kShookHands) {
    next_pause_ = kFirstPause;
    return outcome;
  }
  channel_.socket().StopDialling();
  if (*outcome == ZmqMonitor::Event::kHungUp) {
    dial_at_ = now + kFirstPause;
  } else {
    dial_at_ = now + next_pause_;
    next_pause_ = std::min(2 * next_pause_, kLongestPause);
  }
  return outcome;
}

// A refusal is an answer.
bool ZmqLink::DueToLook(Time now) {
  if (connected_ || dial_at_) {
    look_at_.reset();
    next_look_ = kFirstLook;
  } else if (!look_at_) {
    look_at_ = now + next_look_;
  }
  if (!look_at_ || now < *look_at_) return false;
  next_look_ = std::min(2 * next_look_, kRarestLook);
  look_at_ = now + next_look_;
  return true;
}

void ZmqLink::DialAgain(const KeyRing* keys) {
  dial_at_.reset();
  channel_.socket().DialAgain(keys, to_);
}

void ZmqLink::Close(Duration linger) {
  monitor_.reset();
  channel_.socket().Close(linger);
}

void ZmqLink::DropOldest() {
  lost_words_ = true;
  PopOldest();
}

void ZmqLink::PopOldest() {
  bytes_ -= queue_.front().bytes;
  queue_.pop_front();
}

}  // namespace downpour
