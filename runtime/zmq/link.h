// A dialled connection with a short memory: what finds no connection waits a moment for it.
//
// A role sends right after it dials, long before the connection stands; without waiting that message would only go with
// the first retry, which on the data plane is seconds later. What waits too long is lost, as any message may be: its
// sender has repeated it by then, and a peer that comes back after an outage is not met by a backlog.
//
// Where nobody has answered for a while, it is time to look why, and again ever more seldom.
//
// A listener that refuses the handshake is left alone for a while: as long as the keys are as they are, it would refuse
// again. One that hangs up may do that for the keys, too, or be a relay whose server is not there: it is dialled once a
// second. Others are dialled again by ZeroMQ.
//
// Order: messages leave in the order in which they were sent.
// Cost: at most kWaitingMessages and kWaitingBytes wait; the oldest are lost first. Tend is a look at an empty queue.
// Tests: tests/unit/runtime/zmq/link_test.cc.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <utility>
#include <vector>

#include "runtime/link.h"
#include "runtime/world_time.h"
#include "runtime/zmq/frames.h"
#include "runtime/zmq/monitor.h"

namespace downpour {

class ZmqLink : public Link {
 public:
  static constexpr size_t kWaitingMessages = 64;
  static constexpr size_t kWaitingBytes = size_t{16} << 20;
  static constexpr Duration kPatience = 1s;
  // From one refused handshake to the next attempt. Doubled each time, so that who mends the keys need not wait long.
  static constexpr Duration kFirstPause = 1s;
  static constexpr Duration kLongestPause = 16s;
  // Of silence before it is worth a look why: more than a process takes that is started again.
  static constexpr Duration kFirstLook = 3s;
  static constexpr Duration kRarestLook = 600s;

  ZmqLink(WatchedSocket dialler, PeerRole to)
      : to_(to),
        channel_(std::move(dialler.socket), ZmqChannel::Side::kDialler),
        monitor_(std::move(dialler.monitor)) {}

  PeerRole to() const { return to_; }  // who is at the other end

  // kSent: it waits, if there is no connection.
  Sending Send(Time now, std::vector<Payload>&& frames) override;
  // What waits to be sent goes first.
  Receipt Receive(Time now, std::vector<Payload>* frames) override;
  bool Drained() override;
  int fd() const override { return channel_.fd(); }
  uint64_t bytes_in() const override { return channel_.bytes_in(); }
  uint64_t bytes_out() const override { return channel_.bytes_out(); }
  // Sends what waits, as far as it goes, and drops what has waited too long.
  void Flush(Time now);
  bool waiting() const { return !queue_.empty(); }

  // What has become of the last handshake since the last call: kShookHands, or kKeyRefused, kNoCommonSpeech or kHungUp,
  // after which it is not dialled before DialAgain is due.
  std::optional<ZmqMonitor::Event> Tend(Time now);
  // Something was lost before there was this link: it counts as standing again once it stands.
  void NoteLoss() { lost_words_ = true; }
  // Whether a connection began to stand since the last call.
  bool TakeConnected() { return std::exchange(newly_connected_, false); }
  // Whether it stands again since the last call, and may have lost what was sent or awaited before.
  bool TakeReconnected() { return std::exchange(reconnected_, false); }
  bool DueToDial(Time now) const { return dial_at_ && now >= *dial_at_; }
  void DialAgain(const KeyRing* keys);
  // Whether to look now why nobody answers; true once for each time.
  bool DueToLook(Time now);
  // As ZmqSocket's.
  void Close(Duration linger);

  // Messages that gave way to newer ones, since the last call.
  uint64_t TakeLost() { return std::exchange(lost_, 0); }
  ZmqChannel& channel() { return channel_; }
  const ZmqChannel& channel() const { return channel_; }

 private:
  struct Waiting {
    Time since;
    size_t bytes = 0;
    std::vector<Payload> frames;
  };
  void DropOldest();  // unsent
  void PopOldest();

  PeerRole to_;
  ZmqChannel channel_;
  std::optional<ZmqMonitor> monitor_;  // after what it watches: it ends first
  Duration next_pause_ = kFirstPause;
  std::optional<Time> dial_at_;  // in a pause
  bool connected_ = false;
  bool newly_connected_ = false;
  bool lost_words_ = false;  // since it stood last: a connection ended, or what waited for one was dropped
  bool reconnected_ = false;
  Duration next_look_ = kFirstLook;
  std::optional<Time> look_at_;  // while nobody answers
  std::deque<Waiting> queue_;
  size_t bytes_ = 0;
  uint64_t lost_ = 0;
};

}  // namespace downpour
