// Runs one role on one thread: ZeroMQ sockets, storage, device and clock on one side, Role::Step on the other.
//
//   Mailbox mailbox;
//   auto driver = ZmqDriver::Open({.listen = "127.0.0.1:0"}, {.mailbox = &mailbox, ...});
//   return (*driver)->Run(role);   // the code of the role's Exit
//
// Order: inputs one at a time; effects in the order given, after Step returned. A trace record is in its file before
//   what follows it is sent.
// Cost: each round takes at most kBurst messages from each connection, so that no flood starves another one or the
//   tick. It waits only when every connection is drained.
// Address: each Join names endpoint() as of when it is sent. A host's address may change while its link is cut, and a
//   ps that joins again under the old one would be dialled in vain.
// Keys: with them a listener on TCP has a ZmqAuthenticator, which has proved in Open that a stranger is refused. What a
//   peer says that its key may not say (schema/peer_role.h, authenticator.h) is Malformed; one whose key was taken
//   out of the folder is cut off when it speaks next. Refused handshakes are counted in the ResourceSample; where this
//   process is refused itself (links.h), it tries again ever more seldom, with what its folder says by then.
// Shared memory: with a peer of this host what can go through shared memory does (runtime/shm/peers.h), and the rest
//   goes over ZeroMQ. Roles know nothing of it.
// Errors: what a peer sends is Received or Malformed or nothing; one that was hung up on is heard no more, and where
//   there are keys cut off when it speaks again. A Dial that fails is tried again; where it fails for dial_patience,
//   Run ends with kExitFailed and a sentence, unless it is a ps whose address is wrong (links.h). A message to a
//   peer that is not there or has stopped reading is lost; the latter is logged, once a second. An Exit has a second to
//   get out what was sent before it; a dialler that is cut off drops what it has not read yet, so a listener's very
//   last words may be lost.
// Threads: Open and Run on one thread; the world's parts post into the mailbox from theirs.
// Tests: tests/unit/runtime/zmq/driver_test.cc.
#pragma once

#include <poll.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "runtime/options.h"
#include "runtime/posix/job_storage.h"
#include "runtime/posix/keys_watch.h"
#include "runtime/posix/mailbox.h"
#include "runtime/posix/own_address.h"
#include "runtime/posix/trace_file.h"
#include "runtime/process/compute_thread.h"
#include "runtime/process/nvml_monitor.h"
#include "runtime/process/resources.h"
#include "runtime/process/service_manager.h"
#include "runtime/role.h"
#include "runtime/shm/peers.h"
#include "runtime/zmq/authenticator.h"
#include "runtime/zmq/frames.h"
#include "runtime/zmq/links.h"
#include "runtime/zmq/peer_table.h"
#include "runtime/zmq/sockets.h"

namespace downpour {

class StatusServer;

struct DriverOptions {
  std::string listen;  // endpoint; empty: listens nowhere
  // Where the chief is. Of a process that listens on all addresses others are told the one from which it reaches that.
  std::string chief = {};
  decltype(&AsOthersReachIt) as_others_reach_it = AsOthersReachIt;
  Duration tick = Timing().tick;
  int io_threads = 1;
  std::optional<KeyRing> keys = std::nullopt;
  std::string keys_folder = {};  // looked at again each second; empty: the keys stay as they are
  Duration dial_patience = ZmqLinks::kDialPatience;
};

// The rest of the world; all outlive the driver. Null: there is none.
struct DriverWorld {
  Mailbox* mailbox = nullptr;  // never null
  JobStorage* storage = nullptr;
  ComputeThread* computer = nullptr;
  TraceFile* trace = nullptr;
  ServiceManager* service = nullptr;
  NvmlMonitor* gpu = nullptr;
  StatusServer* status_server = nullptr;
  SharedArena* memory = nullptr;  // to share with peers of this host
};

class ZmqDriver {
 public:
  static constexpr int kBurst = 16;
  static constexpr size_t kMaxPeers = 4096;

  // Errors: those of Listen (sockets.h); PERMISSION_DENIED where strangers would be let in.
  static absl::StatusOr<std::unique_ptr<ZmqDriver>> Open(const DriverOptions& options, const DriverWorld& world);

  // Where it listens, as others reach it by now (runtime/posix/own_address.h); empty if it does not.
  std::string endpoint() const;
  int Run(Role& role);

 private:
  ZmqDriver(const DriverOptions& options, const DriverWorld& world, ZmqContext context)
      : options_(options),
        world_(world),
        context_(std::move(context)),
        peers_(kMaxPeers),
        shared_(world.memory),
        links_(context_, options.keys, options.keys_folder, options.dial_patience) {}

  absl::Status StartListening();

  void Step(Input input);
  void ServeMail();
  void ServeListener();
  void ServeLinks();
  void ServeLink(PeerId id, Link& link);
  void ServeShared();
  bool ServeGuest(PeerId id, Link& link);
  bool TakeOwn(PeerId from, const Message& message);
  void AskToShare();
  void ServeAuthenticator();
  // Errors: PERMISSION_DENIED, as the authenticator's.
  absl::Status ValidateSpeaker(const Message& message, uint64_t run);
  using Check = std::function<absl::Status(const Message&, uint64_t run)>;  // whether its sender may say it
  void Deliver(PeerId from, Link::Receipt receipt, const Check& check);
  void ServeClock();
  void SampleAndReport();
  void ReloadKeys();
  bool Drained();
  void Wait();
  void Close();

  void Do(Dial& dial);
  void Do(HangUp& hang_up);
  void Do(Send& send);
  void Do(StorageOp& op);
  void Do(Compute& compute);
  void Do(PrefetchParameters& load);
  void Do(Wake& wake);
  void Do(Log& log);
  void Do(TraceRecord& record);
  void Do(Exit& exit);

  const DriverOptions options_;
  const DriverWorld world_;
  std::optional<KeysWatch> keys_watch_;
  ZmqContext context_;  // before the sockets: it waits for their end
  std::optional<ZmqChannel> listener_;
  PeerTable peers_;
  SharedPeers shared_;
  ZmqLinks links_;
  ResourceMeter resources_;
  std::unique_ptr<ZmqAuthenticator> authenticator_;  // of a listener with keys
  bool authenticator_idle_ = true;                   // nobody waits there
  PeerId speaking_ = PeerId::kNone;                  // of those who dialled, while its message is delivered
  std::string speaker_;                              // its key

  Role* role_ = nullptr;
  std::optional<int> exit_code_;
  Time next_tick_{};
  Time next_sample_{};
  std::string sender_;  // scratch of the message at hand, as the next one is
  std::vector<Payload> frames_;
  std::vector<pollfd> waited_on_;  // scratch of Wait
  uint64_t lost_ = 0;              // messages to peers that do not read, since the last report
  uint64_t unsendable_ = 0;        // messages beyond a limit of codec.h: a bug of this process
};

}  // namespace downpour
