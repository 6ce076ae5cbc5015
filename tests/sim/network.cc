#include "tests/sim/network.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "schema/codec.h"

namespace downpour {
namespace {

using std::chrono_literals::operator""us;

// Received memory: 8-aligned and never 16-aligned, as ZeroMQ hands out large frames.
Payload AsReceived(const Payload& frame) {
  auto memory = std::make_shared<std::vector<std::byte>>(frame.size() + 64);
  const size_t past = reinterpret_cast<uintptr_t>(memory->data()) % 64;
  std::byte* begin = memory->data() + (64 - past) % 64 + 8;
  std::copy_n(frame.data(), frame.size(), begin);
  return Payload::Adopt(begin, frame.size(), [memory] {});
}

bool SameBytes(const std::vector<Payload>& a, const std::vector<Payload>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const Payload& x, const Payload& y) { return x.bytes() == y.bytes(); });
}

}  // namespace

std::string NetworkFaults::ToString() const {
  return absl::StrCat("delay=", delay / 1us, "us spread=", spread / 1us, "us straggle=", straggle, " loss=", loss,
                      " duplicate=", duplicate, " echo=", echo, " in_order=", in_order, " codec=", codec,
                      " outlive=", outlive);
}

Network::Network(NetworkFaults faults, uint64_t seed, EventQueue* events, Findings* findings, Deliver deliver)
    : faults_(faults), prng_(seed), events_(events), findings_(findings), deliver_(std::move(deliver)) {}

bool Network::Deal(double chance, const char* kind) {
  if (!prng_.Chance(chance)) return false;
  ++faults_dealt_[kind];
  return true;
}

void Network::Listen(Life server, const std::string& endpoint) { listeners_[endpoint] = server; }

Life Network::ListenerAt(const std::string& endpoint) const {
  const auto found = listeners_.find(endpoint);
  return found == listeners_.end() ? Life::kNone : found->second;
}

void Network::Dial(Life dialer, PeerId peer, const std::string& endpoint) {
  if (ends_.contains({dialer, peer}) || peer == PeerId::kNone || peer >= PeerId::kFirstAccepted) {
    findings_->Add(absl::StrCat("a role dials the number ", static_cast<uint64_t>(peer), " twice or out of range"));
  }
  ends_[{dialer, peer}] = connections_.size();
  connections_.push_back({.dialer = dialer, .dialed = peer, .endpoint = endpoint, .last_arrival = {}});
}

void Network::HangUp(Life dialer, PeerId peer) {
  const auto found = ends_.find({dialer, peer});
  if (found != ends_.end()) connections_[found->second].open = false;
}

PeerId Network::PeerOf(Life server, Life dialer) const {
  for (const Connection& connection : connections_) {
    if (connection.open && connection.server == server && connection.dialer == dialer) return connection.accepted;
  }
  return PeerId::kNone;
}

Life Network::DialerOf(Life server, PeerId accepted) const {
  const auto found = ends_.find({server, accepted});
  const bool is_there = found != ends_.end() && connections_[found->second].dialer != server;
  return is_there ? connections_[found->second].dialer : Life::kNone;
}

void Network::Vanish(Life gone) {
  std::erase_if(listeners_, [gone](const auto& item) { return item.second == gone; });
  for (Connection& connection : connections_) {
    if (connection.dialer == gone) connection.open = false;
  }
}

void Network::Accept(Connection& connection, Life listener) {
  connection.server = listener;
  connection.accepted = PeerId{static_cast<uint64_t>(PeerId::kFirstAccepted) + accepted_[listener]++};
  ends_[{listener, connection.accepted}] = static_cast<ConnectionId>(&connection - connections_.data());
}

std::shared_ptr<const Message> Network::OverTheWire(Message message, uint64_t run) {
  if (!faults_.codec) return std::make_shared<const Message>(std::move(message));
  const absl::StatusOr<std::vector<Payload>> frames = EncodeWithinLimits(message, run);
  if (!frames.ok()) {
    findings_->Add(absl::StrCat("a role says what its receiver refuses: ", std::string(frames.status().message())));
    return nullptr;
  }
  std::vector<Payload> received;
  for (const Payload& frame : *frames) received.push_back(AsReceived(frame));
  uint64_t heard = 0;
  absl::StatusOr<Message> decoded = Decode(received, &heard);
  if (!decoded.ok()) {
    findings_->Add(
        absl::StrCat("the codec refuses a ", NameOf(message), ": ", std::string(decoded.status().message())));
    return nullptr;
  }
  if (!SameBytes(*frames, Encode(*decoded, heard))) {
    findings_->Add(absl::StrCat("a ", NameOf(message), " is another one after Encode and Decode"));
  }
  return std::make_shared<const Message>(*std::move(decoded));
}

