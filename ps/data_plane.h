// The answers that workers get: push, probe and pull against one shard.
//
//   DataPlane plane(training, window, &session, &quarantine, &applying);
//   plane.Configure(training, grid, plan);                // before the first push to a slice
//   plane.Serve(worker, push, shard, effects);      // sends one PushReply
//
// Order: a message is admitted whole or refused whole (admission.h); each of its slices is then judged, applied and
//   counted in one go, so nothing ever sees half a push.
// Cost: a push costs its apply kernels; a pull costs references, and in bfloat16 one rounding for each version.
// Errors: a breach of the protocol is answered kWrongShape, told to the chief once, and ejects its sender here: the
//   process that it says to be, and the connection.
// Tests: tests/scenario/ps_*.txt.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>

#include "ps/admission.h"
#include "ps/consistency_policy.h"
#include "ps/optimizer.h"
#include "ps/quarantine.h"
#include "ps/shard.h"
#include "runtime/member_session.h"
#include "runtime/options.h"
#include "runtime/role.h"
#include "schema/message.h"

namespace downpour {

class DataPlane {
 public:
  // All of these outlive this.
  DataPlane(const TrainingSpec& training, Window window, MemberSession* session, const Quarantine* quarantine,
            Applying* applying)
      : policy_(training),
        window_(window),
        session_(*session),
        quarantine_(*quarantine),
        applying_(*applying),
        as_(session->incarnation()) {}

  // Answers as this incarnation, under which a chief has placed slices here: workers hear of it with that placement,
  // and until then it is the one before that they know.
  void ServeAs(Incarnation incarnation) { as_ = incarnation; }

  // Of pushes from now on.
  void Configure(const JobSpec& job, const SliceGrid& grid, const Plan& plan) {
    optimizer_.emplace(job, grid, plan);
    policy_ = ConsistencyPolicy(job.training);
  }

  // Whether it broke the protocol before: whatever it says is refused.
  bool HasEjected(PeerId worker, Incarnation process) const { return ejected_.Contains(worker, process); }

  // Returns the bytes of the gradients, or values, that came or went. `shard` is null as long as nothing is assigned:
  // then every slice is answered kNotHere.
  size_t Serve(PeerId worker, const Push& push, Shard* shard, Effects& effects);
  size_t Serve(PeerId worker, const Probe& probe, Shard* shard, Effects& effects);
  size_t Serve(PeerId worker, const Pull& pull, Shard* shard, Effects& effects);
  // Of one that is no member. False: it broke the protocol, and is not answered. Nobody but its connection is to blame.
  bool ServeReader(PeerId reader, const Pull& pull, Shard* shard, Effects& effects);

 private:
  template <typename Request>
  bool Admits(PeerId worker, const Request& request, const Shard* shard, Effects& effects);
  size_t AnswerPull(PeerId to, const Pull& pull, bool admitted, Shard* shard, Effects& effects);
  PushReply::Item ServeItem(const Push& push, const Push::Item& item, Shard& shard, Effects& effects);
  // What is next; whether its gradient had an effect.
  bool Consume(const Push& push, const Push::Item& item, std::optional<uint64_t> staleness, const Shard& shard,
               ServedSlice& slice, Effects& effects);
  bool Apply(const PushName& name, const Payload& gradient, std::optional<uint64_t> staleness, const Shard& shard,
             ServedSlice& slice);
  bool ConcludesGroup(LeaseId lease, const Shard& shard, const ServedSlice& slice) const;
  void SaySkipped(const PushName& name, const Push& push, Effects& effects);
  void SayNoRoom(const Push& push, SliceId slice, Effects& effects);
  void Trace(TraceRecord::Kind kind, const Push& push, SliceId id, const ServedSlice& slice, Effects& effects) const;

  std::optional<Optimizer> optimizer_;  // of the newest chief's job text and the plan; set where there is a shard
  ConsistencyPolicy policy_;            // of that text too: whether a push may count
  Window window_;                       // told with each answer: what a worker may have unanswered here
  MemberSession& session_;              // counts pushes, and tells the chief of violations
  const Quarantine& quarantine_;        // pushes at which two processes of this task crashed
  Applying& applying_;                  // names the push at hand, for a note if it crashes the process
  Incarnation as_;                      // a worker takes answers of the incarnation in its placement alone (A9)
  EjectedPeers ejected_;                // bounded: a peer that was forgotten is checked again
  uint64_t breaches_ = 0;               // of all peers; logged ever more rarely
  uint64_t no_room_ = 0;                // pushes that began no lease for want of room
};

}  // namespace downpour
