#include "chief/chief_role.h"

#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "chief/chief_parts.h"
#include "chief/commands.h"
#include "chief/farewell.h"
#include "chief/history.h"
#include "chief/lifecycle.h"
#include "chief/status.h"
#include "chief/work.h"
#include "job/job_file.h"
#include "runtime/log_line.h"
#include "schema/text.h"

namespace downpour {
namespace {

constexpr size_t kMaxWords = 512;  // of what a member says in its own words

}  // namespace

// Routes inputs to the parts, after checking that whoever speaks may say it.
class ChiefRole::Core {
 public:
  explicit Core(ChiefOptions options)
      : chief_(std::move(options)),
        work_(chief_),
        farewell_(chief_),
        lifecycle_(chief_, work_, farewell_),
        commands_(chief_, lifecycle_),
        history_(chief_) {}

  void Step(Time now, Input& input, Effects& effects) {
    if (farewell_.exited()) return;
    chief_.turn.now = now;
    chief_.progress.Discount(chief_.members.DiscountOwnPause(now));
    std::visit([this](auto& in) { On(in); }, input);
    lifecycle_.Advance();
    commands_.Advance();
    history_.Observe();
    for (Effect& effect : chief_.turn.out.Take()) effects.Add(std::move(effect));
    effects.SayIn(run());
  }

  ChiefParts& chief() { return chief_; }
  uint64_t run() const { return chief_.journal.record().run; }

 private:
  void On(Started& started) { lifecycle_.Begin(started); }
  void On(Tick&) { lifecycle_.Tick(); }
  void On(StorageDone& done) { chief_.storage.Complete(done); }
  void On(ComputeDone&) {}
  void On(Reconnected&) {}  // it dials nobody
  void On(Warned&) {}       // its log is in the job folder
  void On(ResourceSample& sample) {
    chief_.refused = sample.refused;
    chief_.refused_from = std::move(sample.refused_from);
  }
  void On(StopRequested& stop) { lifecycle_.Stop(stop); }
  void On(Malformed& malformed) {
    Task* task = chief_.members.FindByPeer(malformed.from);
    Reject(malformed.from, task, malformed.why);
    if (task != nullptr) chief_.rounds.Rejected(task->incarnation, malformed.why);
  }
  void On(Received& received) {
    if (const auto* question = std::get_if<StatusRequest>(&received.message)) return Hear(received.from, *question);
    if (const auto* command = std::get_if<Control>(&received.message)) return Hear(received.from, *command);
    if (!lifecycle_.ready() && !HearsOfTheEnd(received.message)) return;  // whoever needs an answer asks again
    if (IsForeign(received)) return RefuseForeign(received);
    std::visit([&](auto& message) { Hear(received.from, message); }, received.message);
  }

  // Of a job that was over before this chief was started.
  bool HearsOfTheEnd(const Message& message) const {
    return chief_.ended() && (std::holds_alternative<Join>(message) || std::holds_alternative<Heartbeat>(message));
  }

  // Whether it is of another run. A Join is of the one that its process was in, and welcome here all the same, unless
  // this job is over: that says nothing of the other one.
  bool IsForeign(const Received& received) const {
    const bool is_join = std::holds_alternative<Join>(received.message);
    return received.run != run() && (!is_join || (chief_.ended() && received.run != 0));
  }
  void RefuseForeign(const Received& received);
  void Hear(PeerId from, const Join& join);
  void Hear(PeerId from, const Heartbeat& heartbeat);
  void Hear(PeerId from, const OpenBulk& open);
  void Hear(PeerId, const Leave& leave);
  void Hear(PeerId from, const DataReport& report);
  void Hear(PeerId from, const WorkRequest& request);
  void Hear(PeerId from, const LeaseDone& done);
  void Hear(PeerId from, const EvalDone& done);
  void Hear(PeerId from, const SliceReport& report);
  void Hear(PeerId from, const SliceRecord& record);
  void Hear(PeerId from, const ShardWritten& written);
  void Hear(PeerId from, const Violation& violation);
  void Hear(PeerId from, const CodeRequest& request);
  void Hear(PeerId from, const StatusRequest& question) {
    chief_.watchers.Asked(chief_.turn.now, from, question);
    if (!question.knows_end) chief_.turn.out.SendTo(from, StatusReply{StatusText(chief_)});
  }
  void Hear(PeerId from, const Control& command) { commands_.Receive(from, command); }
  template <typename NotForTheChief>
  void Hear(PeerId from, const NotForTheChief& message) {
    Reject(from, chief_.members.FindByPeer(from), absl::StrCat(NameOf(Message(message)), " is not for the chief"));
  }

