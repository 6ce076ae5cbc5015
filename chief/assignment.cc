#include "chief/assignment.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "chief/folder/checkpoint_store.h"
#include "chief/folder/stored_record.h"
#include "chief/known/placement.h"
#include "schema/codec.h"

namespace downpour {
namespace {

// The longest wait for a report, before records are sent again: so many times dead_after.
constexpr int kMaxBackoff = 3;

}  // namespace

void Assignment::Place(uint32_t term, const std::vector<Task*>& servers, uint64_t train_examples,
                       std::vector<Manifest> checkpoints, std::string lost, std::optional<Manifest> initial) {
  term_ = term;
  initial_ = std::move(initial);
  lost_ = std::move(lost);
  train_examples_ = train_examples;
  Learn(std::move(checkpoints));
  if (initial_ && initial_->records.size() != grid_.dense() && initial_->records.size() != grid_.size()) {
    failure_ = absl::DataLossError(absl::StrCat(ManifestPath(Round()), " is of another model"));
    initial_.reset();
  }
  for (const Task* task : servers) Fill(servers_.emplace_back(), *task);
  homes_.resize(grid_.size());
  // A11: every term places all slices again, so that no epoch of an earlier chief is given out twice.
  epochs_.assign(grid_.size(), {term_, 0});
  const std::vector<uint32_t> server_of = PlaceSlices(grid_, static_cast<uint32_t>(servers.size()));
  for (const Slice& slice : grid_.slices) {
    Server& server = servers_[server_of[ToNumber(slice.id)]];
    HomeOf(slice.id).server = server_of[ToNumber(slice.id)];
    server.slices.push_back(slice.id);
    ++server.unreported;
    Renew(slice.id, server.holds, sources_.size());
  }
  Tick();
}

void Assignment::TakeOver(const std::vector<Task*>& servers, std::vector<Manifest> checkpoints) {
  Learn(std::move(checkpoints));
  for (const Task* task : servers) {
    const auto server = std::find_if(servers_.begin(), servers_.end(),
                                     [task](const Server& candidate) { return candidate.name == task->name; });
    // B11: only where another process has come; one that is merely silent keeps its slices.
    if (server == servers_.end() || server->incarnation == task->incarnation) continue;
    Fill(*server, *task);
    for (const SliceId slice : server->slices) Renew(slice, server->holds, sources_.size());
  }
  Tick();
}

void Assignment::Learn(std::vector<Manifest> checkpoints) {
  abandoned_.clear();
  tried_again_.clear();
  if (complete()) sources_.clear();
  for (auto manifest = checkpoints.rbegin(); manifest != checkpoints.rend(); ++manifest) {
    // Slices under way name their source by its index: older ones are not put in between.
    const bool is_new = sources_.empty() || manifest->round > sources_.back().round;
    if (is_new && manifest->records.size() == grid_.size()) sources_.push_back(std::move(*manifest));
  }
}

void Assignment::Fill(Server& server, const Task& task) {
  server.incarnation = task.incarnation;
  server.name = task.name;
  server.endpoint = task.process.endpoint;
  server.holds = task.holds;
  server.next_assign = context_.now;
  server.progressed = context_.now;
  server.next_resend = {};
  server.backoff = timing_.data_retry;
}

void Assignment::Follow(const Task& task) {
  for (Server& server : servers_) {
    if (server.incarnation != task.incarnation || server.endpoint == task.process.endpoint) continue;
    context_.out.Info(
        absl::StrCat(server.name, " is at ", task.process.endpoint, " now, and was at ", server.endpoint));
    server.endpoint = task.process.endpoint;
    ++placement_number_;
  }
}

// A new epoch: what the older one held or reported counts no longer.
void Assignment::Renew(SliceId slice, bool held, size_t source) {
  StopRestoring(slice);
  Home& home = HomeOf(slice);
  Server& server = servers_[home.server];
  if (home.stage == Home::Stage::kReported) {
    --reported_;
    ++server.unreported;
  }
  home = Home{.server = home.server, .held = held, .source = source};
  if (KindOf(slice) == SliceSource::kCheckpoint) ReadFrom(slice, context_.now);
  if (Begins(home) && !lost_.empty()) failure_ = absl::DataLossError(lost_);
  // core 4: the epoch rises before any message names the new source, so the old place cannot answer for it.
  ++epochs_[ToNumber(slice)].n;
  ++placement_number_;
  server.next_assign = context_.now;
}

void Assignment::Tick() {
  if (complete() || !failure_.ok()) return;
  for (Server& server : servers_) {
    if (server.unreported == 0) continue;
    if (context_.now >= server.next_assign) SendAssign(server);
    Restore(server);
  }
}

void Assignment::SendAssign(Server& server) {
  Assign assign{.to = server.incarnation, .train_examples = train_examples_, .slices = {}};
  for (const SliceId slice : server.slices) {
    const Home& home = HomeOf(slice);
    if (home.stage == Home::Stage::kReported) continue;
    assign.slices.push_back({slice, epochs_[ToNumber(slice)], KindOf(slice)});
  }
  if (const Task* task = members_.Find(server.incarnation)) context_.out.SendTo(task->control, std::move(assign));
  server.next_assign = context_.now + timing_.control_retry;
}

void Assignment::Restore(Server& server) {
  const bool overdue = context_.now >= server.next_resend;
  bool resent = false;
  uint64_t in_flight = 0;
  for (const SliceId slice : server.on_their_way) {
    const Home& home = HomeOf(slice);
    in_flight += ShareOfWindow(slice);
    if (home.stage == Home::Stage::kSending && (overdue || !home.sent)) {
      resent |= home.sent;
      Send(slice);
    }
  }
  if (resent) {
    server.backoff = std::min(2 * server.backoff, kMaxBackoff * timing_.dead_after);
    server.next_resend = context_.now + server.backoff;
  }
  while (in_flight < kRestoreWindow && !server.to_read.empty()) {
    const auto [when, slice] = *server.to_read.begin();
    if (context_.now < when) return;
    Read(slice);
    in_flight += ShareOfWindow(slice);
  }
}

uint64_t Assignment::ShareOfWindow(SliceId slice) const {
  const uint64_t bytes = SourceOf(homes_[ToNumber(slice)]).records[ToNumber(slice)].bytes;
  const uint64_t most = grid_.IsBucket(slice) ? kPiecesAhead * piece_bytes_ : bytes;
  return std::max(std::min(bytes, most), kLeastRecord);
}

void Assignment::ReadFrom(SliceId slice, Time when) {
  Home& home = HomeOf(slice);
  home.stage = Home::Stage::kWaiting;
  home.next_read = when;
  servers_[home.server].to_read.insert({when, slice});
}

void Assignment::StopRestoring(SliceId slice) {
  const Home& home = HomeOf(slice);
  Server& server = servers_[home.server];
  server.to_read.erase({home.next_read, slice});
  server.on_their_way.erase(slice);
}

void Assignment::Read(SliceId slice) {
  StopRestoring(slice);
  Home& home = HomeOf(slice);
  servers_[home.server].on_their_way.insert(slice);
  home.stage = Home::Stage::kReading;
  if (grid_.IsBucket(slice)) return ReadNextPiece(slice);
  storage_.Run(
      {ReadRecord(SourceOf(home), slice)},
      [this, slice, epoch = epochs_[ToNumber(slice)]](const StorageDone& done) { ReadDone(slice, epoch, done); });
}

void Assignment::ReadDone(SliceId slice, SliceEpoch epoch, const StorageDone& done) {
  Home& home = HomeOf(slice);
  // The slice may have moved on while its record was read.
  if (home.stage != Home::Stage::kReading || epoch != epochs_[ToNumber(slice)]) return;
  const absl::Status status = CheckRecord(SourceOf(home), slice, done);
  if (!status.ok()) return ReadFailed(slice, status);
  home.stage = Home::Stage::kSending;
  home.record = CutIntoFrames(done.data);
  Send(slice);
}

// Behind those that were read, unless enough are on their way.
void Assignment::ReadNextPiece(SliceId slice) {
  Home& home = HomeOf(slice);
  const uint32_t next = home.taken + static_cast<uint32_t>(home.record.size());
  const Manifest& manifest = SourceOf(home);
  if (home.reads_piece || home.record.size() >= kPiecesAhead || next >= PiecesOf(manifest, slice, piece_bytes_)) return;
  home.reads_piece = true;
  storage_.Run(
      {ReadPiece(manifest, slice, next, piece_bytes_)},
      [this, slice, epoch = epochs_[ToNumber(slice)]](const StorageDone& done) { PieceDone(slice, epoch, done); });
}

void Assignment::PieceDone(SliceId slice, SliceEpoch epoch, const StorageDone& done) {
  Home& home = HomeOf(slice);
  if (epoch != epochs_[ToNumber(slice)] || home.stage == Home::Stage::kReported) return;
  home.reads_piece = false;
  const uint32_t piece = home.taken + static_cast<uint32_t>(home.record.size());
  const absl::Status status = CheckPiece(SourceOf(home), slice, piece, piece_bytes_, done, &home.checksum);
  if (!status.ok()) return ReadFailed(slice, status);
  home.stage = Home::Stage::kSending;
  home.failed_reads = 0;  // a disk that failed for a while is back
  home.record.push_back(done.data);
  SendPiece(slice, piece);
  ReadNextPiece(slice);
}

// The ps confirms those that it has.
absl::Status Assignment::TakePieces(const SliceReport::Item& item) {
  Home& home = HomeOf(item.slice);
  const uint64_t sent = home.taken + home.record.size();
  if (!grid_.IsBucket(item.slice) || item.pieces > sent) {
    return absl::InvalidArgumentError(
        absl::StrCat("a report of ", item.pieces, " pieces of slice ", ToNumber(item.slice), ", of ", sent, " sent"));
  }
  if (item.pieces <= home.taken) return absl::OkStatus();  // late
  home.record.erase(home.record.begin(), home.record.begin() + (item.pieces - home.taken));
  home.taken = item.pieces;
  Server& server = servers_[home.server];
  server.progressed = context_.now;
  // Its link is not slow, so what is missing was lost: of many pieces each lost one would double the wait.
  server.backoff = timing_.data_retry;
  server.next_resend = context_.now + server.backoff;
  if (home.stage != Home::Stage::kWaiting) ReadNextPiece(item.slice);  // else its disk is given time
  return absl::OkStatus();
}

void Assignment::ReadFailed(SliceId slice, const absl::Status& status) {
  Home& home = HomeOf(slice);
  const Manifest& manifest = SourceOf(home);
  const std::string path = ShardPathOf(manifest, slice);
  const std::string which = absl::StrCat(path, ": the record at byte ", manifest.records[ToNumber(slice)].offset);
  if (absl::IsNotFound(status) || absl::IsDataLoss(status)) {
    FallBack(slice, absl::StrCat(which, " is damaged: ", MessageOf(status)));
    return Tick();
  }
  const std::string why = absl::StrCat(which, " cannot be read, and may be whole: ", MessageOf(status));
  if (++home.failed_reads == kReads || abandoned_.contains(path)) {
    abandoned_.insert(path);
    FallBack(slice, why);
    return Tick();
  }
  if (tried_again_.insert(path).second) failures_.Add("chief", absl::StrCat(why, "; it is tried again"));
  StopRestoring(slice);
  ReadFrom(slice, context_.now + std::min(timing_.control_retry * (1 << home.failed_reads), timing_.dead_after));
}

// All that is to be sent: the record, or those pieces that its ps has not taken.
void Assignment::Send(SliceId slice) {
  const Home& home = HomeOf(slice);
  if (grid_.IsBucket(slice)) {
    for (uint32_t i = 0; i < home.record.size(); ++i) SendPiece(slice, home.taken + i);
    return;
  }
  SendBlocks(slice, home.record, /*piece=*/0, /*more=*/false);
}

void Assignment::SendPiece(SliceId slice, uint32_t piece) {
  const Home& home = HomeOf(slice);
  const bool more = piece + 1 < PiecesOf(SourceOf(home), slice, piece_bytes_);
  SendBlocks(slice, {home.record[piece - home.taken]}, piece, more);
}

void Assignment::SendBlocks(SliceId slice, std::vector<Payload> blocks, uint32_t piece, bool more) {
  Home& home = HomeOf(slice);
  Server& server = servers_[home.server];
  const Task* task = members_.Find(server.incarnation);
  if (task == nullptr || task->bulk == PeerId::kNone) return;  // with the next Tick: it opens that link as it beats
  context_.out.SendTo(task->bulk, RestoreSlice{.to = task->incarnation,
                                               .slice = slice,
                                               .epoch = epochs_[ToNumber(slice)],
                                               .blocks = std::move(blocks),
                                               .round = SourceOf(home).round,
                                               .piece = piece,
                                               .more = more});
  home.sent = true;
  server.next_resend = context_.now + server.backoff;
}

void Assignment::FallBack(SliceId slice, const std::string& why) {
  const Home& home = HomeOf(slice);
  const Server& server = servers_[home.server];
  if (Begins(home)) {
    failure_ = absl::InternalError(absl::StrCat(server.name, " cannot make slice ", ToNumber(slice), ": ", why));
    return;
  }
  const size_t source = home.held ? home.source : home.source - 1;
  std::string passed_over = home.held || !home.passed_over.empty() ? home.passed_over : why;
  if (source == 0 && !passed_over.empty()) {
    failure_ = absl::DataLossError(
        absl::StrCat("no checkpoint's record of slice ", ToNumber(slice), " can be used: ", passed_over));
    return;
  }
  Renew(slice, /*held=*/false, source);
  HomeOf(slice).passed_over = std::move(passed_over);
  const std::string instead =
      source == 0 ? "its initial values" : absl::StrCat("checkpoint ", ToString(SourceOf(home).round));
  failures_.Add(server.name, absl::StrCat("slice ", ToNumber(slice), " restarts from ", instead, ": ", why));
}

void Assignment::SendAgain(Incarnation incarnation) {
  for (Server& server : servers_) {
    if (server.incarnation != incarnation) continue;
    server.backoff = timing_.data_retry;
    for (const SliceId slice : server.on_their_way) HomeOf(slice).sent = false;
  }
}

absl::Status Assignment::Receive(const SliceReport& report) {
  for (const SliceReport::Item& item : report.slices) {
    if (absl::Status status = ReceiveItem(report, item); !status.ok()) return status;
  }
  Tick();
  return absl::OkStatus();
}

absl::Status Assignment::ReceiveItem(const SliceReport& report, const SliceReport::Item& item) {
  if (!grid_.Contains(item.slice)) {
    return absl::InvalidArgumentError(absl::StrCat("a report of slice ", ToNumber(item.slice), ", unknown here"));
  }
  if (!placed()) return absl::OkStatus();
  Home& home = HomeOf(item.slice);
  Server& server = servers_[home.server];
  // A9: a place is spoken for by the process that has it, not by its name.
  if (server.incarnation != report.from) {
    return absl::InvalidArgumentError(
        absl::StrCat("a report of slice ", ToNumber(item.slice), ", which ", server.name, " holds"));
  }
  // core 4: a report of an epoch that is over, or a second copy of one, changes nothing.
  if (item.epoch != epochs_[ToNumber(item.slice)] || home.stage == Home::Stage::kReported) return absl::OkStatus();
  if (item.pieces > 0) return TakePieces(item);
  if (!item.error.empty()) {
    FallBack(item.slice, item.error);
    return absl::OkStatus();
  }
  // A2: a ps that slept while another process had its place may hold an older state, which lacks committed leases.
  if (home.held && home.source > 0 && !item.finished.Covers(SourceOf(home).committed)) {
    FallBack(item.slice, "what its process held lacks leases of the newest checkpoint");
    return absl::OkStatus();
  }
  // A3: committed is what every slice has finished; manifests do not decide.
  finished_ = finished_ ? finished_->Intersect(item.finished) : item.finished;
  if (!item.finished.empty()) leases_begun_ = std::max(leases_begun_, item.finished.Intervals().back().end);
  StopRestoring(item.slice);
  home.stage = Home::Stage::kReported;
  home.record.clear();
  ++reported_;
  --server.unreported;
  server.progressed = context_.now;
  server.next_resend = context_.now + server.backoff;
  // The other parts of its report are on their way. A new epoch, due now, waits for none of them.
  if (server.next_assign > context_.now) server.next_assign = context_.now + timing_.control_retry;
  return absl::OkStatus();
}

Placement Assignment::ToPlacement(Incarnation worker) const {
  Placement placement{.to = worker,
                      .number = placement_number_,
                      .term = term_,
                      .train_examples = train_examples_,
                      .servers = {},
                      .slices = {}};
  for (const Server& server : servers_) {
    placement.servers.push_back({server.incarnation, server.name, server.endpoint});
  }
  for (size_t i = 0; i < homes_.size(); ++i) {
    placement.slices.push_back({SliceId{static_cast<uint32_t>(i)}, epochs_[i], homes_[i].server});
  }
  return placement;
}

bool Assignment::IsServer(Incarnation incarnation) const {
  return std::any_of(servers_.begin(), servers_.end(),
                     [incarnation](const Server& server) { return server.incarnation == incarnation; });
}

}  // namespace downpour
