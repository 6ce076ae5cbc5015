// Which ps holds which slice, in which epoch, and how it gets its state: what it held under an earlier chief, then
// checkpoints, newest first; initial values where there is none.
//
//   assignment.Place(term, servers, train_examples, checkpoints);
//   ...Tick, Receive(report) until complete()...
//   ledger.Open(plan, assignment.TakeFinished());
//   assignment.TakeOver(servers, checkpoints);      // other processes came in the place of some; then again as above
//
// Order: a slice's epoch rises before anything is said about its new source. What a ps held counts only if it has all
//   that the newest checkpoint says is committed: a process that stood still while another one was in its place has
//   not. A record that is damaged on disk, or that its ps cannot install, costs that slice an older state and no other
//   slice anything. One that cannot be read may be whole: it is tried kReads times, ever more rarely, before an older
//   one, each time behind all that are due before it.
//   A bucket's record goes in pieces, of which kPiecesAhead are on their way: its ps says how many it has.
// Cost: memory is kRestoreWindow and a record per ps; each report costs a few slices, a repeated Assign all that have
//   not reported. However many wait for their disk, they cost a report nothing.
// Errors: Receive gives INVALID_ARGUMENT for what no honest ps reports. failure() is INTERNAL once a slice cannot even
//   be born, DATA_LOSS once no checkpoint's record of it can be used: initial values would lose the training in
//   silence.
// Source: protocol rules core 4 and 6, A3, A9 (schema/PROTOCOL.md).
// Tests: tests/unit/chief/assignment_test.cc, assignment_window_test.cc.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "chief/folder/storage.h"
#include "chief/known/failure_log.h"
#include "chief/known/membership.h"
#include "job/slice_grid.h"
#include "schema/checkpoint_format.h"
#include "schema/limits.h"

namespace downpour {

class Assignment {
 public:
  // Bytes of records being read or sent and not yet reported, of one ps: enough that the disk, the link and the ps are
  // busy side by side all the time. A smaller record counts as kLeastRecord, so that no queue of messages overflows.
  static constexpr uint64_t kRestoreWindow = uint64_t{8} << 20;
  static constexpr uint64_t kLeastRecord = uint64_t{256} << 10;
  static constexpr uint32_t kPiecesAhead = 4;
  // Of one record that cannot be read: 22 s by default, in which a disk or a mount may come back.
  static constexpr int kReads = 7;

  Assignment(StepContext& context, Storage& storage, const Membership& members, FailureLog& failures,
             const SliceGrid& grid, const Timing& timing, uint64_t piece_bytes = kPieceBytes)
      : context_(context),
        storage_(storage),
        members_(members),
        failures_(failures),
        grid_(grid),
        timing_(timing),
        piece_bytes_(piece_bytes) {}

  // `checkpoints`: those of this plan, newest first. `lost`: why there are none, though there were; empty: there were
  // none. `initial`: values that the user gave the job to begin with, as records that no push has touched; without, a
  // ps makes its own.
  void Place(uint32_t term, const std::vector<Task*>& servers, uint64_t train_examples,
             std::vector<Manifest> checkpoints, std::string lost = "", std::optional<Manifest> initial = {});
  // Servers under whose name there is another process now: its slices are that one's, in new epochs.
  void TakeOver(const std::vector<Task*>& servers, std::vector<Manifest> checkpoints);
  void Tick();
  absl::Status Receive(const SliceReport& report);
  // The same process, perhaps at another address now: workers learn it with the next placement.
  void Follow(const Task& task);
  // The server has a new bulk link: records that it has not reported go again with the next Tick.
  void SendAgain(Incarnation server);

  const SliceGrid& grid() const { return grid_; }
  bool placed() const { return !homes_.empty(); }
  bool complete() const { return placed() && reported_ == homes_.size(); }
  const absl::Status& failure() const { return failure_; }

  const std::vector<SliceEpoch>& epochs() const { return epochs_; }  // by slice; empty before Place
  uint32_t term() const { return term_; }
  uint64_t placement_number() const { return placement_number_; }    // rises with each change of any epoch or address
  // Leases that each slice which was placed since the last call holds; once complete().
  IntervalSet TakeFinished() { return std::exchange(finished_, std::nullopt).value_or(IntervalSet()); }

  // As many leases, the first ones, of which some slice has said that it finished the last: it may be the only one.
  uint64_t leases_begun() const { return leases_begun_; }

  Placement ToPlacement(Incarnation worker) const;

  struct Server {
    Incarnation incarnation{};
    std::string name;
    std::string endpoint;
    bool holds = false;           // it kept what it had under an earlier chief
    std::vector<SliceId> slices;  // ascending
    size_t unreported = 0;
    std::set<std::pair<Time, SliceId>> to_read;  // whose record is to be read, from then on
    std::set<SliceId> on_their_way;              // whose record is being read or sent: no more than the window holds
    Time next_assign{};
    Time progressed{};
    Time next_resend{};
    Duration backoff{};  // without a report, before records are sent again; doubled each time
  };
  const std::vector<Server>& servers() const { return servers_; }
  bool IsServer(Incarnation incarnation) const;

 private:
  struct Home {
    uint32_t server = 0;
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
  Home& HomeOf(SliceId slice) { return homes_[ToNumber(slice)]; }
  static bool Begins(const Home& home) { return !home.held && home.source == 0; }
  SliceSource KindOf(SliceId slice) const {
    const Home& home = homes_[ToNumber(slice)];
    if (home.held) return SliceSource::kHeld;
    // The values that the user gave are those of all slices, or of variables alone.
    const bool is_made = !initial_ || ToNumber(slice) >= initial_->records.size();
    return Begins(home) && is_made ? SliceSource::kInitialValues : SliceSource::kCheckpoint;
  }
  const Manifest& SourceOf(const Home& home) const { return home.source == 0 ? *initial_ : sources_[home.source - 1]; }
  void Learn(std::vector<Manifest> checkpoints);
  void Fill(Server& server, const Task& task);
  void Renew(SliceId slice, bool held, size_t source);
  void SendAssign(Server& server);
  void Restore(Server& server);
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
  const SliceGrid& grid_;
  const Timing timing_;
  const uint64_t piece_bytes_;

  uint32_t term_ = 0;  // of every epoch that is given out here; no earlier chief had it (A11)
  uint64_t train_examples_ = 0;
  std::vector<Manifest> sources_;    // oldest first, so that newer ones change no index; while any slice needs them
  std::optional<Manifest> initial_;  // as Place was told, as is the next
  std::string lost_;
  std::set<std::string> tried_again_;  // files of which some record could not be read, and somebody was told
  std::set<std::string> abandoned_;    // those of which one stayed unreadable: the others are tried once
  std::vector<Server> servers_;        // by place: a successor takes over its predecessor's row
  std::vector<Home> homes_;            // by slice
  std::vector<SliceEpoch> epochs_;
  uint64_t placement_number_ = 0;        // rises with every epoch: a worker with an older placement gets this one
  size_t reported_ = 0;                  // slices in stage kReported
  std::optional<IntervalSet> finished_;  // what all have finished that reported since TakeFinished (A3)
  uint64_t leases_begun_ = 0;
  absl::Status failure_;  // once it is not OK nothing is asked any more
};

}  // namespace downpour
