// A peer with bad intentions, for tests/process/test_keys.py and bench/bench_flood. It says what came of it on stdout.
//
//   hostile knock ENDPOINT KEYS ROLE DOOR     shakes hands with a key that nobody knows
//   hostile say ENDPOINT KEYS ROLE DOOR       says one of each kind of message, then asks to join under odd names
//   hostile oversize ENDPOINT KEYS ROLE DOOR  sends a frame above the limit, and a message of too many frames
//   hostile endless ENDPOINT KEYS ROLE DOOR   sends a message of a million frames until it is cut off
//   hostile stop ENDPOINT KEYS ROLE DOOR RUN TERM   tells the chief to end the job, as `downpour stop` does
//   hostile flood-WHAT ENDPOINT KEYS ROLE DOOR RUN TERM   over four connections, as fast as it can, until it is killed:
//     knocks as above, messages without end, or joins, heartbeats, statuses, probes, pulls, pushes of the wrong shape
//     or repeats of right ones, which are of no use to anybody
//
// ROLE is whose keys it has, DOOR who listens there: chief or ps. RUN and TERM are those of the job, as its status has
// them: what is said in another run is dropped at the first look, and what names another epoch at the second.

#include <iostream>
#include <string>
#include <thread>
#include <utility>
#include <vector>
#include <zmq.hpp>

#include "runtime/posix/keys.h"
#include "runtime/zmq/frames.h"
#include "runtime/zmq/monitor.h"
#include "runtime/zmq/sockets.h"
#include "schema/codec.h"

namespace downpour {
namespace {

constexpr Duration kToLeave = 10s;  // what is sent last still goes out
constexpr int kConnections = 4;
constexpr int kBurst = 64;

struct Target {
  std::string endpoint;
  KeyRing keys;
  PeerRole door;
  uint64_t run = 0;
  uint32_t term = 1;
  ZmqContext context = ZmqContext::Create(1).value();

