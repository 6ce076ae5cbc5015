// bench_wire's measure of ZeroMQ itself: the same sockets with the same options, and nothing else.
#include <glog/logging.h>

#include <cstring>
#include <vector>
#include <zmq.hpp>

#include "bench/wire_sides.h"
#include "runtime/zmq/sockets.h"
#include "schema/payload.h"

namespace downpour {
namespace {

constexpr size_t kSmall = 64;  // a request to pull, an acknowledgement, a probe

void SendSmall(zmq::socket_t& socket, uint32_t slice) {
  char bytes[kSmall] = {};
  std::memcpy(bytes, &slice, sizeof(slice));
  socket.send(zmq::buffer(bytes));
}

// Lends the slice to ZeroMQ; it outlives every send.
void SendSlice(zmq::socket_t& socket, const Payload& slice) {
  zmq::message_t message(const_cast<std::byte*>(slice.data()), slice.size(), [](void*, void*) {});
  socket.send(message, zmq::send_flags::none);
}

std::vector<Payload> MakeSlices(const WireLoad& load) {
  std::vector<Payload> slices;
  for (size_t i = 0; i < load.slices; ++i) slices.push_back(Payload::Zeros(load.slice_bytes));
  return slices;
}

// A slice is answered with a small message, a small one with the slice that it names, or in kind.
template <bool pulls>
void Serve(const WireLoad& load, const std::string& listen, const std::function<void(const std::string&)>& listening) {
  ZmqContext context = ZmqContext::Create(1).value();
  ZmqSocket socket = Listen(context, listen).value();
  const std::vector<Payload> slices = MakeSlices(load);
  listening(socket.endpoint());
  for (;;) {
    zmq::message_t peer, message;
    CHECK(socket.get().recv(peer) && socket.get().recv(message));
    socket.get().send(peer, zmq::send_flags::sndmore);
    uint32_t slice = 0;
    std::memcpy(&slice, message.data(), sizeof(slice));
    if (pulls && message.size() == kSmall) {
      SendSlice(socket.get(), slices.at(slice));
    } else {
      SendSmall(socket.get(), 0);
    }
  }
}

template <bool pulls>
class BareClient final : public WireClient {
 public:
  BareClient(const WireLoad& load, const std::string& endpoint)
      : context_(ZmqContext::Create(1).value()),
        socket_(Connect(context_, endpoint).value()),
        slices_(MakeSlices(load)) {}

  void Begin(size_t slice) override {
    if (pulls) SendSlice(socket_.get(), slices_[slice]);
    SendSmall(socket_.get(), static_cast<uint32_t>(slice));
  }
  void End() override {
    if (pulls) CHECK_EQ(Receive(), kSmall);
    CHECK_EQ(Receive(), pulls ? slices_[0].size() : kSmall);
  }

 private:
  size_t Receive() {
    zmq::message_t message;
    CHECK(socket_.get().recv(message));
    return message.size();
  }
  ZmqContext context_;
  ZmqSocket socket_;
  std::vector<Payload> slices_;
};

template <bool pulls>
std::unique_ptr<WireClient> Dial(const WireLoad& load, const std::string& endpoint) {
  return std::make_unique<BareClient<pulls>>(load, endpoint);
}

}  // namespace

WireSides BareZmqSides() { return {"bare ZeroMQ", Serve<true>, Dial<true>}; }
WireSides BareZmqProbeSides() { return {"bare ZeroMQ", Serve<false>, Dial<false>}; }

}  // namespace downpour
