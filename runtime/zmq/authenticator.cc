#include "runtime/zmq/authenticator.h"

#include <glog/logging.h>

#include <algorithm>
#include <bit>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"

namespace downpour {

absl::StatusOr<std::unique_ptr<ZmqAuthenticator>> ZmqAuthenticator::Open(ZmqContext& context, KeyRing keys) {
  std::unique_ptr<ZmqAuthenticator> authenticator(new ZmqAuthenticator(std::move(keys)));
  auto lets_in = [authenticator = authenticator.get()](const std::string& key) {
    return authenticator->RoleOf(key).has_value();
  };
  absl::StatusOr<ZapHandler> zap = ZapHandler::Open(context, std::move(lets_in));
  if (!zap.ok()) return zap.status();
  authenticator->zap_.emplace(*std::move(zap));
  return authenticator;
}

absl::Status ZmqAuthenticator::Watch(ZmqContext& context, ZmqSocket& listener) {
  const absl::Status proved = ProveStrangersAreRefused(context, listener.endpoint(), keys_, *zap_);
  if (!proved.ok()) return proved;
  absl::StatusOr<ZmqMonitor> monitor = ZmqMonitor::Watch(context, listener);
  if (!monitor.ok()) return monitor.status();
  monitor_.emplace(*std::move(monitor));
  return absl::OkStatus();
}

// ZeroMQ tells that a handshake failed without saying whose, and next that this connection has ended.
bool ZmqAuthenticator::Serve() {
  const bool quiet = zap_->Serve();
  for (ZmqMonitor::Event event; (event = monitor_->Next()) != ZmqMonitor::Event::kNone;) {
    if (event == ZmqMonitor::Event::kAccepted) backlog_.Accepted(monitor_->fd());
    if (event == ZmqMonitor::Event::kKeyRefused) NoteRefused(zap_->last_refused(), "whose key nobody knows here");
    if (event == ZmqMonitor::Event::kNoCommonSpeech) ++speechless_;
    if (event != ZmqMonitor::Event::kEnded) continue;
    if (speechless_ > 0) {
      --speechless_;
      NoteRefused(backlog_.AddressOf(monitor_->fd()), "without keys, or with those of another cluster");
    }
    backlog_.Ended(monitor_->fd());
  }
  return quiet;
}

void ZmqAuthenticator::NoteRefused(const std::string& address, const char* whose) {
  if (!address.empty()) refused_from_ = address;
  if (!std::has_single_bit(++refused_)) return;
  LOG(WARNING) << "refused a peer" << (address.empty() ? "" : " at " + address) << " " << whose << " (" << refused_
               << " so far)";
}

void ZmqAuthenticator::LimitBacklog() {
  for (const auto& [address, bytes] : backlog_.CutOff()) {
    LOG(WARNING) << "cut off a peer at " << address << ", whose message did not end after " << (bytes >> 20) << " MiB";
  }
}

absl::Status ZmqAuthenticator::Validate(const std::string& key, const Message& message, uint64_t run) {
  const std::optional<PeerRole> role = RoleOf(key);
  if (!role) return absl::PermissionDeniedError("its key is nobody's any more");
  if (absl::Status status = CheckSpeaker(*role, message); !status.ok()) return status;
  const Speaker speaker(run, SpeakerOf(message));
  if (speaker.second == Incarnation::kNone) return absl::OkStatus();
  const auto bound = bound_.find(speaker);
  if (bound == bound_.end() && keys_.self == PeerRole::kChief) return absl::OkStatus();
  if (bound != bound_.end() && bound->second == key) return absl::OkStatus();
  if (bound == bound_.end() || !RoleOf(bound->second)) {  // it is the first, or its pair was renewed
    Bind(speaker, key);
    return absl::OkStatus();
  }
  return absl::PermissionDeniedError(absl::StrCat("it says ", NameOf(message), " as incarnation ",
                                                  ToNumber(speaker.second), ", which has another key"));
}

void ZmqAuthenticator::NoteAnswer(const std::string& key, const Message& answer) {
  const auto* welcome = std::get_if<Welcome>(&answer);
  if (welcome == nullptr) return;
  const Speaker speaker(welcome->run, welcome->you);
  if (!bound_.contains(speaker)) Bind(speaker, key);
}

// Whoever speaks as many thereby makes nobody else forgotten.
void ZmqAuthenticator::Bind(const Speaker& speaker, const std::string& key) {
  std::string& owner = bound_[speaker];
  if (!owner.empty()) bound_to_[owner].erase(speaker);
  owner = key;
  bound_to_[key].insert(speaker);
  if (bound_.size() <= kMaxBound) return;
  const auto fewer = [](const auto& a, const auto& b) { return a.second.size() < b.second.size(); };
  std::set<Speaker>& most = std::max_element(bound_to_.begin(), bound_to_.end(), fewer)->second;
  bound_.erase(*most.begin());
  most.erase(most.begin());
}

void ZmqAuthenticator::AddTo(std::vector<pollfd>* waited_on) {
  waited_on->push_back({zap_->socket().get(zmq::sockopt::fd), POLLIN, 0});
  waited_on->push_back({monitor_->socket().get(zmq::sockopt::fd), POLLIN, 0});
}

}  // namespace downpour
