// bench_wire's measure of ZeroMQ itself: the same sockets with the same options, and nothing else.
#include <glog/logging.h>
#include <zmq.h>

#include <cstring>
#include <vector>

#include "runtime/zmq_sockets.h"
#include "schema/payload.h"
#include "tools/wire_sides.h"

namespace downpour {
namespace {

constexpr size_t kSmall = 64;  // a request to pull, an acknowledgement, a probe

void SendSmall(void* socket, uint32_t slice) {
  char bytes[kSmall] = {};
  std::memcpy(bytes, &slice, sizeof(slice));
  PCHECK(zmq_send(socket, bytes, sizeof(bytes), 0) >= 0);
}

// Lends the slice to ZeroMQ; it outlives every send.
void SendSlice(void* socket, const Payload& slice) {
  zmq_msg_t message;
  PCHECK(zmq_msg_init_data(
             &message, const_cast<std::byte*>(slice.data()), slice.size(), [](void*, void*) {}, nullptr) == 0);
  PCHECK(zmq_msg_send(&message, socket, 0) >= 0);
}

std::vector<Payload> MakeSlices(const WireLoad& load) {
  std::vector<Payload> slices;
  for (size_t i = 0; i < load.slices; ++i) slices.push_back(Payload::Zeros(load.slice_bytes));
  return slices;
}

// A slice is answered with a small message, a small one with the slice that it names, or in kind.
template <bool pulls>
void Serve(const WireLoad& load, const std::string& listen, const std::function<void(const std::string&)>& listening) {
  const ZmqContext context = ZmqContext::Create(1).value();
  const ZmqSocket socket = Listen(context, listen).value();
  const std::vector<Payload> slices = MakeSlices(load);
  listening(socket.endpoint());
  for (;;) {
    char peer[256];
    const int peer_bytes = zmq_recv(socket.get(), peer, sizeof(peer), 0);
    zmq_msg_t message;
    zmq_msg_init(&message);
    PCHECK(peer_bytes > 0 && zmq_msg_recv(&message, socket.get(), 0) >= 0);
    PCHECK(zmq_send(socket.get(), peer, static_cast<size_t>(peer_bytes), ZMQ_SNDMORE) > 0);
    uint32_t slice = 0;
    std::memcpy(&slice, zmq_msg_data(&message), sizeof(slice));
    if (pulls && zmq_msg_size(&message) == kSmall) {
      SendSlice(socket.get(), slices.at(slice));
    } else {
      SendSmall(socket.get(), 0);
    }
    zmq_msg_close(&message);
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
    zmq_msg_t message;
    zmq_msg_init(&message);
    PCHECK(zmq_msg_recv(&message, socket_.get(), 0) >= 0);
    const size_t bytes = zmq_msg_size(&message);
    zmq_msg_close(&message);
    return bytes;
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
