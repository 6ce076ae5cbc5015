#include "chief/chief_role.h"

#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "chief/chief_parts.h"
#include "chief/status.h"
#include "job/job_file.h"
#include "runtime/log_line.h"
#include "schema/secret.h"
#include "schema/text.h"

namespace downpour {
namespace {

constexpr size_t kMaxWords = 900;  // of what a member says in its own words, such as the Python code's traceback

}  // namespace

// Routes inputs to the parts, after checking that whoever speaks may say it.
class ChiefRole::Impl {
 public:
  explicit Impl(ChiefOptions options) : chief_(std::move(options)) {}

  void Step(Time now, Input& input, Effects& effects) {
    if (chief_.shutdown.exited()) return;
    chief_.context.now = now;
    chief_.progress.Discount(chief_.members.DiscountOwnPause(now));
    std::visit([this](auto& in) { On(in); }, input);
    chief_.lifecycle.Advance();
    chief_.commands.Advance();
    chief_.history.Observe();
    for (Effect& effect : chief_.context.out.Take()) effects.Add(std::move(effect));
    effects.SayIn(run());
  }

  ChiefParts& chief() { return chief_; }
  uint64_t run() const { return chief_.journal.record().run; }

 private:
  void On(Started& started) { chief_.lifecycle.Begin(started); }
  void On(Tick&);
  void On(StorageDone& done) { chief_.storage.Complete(done); }
  void On(ComputeDone&) {}
  void On(Reconnected&) {}  // it dials nobody
  void On(Warned&) {}       // its log is in the job folder
  void On(ResourceSample& sample) {
    chief_.counts.refused = sample.refused;
    chief_.counts.refused_from = std::move(sample.refused_from);
  }
  void On(StopRequested& stop) { chief_.lifecycle.Stop(stop); }
  void On(Malformed& malformed) {
    Task* task = chief_.members.FindByPeer(malformed.from);
    Reject(malformed.from, task, malformed.why);
    if (task != nullptr) chief_.rounds.Rejected(task->incarnation, malformed.why);
  }
  void On(Received& received) {
    if (const auto* question = std::get_if<StatusRequest>(&received.message))
      return ReceiveOfTool(received.from, *question);
    if (const auto* command = std::get_if<Control>(&received.message)) return ReceiveOfTool(received.from, *command);
    if (const auto* reader = std::get_if<PlacementRequest>(&received.message))
      return ReceiveOfTool(received.from, *reader);
    if (!chief_.life.ready() && !HearsOfTheEnd(received.message)) return;  // whoever needs an answer asks again
    if (IsForeign(received)) return RefuseForeign(received);
    std::visit([&](auto& message) { Receive(received.from, message); }, received.message);
  }

  // Of a job that was over before this chief was started.
  bool HearsOfTheEnd(const Message& message) const {
    return chief_.life.ended() && (std::holds_alternative<Join>(message) || std::holds_alternative<Heartbeat>(message));
  }

