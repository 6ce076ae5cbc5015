// bench_wire's own side: a real PsRole under the real driver, and the least that a worker says to it.
#include <glog/logging.h>
#include <poll.h>
#include <zmq.h>

#include <algorithm>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "bench/bench_job.h"
#include "bench/wire_flood.h"
#include "bench/wire_sides.h"
#include "job/job_file.h"
#include "job/slice_grid.h"
#include "ps/ps_role.h"
#include "runtime/member_session.h"
#include "runtime/zmq/driver.h"
#include "schema/codec.h"

namespace downpour {
namespace {

constexpr Incarnation kPs{1}, kWorker{2};
constexpr SliceEpoch kEpoch{1, 1};
constexpr LeaseId kLease{0};
constexpr uint64_t kSteps = 1'000'000;  // of the one lease

// A model whose variables are a slice each, as the load says.
JobSpec MakeJob(const WireLoad& load) {
  JobSpec job = JobOfVariables(static_cast<int64_t>(load.slices), static_cast<int64_t>(load.slice_bytes / 4));
  job.training.lease_batches = kSteps;
  job.training.optimizer.learning_rate = 1e-6;
  return job;
}

// A PsRole that was told all that a chief would tell it; nothing goes to that chief.
class PlacedPs final : public Role {
 public:
  explicit PlacedPs(const WireLoad& load) : load_(load), role_(Options()) {}

  void Step(Time now, Input input, Effects& effects) override {
    const bool starts = std::holds_alternative<Started>(input);
    const bool ticks = std::holds_alternative<Tick>(input);
    role_.Step(now, std::move(input), effects);
    if (starts) Place(now, effects);
    if (starts || ticks) effects.Take();  // dials, and messages to the chief
  }

 private:
  void Place(Time now, Effects& effects) {
    const JobSpec job = MakeJob(load_);
    const SliceGrid grid = GridOf(job.model).value();
    CHECK_EQ(grid.size(), load_.slices);
    CHECK_EQ(static_cast<size_t>(grid.slices[0].bytes()), load_.slice_bytes);
    Assign assign{.to = kPs, .train_examples = kSteps, .slices = {}};
    for (const Slice& slice : grid.slices) assign.slices.push_back({slice.id, kEpoch, SliceSource::kInitialValues});
    role_.Step(now, Received{MemberSession::kChief, Welcome{kPs, 1, "ps-0", CanonicalJob(job)}}, effects);
    role_.Step(now, Received{MemberSession::kChief, std::move(assign)}, effects);
    while (role_.Find(grid.slices.back().id) == nullptr) role_.Step(now, Tick{}, effects);
  }

  static PsOptions Options() {
    PsOptions options;
    options.member.timing.heartbeat = options.member.timing.dead_after = std::chrono::hours(1000);
    return options;
  }
  const WireLoad load_;
  PsRole role_;
};

// Drawn before the processes part, so that both know them.
struct WireKeys {
  KeyRing ps, worker;
};
const WireKeys& Keys() {
  static const WireKeys keys = [] {
    KeyRing ps{.self = PeerRole::kPs, .cluster = "bench", .own = MakeCurvePair(), .known = {}};
    KeyRing worker{.self = PeerRole::kWorker, .cluster = "bench", .own = MakeCurvePair(), .known = {}};
    ps.known[static_cast<size_t>(PeerRole::kWorker)] = {worker.own.public_key};
    worker.known[static_cast<size_t>(PeerRole::kPs)] = {ps.own.public_key};
    return WireKeys{ps, worker};
  }();
  return keys;
}

template <bool curve>
void ServePs(const WireLoad& load, const std::string& listen,
             const std::function<void(const std::string&)>& listening) {
  Mailbox mailbox;
  DriverOptions options;
  options.listen = listen;
  if (curve) options.keys = Keys().ps;
  DriverWorld world;
  world.mailbox = &mailbox;
  auto driver = ZmqDriver::Open(options, world).value();
  listening(driver->endpoint());
  PlacedPs role(load);
  driver->Run(role);
}

// A dialled connection on which one waits.
class WorkerEnd {
 public:
  WorkerEnd(const std::string& endpoint, const KeyRing* keys)
      : context_(ZmqContext::Create(1).value()),
        channel_(Connect(context_, endpoint, keys, PeerRole::kPs).value(), ZmqChannel::Side::kDialler) {}

