#include "runtime/zmq/zap_handler.h"

#include <chrono>
#include <iterator>
#include <utility>
#include <vector>
#include <zmq_addon.hpp>

#include "absl/strings/str_cat.h"
#include "runtime/zmq/monitor.h"

namespace downpour {
namespace {

constexpr const char* kAddress = "inproc://zeromq.zap.01";
constexpr const char* kVersion = "1.0";
constexpr size_t kKeyBytes = 32;
constexpr Duration kRefusedWithin = 30s;  // at once; on a machine that hardly gets on, at some time

// The parts of a question.
enum Part : size_t { kTheVersion, kRequest, kDomain, kFrom, kRoutingId, kMechanism, kKey, kParts };

// The key in Z85; empty: this is no question about a key.
std::string KeyOf(const std::vector<zmq::message_t>& question) {
  if (question.size() != kParts || question[kTheVersion].to_string_view() != kVersion) return "";
  if (question[kMechanism].to_string_view() != "CURVE" || question[kKey].size() != kKeyBytes) return "";
  char text[kKeyBytes / 4 * 5 + 1];
  return zmq_z85_encode(text, question[kKey].data<uint8_t>(), kKeyBytes);
}

// Our keys, but for our own, which is drawn at each start.
KeyRing AsAStranger(const KeyRing& keys) {
  KeyRing stranger = keys;
  stranger.known[static_cast<size_t>(keys.self)] = {keys.own.public_key};  // dials this very process
  stranger.own = MakeCurvePair();
  return stranger;
}

}  // namespace

absl::StatusOr<ZapHandler> ZapHandler::Open(ZmqContext& context, std::function<bool(const std::string&)> lets_in) {
  try {
    zmq::socket_t socket(context.get(), zmq::socket_type::rep);
    socket.set(zmq::sockopt::linger, 0);
    socket.bind(kAddress);
    return ZapHandler(std::move(socket), std::move(lets_in));
  } catch (const zmq::error_t& error) {
    return absl::FailedPreconditionError(absl::StrCat("nobody can decide whom to let in: ", error.what()));
  }
}

bool ZapHandler::Serve() {
  for (int i = 0; i < kBurst; ++i) {
    std::vector<zmq::message_t> question;
    if (!zmq::recv_multipart(socket_, std::back_inserter(question), zmq::recv_flags::dontwait)) return true;
    const std::string key = KeyOf(question);
    const bool in = !key.empty() && lets_in_(key);
    if (!in && question.size() > kFrom) last_refused_ = question[kFrom].to_string();
    const std::string request = question.size() > kRequest ? question[kRequest].to_string() : "";
    const std::string parts[] = {kVersion, request, in ? "200" : "400", in ? "OK" : "key unknown", in ? key : "", ""};
    for (const std::string& part : parts) {
      socket_.send(zmq::buffer(part), &part == std::end(parts) - 1 ? zmq::send_flags::none : zmq::send_flags::sndmore);
    }
  }
  return false;
}

absl::Status ProveStrangersAreRefused(ZmqContext& context, const std::string& endpoint, const KeyRing& keys,
                                      ZapHandler& zap) {
  const KeyRing stranger = AsAStranger(keys);
  absl::StatusOr<WatchedSocket> knock = ConnectWatched(context, endpoint, &stranger, keys.self);
  if (!knock.ok()) return knock.status();
  const auto until = std::chrono::steady_clock::now() + kRefusedWithin;
  while (std::chrono::steady_clock::now() < until) {
    zmq::pollitem_t items[] = {{zap.socket(), 0, ZMQ_POLLIN, 0}, {knock->monitor.socket(), 0, ZMQ_POLLIN, 0}};
    zmq_poll(items, 2, 100);
    zap.Serve();
    const ZmqMonitor::Event event = knock->monitor.Next();
    if (event == ZmqMonitor::Event::kKeyRefused) return absl::OkStatus();
    if (event != ZmqMonitor::Event::kShookHands && event != ZmqMonitor::Event::kNoCommonSpeech) continue;
    return absl::PermissionDeniedError(absl::StrCat("will not listen on ", endpoint,
                                                    event == ZmqMonitor::Event::kShookHands
                                                        ? ": a process with a key that nobody knows was let in"
                                                        : ": whoever listens there asks for no keys"));
  }
  return absl::PermissionDeniedError(
      absl::StrCat("will not listen on ", endpoint, ": it could not be shown that a key that nobody knows is refused"));
}

}  // namespace downpour
