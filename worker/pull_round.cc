#include "worker/pull_round.h"

#include <glog/logging.h>

#include <algorithm>
#include <utility>

#include "schema/codec.h"

namespace downpour {

void PullRound::Want(SliceValues keys) {
  CHECK(!under_way());
  std::fill(rows_.begin(), rows_.end(), Rows());
  for (auto& [bucket, frame] : keys) {
    const uint64_t bytes = AnswerBytes(frame, grid_.row_widths);
    rows_[ToNumber(bucket)] = {std::move(frame), bytes};
  }
  fresh_ = false;
}

void PullRound::Begin(Of of) {
  CHECK(!under_way());
  of_ = of;
  for (const Slice& slice : grid_.slices) wanted_[ToNumber(slice.id)] = IsNeeded(slice.id);
  missing_ = unasked_ = static_cast<size_t>(std::count(wanted_.begin(), wanted_.end(), true));
  fresh_ = missing_ == 0;  // where all is rows, and none is needed
  ++begun_;
}

void PullRound::Abandon(PlacementMap& map) {
  for (const auto& link : map.links()) {
    for (const SliceId slice : link->slices) Forget(*link, slice);
  }
  missing_ = unasked_ = 0;
  fresh_ = false;
}

std::optional<Pull> PullRound::Next(Time now, Incarnation from, PsLink& link, const PlacementMap& map,
                                    const std::vector<Version>& have) {
  if (unasked_ == 0) return std::nullopt;
  Request request{.id = last_request_ + 1, .server = link.incarnation, .slices = {}, .sent = now, .resend_at = {}};
  uint64_t bytes = 0, key_bytes = 0;
  if (std::exchange(link.pull, begun_) != begun_) link.asked = 0;
  for (; link.asked < link.slices.size(); ++link.asked) {
    const SliceId slice = link.slices[link.asked];
    if (!wanted_[ToNumber(slice)]) continue;
    const uint64_t more = AnswerBytesOf(slice), more_keys = rows_[ToNumber(slice)].keys.size();
    // A ps answers in one message: more than it may hold ejects the asker ("Limits"). Nor may the question hold more.
    const bool is_full = bytes + more > kMaxMessagePayload || key_bytes + more_keys > kMaxMessagePayload;
    if (!request.slices.empty() && is_full) break;
    if (request.slices.size() == kMaxFrames - 1 || !link.HasCredit(BytesOf(slice))) break;
    wanted_[ToNumber(slice)] = false;
    --unasked_;
    request.slices.push_back(slice);
    bytes += more;
    key_bytes += more_keys;
    link.unanswered += BytesOf(slice);
  }
  if (request.slices.empty()) return std::nullopt;
  ++last_request_;
  requests_.push_back(std::move(request));
  return MessageOf(requests_.back(), from, map, have);
}

PullRound::Again PullRound::AskAgain(Time now, Duration data_retry, Incarnation from, const PsLink& link,
                                     const PlacementMap& map, const std::vector<Version>& have) {
  Again again;
  for (Request& request : requests_) {
    if (request.server != link.incarnation) continue;
    // A refusal is waited out. Silence is asked again ever more rarely: copies do not help a slow link.
    if (request.resend_at ? *request.resend_at > now : !link.Overdue(request.sent, now, data_retry)) continue;
    again.unanswered |= !request.resend_at;
    request.resend_at.reset();
    request.sent = now;
    again.pulls.push_back(MessageOf(request, from, map, have));
  }
  return again;
}

void PullRound::SendAgain(const PsLink& link, Time now) {
  for (Request& request : requests_) {
    if (request.server != link.incarnation) continue;
    // Due at once, whatever the backoff: what was on the broken connection is lost.
    request.resend_at = now;
  }
}

Pull PullRound::MessageOf(const Request& request, Incarnation from, const PlacementMap& map,
                          const std::vector<Version>& have) const {
  Pull pull{.from = from, .request = request.id, .slices = {}};
  pull.slices.reserve(request.slices.size());
  for (const SliceId slice : request.slices) {
    pull.slices.push_back({slice, map.epoch(slice), have[ToNumber(slice)], rows_[ToNumber(slice)].keys});
  }
  return pull;
}

void PullRound::Forget(PsLink& link, SliceId slice) {
  if (wanted_[ToNumber(slice)] || !IsNeeded(slice) || !(under_way() || fresh_)) return;
  wanted_[ToNumber(slice)] = true;
  ++unasked_;
  size_t asked = 0;
  for (Request& request : requests_) asked += std::erase(request.slices, slice);
  // B6: what the slice sent in its old epoch, or sends yet, is not used.
  if (asked > 0) {
    link.unanswered -= BytesOf(slice);
  } else {  // its values came
    ++missing_;
    fresh_ = false;
  }
  std::erase_if(requests_, [](const Request& request) { return request.slices.empty(); });
}

}  // namespace downpour
