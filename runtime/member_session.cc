#include "runtime/member_session.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <string>
#include <utility>
#include <variant>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "job/job_file.h"
#include "runtime/descriptor_need.h"
#include "runtime/exit_code.h"
#include "runtime/log_line.h"

namespace downpour {
namespace {

constexpr Duration kNoticeEvery = 5s;
constexpr int kSilences = 3;  // of dead_after, before this side gives up

// Of ps-3 and worker-3: 3.
std::optional<int32_t> IndexOf(const std::string& name) {
  int32_t index = 0;
  const size_t dash = name.rfind('-');
  if (dash == std::string::npos || !absl::SimpleAtoi(name.substr(dash + 1), &index)) return std::nullopt;
  return index;
}

char LetterOf(Severity severity) {
  switch (severity) {
    case Severity::kInfo:
      return 'I';
    case Severity::kWarning:
      return 'W';
    case Severity::kError:
      return 'E';
  }
  return '?';
}

}  // namespace

MemberSession::MemberSession(TaskRole role, MemberOptions options) : options_(std::move(options)) {
  options_.join.role = role;
}

void MemberSession::Start(Time now, const Started& started, Effects& effects) {
  started_ = true;
  now_ = now;
  unix_ms_at_zero_ = started.unix_ms - std::chrono::floor<std::chrono::milliseconds>(now.time_since_epoch()).count();
  heard_ = now;
  last_tick_ = now;
  options_.join.endpoint = started.endpoint;
  effects.Add(Dial{kChief, options_.chief});
  SendJoin(now, effects);
  next_notice_ = next_join_;
}

void MemberSession::SendJoin(Time now, Effects& effects) {
  Join join = options_.join;
  if (incarnation_ != Incarnation::kNone) {
    join.run = run_;
    join.was = incarnation_;
    // The place it had, where its slices are expected; any other will do if somebody else has it by now.
    if (!refused_since_) join.index = IndexOf(name_).value_or(join.index);
  }
  join.number = joins_++;
  effects.SendTo(kChief, std::move(join));
  next_join_ = now + options_.timing.join_retry;
}

void MemberSession::Reintroduce(Time now, Effects& effects) {
  if (!started_ || ended_) return;
  reintroduces_ = member();
  first_join_ = joins_;  // what is under way says where it was
  SendJoin(now, effects);
}

bool MemberSession::Tick(Time now, uint64_t placement, Effects& effects) {
  if (!started_ || ended_) return false;
  now_ = now;
  DiscountOwnPause(now);
  const Duration silence = now - heard_;
  if (incarnation_ != Incarnation::kNone && silence >= std::max(chief_wait_, options_.timing.dead_after)) {
    End(kExitUnreachable,
        absl::StrCat("the chief at ", options_.chief, " has not answered for ", std::lround(Seconds(silence)),
                     " s; if its job goes on, start this task again"),
        effects);
    return false;
  }
  if (member()) {
    if (silence >= options_.timing.dead_after && now >= next_notice_) {
      Say(Severity::kWarning,
          absl::StrCat("the chief at ", options_.chief, " has not answered for ", std::lround(Seconds(silence)),
                       " s; this task goes on without it meanwhile"),
          effects);
      next_notice_ = now + kNoticeEvery;
    }
    if (reintroduces_ && now >= next_join_) SendJoin(now, effects);
    if (now < next_heartbeat_) return false;
    placement_ = placement;
    SendHeartbeat(effects);
    next_heartbeat_ = now + options_.timing.heartbeat;
    return true;
  }
  if (silence >= options_.timing.dead_after) refused_since_.reset();  // its refusal went with the chief
  if (refused_since_ && now - *refused_since_ >= kSilences * options_.timing.dead_after) {
    End(kExitFailed, refusal_, effects);
    return false;
  }
  if (now >= next_notice_) {
    Say(Severity::kInfo,
        refused_since_ ? absl::StrCat("the chief at ", options_.chief, " does not take this task yet: ", refusal_)
                       : absl::StrCat("waiting for the chief at ", options_.chief),
        effects);
    next_notice_ = now + kNoticeEvery;
  }
  if (now >= next_join_) SendJoin(now, effects);
  return false;
}

// A process that was itself stopped (a suspended machine, a debugger) heard nobody meanwhile: no one else was silent.
void MemberSession::DiscountOwnPause(Time now) {
  const Duration pause = now - std::exchange(last_tick_, now);
  if (pause <= options_.timing.dead_after / 4) return;
  heard_ = std::min(now, heard_ + pause);
  if (refused_since_) refused_since_ = std::min(now, *refused_since_ + pause);
}

void MemberSession::Reject(const Malformed& malformed, Effects& effects) {
  ++stats_.messages_rejected;
  if (!WorthALine(++malformed_)) return;
  Say(Severity::kWarning, absl::StrCat("rejected from a peer (", malformed_, " so far): ", malformed.why), effects);
}

void MemberSession::Sample(const ResourceSample& sample) {
  stats_.cpu_seconds = sample.cpu_seconds;
  stats_.resident_bytes = sample.resident_bytes;
  stats_.bytes_in = sample.bytes_in;
  stats_.bytes_out = sample.bytes_out;
  stats_.handshakes_refused = sample.refused;
  stats_.refused_from = sample.refused_from;
  stats_.gpu = sample.gpu;
}

void MemberSession::SendHeartbeat(Effects& effects) {
  const int64_t warned_ms_ago = stats_.warning.empty() ? 0 : (now_ - warned_at_) / 1ms;
  stats_.warned_ms_ago = static_cast<uint32_t>(std::clamp<int64_t>(warned_ms_ago, 0, UINT32_MAX));
  effects.SendTo(kChief, Heartbeat{.from = incarnation_,
                                   .placement = placement_,
                                   .stats = stats_,
                                   .log_from = lines_from_,
                                   .log_lines = {lines_.begin(), lines_.end()},
                                   .leaving = departure_ ? Reason(departure_->stop) : ""});
}

bool MemberSession::IsForeign(const Received& received) const {
  if (const auto* welcome = std::get_if<Welcome>(&received.message)) return welcome->nonce != options_.join.nonce;
  if (std::holds_alternative<Refused>(received.message)) return false;  // it names whom it is for, see ReceiveRefused
  const bool joins = run_ == 0 && std::holds_alternative<JobEnd>(received.message);
  return !joins && received.run != run_;
}

MemberSession::News MemberSession::Receive(Time now, const Message& message, Effects& effects) {
  now_ = now;
  if (const auto* welcome = std::get_if<Welcome>(&message)) return ReceiveWelcome(now, *welcome, effects);
  if (const auto* refused = std::get_if<Refused>(&message)) return ReceiveRefused(now, *refused, effects);
  const auto* reply = std::get_if<HeartbeatReply>(&message);
  if (reply != nullptr && reply->to != incarnation_) {  // A9: what the life before may do, this one may not
    ++stats_.messages_rejected;
    return News::kHandled;
  }
  heard_ = now;
  if (reply != nullptr) {
    for (; lines_from_ < reply->log_kept && !lines_.empty(); ++lines_from_) lines_.pop_front();
    if (departure_) departure_->allowed |= reply->may_leave;
    return reply->retired && !departure_ ? News::kRetired : News::kHandled;
  }
  if (const auto* end = std::get_if<JobEnd>(&message)) {
    const int other_end = departure_ ? DepartureCode() : end->cancelled ? kExitDone : kExitFailed;
    End(end->succeeded ? kExitDone : other_end, end->why, effects, /*as_told=*/true);
    return News::kHandled;
  }
  return News::kNotMine;
}

MemberSession::News MemberSession::ReceiveWelcome(Time now, const Welcome& welcome, Effects& effects) {
  // Numbers of incarnations say nothing here: a folder that was put back, or another one, may give out lower ones.
  const bool awaited = !member() || reintroduces_;
  if (!awaited || welcome.number < first_join_ || welcome.you == Incarnation::kNone) return News::kHandled;
  heard_ = now;
  reintroduces_ = false;
  if (member() && welcome.you == incarnation_ && welcome.run == run_) return News::kHandled;  // as which it counts
  const bool was_known = incarnation_ != Incarnation::kNone;
  const bool goes_on = was_known && welcome.run == run_ && welcome.term > term_;
  if (was_known && !goes_on) stats_ = {};  // the chief has added up those of the life that ended
  member_ = true;
  refused_since_.reset();
  incarnation_ = welcome.you;
  term_ = welcome.term;
  name_ = welcome.name;
  job_changed_ = std::exchange(job_text_, welcome.job) != welcome.job;
  run_ = welcome.run;
  next_heartbeat_ = now;
  Say(Severity::kInfo, absl::StrCat("joined as ", name_, goes_on ? ", and goes on with what it holds" : ""), effects);
  return goes_on ? News::kRejoined : News::kJoined;
}

std::optional<MemberSession::Job> MemberSession::ReadJob(Effects& effects) {
  absl::StatusOr<JobSpec> job = ParseCanonicalJob(job_text_);
  absl::StatusOr<SliceGrid> grid = job.ok() ? GridOf(job->model, job->training.wire) : job.status();
  if (!grid.ok()) {
    End(kExitFailed, absl::StrCat("the chief's job is not understood here: ", grid.status().message()), effects);
    return std::nullopt;
  }
  const absl::Status enough = CheckDescriptors(options_.join.role, job->cluster, options_.descriptors);
  if (!enough.ok()) {
    End(kExitFailed, std::string(enough.message()), effects);
    return std::nullopt;
  }
  chief_wait_ = job->timing.chief_wait;
  return Job{*std::move(job), *std::move(grid)};
}

MemberSession::News MemberSession::ReceiveRefused(Time now, const Refused& refused, Effects& effects) {
  const bool is_late = refused.member != Incarnation::kNone ? refused.member != incarnation_ || refused.run != run_
                                                            : member() || refused.number < first_join_;
  if (is_late) return News::kHandled;  // said to the life before
  heard_ = now;
  if (refused.for_good) {
    End(CodeOf(refused), refused.why, effects);
    return News::kHandled;
  }
  if (refused.code == RefusalCode::kUnknown) {
    if (!member()) return News::kHandled;  // heard already
    member_ = reintroduces_ = false;
    first_join_ = joins_;
    Say(Severity::kWarning, absl::StrCat("the chief does not know this task, which joins again: ", refused.why),
        effects);
    SendJoin(now, effects);
    return News::kHandled;
  }
  if (!member()) {
    refusal_ = refused.why;
    if (!refused_since_) refused_since_ = now;
  }
  return News::kHandled;
}

// Of a refusal for good.
int MemberSession::CodeOf(const Refused& refused) const {
  if (refused.code != RefusalCode::kNoSuchTask) return kExitFailed;
  if (departure_) return DepartureCode();
  // A later chief of its run has no place for a worker that had one: the job was scaled to fewer, and the chief before
  // did not come to say so. Another run's job says nothing of its own.
  const bool had_place = incarnation_ != Incarnation::kNone && refused.run == run_;
  return had_place && options_.join.role == TaskRole::kWorker ? kExitDone : kExitFailed;
}

void MemberSession::End(int code, const std::string& why, Effects& effects, bool as_told,
                        std::optional<CodeFailure> code_failure) {
  if (ended_) return;
  ended_ = true;
  if (member()) {
    SendHeartbeat(effects);  // the last counts, so that the job's sums are whole
    effects.SendTo(kChief, Leave{.from = incarnation_,
                                 .why = why,
                                 .code_failed = code_failure.has_value(),
                                 .lease = code_failure.value_or(CodeFailure{}).lease,
                                 .code_ended = code_failure.value_or(CodeFailure{}).has_ended});
  }
  effects.Add(Exit{code, why, as_told});
}

void MemberSession::PrepareToLeave(Time now, const StopRequested& stop, Duration within, const std::string& once,
                                   Effects& effects) {
  if (departure_) return;
  departure_ = {stop, now + within};
  next_heartbeat_ = now;
  Say(Severity::kInfo, absl::StrCat(Reason(stop), ": leaves once ", once), effects);
}

int MemberSession::DepartureCode() const {
  return departure_->stop.signal == 0 ? kExitDone : kExitSignalled + departure_->stop.signal;
}

void MemberSession::Depart(const std::string& how, Effects& effects) {
  End(DepartureCode(), absl::StrCat("ended by ", Reason(departure_->stop), how), effects);
}

void MemberSession::Say(Severity severity, const std::string& text, Effects& effects) {
  effects.Add(Log{severity, text});
  Keep(severity, text);
}

void MemberSession::PassOn(const Warned& warned) { Keep(Severity::kWarning, warned.text); }

void MemberSession::Keep(Severity severity, const std::string& text) {
  if (severity != Severity::kInfo) {
    stats_.warning = text.substr(0, kLineBytes);
    warned_at_ = now_;
  }
  if (!options_.forward_logs) return;
  const auto ms = std::chrono::floor<std::chrono::milliseconds>(now_.time_since_epoch()).count();
  const std::string prefix = LogPrefix(LetterOf(severity), unix_ms_at_zero_ + ms);
  lines_.push_back(absl::StrCat(prefix, " ", text.substr(0, kLineBytes)));
  if (lines_.size() > kLinesKept) {
    lines_.pop_front();
    ++lines_from_;
  }
}

}  // namespace downpour
