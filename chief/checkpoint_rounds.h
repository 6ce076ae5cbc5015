// Checkpoint rounds: every slice's record brought into files, and a manifest that makes them a checkpoint.
//
//   rounds.Start({1, 4}, head, /*urgent=*/false);
//   ...Tick, Receive(record) until !rounds.active()...
//
// Order: records are appended to one file per ps, one append at a time; files synced, the folder synced, the manifest
//   written beside, synced, renamed, the folder synced: from then on the round is durable, and only then older ones go.
//   via shared a ps writes and syncs its file itself. Of a bucket's record it makes few parts beyond those that were
//   confirmed here.
// Cost: memory is that of kRecordsInFlight records and kRecordPartsAhead parts per ps; a Step checksums no more than
//   that.
// Errors: whatever fails, the round is abandoned and the older checkpoints stay: a write, a silent ps, records that
//   skipped too many pushes (see too_many_skipped). last_error() says why. Receive gives INVALID_ARGUMENT for what no
//   honest ps sends; via shared that ends the round too, since nobody knows how long a
//   file may take and nothing else would. A record that lacks a lease which was committed when the round began ends no
//   round: the manifest does not promise that lease, and TakeLacking() names it.
// Source: protocol rules A4, A5 (schema/PROTOCOL.md); docs/CHECKPOINT_FORMAT.md.
// Tests: tests/unit/chief/checkpoint_rounds_test.cc.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "chief/folder/checkpoint_store.h"
#include "chief/known/data_plan.h"
#include "chief/known/failure_log.h"
#include "chief/known/membership.h"
#include "chief/known/slice_placement.h"
#include "job/job.h"

namespace downpour {

class CheckpointRounds {
 public:
  // Asked for, received or being written, of one ps.
  static constexpr size_t kRecordsInFlight = 4;
  // With `checkpoint.every: auto`: between the older ones that are kept, and between lines in the log.
  static constexpr std::chrono::milliseconds kApart = std::chrono::minutes(1);
  static constexpr Duration kWordsEvery = 10s;

  CheckpointRounds(StepContext& context, Storage& storage, const Membership& members, const SlicePlacement& placement,
                   CheckpointStore& store, FailureLog& failures, const CheckpointSpec& spec, const Timing& timing)
      : context_(context),
        storage_(storage),
        members_(members),
        placement_(placement),
        store_(store),
        failures_(failures),
        spec_(spec),
        timing_(timing) {}

  struct Head {  // what a manifest says beside its records
    std::string job;
    DataShape data;
    IntervalSet committed;
    uint64_t most_skipped = UINT64_MAX;  // a round whose records skipped more pushes never becomes durable
  };
  // Of an `urgent` round the ps make their records as fast as they can, whatever it costs workers.
  void Start(Round round, Head head, bool urgent);
  void Tick();
  // The server has a new bulk link: with the next Tick it is asked again for what it owes.
  void AskAgain(Incarnation server);
  absl::Status Receive(const SliceRecord& record);
  absl::Status Receive(const ShardWritten& written);
  // What the server said was no message. It may have been the report that a round via shared waits for.
  void Rejected(Incarnation server, const std::string& why);
  // Both drop a round under way, unless its manifest is being written; then it stays active() until that is done.
  void Stop();     // nobody is told: it is not wanted any more
  void LoseAPs();  // of which it is: last_error() and the failures say so. Another process gets other epochs (A4)

  bool active() const { return active_; }
  // Of a round: the ps are asked for records, and not all of them are in their files.
  bool collecting() const { return active_ && !committing_ && files_.front().next_ask != Time{}; }
  // The last that began; before the first, the one that the job continues from. {0, 0}: there is none.
  Round newest() const { return std::max(round_, durable_ ? durable_->round : Round()); }
  // Of an error: what has to be mended; a ps alone comes and goes, and of one that is gone its slices come back.
  enum class Cause { kDisk, kPs, kPsGone };
  const std::string& last_error() const { return last_error_; }
  std::optional<Cause> last_error_cause() const { return last_error_cause_; }  // none: there is no last_error()
  bool failed() const { return failed_; }  // the newest round was abandoned, and not only stopped
  std::string writing() const;             // the round and how far it is; empty if none is active

  struct Durable {
    Round round;
    int64_t unix_ms = 0;
    uint64_t bytes = 0;
    IntervalSet committed;
    VersionSpan versions = {};  // of what it holds; of one that was read from disk it is not known
  };
  const std::optional<Durable>& durable() const { return durable_; }
  // That one, for people; empty: there is none.
  std::string DescribeLast() const { return durable_ ? DescribeCheckpoint(durable_->round, durable_->committed) : ""; }
  // Checkpoints that stay though retention would have them go, until this is said again with others.
  void Pin(const std::set<Round>& rounds);
  void Resume(const Manifest& manifest);  // durable() is this one, until there is a newer one
  void NoteLoss(const std::string& why);  // of all that were durable: last_error(), until there is a new one

