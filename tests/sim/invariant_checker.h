// The invariants, held against every step of every role: through the roles' const accessors, the messages they send and
// the reference state.
//
//   InvariantChecker checker(&world, &oracle, &reference);
//   world.set_checker([&](const Process&) -> InvariantChecker& { return checker; });
//
// Rules that one process keeps by itself are watched by parts of their own: the other *_rules.h.
//
// Findings, beside the reference state's own:
//   all     says something in a run that it is not of; answers, takes or counts what was said in another one,
//           or does not count it as rejected
//   ps      serves a pair that its records do not make; answers, values or snapshot records that are not its state;
//           leaves, told to stop, before a checkpoint holds what it had counted by then, though neither time nor job is
//           over
//   worker  pushes a gradient under another name, from other values than it says, beyond the ps's window; computes a
//           step before every slice has told it how far the lease is, or one that none lacks; holds too much; does not
//           send again what was unanswered when its connection stands again
//   chief   an incarnation given twice; a worker taken in beyond the number that the job
//           wants, or retired within it; an epoch or version going back; a lease committed that some slice's current
//           epoch lacks; somebody held dead whom it did not listen to for so long; a grant to a request that a later
//           one has overtaken; a slice begun from initial values where its journal knows of a checkpoint that nobody
//           gave up; a number of workers that its journal does not have; a command obeyed that is for another chief, or
//           out of its place, or twice, or that it declines; a manifest that is not durable, does not cover what it
//           says or holds no consistent pairs, or that may outlive what it names; a best checkpoint that its journal or
//           its summary names and that is not whole, or goes while the journal names it, or is worse than the one
//           before; a checkpoint that its journal names and a power failure may take; an end with success before a
//           durable checkpoint holds every lease
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "chief/best_checkpoint.h"
#include "schema/checkpoint_format.h"
#include "tests/sim/reference_state.h"
#include "tests/sim/rules.h"
#include "tests/sim/world.h"

namespace downpour {

struct JobRecord;

class InvariantChecker final : public Rules {
 public:
  // Over the run of the world's folder, as it is now.
  InvariantChecker(World* world, const Oracle* oracle, ReferenceState* reference);

  void Before(const Process& process, const Input& input) override;
  void OnEffect(const Process& process, const Effect& effect) override;
  void After(const Process& process) override;
  void OnStored(const StorageOp& op);
  void OnPowerFailure();
  void OnPutBack();  // of the folder, to an earlier state

  // Watches over readers too, who are no members.
  Observer* of_readers() { return of_readers_; }

  // Of the newest round whose manifest was called durable.
  const std::optional<Manifest>& durable() const { return durable_; }
  // Every record so far, by process, as the ledger checker reads them.
  const std::map<Life, std::vector<TraceRecord>>& traces() const { return traces_; }
  // Whether its chief has told that worker that the job does without it.
  bool IsRetired(Life life) const { return retired_.contains(life); }
  std::vector<Life> TakeRetired() { return std::exchange(newly_retired_, {}); }
  // Whether a chief has told anybody of success.
  bool told_success() const { return told_success_; }
  bool told_cancelled() const { return told_cancelled_; }
  // A person's word: what that checkpoint and older ones held may be trained again.
  void GiveUp(Round round) { abandoned_ = round; }
  // Of that round a record was damaged, or may be, and nobody has noticed yet.
  void NoteDamage(Round round) { damaged_.insert(round); }
  // A new generation must make its own checkpoint before it ends.
  void Forget() {
    if (durable_) before_ = std::exchange(durable_, std::nullopt);
  }
  // Unless it finds that the job was over.
  void Recall() {
    if (!durable_) durable_ = before_;
  }
  // Whether a checkpoint of this generation, or of those before, holds the first so many leases.
  bool EverHeld(uint64_t leases) const {
    const auto holds = [leases](const auto& manifest) {
      return manifest && manifest->committed.CoversRange(0, leases);
    };
    return holds(durable_) || holds(before_);
  }
  // That chief has promised a checkpoint, and none is durable that it began since.
  bool OwesCheckpoint(Life chief) const { return owed_ && owed_->chief == chief; }
  // As many leases, the first ones, end the job, by the newest journal on disk.
  uint64_t goal() const;
  uint64_t LeasesOfJob() const;  // unless it stops early
  // After success: the summary, and the durable checkpoint against what the whole plan sums to, without the reference
  // state.
  void CheckEnd();

