// SliceRestore: from where the state of each slice comes, until its ps has reported it. That ps may hold it since an
// earlier chief; else checkpoints' records are tried, newest first; where there is none, a slice has initial values.
//
//   restore.Open(train_examples, {checkpoints, lost, initial});
//   placement.Move(slice, server);                          // chief/known/slice_placement.h
//   restore.Begin(slice, SliceRestore::From::kRecord);      // for each slice that was moved
//   ...Tick(), Receive(report) until restore.complete()...
//   ledger.Open(plan, restore.TakeFinished());
//
// Order: a slice is moved before it is begun, so its epoch has risen before anything is said about its new source. What
//   a ps held counts only if it has all that the newest checkpoint says is committed: a process that stood still while
//   another one was in its place has not. A record that is damaged on disk, or that its ps cannot install, costs that
//   slice an older state and no other slice anything. One that cannot be read may be whole: it is tried kReads times,
//   ever more rarely, before an older one, each time behind all that are due before it. An older one goes to the same
//   ps in the slice's next epoch.
//   A bucket's record goes in pieces, of which kPiecesAhead are on their way: its ps says how many it has.
// Cost: memory is kRestoreWindow and a record per ps; each report costs a few slices, a repeated Assign all that have
//   not reported. However many wait for their disk, they cost a report nothing.
// Errors: Receive gives INVALID_ARGUMENT for what no honest ps reports. failure() is INTERNAL once a slice cannot even
//   be born, DATA_LOSS once no checkpoint's record of it can be used: initial values would lose the training in
//   silence.
// Source: protocol rules core 4 and 6, A3, A9 (schema/PROTOCOL.md).
// Tests: tests/unit/chief/slice_restore_test.cc, slice_restore_reads_test.cc, slice_restore_window_test.cc.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "chief/folder/storage.h"
#include "chief/known/failure_log.h"
#include "chief/known/membership.h"
#include "chief/known/slice_placement.h"
#include "job/slice_grid.h"
#include "schema/checkpoint_format.h"
#include "schema/limits.h"

namespace downpour {

class SliceRestore {
 public:
  // Bytes of records being read or sent and not yet reported, of one ps: enough that the disk, the link and the ps are
  // busy side by side all the time. A smaller record counts as kLeastRecord, so that no queue of messages overflows.
  static constexpr uint64_t kRestoreWindow = uint64_t{8} << 20;
  static constexpr uint64_t kLeastRecord = uint64_t{256} << 10;
  static constexpr uint32_t kPiecesAhead = 4;
  // Of one record that cannot be read: 22 s by default, in which a disk or a mount may come back.
  static constexpr int kReads = 7;

  SliceRestore(StepContext& context, Storage& storage, const Membership& members, FailureLog& failures,
               SlicePlacement& placement, const Timing& timing, uint64_t piece_bytes = kPieceBytes)
      : context_(context),
        storage_(storage),
        members_(members),
        failures_(failures),
        placement_(placement),
        grid_(placement.grid()),
        timing_(timing),
        piece_bytes_(piece_bytes) {}

  // What there is to restore from.
  struct Sources {
    std::vector<Manifest> checkpoints;  // those of this plan, newest first
    std::string lost;                   // why there are none, though there were; empty: there were none
    // Values that the user gave the job to begin with, as records that no push has touched; without, a ps makes its
    // own.
    std::optional<Manifest> initial;
  };
  void Open(uint64_t train_examples, Sources sources);
  // Checkpoints as they are now, newest first.
  void Learn(std::vector<Manifest> checkpoints);

  // kPs: the ps at which the slice is holds it, and else as kRecord.
  enum class From { kPs, kRecord };
  void Begin(SliceId slice, From from);
  void Tick();
  absl::Status Receive(const SliceReport& report);
  // The server has a new bulk link: records that it has not reported go again with the next Tick.
  void SendAgain(Incarnation server);

  bool complete() const { return !slices_.empty() && reported_ == slices_.size(); }
  const absl::Status& failure() const { return failure_; }
  // Leases that each slice which was begun since the last call holds; once complete().
  IntervalSet TakeFinished() { return std::exchange(finished_, std::nullopt).value_or(IntervalSet()); }
  // As many leases, the first ones, of which some slice has said that it finished the last: it may be the only one.
  uint64_t leases_begun() const { return leases_begun_; }

  // What a ps has still to report.
  struct Missing {
    size_t slices = 0;
    Time since{};  // it last reported any; where there are none it means nothing
  };
  Missing MissingOf(ServerId server) const;

