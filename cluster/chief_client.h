// Asks a chief how its job goes, and tells it what people want of the job.
//
//   absl::StatusOr<ChiefClient> chief = ChiefClient::Dial("h0:7000");
//   absl::StatusOr<std::string> json = chief->AskStatus(kStatusTimeout);     // docs/STATUS.md
//
// Errors: INVALID_ARGUMENT for an endpoint that is none; UNAVAILABLE with advice where nobody answers;
//   UNAUTHENTICATED where the chief wants another secret than ours; FAILED_PRECONDITION where it refuses to say for
//   another reason.
// Threads: one.
// Tests: tests/unit/cluster/chief_client_test.cc.
#pragma once

#include <optional>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "runtime/world_time.h"
#include "runtime/zmq/frames.h"
#include "runtime/zmq/monitor.h"
#include "runtime/zmq/sockets.h"
#include "schema/message.h"

namespace downpour {

inline constexpr Duration kStatusTimeout = 5s;  // of a chief that is there; one that is not says so at once

class ChiefClient {
 public:
  // Null keys: there are none.
  static absl::StatusOr<ChiefClient> Dial(const std::string& endpoint, const KeyRing* keys = nullptr);
  // With a client's keys of a folder, else a viewer's; empty: there are none. Errors: those of KeysIn
  // (runtime/posix/keys.h) besides.
  static absl::StatusOr<ChiefClient> DialWithKeysIn(const std::string& folder, const std::string& endpoint);

  // What the chief's chief.json says, if its keys do not tell who may ask.
  void UseSecret(std::string secret) { secret_ = std::move(secret); }
  // Whoever asks again after so long is a watcher: the chief tells it unasked how the job ended. 0: it asks once.
  void AskAgainIn(Duration pause) { again_in_ = pause; }
  // Asks and waits for the answer. A connection that is refused is an error at once, not after `timeout`, unless the
  // chief has said something since the last answer.
  absl::StatusOr<std::string> AskStatus(Duration timeout);
  // Lasts until the chief says something unasked, at most so long.
  void WaitForNews(Duration timeout);
  // A watcher's last word: it knows how the job ended, and the chief need not wait for it any more.
  void TakeLeave();

  // Says it again and again until it is answered. Errors: as AskStatus; UNAVAILABLE too where the chief answers all but
  // commands, as one of an earlier release does; PERMISSION_DENIED where our keys are a viewer's.
  absl::StatusOr<ControlReply> Tell(Control command, Duration timeout);

  // For whoever may not ask, since its keys are another role's: OK if it is let in.
  absl::Status ShakeHands(Duration timeout);

  // The two halves of AskStatus, for callers with an event loop around zmq_poll(socket()). Neither waits, and where
  // nobody answers neither fails: the chief may come back. PERMISSION_DENIED: it is there, and lets our key in no more.
  bool TryAsk();  // false: not connected
  absl::StatusOr<std::optional<std::string>> TryTake();
  void* socket() { return channel_.socket().get(); }

  const std::string& endpoint() const { return endpoint_; }
  const std::string& secret() const { return secret_; }

 private:
  // The next message of that kind that has arrived.
  template <typename Reply>
  absl::StatusOr<std::optional<Reply>> Take();
  bool Say(const Message& message);  // false: not connected
  void KeepLastWord();
  ChiefClient(std::string endpoint, ZmqContext context, ZmqSocket socket, ZmqMonitor monitor,
              std::optional<PeerRole> self);
  struct NoAnswer {
    std::string why;
    std::string advice = {};  // empty: start one
  };
  absl::Status Unreachable(const NoAnswer& found) const;
  std::optional<NoAnswer> WhyNoConnection() const;
  NoAnswer WhySilent(bool connected, Duration timeout) const;
  NoAnswer HungUp() const;
  // Lasts until something can be sent, has arrived, or an attempt to connect has failed, and says why it did.
  std::optional<NoAnswer> WaitOrFail(bool to_send, Duration timeout);
  std::optional<NoAnswer> WhyFailed(ZmqMonitor::Event event);

  std::string endpoint_;
  std::string secret_;
  Duration again_in_{};
  std::optional<std::string> last_word_;  // said unasked, and not given out yet
  ZmqContext context_;                    // before its sockets, which must be closed first
  std::optional<PeerRole> self_;          // whose keys we have; none: we have no keys
  ZmqChannel channel_;
  ZmqMonitor monitor_;  // says when an attempt to connect has failed
  int hang_ups_ = 0;
  bool key_refused_ = false;  // ZeroMQ does not try again then
};

}  // namespace downpour