  Task* Member(PeerId from, Incarnation incarnation, TaskRole role, const char* what);
  void ListSkips(const Task& task);
  void NoteRefusal(PeerId from, const Join& join, const Refused& refusal);
  void Judge(PeerId from, Task* task, const absl::Status& status);
  void Reject(PeerId from, Task* task, const std::string& why);

  ChiefParts chief_;
  Work work_;
  Farewell farewell_;
  Lifecycle lifecycle_;
  Commands commands_;
  History history_;
};

// ---- Membership -----------------------------------------------------------------------------------------------------

// Its numbers may be those of a member here. It changes nothing; whoever beats is told to join this run, unless that is
// over: the job that it was at may not be.
void ChiefRole::Core::RefuseForeign(const Received& received) {
  Reject(received.from, nullptr, absl::StrCat(NameOf(received.message), " of another run"));
  const auto* beat = std::get_if<Heartbeat>(&received.message);
  if (beat == nullptr || chief_.ended()) return;
  chief_.turn.out.SendTo(
      received.from,
      Refused{.code = RefusalCode::kUnknown, .why = "it leads another run", .member = beat->from, .run = received.run});
}

void ChiefRole::Core::Hear(PeerId from, const Join& join) {
  if (chief_.ended()) return farewell_.Tell(from);
  const Membership::Verdict verdict = chief_.members.Admit(chief_.turn.now, from, join);
  if (verdict.task == nullptr) {
    NoteRefusal(from, join, verdict.refusal);
    Refused refusal = verdict.refusal;
    refusal.member = Incarnation::kNone;
    refusal.run = run();  // by which a worker knows whether its own job does without it
    refusal.number = join.number;
    return chief_.turn.out.SendTo(from, std::move(refusal));
  }
  const Task& task = *verdict.task;
  chief_.spares.Admitted(join.nonce);
  if (verdict.is_new) {
    const std::string who = absl::StrCat("process ", task.process.pid, " on ", task.process.host, ", incarnation ",
                                         ToNumber(task.incarnation));
    chief_.turn.out.Info(absl::StrCat(task.name, " joined: ", who));
    chief_.logs.Begin(task.name, join.nonce, who);
    if (!task.holds) chief_.journal.toll().skips_listed.erase(task.name);  // it counts from 0
  }
  if (verdict.is_back) chief_.turn.out.Info(absl::StrCat(task.name, " is back"));
  chief_.assignment.Follow(task);
  if (verdict.replaced) {
    lifecycle_.Lost(*verdict.replaced, task.holds ? "who had its place after it is back" : "it was started again");
  }
  if (chief_.ended()) return;
  chief_.turn.out.SendTo(from, Welcome{.you = task.incarnation,
                                       .term = chief_.term,
                                       .name = task.name,
                                       .job = chief_.journal.record().job,
                                       .run = run(),
                                       .nonce = join.nonce,
                                       .number = join.number});
}

// Who asks again and again for a name that is taken may do so: it counts once.
void ChiefRole::Core::NoteRefusal(PeerId from, const Join& join, const Refused& refusal) {
  if (refusal.code == RefusalCode::kNameTaken) {
    if (!chief_.spares.Note(chief_.turn.now, join, refusal.why)) return;
  } else if (!refusal.for_good) {
    return;
  }
  if (chief_.members.IsAhead(join)) chief_.failures.Add("chief", refusal.why);
  Reject(from, nullptr, absl::StrCat("Join refused: ", refusal.why));
}

void ChiefRole::Core::Hear(PeerId from, const Heartbeat& heartbeat) {
  Task* task = chief_.members.Find(heartbeat.from);
  if (task != nullptr && chief_.members.Revive(*task)) chief_.turn.out.Info(absl::StrCat(task->name, " is back"));
  if (task == nullptr || !task->alive()) {
    if (task != nullptr && task->state == TaskState::kRefused) return chief_.turn.out.SendTo(from, task->refusal);
    if (chief_.ended()) return farewell_.Tell(from);
    return chief_.turn.out.SendTo(from, Refused{.code = RefusalCode::kUnknown,
                                                .why = "it was silent for too long, or is of an earlier chief",
                                                .member = heartbeat.from,
                                                .run = run()});
  }
  Judge(from, task, chief_.members.Hear(chief_.turn.now, from, heartbeat, *task));
  chief_.progress.Move(task->got_on);
  ListSkips(*task);
  chief_.logs.Append(task->name, heartbeat.log_from, heartbeat.log_lines);
  chief_.turn.out.SendTo(from, HeartbeatReply{.log_kept = chief_.logs.Kept(task->name),
                                              .may_leave = task->may_leave(),
                                              .retired = chief_.members.IsRetired(*task),
                                              .to = task->incarnation});
  lifecycle_.SendPlacement(*task);
}

// A process counts on when another chief leads, and the list outlives chiefs: each skip is listed once.
void ChiefRole::Core::ListSkips(const Task& task) {
  const uint64_t skipped = task.stats.pushes_skipped;
  if (task.role != TaskRole::kPs || skipped == 0) return;
  uint64_t& listed = chief_.journal.toll().skips_listed[task.name];
  if (skipped <= listed) return;
  chief_.failures.Add(
      task.name, absl::StrCat("skipped ", skipped - listed,
                              " pushes, which changed nothing: not finite, or they crashed it twice, as its log says"));
  listed = skipped;
}

void ChiefRole::Core::Hear(PeerId from, const OpenBulk& open) {
  Task* task = Member(from, open.from, TaskRole::kPs, "OpenBulk");
  if (task == nullptr || task->bulk == from) return;
  task->bulk = from;  // what was on its way went with the link before
  chief_.assignment.SendAgain(task->incarnation);
  chief_.rounds.AskAgain(task->incarnation);
}

void ChiefRole::Core::Hear(PeerId, const Leave& leave) {
  Task* task = chief_.members.FindAlive(leave.from);
  if (task == nullptr) return;
  const std::string why = CleanText(leave.why, kMaxWords);
  task->state = TaskState::kLeft;
  chief_.turn.out.Info(absl::StrCat(task->name, " left: ", why));
  if (chief_.ended()) return;
  if (task->role == TaskRole::kPs) return lifecycle_.Lost(*task, absl::StrCat("it left: ", why));
  work_.Release(leave.from);
}

void ChiefRole::Core::Hear(PeerId from, const DataReport& report) {
  Task* task = Member(from, report.from, TaskRole::kWorker, "DataReport");
  if (task == nullptr || chief_.ended()) return;
  if (const absl::Status status = chief_.data.Judge(task->name, report); !status.ok()) {
    return lifecycle_.RefuseForGood(*task, RefusalCode::kDataDiffers, Words(status));
  }
  const bool was_good = std::exchange(task->data_good, true);
  if (!was_good) task->stats.waiting_for.clear();  // its last heartbeat may still wait for them
  lifecycle_.SendPlacement(*task);
}

void ChiefRole::Core::Hear(PeerId from, const Violation& violation) {
  if (Member(from, violation.from, TaskRole::kPs, "Violation") == nullptr) return;
  Task* culprit = chief_.members.FindAlive(violation.by);
  if (culprit == nullptr || culprit->role != TaskRole::kWorker || chief_.ended()) return;
  ++culprit->rejected;
  lifecycle_.RefuseForGood(*culprit, RefusalCode::kEjected,
                           absl::StrCat("it broke the protocol: ", CleanText(violation.what, kMaxWords)));
}

// Late words of a worker that an earlier chief told of other code are answered by nothing: this one's Welcome tells it.
void ChiefRole::Core::Hear(PeerId from, const CodeRequest& request) {
  Task* task = Member(from, request.from, TaskRole::kWorker, "CodeRequest");
  if (task == nullptr || chief_.ended()) return;
  if (request.sha256 != chief_.options.job.python.sha256 || request.block >= chief_.startup.code().size()) {
    return Reject(from, task, "it asks for code that this job does not have");
  }
  chief_.turn.out.SendTo(from, CodeBlock{.to = task->incarnation,
                                         .sha256 = request.sha256,
                                         .block = request.block,
                                         .bytes = chief_.startup.code()[request.block]});
}

// ---- Work and state -------------------------------------------------------------------------------------------------

void ChiefRole::Core::Hear(PeerId from, const WorkRequest& request) {
  Task* task = Member(from, request.from, TaskRole::kWorker, "WorkRequest");
  if (task != nullptr) Judge(from, task, work_.Receive(*task, request));
}

void ChiefRole::Core::Hear(PeerId from, const LeaseDone& done) {
  Judge(from, chief_.members.Find(done.from), work_.Receive(from, done));
}

void ChiefRole::Core::Hear(PeerId from, const EvalDone& done) {
  Judge(from, chief_.members.Find(done.from), work_.Receive(from, done));
}

void ChiefRole::Core::Hear(PeerId from, const SliceReport& report) {
  Task* task = Member(from, report.from, TaskRole::kPs, "SliceReport");
  if (task != nullptr) Judge(from, task, chief_.assignment.Receive(report));
}

void ChiefRole::Core::Hear(PeerId from, const SliceRecord& record) {
  Task* task = Member(from, record.from, TaskRole::kPs, "SliceRecord");
  if (task != nullptr) Judge(from, task, chief_.rounds.Receive(record));
}

void ChiefRole::Core::Hear(PeerId from, const ShardWritten& written) {
  Task* task = Member(from, written.from, TaskRole::kPs, "ShardWritten");
  if (task != nullptr) Judge(from, task, chief_.rounds.Receive(written));
}

// ---- Who may say it -------------------------------------------------------------------------------------------------

// The living task of that role, or null. What the dead said is late, and no offence.
Task* ChiefRole::Core::Member(PeerId from, Incarnation incarnation, TaskRole role, const char* what) {
  Task* task = chief_.members.Find(incarnation);
  if (task == nullptr && !chief_.members.Issued(incarnation)) {
    Reject(from, nullptr, absl::StrCat(what, " of a process unknown here"));
    return nullptr;
  }
  if (task == nullptr || !task->alive()) return nullptr;
  if (task->role == role) return task;
  Reject(from, task, absl::StrCat(what, " is not for a ", NameOf(task->role), " to say"));
  return nullptr;
}

void ChiefRole::Core::Judge(PeerId from, Task* task, const absl::Status& status) {
  if (!status.ok()) Reject(from, task, Words(status));
}

void ChiefRole::Core::Reject(PeerId from, Task* task, const std::string& why) {
  const uint64_t count = task != nullptr ? ++task->rejected : ++chief_.rejected;
  if (!WorthALine(count)) return;
  chief_.turn.out.Warn(absl::StrCat("rejected from ",
                                    task != nullptr ? task->name : absl::StrCat("peer ", static_cast<uint64_t>(from)),
                                    " (", count, " so far): ", why));
}

// ---- The role -------------------------------------------------------------------------------------------------------

ChiefRole::ChiefRole(ChiefOptions options) : core_(std::make_unique<Core>(std::move(options))) {}
ChiefRole::~ChiefRole() = default;

void ChiefRole::Step(Time now, Input input, Effects& effects) { core_->Step(now, input, effects); }

JobState ChiefRole::state() const { return core_->chief().state; }
uint32_t ChiefRole::term() const { return core_->chief().term; }
uint64_t ChiefRole::run() const { return core_->run(); }
const IntervalSet& ChiefRole::committed() const { return core_->chief().ledger.committed(); }
uint64_t ChiefRole::goal() const {
  const LeaseLedger& ledger = core_->chief().ledger;
  return ledger.is_open() ? ledger.goal() : UINT64_MAX;
}
bool ChiefRole::all_reported() const { return core_->chief().assignment.complete(); }
std::map<LeaseId, Incarnation> ChiefRole::holders() const { return core_->chief().ledger.holders(); }
std::vector<SliceEpoch> ChiefRole::epochs() const { return core_->chief().assignment.epochs(); }
int64_t ChiefRole::worker_count() const { return core_->chief().members.worker_count(); }
uint64_t ChiefRole::commands() const { return core_->chief().commands; }

std::vector<Incarnation> ChiefRole::lost() const {
  std::vector<Incarnation> lost;
  for (const Task& task : core_->chief().members.tasks()) {
    if (task.state == TaskState::kLost) lost.push_back(task.incarnation);
  }
  return lost;
}

std::vector<Incarnation> ChiefRole::alive(TaskRole role) const {
  std::vector<Incarnation> alive;
  for (const Task& task : core_->chief().members.tasks()) {
    if (task.role == role && task.alive()) alive.push_back(task.incarnation);
  }
  return alive;
}

std::string ChiefRole::StatusJson(Time now) const {
  core_->chief().turn.now = now;
  return StatusText(core_->chief());
}

}  // namespace downpour