  // Whom the round waits for, and since when.
  struct Wait {
    std::string task;
    Time since{};
    size_t slices = 0;
  };
  std::vector<Wait> Waits() const;

  // Leases that were committed when the round began, and that some record lacks: the counters in slices are the truth,
  // so the ledger was wrong. Each is told once.
  IntervalSet TakeLacking() { return std::exchange(lacking_, {}); }

  // How many pushes the slices skipped, once a round's records had more than Head::most_skipped. Slices keep this count
  // with their values, so it is exact where heartbeats lag behind, and whatever died meanwhile.
  std::optional<uint64_t> too_many_skipped() const { return too_many_skipped_; }

 private:
  struct Arrived {  // a record, or a part of a bucket's
    SliceId slice{};
    std::vector<Payload> blocks;
    bool is_first = true, is_last = true;
  };
  // The bucket of which parts are here, and not all. Until they are nothing else goes into the file: a record is in one
  // piece there.
  struct OpenBucket {
    SliceId slice{};
    uint64_t scan = 0;  // T4: parts of one scan make a record
    uint32_t parts = 0;
    uint32_t on_disk = 0;  // of these
  };
  struct ShardFile {  // what one ps holds, and how far that has come to the disk
    std::string name;
    Incarnation server{};
    std::string server_name;
    std::vector<SliceId> slices;
    uint64_t bytes = 0;
    uint64_t skipped = 0;  // by the slices whose records are here
    VersionSpan versions;  // of them
    std::map<SliceId, Manifest::Record> records;
    size_t asked = 0;  // of slices, in order; via chief, as are the next three
    std::set<SliceId> awaited;
    std::vector<Arrived> arrived;
    std::optional<OpenBucket> open;
    std::map<std::tuple<SliceId, uint64_t, uint32_t>, SliceRecord> early;  // by scan and part; they overtook others
    Manifest::Record growing;                                              // of what is appended now, as far as it was
    std::map<SliceId, uint32_t> unwritten;         // by bucket: its parts, with those that no append has yet
    size_t writing = 0;                            // records of the append under way
    std::map<SliceId, Manifest::Record> reported;  // via shared, as is the next: what the parts of its report said
    bool checking = false;                         // all was reported, and the file is looked for
    Time next_ask{};
    Duration backoff{};  // without an arrival, before records are asked for again
    Time progressed{};
  };
  // `then` if all went well and the round still goes on; abandons it if a write failed.
  Storage::Then InRound(std::function<void(const StorageDone&)> then);
  ShardFile* FindFile(Incarnation server);
  void Ask(ShardFile& file, bool again);
  void AskForFile(ShardFile& file);
  void AskForRecords(ShardFile& file, bool again);
  bool TakesNext(ShardFile& file, const SliceRecord& record);
  void Take(ShardFile& file, const SliceRecord& record);
  void SetAside(ShardFile& file, const SliceRecord& record);
  void TakeEarly(ShardFile& file);
  void Confirm(ShardFile& file, const std::map<SliceId, uint32_t>& written);
  absl::Status CheckSlice(const ShardFile& file, SliceId slice, SliceEpoch epoch) const;
  void PromiseOnly(const IntervalSet& finished);
  void Write(ShardFile& file);
  absl::Status TakePart(ShardFile& file, const ShardWritten& part);
  void CheckShared(ShardFile& file);
  void CommitIfComplete();
  bool SkippedTooMany();
  std::function<void(const absl::Status&)> NoteRemoval();
  void BecomeDurable(const Manifest& manifest);
  void Abandon(const std::string& why, Cause cause = Cause::kPs);  // at any stage
  bool IsCurrent(Round round) const { return active_ && round == round_; }

  StepContext& context_;
  Storage& storage_;
  const Membership& members_;
  const SlicePlacement& placement_;
  CheckpointStore& store_;
  FailureLog& failures_;
  const CheckpointSpec spec_;
  const Timing timing_;

  bool active_ = false;           // a round is under way; of an older one no completion counts
  bool committing_ = false;       // all records are in their files; the manifest is being written
  Round round_;                   // a name is used once, also where its round was abandoned (A5)
  Head head_;                     // as of the round's beginning; of `committed` what each record so far has (A4)
  bool urgent_ = false;           // the job, or a ps, ends with it
  std::vector<ShardFile> files_;  // of each ps with slices; completions refer to them, so only Start changes the list
  std::string last_error_;        // empty again once a round is durable
  std::optional<Cause> last_error_cause_;  // of that error, and no longer than it
  bool failed_ = false;                    // the newest round was abandoned; a later one clears it
  Time next_word_{};                       // that a round is durable
  std::set<Round> pinned_;                 // as the store has them
  std::optional<Durable> durable_;         // of a manifest whose rename is synced, or that was read from disk
  IntervalSet lacking_;                    // what was taken out of head_.committed; until it is taken
  std::optional<uint64_t> too_many_skipped_;
};

}  // namespace downpour
