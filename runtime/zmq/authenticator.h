// The door of a listener with keys: who is let in, who speaks, as whom, and who had to stay outside.
//
//   auto authenticator = ZmqAuthenticator::Open(context, keys);                  // before anybody listens
//   ZmqSocket listener = Listen(context, "0.0.0.0:7000", &(*authenticator)->keys()).value();
//   (*authenticator)->Watch(context, listener);                         // proves that a stranger is refused
//   (*authenticator)->Serve();                                          // from an event loop
//   (*authenticator)->Heard(listener_channel.speaker_fd());             // of each message
//   (*authenticator)->Validate(listener_channel.speaker(), message, run);
//
// A key speaks as the incarnations that were given to it here, by a chief, or, at others, that it was the first to
// speak as: each in its run, since two runs may give out one incarnation. So a task with a key of its own cannot speak
// as another one, but for one whose key was taken away. What a chief gave to nobody is for the role to judge.
//
// Order: LetIn makes a key that is not known any more nobody's, from the next message on.
// Limits: whoever sends a message without end is cut off (backlog_limit.h) by the next LimitBacklog.
//   A peer without keys that saw so first, and hung up in the midst of its greeting, is not counted.
// Cost: kMaxBound incarnations are remembered; beyond them the key that has most forgets its oldest.
// Errors: Watch: PERMISSION_DENIED where strangers would be let in. Validate:
//   PERMISSION_DENIED, in one sentence for the log.
// Threads: one.
// Tests: tests/unit/runtime/zmq/authenticator_test.cc.
#pragma once

#include <poll.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "runtime/posix/keys.h"
#include "runtime/zmq/backlog_limit.h"
#include "runtime/zmq/monitor.h"
#include "runtime/zmq/sockets.h"
#include "runtime/zmq/zap_handler.h"

namespace downpour {

class ZmqAuthenticator {
 public:
  static constexpr size_t kMaxBound = 1 << 16;

  static absl::StatusOr<std::unique_ptr<ZmqAuthenticator>> Open(ZmqContext& context, KeyRing keys);
  absl::Status Watch(ZmqContext& context, ZmqSocket& listener);

  // Lets in and counts without waiting. False: there is more to do.
  bool Serve();
  void LetIn(const KeyRing& keys) { keys_.known = keys.known; }  // whom, from now on
  void Heard(int fd) { backlog_.Heard(fd); }                     // a message over that connection
  void LimitBacklog();
  std::optional<PeerRole> RoleOf(const std::string& key) const { return keys_.RoleOf(key); }
  absl::Status Validate(const std::string& key, const Message& message, uint64_t run);
  // What is answered to that key: a Welcome gives it an incarnation.
  void NoteAnswer(const std::string& key, const Message& answer);

  const KeyRing& keys() const { return keys_; }
  uint64_t refused() const { return refused_; }                      // handshakes so far
  const std::string& refused_from() const { return refused_from_; }  // the last one's address; empty: not known
  void AddTo(std::vector<pollfd>* waited_on);                        // what becomes readable when Serve is needed

 private:
  using Speaker = std::pair<uint64_t, Incarnation>;  // the run, and who in it

  explicit ZmqAuthenticator(KeyRing keys) : keys_(std::move(keys)) {}
  void Bind(const Speaker& speaker, const std::string& key);

  void NoteRefused(const std::string& address, const char* whose);

  KeyRing keys_;
  std::optional<ZapHandler> zap_;
  std::optional<ZmqMonitor> monitor_;
  BacklogLimit backlog_;
  std::map<Speaker, std::string> bound_;               // whose key
  std::map<std::string, std::set<Speaker>> bound_to_;  // by key
  uint64_t speechless_ = 0;                            // handshakes that failed, of connections that are about to end
  uint64_t refused_ = 0;
  std::string refused_from_;
};

}  // namespace downpour