 private:
  void OnReceived(const Process& process, const Received& received);
  void OnReceivedByWorker(const Process& worker, const Received& received);
  void OnToldToStop(const Process& process);
  void OnSend(const Process& process, const Send& send);
  void OnExit(const Process& process, int code);
  void OnTrace(const Process& process, const TraceRecord& record);
  void OnCompute(const Process& process, const Compute& compute);
  void Check(const Process& process, PeerId to, const Welcome& welcome);
  void Check(const Process& process, PeerId to, const HeartbeatReply& reply);
  void Check(const Process& process, PeerId to, const Assign& assign);
  void Check(const Process& process, PeerId to, const RestoreSlice& restore);
  void AddBegun(const Process& process, SliceId slice);
  bool IsBeyond(const Process& chief, absl::string_view name) const;
  void Check(const Process& process, PeerId to, const JobEnd& end);
  void Check(const Process& process, PeerId to, const Grant& grant);
  void Check(const Process& process, PeerId to, const SnapshotRequest& request);
  void Check(const Process& process, PeerId to, const WriteShard& request);
  void Check(const Process& process, PeerId to, const Push& push);
  void Check(const Process& process, PeerId to, const PushReply& reply);
  void Check(const Process& process, PeerId to, const PullReply& reply);
  void CheckRows(const Process& process, const PullReply::Item& item);
  void Check(const Process& process, PeerId to, const SliceRecord& record);
  void Check(const Process& process, PeerId to, const EvalDone& done);
  void Check(const Process& process, PeerId to, const ControlReply& reply);
  void Check(const Process&, PeerId, const auto&) {}

  // Bytes of the pushes of one worker that one ps has not answered, by name.
  struct InFlight {
    uint64_t window = 0;  // as the ps last said
    std::map<std::tuple<LeaseId, Step, SliceId>, uint64_t> sent;
  };
  void CheckWindow(const Process& process, PeerId to, const Push& push);
  void CheckSentAgain(const Process& worker);
  void Answered(Life worker, PeerId ps, const PushReply& reply);
  void GivenBack(Life worker, const PushReply& reply);
  // What a slice told a worker of a lease.
  struct Told {
    SliceEpoch epoch;
    Step consumed = 0;
  };
  void Tell(Life worker, const PushReply& reply);
  void CheckForeign(const Process& process);
  bool IsOfAnothersSlice(const Process& worker, const Received& received) const;
  void CheckLost(const Process& chief);
  Version ComputedFrom(const TraceRecord& record) const;
  void CheckCounted(const Process& process, const TraceRecord& record);
  void CheckServed(const Process& process, SliceId slice);
  void CheckKept(const Process& ps, const TraceRecord& counted);
  void CheckChief(const Process& process);
  void CheckWorkers(const Process& process);
  void OnJournalled(const JobRecord& record);
  void CheckManifest(Round round);
  void OnBest(const BestRecord& best);
  void CheckBestIsThere(Round round, const std::string& where);
  void CheckNewest(Round newest);
  bool MayBeDamaged() const;
  void CheckNamed(const std::string& manifest);
  void CheckKeeps(const std::string& removed);
  void CheckSummary();
  absl::StatusOr<SliceState> ReadRecord(const Manifest& manifest, size_t index) const;
  absl::StatusOr<SliceState> ReadBucket(SliceId bucket, const Payload& record) const;