 private:
  struct Coming {       // a slice's state
    ServerId to{};      // its ps, as the slice was begun
    bool held = false;  // its ps is to go on with what it has
    size_t source = 0;  // else: so many of sources_ are still to be tried, the last of them now; 0: what it begins with
    enum class Stage { kWaiting, kReading, kSending, kReported } stage = Stage::kWaiting;
    int failed_reads = 0;              // of this source's record
    Time next_read{};                  // as in to_read
    std::vector<Payload> record = {};  // kSending, as is the next
    bool sent = false;
    // Of a bucket, whose `record` has the pieces that were read and not taken.
    uint32_t taken = 0;  // pieces that its ps has
    uint32_t checksum = 0;
    bool reads_piece = false;
    std::string passed_over = {};  // why the newest checkpoint's record cannot be used
  };
  struct Receiver {  // a ps that has not reported all of its slices
    size_t unreported = 0;
    std::set<std::pair<Time, SliceId>> to_read;  // whose record is to be read, from then on
    std::set<SliceId> on_their_way;              // whose record is being read or sent: no more than the window holds
    Time next_assign{};
    Time progressed{};
    Time next_resend{};
    Duration backoff{};  // without a report, before records are sent again; doubled each time
  };
  Coming& At(SliceId slice) { return slices_[ToNumber(slice)]; }
  const Coming& At(SliceId slice) const { return slices_[ToNumber(slice)]; }
  Receiver& ReceiverOf(const Coming& coming) { return receivers_.at(coming.to); }
  const std::string& NameOf(const Coming& coming) const { return placement_.At(coming.to).name; }
  static bool Begins(const Coming& coming) { return !coming.held && coming.source == 0; }
  SliceSource KindOf(SliceId slice) const {
    const Coming& coming = At(slice);
    if (coming.held) return SliceSource::kHeld;
    // The values that the user gave are those of all slices, or of variables alone.
    const bool is_made = !initial_ || ToNumber(slice) >= initial_->records.size();
    return Begins(coming) && is_made ? SliceSource::kInitialValues : SliceSource::kCheckpoint;
  }
  const Manifest& SourceOf(const Coming& coming) const {
    return coming.source == 0 ? *initial_ : sources_[coming.source - 1];
  }
  void Begin(SliceId slice, bool held, size_t source);
  void Leave(ServerId receiver);
  void SendAssign(ServerId to, Receiver& receiver);
  void SendRecords(Receiver& receiver);
  void ReadFrom(SliceId slice, Time when);
  void StopRestoring(SliceId slice);
  uint64_t ShareOfWindow(SliceId slice) const;
  void Read(SliceId slice);
  void ReadNextPiece(SliceId slice);
  void PieceDone(SliceId slice, SliceEpoch epoch, const StorageDone& done);
  absl::Status TakePieces(const SliceReport::Item& item);
  void ReadDone(SliceId slice, SliceEpoch epoch, const StorageDone& done);
  void ReadFailed(SliceId slice, const absl::Status& status);
  void Send(SliceId slice);
  void SendPiece(SliceId slice, uint32_t piece);
  void SendBlocks(SliceId slice, std::vector<Payload> blocks, uint32_t piece, bool more);
  void FallBack(SliceId slice, const std::string& why);
  absl::Status ReceiveItem(const SliceReport& report, const SliceReport::Item& item);

  StepContext& context_;
  Storage& storage_;
  const Membership& members_;
  FailureLog& failures_;
  SlicePlacement& placement_;  // a slice that gets an older state is moved to where it is
  const SliceGrid& grid_;
  const Timing timing_;
  const uint64_t piece_bytes_;

  uint64_t train_examples_ = 0;
  std::vector<Manifest> sources_;    // oldest first, so that newer ones change no index; while any slice needs them
  std::optional<Manifest> initial_;  // as Open was told, as is the next
  std::string lost_;
  std::set<std::string> tried_again_;  // files of which some record could not be read, and somebody was told
  std::set<std::string> abandoned_;    // those of which one stayed unreadable: the others are tried once
  std::vector<Coming> slices_;         // by slice
  std::map<ServerId, Receiver> receivers_;
  size_t reported_ = 0;                  // slices in stage kReported
  std::optional<IntervalSet> finished_;  // what all have finished that reported since TakeFinished (A3)
  uint64_t leases_begun_ = 0;
  absl::Status failure_;  // once it is not OK nothing is asked any more
};

}  // namespace downpour
