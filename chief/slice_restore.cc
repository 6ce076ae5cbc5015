#include "chief/slice_restore.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "chief/folder/checkpoint_store.h"
#include "chief/folder/stored_record.h"
#include "schema/codec.h"

namespace downpour {
namespace {

// The longest wait for a report, before records are sent again: so many times dead_after.
constexpr int kMaxBackoff = 3;

}  // namespace

void SliceRestore::Open(uint64_t train_examples, Sources sources) {
  train_examples_ = train_examples;
  lost_ = std::move(sources.lost);
  Learn(std::move(sources.checkpoints));
  initial_ = std::move(sources.initial);
  if (initial_ && initial_->records.size() != grid_.dense() && initial_->records.size() != grid_.size()) {
    failure_ = absl::DataLossError(absl::StrCat(ManifestPath(Round()), " is of another model"));
    initial_.reset();
  }
  slices_.resize(grid_.size());
}

void SliceRestore::Learn(std::vector<Manifest> checkpoints) {
  abandoned_.clear();
  tried_again_.clear();
  if (complete()) sources_.clear();
  for (auto manifest = checkpoints.rbegin(); manifest != checkpoints.rend(); ++manifest) {
    // Slices under way name their source by its index: older ones are not put in between.
    const bool is_new = sources_.empty() || manifest->round > sources_.back().round;
    if (is_new && manifest->records.size() == grid_.size()) sources_.push_back(std::move(*manifest));
  }
}

void SliceRestore::Begin(SliceId slice, From from) { Begin(slice, from == From::kPs, sources_.size()); }

// What its older epoch held or reported counts no longer.
void SliceRestore::Begin(SliceId slice, bool held, size_t source) {
  StopRestoring(slice);
  Coming& coming = At(slice);
  const ServerId before = coming.to, to = placement_.ServerOf(slice);
  const bool was_reported = coming.stage == Coming::Stage::kReported;
  if (was_reported) --reported_;
  const auto [at, is_new] = receivers_.try_emplace(to);
  Receiver& receiver = at->second;
  if (is_new) {
    receiver.progressed = context_.now;
    receiver.backoff = timing_.data_retry;
  }
  ++receiver.unreported;
  if (!was_reported) Leave(before);
  coming = Coming{.to = to, .held = held, .source = source};
  if (KindOf(slice) == SliceSource::kCheckpoint) ReadFrom(slice, context_.now);
  if (Begins(coming) && !lost_.empty()) failure_ = absl::DataLossError(lost_);
  receiver.next_assign = context_.now;
}

// One slice fewer is missing of it.
void SliceRestore::Leave(ServerId id) {
  const auto receiver = receivers_.find(id);
  if (receiver != receivers_.end() && --receiver->second.unreported == 0) receivers_.erase(receiver);
}

SliceRestore::Missing SliceRestore::MissingOf(ServerId server) const {
  const auto receiver = receivers_.find(server);
  return receiver == receivers_.end() ? Missing() : Missing{receiver->second.unreported, receiver->second.progressed};
}

void SliceRestore::Tick() {
  if (!failure_.ok()) return;
  for (auto& [id, receiver] : receivers_) {
    if (context_.now >= receiver.next_assign) SendAssign(id, receiver);
    SendRecords(receiver);
  }
}

void SliceRestore::SendAssign(ServerId to, Receiver& receiver) {
  Assign assign{.to = to.incarnation, .train_examples = train_examples_, .slices = {}};
  for (const SliceId slice : placement_.At(to).slices) {
    if (At(slice).stage == Coming::Stage::kReported) continue;
    assign.slices.push_back({slice, placement_.EpochOf(slice), KindOf(slice)});
  }
  if (const Task* task = members_.Find(to.incarnation)) context_.out.SendTo(task->control, std::move(assign));
  receiver.next_assign = context_.now + timing_.control_retry;
}

void SliceRestore::SendRecords(Receiver& receiver) {
  const bool overdue = context_.now >= receiver.next_resend;
  bool resent = false;
  uint64_t in_flight = 0;
  for (const SliceId slice : receiver.on_their_way) {
    const Coming& coming = At(slice);
    in_flight += ShareOfWindow(slice);
    if (coming.stage == Coming::Stage::kSending && (overdue || !coming.sent)) {
      resent |= coming.sent;
      Send(slice);
    }
  }
  if (resent) {
    receiver.backoff = std::min(2 * receiver.backoff, kMaxBackoff * timing_.dead_after);
    receiver.next_resend = context_.now + receiver.backoff;
  }
  while (in_flight < kRestoreWindow && !receiver.to_read.empty()) {
    const auto [when, slice] = *receiver.to_read.begin();
    if (context_.now < when) return;
    Read(slice);
    in_flight += ShareOfWindow(slice);
  }
}

uint64_t SliceRestore::ShareOfWindow(SliceId slice) const {
  const uint64_t bytes = SourceOf(At(slice)).records[ToNumber(slice)].bytes;
  const uint64_t most = grid_.IsBucket(slice) ? kPiecesAhead * piece_bytes_ : bytes;
  return std::max(std::min(bytes, most), kLeastRecord);
}

void SliceRestore::ReadFrom(SliceId slice, Time when) {
  Coming& coming = At(slice);
  coming.stage = Coming::Stage::kWaiting;
  coming.next_read = when;
  ReceiverOf(coming).to_read.insert({when, slice});
}

void SliceRestore::StopRestoring(SliceId slice) {
  const Coming& coming = At(slice);
  const auto receiver = receivers_.find(coming.to);
  if (receiver == receivers_.end()) return;
  receiver->second.to_read.erase({coming.next_read, slice});
  receiver->second.on_their_way.erase(slice);
}

void SliceRestore::Read(SliceId slice) {
  StopRestoring(slice);
  Coming& coming = At(slice);
  ReceiverOf(coming).on_their_way.insert(slice);
  coming.stage = Coming::Stage::kReading;
  if (grid_.IsBucket(slice)) return ReadNextPiece(slice);
  storage_.Run({ReadRecord(SourceOf(coming), slice)}, [this, slice, epoch = placement_.EpochOf(slice)](
                                                          const StorageDone& done) { ReadDone(slice, epoch, done); });
}

void SliceRestore::ReadDone(SliceId slice, SliceEpoch epoch, const StorageDone& done) {
  Coming& coming = At(slice);
  // The slice may have moved on while its record was read.
  if (coming.stage != Coming::Stage::kReading || epoch != placement_.EpochOf(slice)) return;
  const absl::Status status = CheckRecord(SourceOf(coming), slice, done);
  if (!status.ok()) return ReadFailed(slice, status);
  coming.stage = Coming::Stage::kSending;
  coming.record = CutIntoFrames(done.data);
  Send(slice);
}

// Behind those that were read, unless enough are on their way.
void SliceRestore::ReadNextPiece(SliceId slice) {
  Coming& coming = At(slice);
  const uint32_t next = coming.taken + static_cast<uint32_t>(coming.record.size());
  const Manifest& manifest = SourceOf(coming);
  if (coming.reads_piece || coming.record.size() >= kPiecesAhead || next >= PiecesOf(manifest, slice, piece_bytes_))
    return;
  coming.reads_piece = true;
  storage_.Run(
      {ReadPiece(manifest, slice, next, piece_bytes_)},
      [this, slice, epoch = placement_.EpochOf(slice)](const StorageDone& done) { PieceDone(slice, epoch, done); });
}

void SliceRestore::PieceDone(SliceId slice, SliceEpoch epoch, const StorageDone& done) {
  Coming& coming = At(slice);
  if (epoch != placement_.EpochOf(slice) || coming.stage == Coming::Stage::kReported) return;
  coming.reads_piece = false;
  const uint32_t piece = coming.taken + static_cast<uint32_t>(coming.record.size());
  const absl::Status status = CheckPiece(SourceOf(coming), slice, piece, piece_bytes_, done, &coming.checksum);
  if (!status.ok()) return ReadFailed(slice, status);
  coming.stage = Coming::Stage::kSending;
  coming.failed_reads = 0;  // a disk that failed for a while is back
  coming.record.push_back(done.data);
  SendPiece(slice, piece);
  ReadNextPiece(slice);
}

// The ps confirms those that it has.
absl::Status SliceRestore::TakePieces(const SliceReport::Item& item) {
  Coming& coming = At(item.slice);
  const uint64_t sent = coming.taken + coming.record.size();
  if (!grid_.IsBucket(item.slice) || item.pieces > sent) {
    return absl::InvalidArgumentError(
        absl::StrCat("a report of ", item.pieces, " pieces of slice ", ToNumber(item.slice), ", of ", sent, " sent"));
  }
  if (item.pieces <= coming.taken) return absl::OkStatus();  // late
  coming.record.erase(coming.record.begin(), coming.record.begin() + (item.pieces - coming.taken));
  coming.taken = item.pieces;
  Receiver& receiver = ReceiverOf(coming);
  receiver.progressed = context_.now;
  // Its link is not slow, so what is missing was lost: of many pieces each lost one would double the wait.
  receiver.backoff = timing_.data_retry;
  receiver.next_resend = context_.now + receiver.backoff;
  if (coming.stage != Coming::Stage::kWaiting) ReadNextPiece(item.slice);  // else its disk is given time
  return absl::OkStatus();
}

void SliceRestore::ReadFailed(SliceId slice, const absl::Status& status) {
  Coming& coming = At(slice);
  const Manifest& manifest = SourceOf(coming);
  const std::string path = ShardPathOf(manifest, slice);
  const std::string which = absl::StrCat(path, ": the record at byte ", manifest.records[ToNumber(slice)].offset);
  if (absl::IsNotFound(status) || absl::IsDataLoss(status)) {
    FallBack(slice, absl::StrCat(which, " is damaged: ", MessageOf(status)));
    return Tick();
  }
  const std::string why = absl::StrCat(which, " cannot be read, and may be whole: ", MessageOf(status));
  if (++coming.failed_reads == kReads || abandoned_.contains(path)) {
    abandoned_.insert(path);
    FallBack(slice, why);
    return Tick();
  }
  if (tried_again_.insert(path).second) failures_.Add("chief", absl::StrCat(why, "; it is tried again"));
  StopRestoring(slice);
  ReadFrom(slice, context_.now + std::min(timing_.control_retry * (1 << coming.failed_reads), timing_.dead_after));
}

// All that is to be sent: the record, or those pieces that its ps has not taken.
void SliceRestore::Send(SliceId slice) {
  const Coming& coming = At(slice);
  if (grid_.IsBucket(slice)) {
    for (uint32_t i = 0; i < coming.record.size(); ++i) SendPiece(slice, coming.taken + i);
    return;
  }
  SendBlocks(slice, coming.record, /*piece=*/0, /*more=*/false);
}

void SliceRestore::SendPiece(SliceId slice, uint32_t piece) {
  const Coming& coming = At(slice);
  const bool more = piece + 1 < PiecesOf(SourceOf(coming), slice, piece_bytes_);
  SendBlocks(slice, {coming.record[piece - coming.taken]}, piece, more);
}

void SliceRestore::SendBlocks(SliceId slice, std::vector<Payload> blocks, uint32_t piece, bool more) {
  Coming& coming = At(slice);
  Receiver& receiver = ReceiverOf(coming);
  const Task* task = members_.Find(coming.to.incarnation);
  if (task == nullptr || task->bulk == PeerId::kNone) return;  // with the next Tick: it opens that link as it beats
  context_.out.SendTo(task->bulk, RestoreSlice{.to = task->incarnation,
                                               .slice = slice,
                                               .epoch = placement_.EpochOf(slice),
                                               .blocks = std::move(blocks),
                                               .round = SourceOf(coming).round,
                                               .piece = piece,
                                               .more = more});
  coming.sent = true;
  receiver.next_resend = context_.now + receiver.backoff;
}

void SliceRestore::FallBack(SliceId slice, const std::string& why) {
  const Coming& coming = At(slice);
  if (Begins(coming)) {
    failure_ = absl::InternalError(absl::StrCat(NameOf(coming), " cannot make slice ", ToNumber(slice), ": ", why));
    return;
  }
  const size_t source = coming.held ? coming.source : coming.source - 1;
  std::string passed_over = coming.held || !coming.passed_over.empty() ? coming.passed_over : why;
  if (source == 0 && !passed_over.empty()) {
    failure_ = absl::DataLossError(
        absl::StrCat("no checkpoint's record of slice ", ToNumber(slice), " can be used: ", passed_over));
    return;
  }
  placement_.Move(slice, coming.to);
  Begin(slice, /*held=*/false, source);
  At(slice).passed_over = std::move(passed_over);
  const std::string instead =
      source == 0 ? "its initial values" : absl::StrCat("checkpoint ", ToString(SourceOf(coming).round));
  failures_.Add(NameOf(coming), absl::StrCat("slice ", ToNumber(slice), " restarts from ", instead, ": ", why));
}

void SliceRestore::SendAgain(Incarnation incarnation) {
  for (auto& [id, receiver] : receivers_) {
    if (id.incarnation != incarnation) continue;
    receiver.backoff = timing_.data_retry;
    for (const SliceId slice : receiver.on_their_way) At(slice).sent = false;
  }
}

absl::Status SliceRestore::Receive(const SliceReport& report) {
  for (const SliceReport::Item& item : report.slices) {
    if (absl::Status status = ReceiveItem(report, item); !status.ok()) return status;
  }
  Tick();
  return absl::OkStatus();
}

absl::Status SliceRestore::ReceiveItem(const SliceReport& report, const SliceReport::Item& item) {
  if (!grid_.Contains(item.slice)) {
    return absl::InvalidArgumentError(absl::StrCat("a report of slice ", ToNumber(item.slice), ", unknown here"));
  }
  if (slices_.empty()) return absl::OkStatus();
  Coming& coming = At(item.slice);
  // A9: a place is spoken for by the process that has it, not by its name.
  if (coming.to.incarnation != report.from) {
    return absl::InvalidArgumentError(
        absl::StrCat("a report of slice ", ToNumber(item.slice), ", which ", NameOf(coming), " holds"));
  }
  // core 4: a report of an epoch that is over, or a second copy of one, changes nothing.
  if (item.epoch != placement_.EpochOf(item.slice) || coming.stage == Coming::Stage::kReported) return absl::OkStatus();
  if (item.pieces > 0) return TakePieces(item);
  if (!item.error.empty()) {
    FallBack(item.slice, item.error);
    return absl::OkStatus();
  }
  // A2: a ps that slept while another process had its place may hold an older state, which lacks committed leases.
  if (coming.held && coming.source > 0 && !item.finished.Covers(SourceOf(coming).committed)) {
    FallBack(item.slice, "what its process held lacks leases of the newest checkpoint");
    return absl::OkStatus();
  }
  // A3: committed is what every slice has finished; manifests do not decide.
  finished_ = finished_ ? finished_->Intersect(item.finished) : item.finished;
  if (!item.finished.empty()) leases_begun_ = std::max(leases_begun_, item.finished.Intervals().back().end);
  StopRestoring(item.slice);
  coming.stage = Coming::Stage::kReported;
  coming.record.clear();
  ++reported_;
  Receiver& receiver = ReceiverOf(coming);
  receiver.progressed = context_.now;
  receiver.next_resend = context_.now + receiver.backoff;
  // The other parts of its report are on their way. A new epoch, due now, waits for none of them.
  if (receiver.next_assign > context_.now) receiver.next_assign = context_.now + timing_.control_retry;
  Leave(coming.to);
  return absl::OkStatus();
}

}  // namespace downpour
