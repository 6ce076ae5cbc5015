#include "cluster/chief_client.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>
#include <variant>
#include <vector>
#include <zmq.hpp>

#include "absl/strings/str_cat.h"
#include "cluster/poll_timeout.h"
#include "runtime/posix/keys.h"
#include "runtime/posix/tcp_probe.h"
#include "schema/codec.h"
#include "schema/host_port.h"

namespace downpour {
namespace {

constexpr Duration kSayAgain = 1s;  // what was lost

Duration Left(std::chrono::steady_clock::time_point deadline) {
  return std::max<Duration>(Duration::zero(), deadline - std::chrono::steady_clock::now());
}

constexpr int kLastWordsMs = 1000;  // to get out

// As whom a person's tool goes by these keys. Whoever holds both kinds may do what a client may.
PeerRole AskerOf(const std::string& folder) {
  const std::vector<PeerRole> secrets = SecretsIn(folder);
  const auto holds = [&](PeerRole role) { return std::find(secrets.begin(), secrets.end(), role) != secrets.end(); };
  return !holds(PeerRole::kClient) && holds(PeerRole::kViewer) ? PeerRole::kViewer : PeerRole::kClient;
}

int64_t WholeSeconds(Duration d) { return std::chrono::duration_cast<std::chrono::seconds>(d).count(); }

}  // namespace

ChiefClient::ChiefClient(std::string endpoint, ZmqContext context, ZmqSocket socket, ZmqMonitor monitor,
                         std::optional<PeerRole> self)
    : endpoint_(std::move(endpoint)),
      context_(std::move(context)),
      self_(self),
      channel_(std::move(socket), ZmqChannel::Side::kDialler),
      monitor_(std::move(monitor)) {}

absl::StatusOr<ChiefClient> ChiefClient::Dial(const std::string& endpoint, const KeyRing* keys) {
  absl::StatusOr<ZmqContext> context = ZmqContext::Create(/*io_threads=*/1);
  if (!context.ok()) return context.status();
  absl::StatusOr<WatchedSocket> link = ConnectWatched(*context, endpoint, keys);
  if (!link.ok()) return link.status();
  const std::optional<PeerRole> self = keys != nullptr ? std::optional(keys->self) : std::nullopt;
  return ChiefClient(endpoint, *std::move(context), std::move(link->socket), std::move(link->monitor), self);
}

absl::StatusOr<ChiefClient> ChiefClient::DialWithKeysIn(const std::string& folder, const std::string& endpoint) {
  const absl::StatusOr<std::optional<KeyRing>> keys = KeysIn(folder, AskerOf(folder));
  if (!keys.ok()) return keys.status();
  return Dial(endpoint, keys->has_value() ? &**keys : nullptr);
}

bool ChiefClient::Say(const Message& message) {
  return channel_.Send("", Encode(message)) == ZmqChannel::Sending::kSent;
}

bool ChiefClient::TryAsk() {
  return Say(StatusRequest{.again_in_ms = static_cast<uint64_t>(again_in_ / 1ms), .secret = secret_});
}

absl::StatusOr<std::optional<std::string>> ChiefClient::TryTake() {
  // All of them, or they fill up, and ZeroMQ dials no more.
  for (ZmqMonitor::Event event = monitor_.Next(); event != ZmqMonitor::Event::kNone; event = monitor_.Next()) {
    key_refused_ |= event == ZmqMonitor::Event::kKeyRefused;
  }
  if (key_refused_) return absl::PermissionDeniedError(absl::StrCat("the chief at ", endpoint_, " refuses our key"));
  absl::StatusOr<std::optional<StatusReply>> reply = Take<StatusReply>();
  if (!reply.ok()) return reply.status();
  return reply->has_value() ? std::optional(std::move((*reply)->json)) : std::nullopt;
}

template <typename Reply>
absl::StatusOr<std::optional<Reply>> ChiefClient::Take() {
  std::string peer;
  std::vector<Payload> frames;
  while (channel_.Receive(&peer, &frames) != ZmqChannel::Receipt::kNothing) {
    absl::StatusOr<Message> message = Decode(frames);
    if (!message.ok()) continue;
    if (auto* reply = std::get_if<Reply>(&*message)) return std::move(*reply);
    if (auto* refused = std::get_if<Refused>(&*message)) {
      const std::string why = absl::StrCat("the chief at ", endpoint_, " refuses: ", refused->why);
      if (refused->code != RefusalCode::kSecretWanted) return absl::FailedPreconditionError(why);
      return absl::UnauthenticatedError(secret_.empty() ? why + ". Give --job-dir DIR, that folder, in place of --chief"
                                                        : why + ", which is another one than ours");
    }
  }
  return std::nullopt;
}

// ZeroMQ does not say why an attempt failed, so one is made without it. Nothing: somebody takes the call now.
std::optional<ChiefClient::NoAnswer> ChiefClient::WhyNoConnection() const {
  const std::optional<HostPort> address = ParseHostPort(endpoint_);
  if (!address) return NoAnswer{"nobody listens there"};
  const TcpProbe probe = TryToConnect(*address);
  if (!probe.no_address.empty()) return NoAnswer{absl::StrCat(address->host, ": ", probe.no_address)};
  return probe.ok() ? std::nullopt : std::optional(NoAnswer{WhyOf(probe)});
}

// The kernel takes calls for a process that stands still.
ChiefClient::NoAnswer ChiefClient::WhySilent(bool connected, Duration timeout) const {
  if (std::optional<NoAnswer> why = connected ? std::nullopt : WhyNoConnection()) return *why;
  return {absl::StrCat("connected, but no answer in ", WholeSeconds(timeout), " s"),
          "It may be stopped (SIGSTOP) or very busy, or is no chief"};
}

ChiefClient::NoAnswer ChiefClient::HungUp() const {
  const std::string why = "somebody listens there, and hangs up";
  if (self_) return {why, "It has no keys, or those of another cluster than --keys, or is no chief"};
  return {why, "A chief that wants keys does that: add --keys=DIR, the folder of its cluster's keys"};
}

std::optional<ChiefClient::NoAnswer> ChiefClient::WaitOrFail(bool to_send, Duration timeout) {
  zmq::pollitem_t items[] = {{channel_.socket().get(), 0, static_cast<short>(to_send ? ZMQ_POLLOUT : ZMQ_POLLIN), 0},
                             {monitor_.socket(), 0, ZMQ_POLLIN, 0}};
  zmq_poll(items, 2, PollTimeout(timeout));
  return items[0].revents != 0 ? std::nullopt : WhyFailed(monitor_.Next());
}

std::optional<ChiefClient::NoAnswer> ChiefClient::WhyFailed(ZmqMonitor::Event event) {
  switch (event) {
    case ZmqMonitor::Event::kNotConnected:
      return WhyNoConnection();
    case ZmqMonitor::Event::kKeyRefused:
      return NoAnswer{"it does not know our key", "Give --keys=DIR, the folder of its cluster's keys"};
    case ZmqMonitor::Event::kNoCommonSpeech:
      return HungUp();
    case ZmqMonitor::Event::kHungUp:  // once is what a chief does that is killed
      return ++hang_ups_ < 2 ? std::nullopt : std::optional(HungUp());
    default:
      return std::nullopt;
  }
}

absl::StatusOr<std::string> ChiefClient::AskStatus(Duration timeout) {
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  KeepLastWord();
  const std::optional<std::string> said_before = std::exchange(last_word_, std::nullopt);
  const auto give_up = [&](const NoAnswer& why) {
    return said_before ? absl::StatusOr<std::string>(*said_before) : Unreachable(why);
  };
  bool asked = TryAsk();
  while (true) {
    if (asked) {
      absl::StatusOr<std::optional<StatusReply>> answer = Take<StatusReply>();
      if (!answer.ok()) return answer.status();
      if (answer->has_value()) return std::move((*answer)->json);
    }
    if (Left(deadline) == Duration::zero()) return give_up(WhySilent(/*connected=*/asked, timeout));
    if (const auto why = WaitOrFail(/*to_send=*/!asked, Left(deadline))) return give_up(*why);
    asked = asked || TryAsk();
  }
}

// Of what came unasked, or too late to be an answer.
void ChiefClient::KeepLastWord() {
  while (true) {
    absl::StatusOr<std::optional<StatusReply>> word = Take<StatusReply>();
    if (!word.ok() || !word->has_value()) return;
    last_word_ = std::move((*word)->json);
  }
}

// What was said is taken at once: with its connection it might be gone.
void ChiefClient::WaitForNews(Duration timeout) {
  zmq::pollitem_t item = {channel_.socket().get(), 0, ZMQ_POLLIN, 0};
  zmq_poll(&item, 1, PollTimeout(timeout));
  KeepLastWord();
}

void ChiefClient::TakeLeave() {
  Say(StatusRequest{.knows_end = true, .secret = secret_});
  channel_.socket().get().set(zmq::sockopt::linger, kLastWordsMs);
}

absl::StatusOr<ControlReply> ChiefClient::Tell(Control command, Duration timeout) {
  command.secret = secret_;
  if (self_ == PeerRole::kViewer) {  // else the chief would drop it unanswered
    return absl::PermissionDeniedError(
        "these keys are a viewer's, who may only look; a command needs a client's: downpour keys issue client");
  }
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  auto next_copy = std::chrono::steady_clock::now();
  bool said = false;
  while (true) {
    absl::StatusOr<std::optional<ControlReply>> reply = Take<ControlReply>();
    if (!reply.ok()) return reply.status();
    if (reply->has_value() && (*reply)->nonce == command.nonce) return **std::move(reply);
    if (Left(deadline) == Duration::zero()) return Unreachable(WhySilent(/*connected=*/said, timeout));
    bool due = Left(next_copy) == Duration::zero();
    if (due && Say(command)) {
      said = true;
      due = false;
      next_copy = std::chrono::steady_clock::now() + kSayAgain;
    }
    const Duration wait = due ? Left(deadline) : std::min(Left(deadline), Left(next_copy));
    if (const auto why = WaitOrFail(/*to_send=*/due, wait)) return Unreachable(*why);
  }
}

absl::Status ChiefClient::ShakeHands(Duration timeout) {
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  zmq::pollitem_t item = {monitor_.socket(), 0, ZMQ_POLLIN, 0};
  do {
    zmq_poll(&item, 1, PollTimeout(Left(deadline)));
    const ZmqMonitor::Event event = monitor_.Next();
    if (event == ZmqMonitor::Event::kShookHands) return absl::OkStatus();
    if (const auto why = WhyFailed(event)) return Unreachable(*why);
  } while (Left(deadline) > Duration::zero());
  return Unreachable(WhySilent(/*connected=*/false, timeout));
}

absl::Status ChiefClient::Unreachable(const NoAnswer& found) const {
  const std::string start =
      absl::StrCat("Is it running? A chief is started by downpour run, or by downpour-chief --listen=", endpoint_);
  return absl::UnavailableError(absl::StrCat("cannot reach the chief at ", endpoint_, " (", found.why, "). ",
                                             found.advice.empty() ? start : found.advice));
}

}  // namespace downpour
