#include "runtime/zmq/links.h"

#include <glog/logging.h>

#include <iterator>
#include <thread>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/log_line.h"
#include "runtime/posix/tcp_probe.h"
#include "schema/peer_role.h"
#include "schema/text.h"

namespace downpour {

absl::Status ZmqLinks::Connect(const Dial& dial, Time now) {
  CHECK(dial.peer != PeerId::kNone && dial.peer < PeerId::kFirstAccepted) << "not a number to dial with";
  CHECK(!links_.contains(dial.peer) && !missing_.contains(dial.peer)) << "dialled twice";
  absl::Status status = Open(dial);
  if (!status.ok()) missing_.emplace(dial.peer, Missing{dial, now});
  return status;
}

absl::Status ZmqLinks::Open(const Dial& dial) {
  absl::StatusOr<WatchedSocket> link = ConnectWatched(context_, dial.endpoint, keys(), dial.to);
  if (!link.ok()) return link.status();
  links_.emplace(std::piecewise_construct, std::tuple(dial.peer), std::forward_as_tuple(*std::move(link), dial.to));
  return absl::OkStatus();
}

absl::Status ZmqLinks::DialMissing(Time now) {
  for (auto entry = missing_.begin(); entry != missing_.end();) {
    Missing& missing = entry->second;
    const absl::Status status = Open(missing.dial);
    if (status.ok()) {
      links_.at(entry->first).NoteLoss();
      entry = missing_.erase(entry);
      continue;
    }
    if (now - missing.since >= dial_patience_) {
      if (absl::IsResourceExhausted(status)) return status;
      if (absl::Status ends = NoteUndialable(missing, status); !ends.ok()) return ends;
      missing.since = now;
    }
    ++entry;
  }
  return absl::OkStatus();
}

// The chief's address is this process's own. A ps's is what that ps says of itself, which must not end others.
absl::Status ZmqLinks::NoteUndialable(Missing& missing, const absl::Status& why) {
  const bool to_chief = missing.dial.to == PeerRole::kChief;
  const std::string told = absl::StrCat(why.message(), "; correct ", to_chief ? "--chief" : "that ps's --listen",
                                        ", or the keys in --keys, if it has any");
  if (to_chief) return absl::Status(why.code(), told);
  LOG_IF(WARNING, WorthALine(++missing.times_told)) << OneLine(told, kMaxLogBytes);
  return absl::OkStatus();
}

void ZmqLinks::HangUp(PeerId peer) {
  missing_.erase(peer);
  auto link = links_.find(peer);
  if (link == links_.end()) return;
  closed_bytes_in_ += link->second.bytes_in();
  closed_bytes_out_ += link->second.bytes_out();
  refusals_told_.erase(link->second.channel().socket().endpoint());
  link->second.Close(kLastWords);
  links_.erase(link);
}

void ZmqLinks::Close() {
  for (auto& [id, link] : links_) link.Close(kLastWords);
  links_.clear();
  missing_.clear();
}

// ---- Messages -------------------------------------------------------------------------------------------------------

ZmqLink* ZmqLinks::Find(PeerId peer) {
  const auto link = links_.find(peer);
  return link == links_.end() ? nullptr : &link->second;
}

PeerId ZmqLinks::After(PeerId peer) const {
  const auto link = links_.upper_bound(peer);
  return link == links_.end() ? PeerId::kNone : link->first;
}

absl::Status ZmqLinks::Validate(PeerId from, const Message& message) const {
  return keys_ ? CheckSpeaker(links_.at(from).to(), message) : absl::OkStatus();
}

bool ZmqLinks::Drained() {
  for (auto& [id, link] : links_) {
    if (!link.Drained()) return false;
  }
  return true;
}

void ZmqLinks::AddTo(std::vector<pollfd>* waited_on) {
  for (auto& [id, link] : links_) waited_on->push_back({link.fd(), POLLIN, 0});
}

uint64_t ZmqLinks::bytes_in() const {
  uint64_t bytes = closed_bytes_in_;
  for (const auto& [id, link] : links_) bytes += link.bytes_in();
  return bytes;
}

uint64_t ZmqLinks::bytes_out() const {
  uint64_t bytes = closed_bytes_out_;
  for (const auto& [id, link] : links_) bytes += link.bytes_out();
  return bytes;
}

std::vector<PeerId> ZmqLinks::TakeReconnected() {
  std::vector<PeerId> reconnected;
  for (auto& [id, link] : links_) {
    if (link.TakeReconnected()) reconnected.push_back(id);
  }
  return reconnected;
}

std::vector<PeerId> ZmqLinks::TakeConnected() {
  std::vector<PeerId> connected;
  for (auto& [id, link] : links_) {
    if (link.TakeConnected() && link.to() == PeerRole::kPs) connected.push_back(id);
  }
  return connected;
}

uint64_t ZmqLinks::TakeLost() {
  uint64_t lost = 0;
  for (auto& [id, link] : links_) lost += link.TakeLost();
  return lost;
}

// ---- Handshakes -----------------------------------------------------------------------------------------------------

absl::Status ZmqLinks::Tend(Time now) {
  for (auto& [id, link] : links_) {
    if (const std::optional<ZmqMonitor::Event> outcome = link.Tend(now)) {
      NoteHandshake(link.channel().socket().endpoint(), *outcome);
    }
    if (link.DueToLook(now)) LookWhySilent(link);
    if (link.DueToDial(now)) link.DialAgain(keys());
  }
  return DialMissing(now);
}

// Once for each cause, until they agree: a task may dial its chief twice, and by chance be told in two ways.
void ZmqLinks::NoteHandshake(const std::string& endpoint, ZmqMonitor::Event outcome) {
  if (outcome == ZmqMonitor::Event::kShookHands) {
    refusals_told_.erase(endpoint);
  } else if (refusals_told_[endpoint].insert(outcome).second) {
    LOG(WARNING) << endpoint << WhyRefused(outcome) << "; it is tried again now and then";
  }
}

std::string ZmqLinks::WhyRefused(ZmqMonitor::Event how) const {
  const std::string ours = keys_folder_.empty() ? "our keys" : "our keys in " + keys_folder_;
  const std::string remedy = "give --keys=DIR, the folder of its cluster's keys";
  if (how == ZmqMonitor::Event::kKeyRefused) return " does not know our key: are " + ours + " those of its cluster?";
  // Which side sees first that they have no common speech is chance; the other one sees it hang up.
  const std::string hung_up = how == ZmqMonitor::Event::kHungUp ? " hangs up: it has just ended, or" : "";
  if (!keys_) return hung_up + " speaks to nobody without keys: " + remedy;
  if (hung_up.empty()) return " speaks without keys: it was started without --keys=DIR, or is none of ours";
  return hung_up + " has no keys, or " + ours + " are of another cluster: " + remedy;
}

// One at a time: the resolver may take his time.
void ZmqLinks::LookWhySilent(const ZmqLink& link) {
  if (looking_->exchange(true)) return;
  const std::string whom = absl::StrCat("the ", NameOf(link.to()));
  std::thread([looking = looking_, whom, endpoint = link.channel().socket().endpoint()] {
    LogWhySilent(whom, endpoint);
    looking->store(false);
  }).detach();
}

}  // namespace downpour
