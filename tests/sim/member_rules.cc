#include "tests/sim/member_rules.h"

#include <algorithm>
#include <type_traits>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"

namespace downpour {
namespace {

Incarnation NameOf(const Process& member) {
  return member.ps != nullptr ? member.ps->incarnation() : member.worker->incarnation();
}

uint64_t TermOf(Incarnation incarnation) { return ToNumber(incarnation) >> 32; }

bool IsFromWorker(const Message& message) {
  return std::holds_alternative<Push>(message) || std::holds_alternative<Probe>(message) ||
         std::holds_alternative<Pull>(message);
}

// To a worker: whom it is for is named beside the link that it comes over.
bool IsToAnother(const Message& message, Incarnation me) {
  const auto is_other = [me, &message](const auto* kind) {
    const auto* one = std::get_if<std::decay_t<decltype(*kind)>>(&message);
    return one != nullptr && one->to != me;
  };
  return is_other(static_cast<const Placement*>(nullptr)) || is_other(static_cast<const Grant*>(nullptr)) ||
         is_other(static_cast<const EvalGrant*>(nullptr)) || is_other(static_cast<const HeartbeatReply*>(nullptr));
}

template <typename Request>
bool NamesSlices(const Message& message) {
  const auto* request = std::get_if<Request>(&message);
  return request != nullptr && !request->slices.empty();
}

template <typename Reply>
bool SaysWrongShape(const Effect& effect) {
  const auto* send = std::get_if<Send>(&effect);
  const auto* reply = send == nullptr ? nullptr : std::get_if<Reply>(&send->message);
  return reply != nullptr &&
         std::ranges::any_of(reply->slices, [](const auto& item) { return item.refusal == SliceRefusal::kWrongShape; });
}

}  // namespace

void MemberRules::Before(const Process& process, const Input& input) {
  breaks_again_ = PeerId::kNone;
  breach_ = hung_up_ = refused_before_ = placed_before_ = may_go_ = false;
  rejects_from_.reset();
  unasked_.reset();
  end_.reset();
  if (process.kind == TaskRole::kChief) return;
  if (const Incarnation me = NameOf(process); me != Incarnation::kNone) {
    members_.try_emplace(process.life, Member{me, me, false, RunOf(process)});  // it came from another run
  }
  if (const auto* received = std::get_if<Received>(&input)) OnReceived(process, *received);
  if (std::holds_alternative<StopRequested>(input)) members_[process.life].leaves = true;
  may_go_ = process.ps != nullptr && std::holds_alternative<StopRequested>(input) && !members_[process.life].assigned;
}

void MemberRules::OnReceived(const Process& process, const Received& received) {
  const Incarnation me = NameOf(process);
  const uint64_t run = RunOf(process);
  if (IsToAnother(received.message, me)) rejects_from_ = RejectedBy(process);
  if (const auto* refused = std::get_if<Refused>(&received.message)) {
    const bool is_unknown = refused->code == RefusalCode::kUnknown && !refused->for_good;
    const bool is_mine = me != Incarnation::kNone && refused->member == me && refused->run == run;
    refused_before_ = is_unknown && !is_mine;
    Member& member = members_[process.life];
    if (is_unknown && is_mine && !std::exchange(member.refused, true)) member.first_join = member.joins;
  }
  if (const auto* welcome = std::get_if<Welcome>(&received.message); welcome != nullptr) {
    const bool is_late = welcome->number < members_[process.life].first_join;
    if (welcome->nonce != process.nonce || is_late) unasked_ = me;
    if (welcome->you == me && !is_late) members_[process.life].refused = false;
  }
  if (const auto* end = std::get_if<JobEnd>(&received.message)) end_ = *end;
  const auto* reply = std::get_if<HeartbeatReply>(&received.message);
  if (reply != nullptr && reply->retired) members_[process.life].leaves = true;
  if (const auto* placement = std::get_if<Placement>(&received.message)) placed_before_ = placement->to != me;
  if (process.ps == nullptr) return;
  Member& member = members_[process.life];
  const auto* assign = std::get_if<Assign>(&received.message);
  if (assign != nullptr && assign->to == me && !member.refused) {
    member.answers_as = me;
    member.assigned = true;
  }
  asks_for_slices_ = NamesSlices<Push>(received.message) || NamesSlices<Probe>(received.message) ||
                     NamesSlices<Pull>(received.message);
  if (IsFromWorker(received.message) && told_wrong_.contains({process.life, received.from})) {
    breaks_again_ = received.from;
  }
}

void MemberRules::CheckName(const Process& ps, Incarnation from) {
  if (from == members_[ps.life].answers_as) return;
  Add(ps, absl::StrCat("answers as ", ToNumber(from), ", of which no worker can know: its slices are placed with ",
                       ToNumber(members_[ps.life].answers_as)));
}

// Whoever was told to leave says so in its code, unless the job has just succeeded.
void MemberRules::CheckCode(const Process& member, int code) {
  if (members_[member.life].leaves && !end_->succeeded) return;
  const bool is_good = end_->succeeded || end_->cancelled;
  if ((code == 0) != is_good) Add(member, absl::StrCat("exits ", code, ", which is not how its job has ended"));
}

void MemberRules::OnEffect(const Process& process, const Effect& effect) {
  if (process.kind == TaskRole::kChief) return;
  if (const auto* hang_up = std::get_if<HangUp>(&effect)) hung_up_ |= hang_up->peer == breaks_again_;
  if (const auto* exit = std::get_if<Exit>(&effect); exit != nullptr && end_) CheckCode(process, exit->code);
  if (placed_before_ && std::holds_alternative<Dial>(effect)) Add(process, "takes a placement of a life before");
  const auto* send = std::get_if<Send>(&effect);
  if (send == nullptr) return;
  if (const auto* join = std::get_if<Join>(&send->message)) members_[process.life].joins = join->number + 1;
  if (refused_before_ && std::holds_alternative<Join>(send->message)) {
    Add(process, "joins again, though it was another life that was refused");
  }
  if (process.ps == nullptr) return;
  if (const auto* reply = std::get_if<PushReply>(&send->message)) CheckName(process, reply->from);
  if (const auto* reply = std::get_if<PullReply>(&send->message)) CheckName(process, reply->from);
  const bool answers =
      std::holds_alternative<PushReply>(send->message) || std::holds_alternative<PullReply>(send->message);
  const bool refuses = SaysWrongShape<PushReply>(effect) || SaysWrongShape<PullReply>(effect);
  if (answers && !refuses && send->to == breaks_again_ && asks_for_slices_) {
    Add(process, "answers whom it has ejected");
  }
  breach_ |= std::holds_alternative<Violation>(send->message);  // its name or its connection is known from now on
  if (breach_ && refuses) {
    told_wrong_.insert({process.life, send->to});
  }
}

void MemberRules::After(const Process& process) {
  if (process.kind == TaskRole::kChief) return;
  if (!process.crash_after.has_value() && process.alive) {
    if (breaks_again_ != PeerId::kNone && !hung_up_) Add(process, "listens to whom it has ejected");
    if (rejects_from_ && RejectedBy(process) <= *rejects_from_) {
      Add(process, "does not reject what was said to another life");
    }
    if (may_go_) Add(process, "was told to stop, has nothing that could be lost, and stays");
  }
  const Incarnation now = NameOf(process);
  if (unasked_.value_or(now) != now) Add(process, "is welcomed by an answer to another process, or to an older Join");
  Member& member = members_[process.life];
  if (member.incarnation == now) return;
  // In another run it begins with nothing, and nobody was told of it before.
  const bool same_run = std::exchange(member.run, RunOf(process)) == RunOf(process);
  const bool goes_on = same_run && member.incarnation != Incarnation::kNone && TermOf(now) > TermOf(member.incarnation);
  if (!goes_on) {
    member = {now, now, false, RunOf(process), false, member.joins, member.first_join, member.leaves};
    std::erase_if(told_wrong_, [&](const auto& peer) { return peer.first == process.life; });
  }
  member.incarnation = now;
  member.refused = false;
}

}  // namespace downpour