  const Oracle* oracle_;
  ReferenceState* reference_;
  const Disk* folder_;
  std::vector<std::unique_ptr<Observer>> parts_;
  Observer* of_readers_;  // one of them
  std::map<Life, std::vector<TraceRecord>> traces_;
  std::vector<std::pair<PeerId, Message>> sent_;  // in this Step
  std::set<SliceId> touched_;                     // by this Step's records
  std::optional<Received> foreign_;               // that this Step is given
  uint64_t rejected_before_ = 0;                  // messages, by the member that it is given to
  size_t held_before_ = 0;                        // leases, by the worker that it is given to
  std::optional<Manifest> durable_;
  std::optional<Manifest> before_;  // of the generation before
  Round journalled_;                // the newest checkpoint, as both copies of the journal have it
  BestRecord best_;                 // as the journal that is on the disk has it
  Round abandoned_;
  std::set<Round> damaged_;
  std::set<Round> kept_;  // that became durable, whatever became of them since
  bool told_success_ = false;
  bool told_cancelled_ = false;

  std::map<std::pair<Life, PeerId>, uint64_t> joiners_;  // nonce by the chief's connection
  std::map<Incarnation, uint64_t> given_;                // nonce by incarnation
  std::map<std::string, Incarnation> names_;             // who has the name now
  std::map<Round, IntervalSet> committed_at_start_;
  std::vector<SliceEpoch> epochs_;
  std::vector<SliceEpoch> settled_epochs_;  // of when the next was checked
  IntervalSet committed_;
  std::map<uint64_t, uint32_t> evaluated_;  // values by versions digest
  std::map<std::pair<Life, PeerId>, InFlight> in_flight_;
  // What a ps owes answers for, over a connection that stands again in this Step.
  std::optional<std::pair<PeerId, decltype(InFlight::sent)>> owed_again_;
  std::map<std::pair<Life, Incarnation>, uint64_t> windows_;       // as each ps last said, whatever its address
  std::map<std::pair<Life, std::string>, Incarnation> addresses_;  // of ps, as a worker's last placement had them
  std::map<std::pair<Life, LeaseId>, std::map<SliceId, Told>> told_;
  struct Heard {
    Life by{};
    Time at;
    Duration away{};  // as Process::away, then
  };
  std::map<Incarnation, Heard> heard_;
  std::vector<Incarnation> lost_;  // as the chief last had them
  struct ToldToStop {
    Time at;
    size_t records = 0;  // that it had written then
  };
  std::map<Life, ToldToStop> told_to_stop_;  // ps
  bool hears_end_ = false;                   // of the job, in this Step
  std::set<Life> retired_;                   // workers that were told so
  std::vector<Life> newly_retired_;
  std::optional<Control> command_;                // that the chief at hand steps on
  std::map<uint64_t, ControlKind> asked_for_;     // by the nonces of commands
  std::map<Life, uint64_t> commands_;             // that each chief has obeyed
  std::set<std::pair<Life, uint64_t>> obeyed_;    // their nonces
  std::set<std::pair<Life, uint64_t>> answered_;  // likewise, with kAccepted
  struct Owed {
    Life chief{};
    Round after;  // the newest that it had begun by then
  };
  std::optional<Owed> owed_;               // a checkpoint, to a person
  uint32_t workers_ = 0;                   // as the journal has it
  uint64_t ends_after_ = 0;                // likewise, with which it ends early; 0: it does not
  uint32_t workers_before_ = 0;            // likewise, the number before that under this chief
  uint64_t chiefs_ = 0;                    // that have led the job by then
  std::optional<Push> push_;               // that the ps at hand steps on
  std::optional<Pull> pull_;               // likewise
  std::map<Incarnation, uint64_t> asked_;  // numbers of the newest WorkRequests that a chief heard
  Incarnation overtaken_{};                // whose earlier one the chief at hand steps on
};

}  // namespace downpour
