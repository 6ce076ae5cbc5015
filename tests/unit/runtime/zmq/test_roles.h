// Roles for driver tests, and a driver that runs one on a thread of its own.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <variant>

#include "runtime/zmq/driver.h"
#include "schema/codec.h"

namespace downpour {

// A role made of a function.
class FunctionRole final : public Role {
 public:
  using Handler = std::function<void(Input&, Effects&)>;
  explicit FunctionRole(Handler handler) : handler_(std::move(handler)) {}
  void Step(Time, Input input, Effects& effects) override { handler_(input, effects); }

 private:
  Handler handler_;
};

template <typename Kind>
const Kind* As(const Input& input) {
  const auto* received = std::get_if<Received>(&input);
  return received == nullptr ? nullptr : std::get_if<Kind>(&received->message);
}
inline PeerId From(const Input& input) { return std::get<Received>(input).from; }

inline PullReply ReplyOf(uint64_t request, Payload values) {
  PullReply reply;
  reply.request = request;
  reply.slices.resize(1);
  reply.slices[0].values = std::move(values);
  return reply;
}

// Answers a Pull with as many replies as it names slices, of 1 MiB each, and a StatusRequest with what it counted;
// leaves with code 7 when told to.
class EchoRole final : public Role {
 public:
  void Step(Time, Input input, Effects& effects) override {
    if (std::holds_alternative<Tick>(input)) ++ticks;
    if (std::holds_alternative<Malformed>(input)) ++malformed;
    if (const Pull* pull = As<Pull>(input)) {
      for (size_t i = 0; i < pull->slices.size(); ++i) effects.SendTo(From(input), ReplyOf(i, megabyte_));
    }
    if (const Push* push = As<Push>(input)) {
      effects.SendTo(From(input), ReplyOf(push->step, push->slices.at(0).gradient));
    }
    if (As<StatusRequest>(input) != nullptr) {
      effects.SendTo(From(input), StatusReply{std::to_string(ticks) + " " + std::to_string(malformed)});
    }
    if (As<Leave>(input) != nullptr) effects.Add(Exit{7, "told to leave"});
  }

 private:
  Payload megabyte_ = Payload::Zeros(kMaxFrameBytes);
  int ticks = 0;
  int malformed = 0;
};

// A driver running a role on a thread of its own; join() gives its exit code.
class Running {
 public:
  Running(const std::string& listen, std::unique_ptr<Role> role, DriverWorld world = {},
          std::optional<KeyRing> keys = std::nullopt, std::string keys_folder = "")
      : role_(std::move(role)) {
    if (world.mailbox == nullptr) world.mailbox = &mailbox_;
    driver_ = ZmqDriver::Open({.listen = listen, .keys = std::move(keys), .keys_folder = std::move(keys_folder)}, world)
                  .value();
    endpoint_ = driver_->endpoint();
    thread_ = std::thread([this] {
      exit_code_ = driver_->Run(*role_);
      driver_.reset();
    });
  }
  ~Running() {
    if (thread_.joinable()) thread_.join();
  }
  int join() {
    thread_.join();
    return exit_code_;
  }
  const std::string& endpoint() const { return endpoint_; }

 private:
  Mailbox mailbox_;
  std::unique_ptr<Role> role_;
  std::unique_ptr<ZmqDriver> driver_;
  std::string endpoint_;
  int exit_code_ = -1;
  std::thread thread_;
};

inline Pull PullOf(size_t slices) {
  Pull pull;
  pull.slices.resize(slices);
  return pull;
}

}  // namespace downpour
