// Everything that is said between processes, as owned C++ structs. PROTOCOL.md tells the conversations; codec.h turns a
// Message into frames and back and is the only place that knows FlatBuffers.
//
// Rules: any message may be lost, doubled or late. Whoever needs an answer asks again; every request may be answered
//   again. Names are for people: a process is an Incarnation, a placement is a SliceEpoch. Both are of one run, whose
//   number travels beside every Message (Send and Received in runtime/role.h).
// Bounds: codec.cc checks every count, string and payload against limits in codec.h; a decoded Message is within them
//   and finite where it says so, but what it names (slices, leases) the receiver checks against its own grid and plan.
#pragma once

#include <variant>

#include "schema/message_membership.h"
#include "schema/message_slices.h"
#include "schema/message_work.h"

namespace downpour {

using MessageKinds =
    std::variant<Join, Welcome, Refused, Heartbeat, HeartbeatReply, OpenBulk, Leave, JobEnd, Assign, RestoreSlice,
                 SliceReport, Placement, DataReport, WorkRequest, Grant, EvalGrant, LeaseDone, LeaseDoneReply, EvalDone,
                 EvalDoneReply, Violation, Push, PushReply, Probe, Pull, PullReply, SnapshotRequest, SliceRecord,
                 WriteShard, ShardWritten, StatusRequest, StatusReply, Control, ControlReply, CodeRequest, CodeBlock,
                 EpilogueGrant, RecordRequest, EpilogueDone, PlacementRequest, ShareMemory, MemoryDoor>;

// One of them. What copies, moves and destroys it is compiled once, in message.cc: inline, it would cost half a second
// in each source that includes this file.
struct Message : MessageKinds {
  using MessageKinds::MessageKinds;
  Message();
  Message(const Message& other);
  Message(Message&& other) noexcept;
  Message& operator=(const Message& other);
  Message& operator=(Message&& other) noexcept;
  ~Message();
};

// Push, PullReply and so on; for logs and counters.
const char* NameOf(const Message& message);

}  // namespace downpour
