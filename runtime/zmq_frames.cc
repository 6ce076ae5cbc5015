#include "runtime/zmq_frames.h"

#include <glog/logging.h>
#include <zmq.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <utility>

#include "schema/codec.h"

namespace downpour {
namespace {

// On sending, up to here a copy costs less than lending.
constexpr size_t kCopiedBytes = 2048;
constexpr size_t kMaxRoutingIdBytes = 255;

// Calls `attempt`, a ZeroMQ call that does not wait, until no signal interrupts it.
template <typename Attempt>
int Uninterrupted(Attempt attempt) {
  for (;;) {
    const int rc = attempt();
    if (rc >= 0 || errno != EINTR) return rc;
  }
}

// False if there is none.
bool ReceiveFrame(void* socket, Payload* payload, bool* more) {
  auto frame = std::make_unique<zmq_msg_t>();
  zmq_msg_init(frame.get());
  if (Uninterrupted([&] { return zmq_msg_recv(frame.get(), socket, ZMQ_DONTWAIT); }) < 0) {
    PCHECK(errno == EAGAIN) << "zmq_msg_recv";
    return false;
  }
  zmq_msg_t* held = frame.release();
  *more = zmq_msg_more(held) != 0;
  *payload = Payload::Adopt(zmq_msg_data(held), zmq_msg_size(held), [held] {
    zmq_msg_close(held);
    delete held;
  });
  return true;
}

bool SendFrame(void* socket, const Payload& payload, bool more) {
  zmq_msg_t frame;
  if (payload.size() <= kCopiedBytes) {
    PCHECK(zmq_msg_init_size(&frame, payload.size()) == 0) << "zmq_msg_init_size";
    if (!payload.empty()) std::memcpy(zmq_msg_data(&frame), payload.data(), payload.size());
  } else {
    const auto drop = [](void*, void* holder) { delete static_cast<Payload*>(holder); };
    void* data = const_cast<std::byte*>(payload.data());
    PCHECK(zmq_msg_init_data(&frame, data, payload.size(), drop, new Payload(payload)) == 0) << "zmq_msg_init_data";
  }
  const int flags = ZMQ_DONTWAIT | (more ? ZMQ_SNDMORE : 0);
  if (Uninterrupted([&] { return zmq_msg_send(&frame, socket, flags); }) >= 0) return true;
  const int error = errno;
  zmq_msg_close(&frame);
  errno = error;
  return false;
}

}  // namespace

ZmqChannel::ZmqChannel(ZmqSocket socket, Side side) : socket_(std::move(socket)), side_(side) {
  size_t bytes = sizeof(fd_);
  PCHECK(zmq_getsockopt(socket_.get(), ZMQ_FD, &fd_, &bytes) == 0) << "ZMQ_FD";
}

bool ZmqChannel::CanSend() {
  int events = 0;
  size_t bytes = sizeof(events);
  PCHECK(zmq_getsockopt(socket_.get(), ZMQ_EVENTS, &events, &bytes) == 0) << "ZMQ_EVENTS";
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
    const int bytes = Uninterrupted([&] { return zmq_recv(socket_.get(), id, sizeof(id), ZMQ_DONTWAIT); });
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
    if (!ReceiveFrame(socket_.get(), &frame, &more)) return Receipt::kNothing;
    bytes_in_ += frame.size();
    frames->push_back(std::move(frame));
  }
  return Receipt::kMessage;
}

// Drops some more frames of an overlong message; whether it has ended.
bool ZmqChannel::DropRest() {
  for (size_t i = 0; i < kMaxFrames && dropping_; ++i) {
    Payload frame;
    if (!ReceiveFrame(socket_.get(), &frame, &dropping_)) return false;
    bytes_in_ += frame.size();
  }
  return !dropping_;
}

ZmqChannel::Sending ZmqChannel::Send(const std::string& peer, const std::vector<Payload>& frames) {
  drained_ = false;
  const auto failure = [] { return errno == EAGAIN ? Sending::kBusy : Sending::kGone; };
  if (side_ == Side::kListener) {
    const auto send_id = [&] { return zmq_send(socket_.get(), peer.data(), peer.size(), ZMQ_DONTWAIT | ZMQ_SNDMORE); };
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
