#include "runtime/zmq/frames.h"

#include <glog/logging.h>
#include <sys/socket.h>

#include <cerrno>
#include <memory>
#include <utility>
#include <zmq.hpp>

#include "schema/codec.h"

namespace downpour {
namespace {

// On sending, up to here a copy costs less than lending.
constexpr size_t kCopiedBytes = 2048;
constexpr size_t kMaxRoutingIdBytes = 255;

// Calls `attempt`, a ZeroMQ call that does not wait, until no signal interrupts it. The C calls, since what they report
// is news here and no exception: a peer that is gone, a message that has not come.
template <typename Attempt>
int Uninterrupted(Attempt attempt) {
  for (;;) {
    const int rc = attempt();
    if (rc >= 0 || errno != EINTR) return rc;
  }
}

zmq::message_t FrameOf(const Payload& payload) {
  if (payload.size() <= kCopiedBytes) return zmq::message_t(payload.data(), payload.size());
  const auto drop = [](void*, void* holder) { delete static_cast<Payload*>(holder); };
  return zmq::message_t(const_cast<std::byte*>(payload.data()), payload.size(), drop, new Payload(payload));
}

bool SendFrame(zmq::socket_t& socket, const Payload& payload, bool more) {
  zmq::message_t frame = FrameOf(payload);
  const int flags = ZMQ_DONTWAIT | (more ? ZMQ_SNDMORE : 0);
  return Uninterrupted([&] { return zmq_msg_send(frame.handle(), socket.handle(), flags); }) >= 0;
}

}  // namespace

ZmqChannel::ZmqChannel(ZmqSocket socket, Side side) : socket_(std::move(socket)), side_(side) {
  fd_ = socket_.get().get(zmq::sockopt::fd);
}

bool ZmqChannel::CanSend() {
  int events = 0;
  size_t bytes = sizeof(events);
  void* handle = socket_.get().handle();
  PCHECK(Uninterrupted([&] { return zmq_getsockopt(handle, ZMQ_EVENTS, &events, &bytes); }) == 0) << "ZMQ_EVENTS";
  if ((events & ZMQ_POLLIN) != 0) drained_ = false;
  return (events & ZMQ_POLLOUT) != 0;
}

ZmqChannel::Receipt ZmqChannel::Receive(std::string* peer, std::vector<Payload>* frames) {
  const Receipt receipt = ReceiveNow(peer, frames);
  drained_ = receipt == Receipt::kNothing && !dropping_;
  return receipt;
}

ZmqChannel::Receipt ZmqChannel::ReceiveNow(std::string* peer, std::vector<Payload>* frames) {
  frames->clear();
  peer->clear();
  if (dropping_ && !DropRest()) return Receipt::kNothing;
  if (side_ == Side::kListener) {
    char id[kMaxRoutingIdBytes];
    const int bytes = Uninterrupted([&] { return zmq_recv(socket_.get().handle(), id, sizeof(id), ZMQ_DONTWAIT); });
    if (bytes < 0) {
      PCHECK(errno == EAGAIN) << "zmq_recv";
      return Receipt::kNothing;
    }
    peer->assign(id, bytes);
  }
  for (bool more = true; more;) {
    if (frames->size() == kMaxFrames) {
      frames->clear();
      dropping_ = true;
      return Receipt::kTooMany;
    }
    Payload frame;
    if (!ReceiveFrame(&frame, &more)) return Receipt::kNothing;
    frames->push_back(std::move(frame));
  }
  return Receipt::kMessage;
}

// False if there is none.
bool ZmqChannel::ReceiveFrame(Payload* payload, bool* more) {
  auto frame = std::make_unique<zmq::message_t>();
  if (Uninterrupted([&] { return zmq_msg_recv(frame->handle(), socket_.get().handle(), ZMQ_DONTWAIT); }) < 0) {
    PCHECK(errno == EAGAIN) << "zmq_msg_recv";
    return false;
  }
  const char* key = side_ == Side::kListener ? zmq_msg_gets(frame->handle(), "User-Id") : nullptr;
  speaker_ = key != nullptr ? key : "";
  speaker_fd_ = key != nullptr ? zmq_msg_get(frame->handle(), ZMQ_SRCFD) : -1;
  *more = frame->more();
  zmq::message_t* held = frame.release();
  *payload = Payload::Adopt(held->data(), held->size(), [held] { delete held; });
  bytes_in_ += payload->size();
  return true;
}

void ZmqChannel::CutOffSpeaker() {
  if (speaker_fd_ >= 0) shutdown(speaker_fd_, SHUT_RDWR);  // ZeroMQ, who owns it, sees the end and closes it
}

// Drops some more frames of an overlong message; whether it has ended.
bool ZmqChannel::DropRest() {
  for (size_t i = 0; i < kMaxFrames && dropping_; ++i) {
    Payload frame;
    if (!ReceiveFrame(&frame, &dropping_)) return false;
  }
  return !dropping_;
}

ZmqChannel::Sending ZmqChannel::Send(const std::string& peer, const std::vector<Payload>& frames) {
  drained_ = false;
  const auto failure = [] { return errno == EAGAIN ? Sending::kBusy : Sending::kGone; };
  if (side_ == Side::kListener) {
    const auto send_id = [&] {
      return zmq_send(socket_.get().handle(), peer.data(), peer.size(), ZMQ_DONTWAIT | ZMQ_SNDMORE);
    };
    if (Uninterrupted(send_id) < 0) return failure();
  }
  Sending result = Sending::kSent;
  for (size_t i = 0; i < frames.size(); ++i) {
    if (SendFrame(socket_.get(), frames[i], i + 1 < frames.size())) {
      bytes_out_ += frames[i].size();
    } else if (i == 0 && side_ == Side::kDialler) {
      return failure();
    } else {
      // The connection ended within the message. The other frames still go, so that ZeroMQ sees this message's end and
      // does not take the next one for its rest.
      result = Sending::kGone;
    }
  }
  return result;
}

}  // namespace downpour
