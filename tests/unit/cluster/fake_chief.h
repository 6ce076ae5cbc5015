// A thread that listens like a chief and answers StatusRequests, or whatever is said, for tests of those who ask.
#pragma once

#include <glog/logging.h>
#include <zmq.h>

#include <atomic>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "runtime/zmq/frames.h"
#include "schema/codec.h"

namespace downpour {

class FakeChief {
 public:
  // `answer` runs on the chief's thread, once per request.
  explicit FakeChief(std::function<std::vector<Payload>()> answer)
      : FakeChief([answer = std::move(answer)](const Message& said) {
          CHECK(std::holds_alternative<StatusRequest>(said));
          return answer();
        }) {}
  explicit FakeChief(std::function<std::vector<Payload>(const Message&)> answer)
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
  // To whoever asked last, unasked, from the next look on.
  void Say(std::vector<Payload> words) {
    std::lock_guard lock(mutex_);
    unasked_ = std::move(words);
  }
  StatusRequest last_request() {
    std::lock_guard lock(mutex_);
    return last_request_;
  }

 private:
  void Serve() {
    while (!stop_) {
      zmq_pollitem_t item = {channel_.socket().get(), 0, ZMQ_POLLIN, 0};
      zmq_poll(&item, 1, 10);
      std::string peer;
      std::vector<Payload> frames;
      if (channel_.Receive(&peer, &frames) != ZmqChannel::Receipt::kMessage) {
        std::lock_guard lock(mutex_);
        if (!unasked_.empty()) channel_.Send(last_peer_, std::exchange(unasked_, {}));
        continue;
      }
      const Message message = Decode(frames).value();
      if (const auto* request = std::get_if<StatusRequest>(&message)) {
        std::lock_guard lock(mutex_);
        last_request_ = *request;
        last_peer_ = peer;
        if (last_request_.knows_end) continue;
      }
      if (const std::vector<Payload> reply = answer_(message); !reply.empty()) channel_.Send(peer, reply);
    }
  }

  ZmqContext context_;
  ZmqChannel channel_;
  const std::string endpoint_;
  std::function<std::vector<Payload>(const Message&)> answer_;
  std::atomic<bool> stop_ = false;
  std::mutex mutex_;
  std::vector<Payload> unasked_;
  std::string last_peer_;
  StatusRequest last_request_;
  std::thread thread_;
};

}  // namespace downpour
