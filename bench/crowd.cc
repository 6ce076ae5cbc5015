// Simulated workers of a real chief: they join, beat twice a second and compute nothing. Then it asks for the status.
//
//   crowd ENDPOINT WORKERS ASKS     prints the median and the largest of ASKS answers' times in ms, and their bytes
//
// For bench/bench_service.

#include <poll.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <iostream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "runtime/zmq/frames.h"
#include "runtime/zmq/sockets.h"
#include "schema/codec.h"

namespace downpour {
namespace {

using Clock = std::chrono::steady_clock;
constexpr auto kBeatEvery = std::chrono::milliseconds(500);

struct Worker {
  ZmqChannel channel;
  Incarnation self = Incarnation::kNone;
  uint64_t run = 0;
};

// As much as a worker's heartbeat has.
TaskStats SomeStats() {
  TaskStats stats;
  stats.steps = 1000;
  stats.examples = 32'000;
  stats.pushes_acknowledged = 8000;
  stats.cpu_seconds = 12.5;
  stats.resident_bytes = 100 << 20;
  stats.bytes_in = stats.bytes_out = 1 << 30;
  stats.staleness.pushes = 8000;
  stats.staleness.sum = 16'000;
  stats.staleness.max = 40;
  stats.staleness.histogram.assign(32, 250);
  stats.waiting_for = "parameters from ps-0";
  return stats;
}

template <typename Take>
void TakeAll(ZmqChannel& channel, Take take) {
  std::string peer;
  std::vector<Payload> frames;
  while (channel.Receive(&peer, &frames) != ZmqChannel::Receipt::kNothing) {
    const absl::StatusOr<Message> message = Decode(frames);
    if (message.ok()) take(*message);
  }
}

// One round of all; how many are members.
size_t Beat(std::vector<Worker>& workers, uint64_t round) {
  size_t members = 0;
  for (size_t i = 0; i < workers.size(); ++i) {
    Worker& worker = workers[i];
    TakeAll(worker.channel, [&](const Message& message) {
      const auto* welcome = std::get_if<Welcome>(&message);
      if (welcome != nullptr) std::tie(worker.self, worker.run) = std::pair(welcome->you, welcome->run);
    });
    if (worker.self == Incarnation::kNone) {
      Join join;
      join.host = "crowd";
      join.nonce = i + 1;
      join.number = round;
      worker.channel.Send("", Encode(join));
    } else {
      Heartbeat beat;
      beat.from = worker.self;
      beat.stats = SomeStats();
      worker.channel.Send("", Encode(beat, worker.run));
      ++members;
    }
  }
  return members;
}

std::vector<double> Ask(ZmqContext& context, const std::string& endpoint, int asks, size_t* bytes) {
  ZmqChannel channel(Connect(context, endpoint, nullptr, PeerRole::kChief).value(), ZmqChannel::Side::kDialler);
  std::vector<double> times;
  for (int i = 0; i < asks; ++i) {
    const auto begun = Clock::now();
    while (channel.Send("", Encode(StatusRequest{})) != ZmqChannel::Sending::kSent) poll(nullptr, 0, 1);
    for (bool answered = false; !answered;) {
      zmq::pollitem_t item{channel.socket().get(), 0, ZMQ_POLLIN, 0};
      zmq_poll(&item, 1, -1);
      TakeAll(channel, [&](const Message& message) {
        const auto* reply = std::get_if<StatusReply>(&message);
        answered = answered || reply != nullptr;
        if (reply != nullptr) *bytes = reply->json.size();
      });
    }
    times.push_back(std::chrono::duration<double, std::milli>(Clock::now() - begun).count());
    poll(nullptr, 0, 50);
  }
  return times;
}

int Main(const std::string& endpoint, size_t count, int asks) {
  ZmqContext context = ZmqContext::Create(1).value();
  std::vector<Worker> workers;
  for (size_t i = 0; i < count; ++i) {
    workers.push_back(
        {ZmqChannel(Connect(context, endpoint, nullptr, PeerRole::kChief).value(), ZmqChannel::Side::kDialler)});
  }
  std::atomic<size_t> members = 0;
  std::atomic<bool> ended = false;
  std::thread beats([&] {
    for (uint64_t round = 0; !ended; ++round) {
      const auto next = Clock::now() + kBeatEvery;
      members = Beat(workers, round);
      std::this_thread::sleep_until(next);
    }
  });
  while (members < count) poll(nullptr, 0, 100);
  std::cout << "joined" << std::endl;
  size_t bytes = 0;
  std::vector<double> times = Ask(context, endpoint, asks, &bytes);
  std::sort(times.begin(), times.end());
  std::cout << times[times.size() / 2] << " " << times.back() << " " << bytes << std::endl;
  std::string word;
  std::getline(std::cin, word);  // beats on until it is told to end
  ended = true;
  beats.join();
  return 0;
}

}  // namespace
}  // namespace downpour

int main(int argc, char** argv) {
  if (argc == 4) return downpour::Main(argv[1], std::stoul(argv[2]), std::stoi(argv[3]));
  std::cerr << "crowd ENDPOINT WORKERS ASKS\n";
  return 2;
}
