// What the tests of sockets and driver share: endpoints, patience, and a peer that says what it is told.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "runtime/zmq/frames.h"
#include "runtime/zmq/sockets.h"
#include "schema/codec.h"

namespace downpour {

// A test that waits longer than this has failed.
constexpr long kPatienceMs = 30'000;

class TempDir {
 public:
  TempDir() {
    std::string pattern = (std::filesystem::temp_directory_path() / "downpour-test-XXXXXX").string();
    path_ = mkdtemp(pattern.data());
  }
  ~TempDir() { std::filesystem::remove_all(path_); }
  const std::string& path() const { return path_; }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

// Waits until the socket has something to read; whether it has.
inline bool WaitReadable(ZmqChannel& channel, long at_most_ms = kPatienceMs) {
  zmq::pollitem_t item{channel.socket().get(), 0, ZMQ_POLLIN, 0};
  return zmq::poll(&item, 1, std::chrono::milliseconds(at_most_ms)) == 1;
}
inline bool WaitWritable(ZmqChannel& channel) {
  zmq::pollitem_t item{channel.socket().get(), 0, ZMQ_POLLOUT, 0};
  return zmq::poll(&item, 1, std::chrono::milliseconds(kPatienceMs)) == 1;
}

struct Parcel {
  ZmqChannel::Receipt receipt = ZmqChannel::Receipt::kNothing;
  std::string peer;
  std::vector<Payload> frames;
};
inline Parcel WaitFor(ZmqChannel& channel) {
  Parcel parcel;
  while (parcel.receipt == ZmqChannel::Receipt::kNothing && WaitReadable(channel)) {
    parcel.receipt = channel.Receive(&parcel.peer, &parcel.frames);
  }
  return parcel;
}

// A dialled connection to the role under test.
class TestPeer {
 public:
  explicit TestPeer(const std::string& endpoint, const KeyRing* keys = nullptr)
      : context_(ZmqContext::Create(1).value()),
        channel_(Connect(context_, endpoint, keys).value(), ZmqChannel::Side::kDialler) {}

  void SendFrames(const std::vector<Payload>& frames) {
    while (channel_.Send("", frames) == ZmqChannel::Sending::kBusy) ASSERT_TRUE(WaitWritable(channel_));
  }
  void Send(const Message& message) { SendFrames(Encode(message)); }

  // The next message; a test that gets none in time has failed.
  template <typename Kind>
  Kind Receive() {
    const Parcel parcel = WaitFor(channel_);
    if (parcel.receipt == ZmqChannel::Receipt::kMessage) {
      absl::StatusOr<Message> message = Decode(parcel.frames);
      EXPECT_TRUE(message.ok()) << message.status();
      if (message.ok() && std::holds_alternative<Kind>(*message)) return std::get<Kind>(*std::move(message));
    }
    ADD_FAILURE() << "the expected message did not come";
    return Kind();
  }
  ZmqChannel& channel() { return channel_; }

 private:
  ZmqContext context_;
  ZmqChannel channel_;
};

}  // namespace downpour
