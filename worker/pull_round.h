// One pull of every slice, and of those rows of buckets that are needed: which are wanted, which are asked for, and
// when to ask again.
//
//   round.Want(keys);                 // of buckets, for the rounds from now on
//   round.Begin(PullRound::Of::kAll);
//   while (auto pull = round.Next(now, from, link, map, have)) effects.SendTo(link.peer, *pull);
//   round.Receive(reply, link, now + pause, [&](const PullReply::Item& item) {...});
//   if (round.fresh()) { ...compute on them...; round.TakePulled(); }
//
// Order: values that a computation uses were all asked for after Begin, so they hold what this worker pushed before it.
//   An answer counts for the request that it names, however late, and there for each slice once.
// Tests: tests/unit/worker/pull_round_test.cc.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "job/slice_grid.h"
#include "runtime/compute.h"
#include "runtime/row_frames.h"
#include "runtime/world_time.h"
#include "schema/message.h"
#include "worker/placement_map.h"

namespace downpour {

class PullRound {
 public:
  enum class Of { kAll, kRows };  // of what a round is

  // `numbers_from`: rounds and requests are numbered from there. Pulls that share links need numbers of their own.
  explicit PullRound(const SliceGrid* grid, uint64_t numbers_from = 0)
      : grid_(*grid), rows_(grid->size()), wanted_(grid->size()), begun_(numbers_from), last_request_(numbers_from) {}

  bool under_way() const { return missing_ > 0; }
  bool fresh() const { return fresh_ && of_ == Of::kAll; }
  bool has_rows() const { return fresh_; }   // whatever else the round was of
  uint64_t begun() const { return begun_; }  // counts rounds

  // By bucket, as runtime/row_frames.h has them. A bucket without keys is not asked. What was pulled is not fresh any
  // more, and a round under way begins again for buckets: so not while one is.
  void Want(SliceValues keys);
  void Begin(Of of);  // not while one is under way
  void TakePulled() { fresh_ = false; }
  void Abandon(PlacementMap& map);

  // The next message for that ps, as far as its window allows; none if nothing is wanted from it or no room is left.
  std::optional<Pull> Next(Time now, Incarnation from, PsLink& link, const PlacementMap& map,
                           const std::vector<Version>& have);
  // Once Next said none: whether something is wanted from that ps yet.
  bool WaitsForRoom(const PsLink& link) const {
    return unasked_ > 0 && link.pull == begun_ && link.asked < link.slices.size();
  }
  // Requests to that ps which are to be sent again, as they are: refused a while ago, or unanswered for too long.
  struct Again {
    std::vector<Pull> pulls;
    bool unanswered = false;  // some of them were
  };
  Again AskAgain(Time now, Duration data_retry, Incarnation from, const PsLink& link, const PlacementMap& map,
                 const std::vector<Version>& have);

  // Makes every request to that ps due: its connection was broken, and they or their answers are lost.
  void SendAgain(const PsLink& link, Time now);

  // Of what comes for the slice: a variable's values, or the rows that are needed of a bucket.
  uint64_t AnswerBytesOf(SliceId slice) const {
    return grid_.IsBucket(slice) ? rows_[ToNumber(slice)].bytes : grid_.WireBytes(slice);
  }

  // Offers what answers the request at hand to take(item), which says whether the slice's values are here now. What it
  // did not take is asked for again, not before `retry`. Answers stand in the order of the request.
  template <typename Take>
  void Receive(const PullReply& reply, PsLink& link, Time retry, const Take& take) {
    const auto request = std::find_if(requests_.begin(), requests_.end(), [&](const Request& r) {
      return r.id == reply.request && r.server == link.incarnation;
    });
    if (request == requests_.end()) return;  // late or doubled
    auto item = reply.slices.begin();
    const size_t taken = std::erase_if(request->slices, [&](SliceId slice) {
      item = std::find_if(item, reply.slices.end(), [slice](const PullReply::Item& i) { return i.slice == slice; });
      if (item == reply.slices.end() || !take(*item++)) return false;
      link.unanswered -= BytesOf(slice);
      return true;
    });
    missing_ -= taken;
    fresh_ = missing_ == 0;
    request->resend_at = retry;
    if (request->slices.empty()) requests_.erase(request);
  }
  // Its placement is about to change: behind PlacementMap::Adopt it will be asked for again, also where its values have
  // come and were not used.
  void Forget(PsLink& link, SliceId slice);

 private:
  struct Request {
    uint64_t id = 0;
    Incarnation server{};         // whatever its address
    std::vector<SliceId> slices;  // whose values did not come yet
    Time sent{};
    std::optional<Time> resend_at;  // once a part was answered or refused, or its connection broke: without a backoff
  };
  Pull MessageOf(const Request& request, Incarnation from, const PlacementMap& map,
                 const std::vector<Version>& have) const;

  // Of a bucket: the keys of rows that are needed, and how many bytes these rows have.
  struct Rows {
    Payload keys;
    uint64_t bytes = 0;
  };
  // What comes for the slice, and the keys that go for it.
  uint64_t BytesOf(SliceId slice) const { return AnswerBytesOf(slice) + rows_[ToNumber(slice)].keys.size(); }
  bool IsNeeded(SliceId slice) const {
    return grid_.IsBucket(slice) ? !rows_[ToNumber(slice)].keys.empty() : of_ == Of::kAll;
  }

  // While a round is under way each slice is wanted, in exactly one request, or here.
  const SliceGrid& grid_;
  std::vector<Rows> rows_;         // by slice: of buckets
  std::vector<bool> wanted_;       // by slice: not asked for yet
  std::vector<Request> requests_;  // unanswered, oldest first; each has room in its link's window
  size_t missing_ = 0;             // slices whose values are not here
  size_t unasked_ = 0;             // of them those that are wanted and not asked for
  bool fresh_ = false;             // all came since Begin, none was used, none has moved since
  Of of_ = Of::kAll;               // the round that was begun last
  uint64_t begun_;                 // rounds so far: a step waits for one that began after its predecessor's push
  uint64_t last_request_;          // never given twice, so a late answer finds no request
};

}  // namespace downpour