  void Send(const Message& message) {
    const std::vector<Payload> frames = Encode(message);
    while (channel_.Send("", frames) != ZmqChannel::Sending::kSent) {
      zmq_pollitem_t item{channel_.socket().get(), 0, ZMQ_POLLOUT, 0};
      PCHECK(zmq_poll(&item, 1, -1) >= 0);
    }
  }
  Message Receive() {
    while (channel_.Receive(&peer_, &frames_) == ZmqChannel::Receipt::kNothing) {
      pollfd item{channel_.fd(), POLLIN, 0};
      PCHECK(poll(&item, 1, -1) > 0);
    }
    Message message = Decode(frames_).value();
    frames_.clear();
    return message;
  }

 private:
  ZmqContext context_;
  ZmqChannel channel_;
  std::string peer_;
  std::vector<Payload> frames_;
};

class PushPullClient final : public WireClient {
 public:
  PushPullClient(const WireLoad& load, const std::string& endpoint, const KeyRing* keys = nullptr)
      : load_(load), end_(endpoint, keys), steps_(load.slices) {
    for (size_t i = 0; i < load.slices; ++i) {
      Payload gradient = Payload::Allocate(load.slice_bytes);
      std::fill_n(gradient.mutable_floats().data(), gradient.floats().size(), 1e-3f);
      gradients_.push_back(std::move(gradient));
    }
  }

  void Begin(size_t slice) override {
    const SliceId id{static_cast<uint32_t>(slice)};
    const Step step = ++steps_[slice];
    end_.Send(Push{kWorker, kLease, step, {{id, kEpoch, Version{kEpoch, step - 1}, gradients_[slice]}}});
    end_.Send(Pull{kWorker, step, {{id, kEpoch, Version{}}}});
  }

  void End() override {
    const Message pushed = end_.Receive();
    const PushReply::Item& answer = std::get<PushReply>(pushed).slices.at(0);
    const Message pulled = end_.Receive();
    const PullReply::Item& values = std::get<PullReply>(pulled).slices.at(0);
    CHECK(answer.refusal == SliceRefusal::kNone && values.values.size() == load_.slice_bytes);
    CHECK_EQ(answer.consumed, std::get<PullReply>(pulled).request) << "a push was lost or came twice";
  }

 private:
  const WireLoad load_;
  WorkerEnd end_;
  std::vector<Payload> gradients_;
  std::vector<Step> steps_;  // begun, by slice
};

class FloodedClient final : public WireClient {
 public:
  FloodedClient(const WireLoad& load, const std::string& endpoint)
      : client_(load, endpoint, &Keys().worker), endpoint_(endpoint) {}
  void Begin(size_t slice) override {
    if (open_++ == 0) flood_.emplace(endpoint_, Keys().worker);
    client_.Begin(slice);
  }
  void End() override {
    client_.End();
    if (--open_ == 0) flood_.reset();
  }

 private:
  PushPullClient client_;
  const std::string endpoint_;
  std::optional<WireFlood> flood_;
  size_t open_ = 0;
};

class ProbeClient final : public WireClient {
 public:
  explicit ProbeClient(const std::string& endpoint) : end_(endpoint, nullptr) {}
  void Begin(size_t slice) override {
    end_.Send(Probe{kWorker, kLease, {{SliceId{static_cast<uint32_t>(slice)}, kEpoch}}});
  }
  void End() override {
    const Message reply = end_.Receive();
    CHECK(std::get<PushReply>(reply).slices.at(0).refusal == SliceRefusal::kNone);
  }

 private:
  WorkerEnd end_;
};

}  // namespace

WireSides DownpourSides() {
  return {"downpour", ServePs<false>,
          [](const WireLoad& load, const std::string& endpoint) -> std::unique_ptr<WireClient> {
            return std::make_unique<PushPullClient>(load, endpoint);
          }};
}

WireSides DownpourCurveSides() {
  Keys();
  return {"with CURVE", ServePs<true>,
          [](const WireLoad& load, const std::string& endpoint) -> std::unique_ptr<WireClient> {
            return std::make_unique<PushPullClient>(load, endpoint, &Keys().worker);
          }};
}

WireSides FloodedSides() {
  Keys();
  return {"flooded", ServePs<true>,
          [](const WireLoad& load, const std::string& endpoint) -> std::unique_ptr<WireClient> {
            return std::make_unique<FloodedClient>(load, endpoint);
          }};
}

WireSides DownpourProbeSides() {
  return {"downpour", ServePs<false>, [](const WireLoad&, const std::string& endpoint) -> std::unique_ptr<WireClient> {
            return std::make_unique<ProbeClient>(endpoint);
          }};
}

}  // namespace downpour
