// A thread that listens like a chief and answers StatusRequests, for tests of those who ask.
#pragma once

#include <glog/logging.h>
#include <zmq.h>

#include <atomic>
#include <functional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "runtime/driver/zmq_frames.h"
#include "schema/codec.h"

namespace downpour {

class FakeChief {
 public:
  // `answer` runs on the chief's thread, once per request.
  explicit FakeChief(std::function<std::vector<Payload>()> answer)
      : context_(std::move(ZmqContext::Create(1)).value()),
        channel_(std::move(Listen(context_, "127.0.0.1:0")).value(), ZmqChannel::Side::kListener),
        endpoint_(channel_.socket().endpoint()),
        answer_(std::move(answer)),
        thread_([this] { Serve(); }) {}
  ~FakeChief() {
    stop_ = true;
    thread_.join();
  }

  const std::string& endpoint() const { return endpoint_; }

 private:
  void Serve() {
    while (!stop_) {
      zmq_pollitem_t item = {channel_.socket().get(), 0, ZMQ_POLLIN, 0};
      zmq_poll(&item, 1, 10);
      std::string peer;
      std::vector<Payload> frames;
      if (channel_.Receive(&peer, &frames) != ZmqChannel::Receipt::kMessage) continue;
      CHECK(std::holds_alternative<StatusRequest>(Decode(frames).value()));
      if (const std::vector<Payload> reply = answer_(); !reply.empty()) channel_.Send(peer, reply);
    }
  }

  ZmqContext context_;
  ZmqChannel channel_;
  const std::string endpoint_;
  std::function<std::vector<Payload>()> answer_;
  std::atomic<bool> stop_ = false;
  std::thread thread_;
};

}  // namespace downpour
