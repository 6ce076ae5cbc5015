#include "tests/sim/round_rules.h"

#include <algorithm>
#include <variant>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "schema/checkpoint_format.h"

namespace downpour {

void RoundRules::Before(const Process& process, const Input& input) {
  request_.reset();
  saved_.reset();
  const auto* received = std::get_if<Received>(&input);
  if (process.ps != nullptr && received != nullptr) {
    const auto* request = std::get_if<WriteShard>(&received->message);
    if (request != nullptr && request->to == process.ps->incarnation()) request_ = *request;
  }
  if (process.chief == nullptr) return;
  if (life_ != process.life) *this = RoundRules(world_);
  life_ = process.life;
  if (process.chief->state() == JobState::kCancelling && under_way_) saved_ = process.chief->committed();
  const auto* written = received == nullptr ? nullptr : std::get_if<ShardWritten>(&received->message);
  if (written == nullptr || !IsThere(process, TaskRole::kPs, written->from)) return;
  for (const ShardWritten::Item& item : written->slices) reported_[{written->from, written->round}].insert(item.slice);
}

void RoundRules::OnEffect(const Process& process, const Effect& effect) {
  const auto* send = std::get_if<Send>(&effect);
  if (process.ps != nullptr && send != nullptr) {
    if (const auto* written = std::get_if<ShardWritten>(&send->message)) CheckReported(process, *written);
  }
  if (process.chief == nullptr) return;
  if (const auto* op = std::get_if<StorageOp>(&effect)) OnChiefsOp(process, *op);
  const auto* record = std::get_if<TraceRecord>(&effect);
  if (record != nullptr && record->kind == TraceRecord::Kind::kDurable) under_way_.reset();
  if (send == nullptr) return;
  if (const auto* request = std::get_if<WriteShard>(&send->message)) CheckAsked(process, *request);
}

// Whatever ends a round before it is durable removes its folder, the manifest first.
void RoundRules::OnChiefsOp(const Process& chief, const StorageOp& op) {
  if (op.kind == StorageOp::Kind::kList && under_way_) {
    Add(chief, absl::StrCat("reads the checkpoints while ", ToString(*under_way_), " may become durable"));
  }
  if (op.kind == StorageOp::Kind::kRemove && under_way_ && absl::StartsWith(op.path, CheckpointDir(*under_way_))) {
    under_way_.reset();
  }
  if (op.kind != StorageOp::Kind::kMakeDir || !absl::StartsWith(op.path, "checkpoints/")) return;
  const absl::StatusOr<Round> round = ParseRound(op.path.substr(op.path.find('/') + 1));
  if (round.ok()) under_way_ = *round;
}

// Only what was lost travels again.
void RoundRules::CheckAsked(const Process& chief, const WriteShard& request) {
  const std::set<SliceId>& reported = reported_[{request.to, request.round}];
  for (const SnapshotRequest::Item& item : request.slices) {
    if (!reported.contains(item.slice)) continue;
    return Add(chief, absl::StrCat("asks again for slice ", ToNumber(item.slice), " of a file, which was reported"));
  }
}

void RoundRules::CheckReported(const Process& ps, const ShardWritten& written) {
  if (!request_ || request_->round != written.round) return;
  for (const ShardWritten::Item& item : written.slices) {
    const auto is_it = [&item](const SnapshotRequest::Item& asked) { return asked.slice == item.slice; };
    if (std::ranges::any_of(request_->slices, is_it)) continue;
    return Add(ps, absl::StrCat("reports slice ", ToNumber(item.slice), " of its file, and was not asked for it"));
  }
}

void RoundRules::After(const Process& process) {
  if (process.chief == nullptr || !saved_ || saved_->Covers(process.chief->committed())) return;
  Add(process, "commits a lease that its last round may lack");
}

}  // namespace downpour