  // Whether it is of another run. A Join is of the one that its process was in, and welcome here all the same, unless
  // this job is over: that says nothing of the other one.
  bool IsForeign(const Received& received) const {
    const bool is_join = std::holds_alternative<Join>(received.message);
    return received.run != run() && (!is_join || (chief_.life.ended() && received.run != 0));
  }
  void RefuseForeign(const Received& received);
  void Receive(PeerId from, const Join& join);
  void Receive(PeerId from, const Heartbeat& heartbeat);
  void Receive(PeerId from, const OpenBulk& open);
  void Receive(PeerId, const Leave& leave);
  void Receive(PeerId from, const DataReport& report);
  void Receive(PeerId from, const WorkRequest& request);
  void Receive(PeerId from, const LeaseDone& done);
  void Receive(PeerId from, const EvalDone& done);
  void Receive(PeerId from, const SliceReport& report);
  void Receive(PeerId from, const SliceRecord& record);
  void Receive(PeerId from, const ShardWritten& written);
  void Receive(PeerId from, const Violation& violation);
  void Receive(PeerId from, const CodeRequest& request);
  void Receive(PeerId from, const RecordRequest& request);
  void Receive(PeerId from, const EpilogueDone& done);
  template <typename Asked>
  void ReceiveOfTool(PeerId from, const Asked& asked);
  void Receive(PeerId from, const StatusRequest& question) {
    chief_.watchers.Asked(chief_.context.now, from, question);
    if (!question.knows_end) chief_.context.out.SendTo(from, StatusReply{StatusText(chief_.view)});
  }
  void Receive(PeerId from, const Control& command) { chief_.commands.Receive(from, command); }
  void Receive(PeerId from, const PlacementRequest& reader) {
    if (!chief_.life.ready()) return;
    chief_.life.ended() ? chief_.shutdown.Tell(from) : chief_.training.AnswerReader(from, reader);
  }
  template <typename NotForTheChief>
  void Receive(PeerId from, const NotForTheChief& message) {
    Reject(from, chief_.members.FindByPeer(from), absl::StrCat(NameOf(Message(message)), " is not for the chief"));
  }

  Task* Member(PeerId from, Incarnation incarnation, TaskRole role, const char* what);
  void ListSkips(const Task& task);
  void NoteRefusal(PeerId from, const Join& join, const Refused& refusal);
  void RejectUnlessOk(PeerId from, Task* task, const absl::Status& status);
  void Reject(PeerId from, Task* task, const std::string& why);

