// A process's dialled connections, by the numbers that its role gave them, and the keys with which it dials, if there
// are any.
//
//   ZmqLinks links(context, keys, "keys");
//   links.Connect({.peer = PeerId{1}, .endpoint = "h0:7000"}, now);
//   links.Find(PeerId{1})->Send(now, std::move(frames));
//   links.Tend(now);                                            // each tick
//   for (auto id = links.After(PeerId::kNone); id != PeerId::kNone; id = links.After(id)) ...links.Find(id)...
//   if (links.Drained()) links.AddTo(&waited_on);
//
// Order: of each connection as ZmqLink has it.
// Errors: a number that nobody has has no link. Where this process is refused its log says so with
//   the remedy, once for each cause, and where nobody answers why, ever more seldom. A number that could not be dialled
//   is dialled again each tick; what is sent to it meanwhile is lost, so that it counts as reconnected once it stands.
// Threads: one. Another one, which may outlive this, asks the resolver why nobody answers.
// Tests: tests/unit/runtime/zmq/links_test.cc, driver_keys_test.cc.
#pragma once

#include <poll.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "runtime/posix/keys.h"
#include "runtime/role.h"
#include "runtime/world_time.h"
#include "runtime/zmq/frames.h"
#include "runtime/zmq/link.h"
#include "runtime/zmq/monitor.h"
#include "runtime/zmq/sockets.h"

namespace downpour {

class ZmqLinks {
 public:
  // What is said last is given so long to get out.
  static constexpr Duration kLastWords = std::chrono::seconds(1);
  // Links that were hung up on have given back what they held by then.
  static constexpr Duration kDialPatience = std::chrono::seconds(10);

  // `context` outlives this. `keys_folder`, for people: where the keys are from; empty: from nowhere in particular.
  ZmqLinks(ZmqContext& context, std::optional<KeyRing> keys, std::string keys_folder,
           Duration dial_patience = kDialPatience)
      : context_(context),
        keys_(std::move(keys)),
        keys_folder_(std::move(keys_folder)),
        dial_patience_(dial_patience) {}

  void DialWith(const KeyRing& keys) { keys_ = keys; }  // from now on

  // CHECKs that the number is free. Errors, after which Tend tries again: those of ConnectWatched (monitor.h).
  absl::Status Connect(const Dial& dial, Time now);
  void HangUp(PeerId peer);
  void Close();  // all of them

  // Null: there is none.
  ZmqLink* Find(PeerId peer);
  // The next number above `peer`; kNone: there is none.
  PeerId After(PeerId peer) const;
  // Whether it may say that, as far as there are keys.
  absl::Status Validate(PeerId from, const Message& message) const;

  // Says what has become of handshakes, and dials again. Errors, after which the process is of no use, where a number
  // could not be dialled for dial_patience: RESOURCE_EXHAUSTED, since this process may have too few sockets or open
  // files; that of ConnectWatched, where it is the chief's. Of a ps that has an address which cannot be dialled the log
  // says so now and then.
  absl::Status Tend(Time now);
  // Those that stand again since the last call, and may have lost something meanwhile (ZmqLink).
  std::vector<PeerId> TakeReconnected();
  // The ps whose connections began to stand since the last call.
  std::vector<PeerId> TakeConnected();
  // Whether nothing can be done before a descriptor becomes readable.
  bool Drained();
  void AddTo(std::vector<pollfd>* waited_on);

  // Those that were hung up on count on.
  uint64_t bytes_in() const;
  uint64_t bytes_out() const;
  uint64_t TakeLost();  // as ZmqLink's

 private:
  struct Missing {
    Dial dial;
    Time since;  // it failed first, or it was told last why
    uint64_t times_told = 0;
  };
  absl::Status Open(const Dial& dial);
  absl::Status DialMissing(Time now);
  absl::Status NoteUndialable(Missing& missing, const absl::Status& why);
  const KeyRing* keys() const { return keys_ ? &*keys_ : nullptr; }
  void NoteHandshake(const std::string& endpoint, ZmqMonitor::Event outcome);
  std::string WhyRefused(ZmqMonitor::Event how) const;  // completes "h0:7000"
  void LookWhySilent(const ZmqLink& link);

  ZmqContext& context_;
  std::optional<KeyRing> keys_;
  const std::string keys_folder_;
  const Duration dial_patience_;
  std::map<PeerId, ZmqLink> links_;
  std::map<PeerId, Missing> missing_;                                 // could not be dialled yet
  std::map<std::string, std::set<ZmqMonitor::Event>> refusals_told_;  // by endpoint
  const std::shared_ptr<std::atomic<bool>> looking_ = std::make_shared<std::atomic<bool>>(false);
  uint64_t closed_bytes_in_ = 0;  // of links that were hung up
  uint64_t closed_bytes_out_ = 0;
};

}  // namespace downpour
