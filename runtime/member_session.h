// A ps's or worker's life as a member of the job: joining, heartbeats, log lines for the chief, and its end. Both roles
// own one; it is part of their state machine.
//
//   session.Start(now, started, effects);                    // dials the chief and asks to join
//   session.Tick(now, placement, effects);                   // asks again, beats, notices a lost chief
//   if (session.IsForeign(received)) return;                 // before anything is done with a message, whoever sent it
//   switch (session.Receive(now, message, effects)) {...}    // for every other one on kChief
//   session.PrepareToLeave(now, stop, kWorkerLeavesWithin, "what it computed is acknowledged", effects);
//   if (now >= session.leave_by()) session.Depart("", effects);
//
// Order: a member is one Incarnation of one run. A chief that does not know it is joined again, by the session itself.
//   The owner goes on with what it holds, without a chief too, until kJoined says that it is new to the job. Once told
//   to stop it says so with each heartbeat, to whichever chief; when to leave is the owner's to decide.
// Errors: a refusal for good, a chief that is silent for its job's timing.chiefWait and a name that stays taken for
//   3 * dead_after end the process: Exit 1 with one sentence. A chief that is not there yet is waited for. Time in
//   which this process itself stood still counts as nobody's silence.
// Tests: tests/unit/runtime/member_session_test.cc.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>

#include "job/job.h"
#include "job/slice_grid.h"
#include "runtime/options.h"
#include "runtime/role.h"

namespace downpour {

struct MemberOptions {
  std::string chief;  // host:port
  Join join;          // of this process; the role and, at Start, the endpoint are filled in, which the driver renews
  // Lines logged travel to the chief with heartbeats; false where the log file lies in the job folder already.
  bool forward_logs = true;
  uint64_t descriptors = 0;  // open files that this process may have; 0: not known
  Timing timing;
};

class MemberSession {
 public:
  static constexpr PeerId kChief{1};
  static constexpr size_t kLinesKept = 200;  // enough to tell what led to an end; older ones stay in the task's own log
  static constexpr size_t kLineBytes = 1000;

  MemberSession(TaskRole role, MemberOptions options);

  void Start(Time now, const Started& started, Effects& effects);
  // The connection to the chief was broken, and stands again: this process may have got another address. A member stays
  // what it is, and joins until the chief has answered. One that is joining begins again: Joins under way are too old.
  void Reintroduce(Time now, Effects& effects);
  // True when a heartbeat left.
  bool Tick(Time now, uint64_t placement, Effects& effects);
  void Sample(const ResourceSample& sample);
  void Reject(const Malformed& malformed, Effects& effects);  // counted, and said now and then
  enum class News {
    kNotMine,  // not about membership: the owner's business
    kHandled,
    kJoined,    // incarnation(), term(), name(), the job and perhaps run() are new; what was held before is others'
    kRejoined,  // likewise, with a later chief of the same run; what was held may go on
    kRetired,   // the job does without this worker: the owner is to PrepareToLeave
  };
  News Receive(Time now, const Message& message, Effects& effects);

  // Whether it is of another run than this process: it changes nothing then. Free of that are the answers to a Join,
  // which name the process, or are for one that belongs to no run yet.
  bool IsForeign(const Received& received) const;
  // Of the job in its folder; 0 before the first Welcome. All that this process sends is said in it.
  uint64_t run() const { return run_; }
  // What the chief runs; from now on it goes on without its chief for as long as that says. None: it is not understood
  // here, or has more tasks than this process may have connections, and the process ends.
  struct Job {
    JobSpec spec;
    SliceGrid grid;
  };
  std::optional<Job> ReadJob(Effects& effects);

  // Of the job's own code, which raised, or has ended in good order.
  struct CodeFailure {
    LeaseId lease{};  // in whose step; {} in an evaluation
    bool has_ended = false;
  };
  // Gives the last counts, says goodbye and ends the process.
  void End(int code, const std::string& why, Effects& effects, bool as_told = false,
           std::optional<CodeFailure> code_failure = {});
  // It was told to stop, and will Depart within that time; `once` is until when it stays. The first word counts.
  void PrepareToLeave(Time now, const StopRequested& stop, Duration within, const std::string& once, Effects& effects);
  bool leaving() const { return departure_.has_value(); }
  Time leave_by() const { return departure_->by; }        // while leaving()
  bool may_leave() const { return departure_->allowed; }  // likewise; the chief said so
  // Ends it, with the code that shells have for it: 128 + the signal; 0 where the job does without it. `how` completes
  // "ended by SIGTERM".
  void Depart(const std::string& how, Effects& effects);

  // To this process's log, and to the chief's copy of it with the time of the last Tick or Receive.
  void Say(Severity severity, const std::string& text, Effects& effects);
  // To the chief's copy alone: this process's log has it. The newest warning also goes out with each heartbeat.
  void PassOn(const Warned& warned);

  bool member() const { return member_; }
  bool ended() const { return ended_; }
  Incarnation incarnation() const { return incarnation_; }  // the last one, while it is no member
  uint32_t term() const { return term_; }
  const std::string& name() const { return name_; }
  bool job_changed() const { return job_changed_; }  // the chief of before ran another, or there was none
  const Timing& timing() const { return options_.timing; }
  TaskStats& stats() { return stats_; }
  const TaskStats& stats() const { return stats_; }

 private:
  void SendJoin(Time now, Effects& effects);
  void DiscountOwnPause(Time now);
  void Keep(Severity severity, const std::string& text);
  void SendHeartbeat(Effects& effects);
  News ReceiveWelcome(Time now, const Welcome& welcome, Effects& effects);
  News ReceiveRefused(Time now, const Refused& refused, Effects& effects);
  int CodeOf(const Refused& refused) const;
  int DepartureCode() const;

  MemberOptions options_;
  Time now_;                     // of the last call
  int64_t unix_ms_at_zero_ = 0;  // wall clock at Time(0), for log lines
  bool started_ = false;
  bool ended_ = false;
  bool member_ = false;
  Incarnation incarnation_ = Incarnation::kNone;
  uint32_t term_ = 0;
  std::string name_;
  std::string job_text_;
  bool job_changed_ = false;
  uint64_t run_ = 0;
  bool reintroduces_ = false;  // a member, of whose Join since the last Reconnected it has heard nothing
  uint64_t joins_ = 0;         // sent so far
  uint64_t first_join_ = 0;    // number of the first one since then, or since it is no member: answers before are late
  Duration chief_wait_ = TimingSpec().chief_wait;
  TaskStats stats_;

  uint64_t placement_ = 0;  // as the last heartbeat said
  Time heard_;              // last message from the chief
  Time last_tick_;
  Time next_join_;
  Time next_notice_;
  Time next_heartbeat_;
  Time warned_at_;  // when stats_.warning was logged
  std::optional<Time> refused_since_;
  std::string refusal_;

  struct Departure {
    StopRequested stop;
    Time by;
    bool allowed = false;
  };
  std::optional<Departure> departure_;  // since it was told to stop

  uint64_t malformed_ = 0;
  uint64_t lines_from_ = 0;  // number of lines_.front()
  std::deque<std::string> lines_;
};

}  // namespace downpour