  ZmqChannel Dial(const KeyRing& as) {
    return ZmqChannel(Connect(context, endpoint, &as, door).value(), ZmqChannel::Side::kDialler);
  }
  SliceEpoch First() const { return {term, 1}; }
  // Of whom nobody has heard. A viewer may not speak in any name.
  Incarnation Nobody() const {
    return keys.self == PeerRole::kViewer ? Incarnation::kNone : Incarnation{uint64_t{term} << 32 | 999'999};
  }
  KeyRing Stranger() const {
    KeyRing stranger = keys;
    stranger.own = MakeCurvePair();
    return stranger;
  }
};

void Send(ZmqChannel& channel, const std::vector<Payload>& frames) {
  while (channel.Send("", frames) == ZmqChannel::Sending::kBusy) {
    zmq::pollitem_t item{channel.socket().get(), 0, ZMQ_POLLOUT, 0};
    zmq_poll(&item, 1, -1);
  }
}

void Knock(Target& target) {
  const KeyRing stranger = target.Stranger();
  auto [socket, monitor] = ConnectWatched(target.context, target.endpoint, &stranger, target.door).value();
  while (true) {
    zmq::pollitem_t item{monitor.socket(), 0, ZMQ_POLLIN, 0};
    zmq_poll(&item, 1, -1);
    const ZmqMonitor::Event event = monitor.Next();
    if (event == ZmqMonitor::Event::kKeyRefused) return void(std::cout << "refused\n");
    if (event == ZmqMonitor::Event::kShookHands) return void(std::cout << "let in\n");
  }
}

template <size_t... i>
std::vector<Message> OneOfEach(std::index_sequence<i...>) {
  return {std::variant_alternative_t<i, MessageKinds>()...};
}

void Say(Target& target) {
  ZmqChannel channel = target.Dial(target.keys);
  for (const Message& message : OneOfEach(std::make_index_sequence<std::variant_size_v<MessageKinds>>())) {
    Send(channel, Encode(message));
  }
  for (const std::string name : {"../../escape", "/etc/passwd", "", "a\nb", "x/../../y"}) {
    Join join{.index = 99, .host = name, .endpoint = name, .launcher = name, .device = name};
    join.role = target.keys.self == PeerRole::kPs ? TaskRole::kPs : TaskRole::kWorker;
    Send(channel, Encode(join));
  }
  channel.socket().Close(kToLeave);
  std::cout << "said\n";
}

void Oversize(Target& target) {
  for (const auto& frames : {std::vector<Payload>{Payload::Zeros(kMaxHeaderBytes + kMaxFrameBytes + 1)},
                             std::vector<Payload>(kMaxFrames + 10, Payload::Zeros(64))}) {
    ZmqChannel channel = target.Dial(target.keys);
    Send(channel, frames);
    channel.socket().Close(kToLeave);
  }
  std::cout << "sent\n";
}

// What is said over one connection is heard in its order. So a status tells that the command had no answer.
void Stop(Target& target) {
  ZmqChannel channel = target.Dial(target.keys);
  Send(channel, Encode(Control{.term = target.term, .number = 1, .nonce = 7, .kind = ControlKind::kStop}));
  Send(channel, Encode(StatusRequest{}));
  while (true) {
    std::string peer;
    std::vector<Payload> answer;
    if (channel.Receive(&peer, &answer) == ZmqChannel::Receipt::kNothing) {
      zmq::pollitem_t item{channel.socket().get(), 0, ZMQ_POLLIN, 0};
      zmq_poll(&item, 1, -1);
      continue;
    }
    const absl::StatusOr<Message> message = Decode(answer);
    if (message.ok() && std::holds_alternative<ControlReply>(*message)) return void(std::cout << "answered\n");
    if (message.ok() && std::holds_alternative<StatusReply>(*message)) return void(std::cout << "unanswered\n");
  }
}

// The frames are all one array, so that it is the other side whose memory they fill.
void Endless(Target& target) {
  static char kilobyte[1024];
  auto [socket, monitor] = ConnectWatched(target.context, target.endpoint, &target.keys, target.door).value();
  for (int i = 0; i < 1'000'000; ++i) {
    zmq_msg_t frame;
    zmq_msg_init_data(&frame, kilobyte, sizeof(kilobyte), nullptr, nullptr);
    zmq_msg_send(&frame, socket.get().handle(), i < 999'999 ? ZMQ_SNDMORE : 0);
  }
  for (ZmqMonitor::Event event{}; event != ZmqMonitor::Event::kEnded; event = monitor.Next()) {
    zmq::pollitem_t item{monitor.socket(), 0, ZMQ_POLLIN, 0};
    zmq_poll(&item, 1, -1);
  }
  std::cout << "cut off\n";
}

// Reads whatever is answered, so that nothing but the door slows it down, and says when the first answer came.
void Flood(Target& target, const Message& message) {
  const std::vector<Payload> frames = Encode(message, target.run);
  std::vector<ZmqChannel> channels;
  for (int i = 0; i < kConnections; ++i) channels.push_back(target.Dial(target.keys));
  bool answered = false;
  while (true) {
    std::vector<zmq::pollitem_t> items;
    for (ZmqChannel& channel : channels) {
      std::string peer;
      std::vector<Payload> answer;
      for (int i = 0; i < kBurst && channel.Send("", frames) == ZmqChannel::Sending::kSent; ++i) continue;
      for (int i = 0; i < kBurst && channel.Receive(&peer, &answer) != ZmqChannel::Receipt::kNothing; ++i) {
        if (!std::exchange(answered, true)) std::cout << "answered" << std::endl;
      }
      items.push_back({channel.socket().get(), 0, ZMQ_POLLIN | ZMQ_POLLOUT, 0});
    }
    zmq_poll(items.data(), kConnections, -1);
  }
}

void FloodWith(Target& target, void (*deed)(Target&)) {
  std::vector<std::thread> threads;
  for (int i = 0; i < kConnections; ++i) {
    threads.emplace_back([&] {
      while (true) deed(target);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

void FloodKnocks(Target& target) { FloodWith(target, Knock); }
void FloodEndless(Target& target) { FloodWith(target, Endless); }
void FloodJoins(Target& target) {
  Join join;
  join.index = 99;
  join.nonce = 1;
  Flood(target, join);
}
void FloodHeartbeats(Target& target) {
  Heartbeat heartbeat;
  heartbeat.from = target.Nobody();
  Flood(target, heartbeat);
}
void FloodStatuses(Target& target) { Flood(target, StatusRequest{}); }
void FloodProbes(Target& target) {
  Flood(target, Probe{target.Nobody(), LeaseId{0}, {{SliceId{0}, target.First()}, {SliceId{1}, target.First()}}});
}
void FloodPulls(Target& target) {
  Flood(target, Pull{target.Nobody(), 1, {{SliceId{0}, target.First(), {}}, {SliceId{1}, target.First(), {}}}});
}
void FloodPushes(Target& target) {
  const Payload too_long = Payload::Zeros(kMaxFrameBytes);
  Flood(target, Push{target.Nobody(), LeaseId{0}, 1, {{SliceId{0}, target.First(), Version{}, too_long}}});
}
// Of a step that counted long ago.
void FloodRepeats(Target& target) {
  Push push{target.Nobody(), LeaseId{0}, 1, {}};
  for (const uint32_t slice : {0, 1}) push.slices.push_back({SliceId{slice}, target.First(), Version{}, Payload()});
  Flood(target, push);
}

int Main(const std::vector<std::string>& args) {
  constexpr std::pair<const char*, void (*)(Target&)> kDeeds[] = {
      {"knock", Knock},
      {"say", Say},
      {"oversize", Oversize},
      {"endless", Endless},
      {"stop", Stop},
      {"flood-knocks", FloodKnocks},
      {"flood-endless", FloodEndless},
      {"flood-joins", FloodJoins},
      {"flood-heartbeats", FloodHeartbeats},
      {"flood-statuses", FloodStatuses},
      {"flood-probes", FloodProbes},
      {"flood-pulls", FloodPulls},
      {"flood-pushes", FloodPushes},
      {"flood-repeats", FloodRepeats},
  };
  for (const auto& [name, deed] : kDeeds) {
    const bool has_run = args.size() == 7;
    if ((args.size() != 5 && !has_run) || args[0] != name) continue;
    for (const PeerRole role : kAllPeerRoles) {
      if (args[3] != NameOf(role)) continue;
      const PeerRole door = args[4] == NameOf(PeerRole::kPs) ? PeerRole::kPs : PeerRole::kChief;
      Target target{args[1], LoadKeys(args[2], role).value(), door};
      if (has_run) {
        target.run = std::stoull(args[5], nullptr, 16);
        target.term = static_cast<uint32_t>(std::stoul(args[6]));
      }
      deed(target);
      return 0;
    }
  }
  std::cerr << "hostile DEED ENDPOINT KEYS ROLE DOOR [RUN TERM]\n";
  return 2;
}

}  // namespace
}  // namespace downpour

int main(int argc, char** argv) { return downpour::Main({argv + 1, argv + argc}); }
