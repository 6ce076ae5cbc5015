#include "schema/peer_role.h"

#include <cstddef>
#include <iterator>
#include <type_traits>
#include <variant>

#include "absl/strings/str_cat.h"

namespace downpour {
namespace {

using Roles = unsigned;
constexpr Roles Only(PeerRole role) { return 1u << static_cast<unsigned>(role); }
constexpr Roles kChief = Only(PeerRole::kChief);
constexpr Roles kPs = Only(PeerRole::kPs);
constexpr Roles kWorker = Only(PeerRole::kWorker);
constexpr Roles kClient = Only(PeerRole::kClient);
constexpr Roles kMembers = kPs | kWorker;
constexpr Roles kViewer = Only(PeerRole::kViewer);
constexpr Roles kAskers = kClient | kViewer;
constexpr Roles kPullers = kWorker | kViewer;

template <typename Kind, size_t i = 0>
constexpr size_t IndexOf() {
  if constexpr (std::is_same_v<Kind, std::variant_alternative_t<i, MessageKinds>>) {
    return i;
  } else {
    return IndexOf<Kind, i + 1>();
  }
}

struct Row {
  size_t message;
  Roles speakers;
};
template <typename Kind>
constexpr Row Says(Roles speakers) {
  return {IndexOf<Kind>(), speakers};
}

// Who may say what, in the order of Message.
constexpr Row kTable[] = {
    Says<Join>(kMembers),          Says<Welcome>(kChief),
    Says<Refused>(kChief),         Says<Heartbeat>(kMembers),
    Says<HeartbeatReply>(kChief),  Says<OpenBulk>(kPs),
    Says<Leave>(kMembers),         Says<JobEnd>(kChief),
    Says<Assign>(kChief),          Says<RestoreSlice>(kChief),
    Says<SliceReport>(kPs),        Says<Placement>(kChief),
    Says<DataReport>(kWorker),     Says<WorkRequest>(kWorker),
    Says<Grant>(kChief),           Says<EvalGrant>(kChief),
    Says<LeaseDone>(kWorker),      Says<LeaseDoneReply>(kChief),
    Says<EvalDone>(kWorker),       Says<EvalDoneReply>(kChief),
    Says<Violation>(kPs),          Says<Push>(kWorker),
    Says<PushReply>(kPs),          Says<Probe>(kWorker),
    Says<Pull>(kPullers),          Says<PullReply>(kPs),
    Says<SnapshotRequest>(kChief), Says<SliceRecord>(kPs),
    Says<WriteShard>(kChief),      Says<ShardWritten>(kPs),
    Says<StatusRequest>(kAskers),  Says<StatusReply>(kChief),
    Says<Control>(kClient),        Says<ControlReply>(kChief),
    Says<CodeRequest>(kWorker),    Says<CodeBlock>(kChief),
    Says<EpilogueGrant>(kChief),   Says<RecordRequest>(kWorker),
    Says<EpilogueDone>(kWorker),   Says<PlacementRequest>(kViewer),
    Says<ShareMemory>(kPullers),   Says<MemoryDoor>(kPs),
};
constexpr bool IsComplete() {
  for (size_t i = 0; i < std::size(kTable); ++i) {
    if (kTable[i].message != i) return false;
  }
  return std::size(kTable) == std::variant_size_v<MessageKinds>;
}
static_assert(IsComplete(), "one row for each kind of message, in the order of Message");

// Whoever joins says what it is; the key must say the same.
bool JoinsAsWhatItIs(PeerRole role, const Join& join) {
  switch (join.role) {
    case TaskRole::kPs:
      return role == PeerRole::kPs;
    case TaskRole::kWorker:
      return role == PeerRole::kWorker;
    case TaskRole::kChief:
      break;
  }
  return false;
}

}  // namespace

const char* NameOf(PeerRole role) {
  constexpr const char* kNames[] = {"chief", "ps", "worker", "client", "viewer"};
  static_assert(std::size(kNames) == std::size(kAllPeerRoles));
  return kNames[static_cast<size_t>(role)];
}

absl::Status CheckSpeaker(PeerRole role, const Message& message) {
  const auto* join = std::get_if<Join>(&message);
  const bool may = (kTable[message.index()].speakers & Only(role)) != 0;
  // A viewer reads as nobody: in a worker's name it would shut that worker out, whose name is its who speaks first.
  if (may && role == PeerRole::kViewer && SpeakerOf(message) != Incarnation::kNone) {
    return absl::PermissionDeniedError(
        absl::StrCat("its key is a viewer's, who may not say ", NameOf(message), " in the name of a member"));
  }
  if (may && (join == nullptr || JoinsAsWhatItIs(role, *join))) return absl::OkStatus();
  return absl::PermissionDeniedError(absl::StrCat("its key is a ", NameOf(role), "'s, who may not say ",
                                                  NameOf(message), may ? " as another role" : ""));
}

Incarnation SpeakerOf(const Message& message) {
  return std::visit(
      [](const auto& said) {
        if constexpr (requires { said.from; }) {
          return said.from;
        } else {
          return Incarnation::kNone;
        }
      },
      message);
}

}  // namespace downpour