  ChiefParts chief_;
};

// Each part does what is due by now, in this order.
void ChiefRole::Impl::On(Tick&) {
  if (!chief_.life.ready() || chief_.life.ended()) return;
  chief_.losses.Tick();
  chief_.lifecycle.Tick();
  chief_.restore.Tick();
  chief_.rounds.Tick();
  if (chief_.life.state != JobState::kCancelling) chief_.departures.Tick();  // else the job's end lets all go
  chief_.work.Tick();
}

// ---- Membership -----------------------------------------------------------------------------------------------------

// Its numbers may be those of a member here. It changes nothing; whoever beats is told to join this run, unless that is
// over: the job that it was at may not be.
void ChiefRole::Impl::RefuseForeign(const Received& received) {
  Reject(received.from, nullptr, absl::StrCat(NameOf(received.message), " of another run"));
  const auto* beat = std::get_if<Heartbeat>(&received.message);
  if (beat == nullptr || chief_.life.ended()) return;
  chief_.context.out.SendTo(
      received.from,
      Refused{.code = RefusalCode::kUnknown, .why = "it leads another run", .member = beat->from, .run = received.run});
}

void ChiefRole::Impl::Receive(PeerId from, const Join& join) {
  if (chief_.life.ended()) return chief_.shutdown.Tell(from);
  const Membership::Verdict verdict = chief_.members.Admit(chief_.context.now, from, join);
  if (verdict.task == nullptr) {
    NoteRefusal(from, join, verdict.refusal);
    Refused refusal = verdict.refusal;
    refusal.member = Incarnation::kNone;
    refusal.run = run();  // by which a worker knows whether its own job does without it
    refusal.number = join.number;
    return chief_.context.out.SendTo(from, std::move(refusal));
  }
  const Task& task = *verdict.task;
  chief_.spares.Admitted(join.nonce);
  if (verdict.is_new) {
    const std::string who = absl::StrCat("process ", task.process.pid, " on ", task.process.host, ", incarnation ",
                                         ToNumber(task.incarnation));
    chief_.context.out.Info(absl::StrCat(task.name, " joined: ", who));
    chief_.logs.Begin(task.name, join.nonce, who);
    if (!task.holds) chief_.journal.costs().skips_listed.erase(task.name);  // it counts from 0
  }
  if (verdict.is_back) chief_.context.out.Info(absl::StrCat(task.name, " is back"));
  chief_.assignment.Follow(task);
  if (verdict.replaced) {
    chief_.losses.Lost(*verdict.replaced, task.holds ? "who had its place after it is back" : "it was started again");
  }
  if (chief_.life.ended()) return;
  chief_.context.out.SendTo(from, Welcome{.you = task.incarnation,
                                          .term = chief_.life.term,
                                          .name = task.name,
                                          .job = chief_.journal.record().job,
                                          .run = run(),
                                          .nonce = join.nonce,
                                          .number = join.number});
}

// Who asks again and again for a name that is taken may do so: it counts once.
void ChiefRole::Impl::NoteRefusal(PeerId from, const Join& join, const Refused& refusal) {
  if (refusal.code == RefusalCode::kNameTaken) {
    if (!chief_.spares.Note(chief_.context.now, from, join, refusal.why)) return;
  } else if (!refusal.for_good) {
    return;
  }
  if (chief_.members.IsAhead(join)) chief_.failures.Add("chief", refusal.why);
  Reject(from, nullptr, absl::StrCat("Join refused: ", refusal.why));
}

void ChiefRole::Impl::Receive(PeerId from, const Heartbeat& heartbeat) {
  Task* task = chief_.members.Find(heartbeat.from);
  if (task != nullptr && chief_.members.Revive(*task)) chief_.context.out.Info(absl::StrCat(task->name, " is back"));
  if (task == nullptr || !task->alive()) {
    if (task != nullptr && task->state == TaskState::kRefused) return chief_.context.out.SendTo(from, task->refusal);
    if (chief_.life.ended()) return chief_.shutdown.Tell(from);
    return chief_.context.out.SendTo(from, Refused{.code = RefusalCode::kUnknown,
                                                   .why = "it was silent for too long, or is of an earlier chief",
                                                   .member = heartbeat.from,
                                                   .run = run()});
  }
  RejectUnlessOk(from, task, chief_.members.Receive(chief_.context.now, from, heartbeat, *task));
  chief_.progress.Move(task->got_on);
  ListSkips(*task);
  chief_.logs.Append(task->name, heartbeat.log_from, heartbeat.log_lines);
  chief_.context.out.SendTo(from, HeartbeatReply{.log_kept = chief_.logs.Retained(task->name),
                                                 .may_leave = task->may_leave(),
                                                 .retired = chief_.members.IsRetired(*task),
                                                 .to = task->incarnation});
  chief_.training.SendPlacement(*task);
}

// A process counts on when another chief leads, and the list outlives chiefs: each skip is listed once.
void ChiefRole::Impl::ListSkips(const Task& task) {
  const uint64_t skipped = task.stats.pushes_skipped;
  if (task.role != TaskRole::kPs || skipped == 0) return;
  uint64_t& listed = chief_.journal.costs().skips_listed[task.name];
  if (skipped <= listed) return;
  chief_.failures.Add(
      task.name, absl::StrCat("skipped ", skipped - listed,
                              " pushes, which changed nothing: not finite, or they crashed it twice, as its log says"));
  listed = skipped;
}

void ChiefRole::Impl::Receive(PeerId from, const OpenBulk& open) {
  Task* task = Member(from, open.from, TaskRole::kPs, "OpenBulk");
  if (task == nullptr || task->bulk == from) return;
  task->bulk = from;  // what was on its way went with the link before
  chief_.restore.SendAgain(task->incarnation);
  chief_.rounds.AskAgain(task->incarnation);
}

void ChiefRole::Impl::Receive(PeerId, const Leave& leave) {
  Task* task = chief_.members.FindAlive(leave.from);
  if (task == nullptr) return;
  const std::string why = CleanText(leave.why, kMaxWords);
  task->state = TaskState::kLeft;
  chief_.context.out.Info(absl::StrCat(task->name, " left: ", why));
  if (chief_.life.ended()) return;
  if (leave.code_failed) chief_.work.NoteCodeFailure(*task, leave, why);
  // A worker that nobody told to leave has failed: a heartbeat that went before its Leave would say who told it.
  const bool has_failed = task->leaving.empty();
  if (task->role == TaskRole::kPs || has_failed) return chief_.losses.Lost(*task, absl::StrCat("it left: ", why));
  chief_.work.Release(leave.from);
}

void ChiefRole::Impl::Receive(PeerId from, const DataReport& report) {
  Task* task = Member(from, report.from, TaskRole::kWorker, "DataReport");
  if (task == nullptr || chief_.life.ended()) return;
  if (const absl::Status status = chief_.data.Validate(task->name, report); !status.ok()) {
    return chief_.losses.RefuseForGood(*task, RefusalCode::kDataDiffers, MessageOf(status));
  }
  const bool was_good = std::exchange(task->data_good, true);
  if (!was_good) task->stats.waiting_for.clear();  // its last heartbeat may still wait for them
  chief_.training.SendPlacement(*task);
}

void ChiefRole::Impl::Receive(PeerId from, const Violation& violation) {
  if (Member(from, violation.from, TaskRole::kPs, "Violation") == nullptr) return;
  Task* culprit = chief_.members.FindAlive(violation.by);
  if (culprit == nullptr || culprit->role != TaskRole::kWorker || chief_.life.ended()) return;
  ++culprit->rejected;
  chief_.losses.RefuseForGood(*culprit, RefusalCode::kEjected,
                              absl::StrCat("it broke the protocol: ", CleanText(violation.what, kMaxWords)));
}

// Late words of a worker that an earlier chief told of other code are answered by nothing: this one's Welcome tells it.
void ChiefRole::Impl::Receive(PeerId from, const CodeRequest& request) {
  Task* task = Member(from, request.from, TaskRole::kWorker, "CodeRequest");
  if (task == nullptr || chief_.life.ended()) return;
  if (request.sha256 != chief_.options.job.python.sha256 || request.block >= chief_.startup.code().size()) {
    return Reject(from, task, "it asks for code that this job does not have");
  }
  chief_.context.out.SendTo(from, CodeBlock{.to = task->incarnation,
                                            .sha256 = request.sha256,
                                            .block = request.block,
                                            .bytes = chief_.startup.code()[request.block]});
}

// ---- Work and state -------------------------------------------------------------------------------------------------

void ChiefRole::Impl::Receive(PeerId from, const WorkRequest& request) {
  Task* task = Member(from, request.from, TaskRole::kWorker, "WorkRequest");
  if (task != nullptr) RejectUnlessOk(from, task, chief_.work.Receive(*task, request));
}

void ChiefRole::Impl::Receive(PeerId from, const LeaseDone& done) {
  RejectUnlessOk(from, chief_.members.Find(done.from), chief_.work.Receive(from, done));
}

void ChiefRole::Impl::Receive(PeerId from, const EvalDone& done) {
  RejectUnlessOk(from, chief_.members.Find(done.from), chief_.work.Receive(from, done));
}

void ChiefRole::Impl::Receive(PeerId from, const RecordRequest& request) {
  Task* task = Member(from, request.from, TaskRole::kWorker, "RecordRequest");
  if (task != nullptr) RejectUnlessOk(from, task, chief_.epilogue.Receive(*task, request));
}

void ChiefRole::Impl::Receive(PeerId from, const EpilogueDone& done) {
  Task* task = Member(from, done.from, TaskRole::kWorker, "EpilogueDone");
  if (task != nullptr) RejectUnlessOk(from, task, chief_.epilogue.Receive(*task, done));
}

void ChiefRole::Impl::Receive(PeerId from, const SliceReport& report) {
  Task* task = Member(from, report.from, TaskRole::kPs, "SliceReport");
  if (task != nullptr) RejectUnlessOk(from, task, chief_.restore.Receive(report));
}

void ChiefRole::Impl::Receive(PeerId from, const SliceRecord& record) {
  Task* task = Member(from, record.from, TaskRole::kPs, "SliceRecord");
  if (task != nullptr) RejectUnlessOk(from, task, chief_.rounds.Receive(record));
}

void ChiefRole::Impl::Receive(PeerId from, const ShardWritten& written) {
  Task* task = Member(from, written.from, TaskRole::kPs, "ShardWritten");
  if (task != nullptr) RejectUnlessOk(from, task, chief_.rounds.Receive(written));
}

// Without keys any user of this host reaches the chief's address. Whoever may read its folder may ask.
template <typename Asked>
void ChiefRole::Impl::ReceiveOfTool(PeerId from, const Asked& asked) {
  const std::string& secret = chief_.options.secret;
  if (secret.empty() || IsSecret(asked.secret, secret)) return Receive(from, asked);
  Reject(from, nullptr, absl::StrCat(NameOf(Message(asked)), " without the secret of chief.json"));
  chief_.context.out.SendTo(
      from, Refused{.code = RefusalCode::kSecretWanted,
                    .why = "without keys it answers only who says the secret in its job folder's chief.json"});
}

// ---- Who may say it -------------------------------------------------------------------------------------------------

// The living task of that role, or null. What the dead said is late, and no offence.
Task* ChiefRole::Impl::Member(PeerId from, Incarnation incarnation, TaskRole role, const char* what) {
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

void ChiefRole::Impl::RejectUnlessOk(PeerId from, Task* task, const absl::Status& status) {
  if (!status.ok()) Reject(from, task, MessageOf(status));
}

void ChiefRole::Impl::Reject(PeerId from, Task* task, const std::string& why) {
  const uint64_t count = task != nullptr ? ++task->rejected : ++chief_.counts.rejected;
  if (!WorthALine(count)) return;
  chief_.context.out.Warn(
      absl::StrCat("rejected from ", task != nullptr ? task->name : absl::StrCat("peer ", static_cast<uint64_t>(from)),
                   " (", count, " so far): ", why));
}

// ---- The role -------------------------------------------------------------------------------------------------------

ChiefRole::ChiefRole(ChiefOptions options) : impl_(std::make_unique<Impl>(std::move(options))) {}
ChiefRole::~ChiefRole() = default;

void ChiefRole::Step(Time now, Input input, Effects& effects) { impl_->Step(now, input, effects); }

JobState ChiefRole::state() const { return impl_->chief().life.state; }
uint32_t ChiefRole::term() const { return impl_->chief().life.term; }
uint64_t ChiefRole::run() const { return impl_->run(); }
const IntervalSet& ChiefRole::committed() const { return impl_->chief().ledger.committed(); }
uint64_t ChiefRole::goal() const {
  const LeaseLedger& ledger = impl_->chief().ledger;
  return ledger.is_open() ? ledger.goal() : UINT64_MAX;
}
bool ChiefRole::all_reported() const { return impl_->chief().restore.complete(); }
std::map<LeaseId, Incarnation> ChiefRole::holders() const { return impl_->chief().ledger.holders(); }
std::vector<SliceEpoch> ChiefRole::epochs() const { return impl_->chief().placement.epochs(); }
int64_t ChiefRole::worker_count() const { return impl_->chief().members.worker_count(); }
uint64_t ChiefRole::commands() const { return impl_->chief().counts.commands; }

std::vector<Incarnation> ChiefRole::lost() const {
  std::vector<Incarnation> lost;
  for (const Task& task : impl_->chief().members.tasks()) {
    if (task.state == TaskState::kLost) lost.push_back(task.incarnation);
  }
  return lost;
}

std::vector<Incarnation> ChiefRole::alive(TaskRole role) const {
  std::vector<Incarnation> alive;
  for (const Task& task : impl_->chief().members.tasks()) {
    if (task.role == role && task.alive()) alive.push_back(task.incarnation);
  }
  return alive;
}

std::string ChiefRole::StatusJson(Time now) const {
  impl_->chief().context.now = now;
  return StatusText(impl_->chief().view);
}

}  // namespace downpour
