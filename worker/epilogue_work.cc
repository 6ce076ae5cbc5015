#include "worker/epilogue_work.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "schema/checkpoint_format.h"

namespace downpour {

void EpilogueWork::Grant(const EpilogueGrant& grant) {
  if (grant.attempt < attempt_) return;
  if (grant.attempt > attempt_) next_report_ = Time{};
  attempt_ = grant.attempt;
  if (at_ != At::kRest) return;
  at_ = At::kFetching;
  history_ = grant.history;
}

void EpilogueWork::Advance(Time now, MemberSession& session, const SliceGrid& grid, Effects& effects) {
  if (at_ == At::kEnded && now >= next_report_) {
    effects.SendTo(MemberSession::kChief, EpilogueDone{session.incarnation(), attempt_, error_});
    next_report_ = now + session.timing().control_retry;
  }
  if (at_ != At::kFetching) return;
  while (asked_.size() < kAtOnce && next_ < grid.dense()) {
    const SliceId slice = grid.slices[next_++].id;
    if (values_.contains(slice)) continue;
    asked_.try_emplace(slice, Asked{.again = Time{}, .wait = session.timing().control_retry});
  }
  for (auto& [slice, asked] : asked_) {
    if (now < asked.again) continue;
    effects.SendTo(MemberSession::kChief, RecordRequest{session.incarnation(), attempt_, slice});
    asked.again = now + asked.wait;
    asked.wait = std::min(2 * asked.wait, std::max(kLongestWait, session.timing().control_retry));
  }
}

absl::Status EpilogueWork::Receive(const RestoreSlice& record, const SliceGrid& grid) {
  if (at_ != At::kFetching || !asked_.contains(record.slice)) return absl::OkStatus();  // doubled
  absl::StatusOr<SliceState> state = DecodeRecord(record.blocks);
  if (!state.ok()) return state.status();
  const auto bytes = static_cast<size_t>(grid.at(record.slice).bytes());
  if (state->slice != record.slice || state->values.size() != bytes) {
    return absl::InvalidArgumentError(absl::StrCat("a record of slice ", ToNumber(state->slice), " with ",
                                                   state->values.size(), " bytes for slice ", ToNumber(record.slice)));
  }
  // Leases may have been trained again since the others were read: all values are of one checkpoint.
  if (record.round != round_) {
    values_.clear();
    next_ = 0;
    round_ = record.round;
  }
  values_[record.slice] = std::move(state->values);
  asked_.erase(record.slice);
  return absl::OkStatus();
}

EpilogueStep EpilogueWork::Begin() {
  at_ = At::kRunning;
  EpilogueStep step{.values = {}, .history = std::move(history_)};
  for (auto& [slice, values] : std::exchange(values_, {})) step.values.emplace_back(slice, std::move(values));
  return step;
}

void EpilogueWork::End(std::string error) {
  at_ = At::kEnded;
  error_ = std::move(error);
  next_report_ = Time{};
}

}  // namespace downpour