void Network::Send(Life from, PeerId to, Message message, uint64_t run) {
  const auto found = ends_.find({from, to});
  if (found == ends_.end()) return;
  Connection& connection = connections_[found->second];
  Parcel parcel{.connection = found->second, .to_server = connection.dialer == from, .message = nullptr};
  if (!connection.open) return;
  if (parcel.to_server) {
    const Life listener = ListenerAt(connection.endpoint);
    if (listener == Life::kNone) return;
    if (listener != connection.server) Accept(connection, listener);
  } else if (to != connection.accepted || from != connection.server) {
    return;  // the dialler came back under another number since
  }
  parcel.generation = connection.generation;
  parcel.server = connection.server;
  parcel.accepted = connection.accepted;
  parcel.message = OverTheWire(std::move(message), run);
  parcel.run = run;
  if (parcel.message == nullptr) return;
  const Life other = parcel.to_server ? connection.server : connection.dialer;
  if (!Deal(faults_.loss, "lost")) Post(parcel, from, other);
  if (Deal(faults_.duplicate, "doubled")) Post(parcel, from, other);
  if (!parcel.to_server && Deal(faults_.echo, "echoed")) {
    events_->After(Duration(prng_.Below(Duration(10s).count())), [this, parcel] { Arrive(parcel); });
  }
}

void Network::Post(const Parcel& parcel, Life from, Life to) {
  Duration way = faults_.delay + Duration(prng_.Below(static_cast<uint64_t>(faults_.spread.count()) + 1));
  if (Deal(faults_.straggle, "late")) way *= 1 + prng_.Below(100);
  Time arrival = events_->now() + way;
  if (const auto cut = cuts_.find({from, to}); cut != cuts_.end() && cut->second.until > events_->now()) {
    ++faults_dealt_[cut->second.loses ? "lost in a cut" : "held by a cut"];
    if (cut->second.loses) return;
    arrival = cut->second.until + way;
  }
  Time& last = connections_[parcel.connection].last_arrival[parcel.to_server];
  if (faults_.in_order) {
    arrival = std::max(arrival, last);
  } else if (arrival < last) {
    ++faults_dealt_["overtaken"];
  }
  last = std::max(arrival, last);
  events_->At(arrival, [this, parcel] { Arrive(parcel); });
}

void Network::Arrive(const Parcel& parcel) {
  Connection& connection = connections_[parcel.connection];
  if (parcel.generation != connection.generation && prng_.Chance(0.5)) return;
  if (!parcel.to_server) {
    if (connection.open) deliver_(connection.dialer, Received{connection.dialed, *parcel.message, parcel.run});
    return;
  }
  const Life listener = ListenerAt(connection.endpoint);
  if (listener == parcel.server) {
    deliver_(parcel.server, Received{parcel.accepted, *parcel.message, parcel.run});
  } else if (listener != Life::kNone && faults_.outlive) {
    ++faults_dealt_["to a successor"];
    if (connection.server != listener) Accept(connection, listener);
    deliver_(listener, Received{connection.accepted, *parcel.message, parcel.run});
  }
}

void Network::Cut(Life from, Life to, Duration length, bool loses) {
  cuts_[{from, to}] = {events_->now() + length, loses};
}

void Network::Move(Life server, const std::string& endpoint) {
  std::erase_if(listeners_, [server](const auto& item) { return item.second == server; });
  Listen(server, endpoint);
  for (ConnectionId id = 0; id < connections_.size(); ++id) {
    Connection& connection = connections_[id];
    if (connection.dialer == server && connection.open) Reset(id);
    if (connection.server == server) connection.server = Life::kNone;
  }
}

void Network::Reset(ConnectionId id) {
  Connection& connection = connections_[id];
  ++connection.generation;
  connection.server = Life::kNone;
  connection.accepted = PeerId::kNone;
  events_->After(faults_.delay, [this, id] {
    const Connection& again = connections_[id];
    if (again.open) deliver_(again.dialer, Reconnected{again.dialed});
  });
}

void Network::ResetOne() {
  std::vector<ConnectionId> open;
  for (ConnectionId id = 0; id < connections_.size(); ++id) {
    if (connections_[id].open && connections_[id].server != Life::kNone) open.push_back(id);
  }
  if (open.empty()) return;
  ++faults_dealt_["reset"];
  Reset(open[prng_.Below(open.size())]);
}

void Network::Calm() {
  faults_.loss = faults_.duplicate = faults_.echo = faults_.straggle = 0;
  cuts_.clear();
}

}  // namespace downpour
