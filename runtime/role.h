// The seam between a role and the world: a role is a state machine without I/O.
//
//   Time now; Effects effects;
//   role.Step(now, Received{peer, std::move(message)}, effects);
//   for (Effect& effect : effects.Take()) ...carry it out...
//
// Order: the world calls Step from one thread, one input at a time; effects are carried out in the order given, after
//   Step returned. Completions come back as inputs, never from within.
// Cost: Step is bounded: at most kMaxMessagePayload bytes of arithmetic for one input (initial values: 16 times that).
// Errors: what a peer, the disk or the device can cause is an input or a message, never a CHECK.
// No socket, thread, clock, file, environment, random source or hash-map iteration order in a role. Seeds and options
//   come by constructor.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "runtime/compute.h"
#include "runtime/trace_record.h"
#include "runtime/world_time.h"
#include "schema/message.h"
#include "schema/peer_role.h"

namespace downpour {

// One connection as this process sees it. The role numbers the ones it dials, below kFirstAccepted; the world numbers
// those that others dialled, from kFirstAccepted; neither reuses a number.
// Sending to one that is gone is a lost message.
enum class PeerId : uint64_t { kNone = 0, kFirstAccepted = uint64_t{1} << 32 };

// Names an outstanding operation; the role's own counter.
enum class Ticket : uint64_t { kNone = 0 };

// ---- What comes in --------------------------------------------------------------------------------------------------

struct Started {
  int64_t unix_ms = 0;   // wall clock at `now`: for people, and to tell a chief's term from others (chief/startup.h)
  std::string endpoint;  // where this process listens, as others reach it; empty if it does not listen
  // Names the kernel's boot, of which all processes have one steady clock; empty: not known.
  std::string boot = {};
};
struct Tick {};  // every options.tick, and where Wake asks for one
struct Received {
  PeerId from{};
  Message message;
  uint64_t run = 0;  // in which it was said; 0: in none
};
struct Malformed {  // frames that were no message
  PeerId from{};
  std::string why;
};
// A connection that this process dialled stands again. Whatever was on its way when it ended, or was sent meanwhile, is
// lost.
struct Reconnected {
  PeerId peer{};
};
// A part of the world has logged a warning. It is in this process's own log already.
struct Warned {
  std::string text;
};
struct StorageDone {
  Ticket ticket{};
  absl::Status status;
  Payload data;                    // Read
  std::vector<std::string> names;  // List, sorted; folders end in '/'
};
struct ComputeDone {
  Ticket ticket{};
  absl::Status status;
  ComputeResult result;
};
struct ResourceSample {  // about once a second
  double cpu_seconds = 0;
  uint64_t resident_bytes = 0;
  uint64_t bytes_in = 0;
  uint64_t bytes_out = 0;
  uint64_t refused = 0;           // handshakes: a key that nobody knows, or none
  std::string refused_from = {};  // the address of the last one; empty: not known
  GpuStats gpu = {};
};
// Comes twice where the notice that a machine will be taken away is followed by the signal of its shutdown: the second
// one says nothing new. A second signal ends the process without asking the role.
struct StopRequested {
  int signal = 0;        // SIGTERM, SIGINT; SIGTERM for a notice; 0: the job does without it
  std::string notice{};  // for people; empty: it was the signal
};

// "SIGTERM", or the notice.
std::string Reason(const StopRequested& stop);

using InputKinds = std::variant<Started, Tick, Received, Malformed, Reconnected, Warned, StorageDone, ComputeDone,
                                ResourceSample, StopRequested>;

// One of them; compiled once, as a Message is (message.h).
struct Input : InputKinds {
  using InputKinds::InputKinds;
  Input(const Input& other);
  Input(Input&& other) noexcept;
  Input& operator=(const Input& other);
  Input& operator=(Input&& other) noexcept;
  ~Input();
};

// ---- What goes out --------------------------------------------------------------------------------------------------

struct Dial {
  PeerId peer{};
  std::string endpoint;            // host:port or ipc path
  PeerRole to = PeerRole::kChief;  // who is to be there
};
struct HangUp {
  PeerId peer{};
};
struct Send {
  PeerId to{};
  Message message;
  uint64_t run = 0;  // as in Received; see Effects::SayIn
};

// Files by path relative to the job folder; the world refuses whatever would leave it.
struct StorageOp {
  enum class Kind {
    kMakeDir,  // with parents; fine if it exists
    kWrite,    // a new file, its whole contents; fails if it exists
    kAppend,   // to the end; makes the file
    kSync,     // the file's contents
    kSyncDir,  // the folder's entries
    kRename,   // path -> target, replacing it
    kRemove,   // a file, or a folder with all in it; fine if absent
    kRead,     // [offset, offset + bytes); fewer at the end of the file
    kList,
  };
  Kind kind{};
  Ticket ticket{};
  std::string path;
  std::string target;         // kRename
  std::vector<Payload> data;  // kWrite, kAppend
  uint64_t offset = 0;        // kRead
  uint64_t bytes = 0;         // kRead
  bool is_private = false;    // kWrite: nobody but its owner may read the file
};

struct Compute {
  Ticket ticket{};
  ComputeRequest request;
};

// Parameters have come that the next request will most likely bring: Computer::PrefetchParameters.
struct PrefetchParameters {
  SliceValues values;
};

// A Tick after so long, if there is none before.
struct Wake {
  Duration in{};
};

enum class Severity : uint8_t { kInfo, kWarning, kError };
struct Log {
  Severity severity{};
  std::string text;
};

struct Exit {  // after everything before it was sent
  int code = 0;
  std::string why;
  bool as_told = false;  // by a person, or by the chief's last word: no error of this process, whatever its code
};

using EffectKinds =
    std::variant<Dial, HangUp, Send, StorageOp, Compute, PrefetchParameters, Wake, Log, TraceRecord, Exit>;

// One of them; compiled once, as a Message is (message.h).
struct Effect : EffectKinds {
  using EffectKinds::EffectKinds;
  Effect(const Effect& other);
  Effect(Effect&& other) noexcept;
  Effect& operator=(const Effect& other);
  Effect& operator=(Effect&& other) noexcept;
  ~Effect();
};

class Effects {
 public:
  void Add(Effect effect);
  void SendTo(PeerId to, Message message);
  void Info(std::string text);
  void Warn(std::string text);
  void Error(std::string text);
  // All that is sent so far is said in that run. A role calls it once, at the end of each Step.
  void SayIn(uint64_t run);
  std::vector<Effect> Take();

 private:
  std::vector<Effect> list_;
};

class Role {
 public:
  virtual ~Role() = default;
  virtual void Step(Time now, Input input, Effects& effects) = 0;
};

}  // namespace downpour
