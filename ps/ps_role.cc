#include "ps/ps_role.h"

#include <optional>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "job/job_file.h"
#include "job/plan_check.h"
#include "ps/data_plane.h"
#include "ps/quarantine.h"
#include "ps/shard.h"
#include "ps/snapshot.h"
#include "runtime/exit_code.h"
#include "runtime/prng.h"
#include "schema/codec.h"
#include "schema/text.h"

namespace downpour {
namespace {

constexpr PeerId kBulk{2};

// Done in one step, in bytes; at least one slice. Before its initial values are there a slice serves nobody, so that a
// longer step (10 ms) delays nothing but heartbeats.
constexpr size_t kInstallBytes = 16 * kMaxMessagePayload;

}  // namespace

// What it holds outlives its chief: the next one of the same run may let it go on with that (SliceSource::kHeld).
class PsRole::Impl {
 public:
  explicit Impl(PsOptions options)
      : chief_(options.member.chief),
        nonce_(options.member.join.nonce),
        has_job_dir_(options.has_job_dir),
        window_(options.window),
        report_part_bytes_(options.report_part_bytes),
        record_part_bytes_(options.record_part_bytes),
        quarantine_(options.crashes),
        session_(TaskRole::kPs, std::move(options.member)),
        snapshots_(options.record_part_bytes),
        writer_(options.report_part_bytes, options.record_part_bytes) {}

  void Step(Time now, Input input, Effects& effects);

  const MemberSession& session() const { return session_; }
  const Applying& applying() const { return applying_; }
  const Shard* shard() const { return shard_ ? &*shard_ : nullptr; }

 private:
  void On(Started& started);
  void On(Tick&);
  void On(Received& received);
  void On(Malformed& malformed) { session_.Reject(malformed, *out_); }
  // An OpenBulk goes with each heartbeat. Workers dial this ps where the chief says it is.
  void On(Reconnected& link) {
    if (link.peer == MemberSession::kChief) session_.Reintroduce(now_, *out_);
  }
  void On(Warned& warned) { session_.PassOn(warned); }
  void On(StorageDone& done);
  void On(ComputeDone&) {}
  void On(ResourceSample& sample);
  void On(StopRequested& stop) {
    session_.PrepareToLeave(now_, stop, kPsLeavesWithin, "a checkpoint holds what it has", *out_);
  }

  void FromChief(PeerId, Assign& assign);
  void FromChief(PeerId, RestoreSlice& restore);
  void FromChief(PeerId, SnapshotRequest& request);
  void FromChief(PeerId from, WriteShard& request);
  void FromChief(PeerId, auto&) { Reject(); }

  void FromWorker(PeerId worker, Push& push) { Serve(worker, push); }
  void FromWorker(PeerId worker, Probe& probe) { Serve(worker, probe); }
  void FromWorker(PeerId worker, Pull& pull) { Serve(worker, pull); }
  void FromWorker(PeerId, auto&) { Reject(); }
  template <typename Request>
  void Serve(PeerId worker, const Request& request) {
    if (!plane_) return Reject();
    const bool told_before = plane_->HasEjected(worker, request.from);  // also of who calls itself nobody since
    if (request.from == Incarnation::kNone && !told_before) return ServeNobody(worker, request);
    pace_.Served(plane_->Serve(worker, request, shard_ ? &*shard_ : nullptr, *out_));
    if (told_before) out_->Add(HangUp{worker});  // that answer may have been lost; this one goes out still
  }

  // A reader, which is no member. It may pull, and its pulls count as nobody's work: records need not wait for them.
  void ServeNobody(PeerId reader, const Pull& pull) {
    if (!plane_->ServeReader(reader, pull, shard_ ? &*shard_ : nullptr, *out_)) {
      Reject();
      out_->Add(HangUp{reader});
    }
  }
  void ServeNobody(PeerId, const auto&) { Reject(); }

  void LeaveIfItMay();
  void OnJoined();
  void OnRejoined();
  bool AdoptJob();
  void UseData(uint64_t train_examples);
  void Install();
  void Report(const std::vector<SliceId>& slices);
  void TraceBegin(TraceRecord begins);
  std::string WaitingFor() const;

  bool ForMe(Incarnation to) { return to == session_.incarnation() && shard_.has_value(); }
  void Reject() { ++session_.stats().messages_rejected; }

  const std::string chief_;
  const uint64_t nonce_;  // which the chief alone is told
  const bool has_job_dir_;
  const Window window_;
  const uint64_t report_part_bytes_;
  const size_t record_part_bytes_;
  const Quarantine quarantine_;
  Applying applying_;
  MemberSession session_;
  Time now_;
  Effects* out_ = nullptr;  // of the step at hand

  uint64_t run_ = 0;  // that the rest is of
  JobSpec job_;
  std::optional<SliceGrid> grid_;
  std::optional<DataPlane> plane_;
  std::optional<Shard> shard_;  // since the first Assign, which makes the plan
  bool knows_data_ = false;     // this chief has told how many examples there are: it does so once
  RecordPace pace_;
  SnapshotQueue snapshots_;
  ShardWriter writer_;
};

void PsRole::Impl::Step(Time now, Input input, Effects& effects) {
  if (session_.ended()) return;
  now_ = now;
  out_ = &effects;
  std::visit([this](auto& in) { On(in); }, input);
  if (session_.leaving()) LeaveIfItMay();
  if (shard_ && !session_.ended()) {
    Install();
    snapshots_.Answer(pace_, *shard_, session_.incarnation(), kBulk, effects);
    writer_.Continue(pace_, *shard_, effects);
  }
  if (shard_ && session_.ended()) shard_->CheckAllCounts();
}

// Told to stop it serves on until a checkpoint holds what it had then, which its chief sees to and tells it.
void PsRole::Impl::LeaveIfItMay() {
  if (!shard_) return session_.Depart("", *out_);
  if (session_.may_leave()) return session_.Depart("; its chief let it go", *out_);
  if (now_ >= session_.leave_by()) {
    session_.Depart("; no word came that a checkpoint holds what it had: what none holds is computed again", *out_);
  }
}

void PsRole::Impl::On(Started& started) {
  session_.Start(now_, started, *out_);
  out_->Add(Dial{kBulk, chief_});
}

void PsRole::Impl::On(Tick&) {
  pace_.Tick();
  session_.stats().waiting_for = WaitingFor();
  if (session_.Tick(now_, /*placement=*/0, *out_)) out_->SendTo(kBulk, OpenBulk{session_.incarnation()});
}

void PsRole::Impl::On(ResourceSample& sample) {
  session_.Sample(sample);
  const TableTotals tables = shard_ ? shard_->Tables() : TableTotals();
  session_.stats().table_rows = tables.rows;
  session_.stats().table_bytes = tables.bytes;
  session_.stats().keys_unborn = tables.unborn;
}

void PsRole::Impl::On(Received& received) {
  if (session_.IsForeign(received)) return Reject();
  const PeerId from = received.from;
  if (from == MemberSession::kChief) {
    switch (session_.Receive(now_, received.message, *out_)) {
      case MemberSession::News::kHandled:
      case MemberSession::News::kRetired:  // which is said to workers alone
        return;
      case MemberSession::News::kJoined:
        return OnJoined();
      case MemberSession::News::kRejoined:
        return OnRejoined();
      case MemberSession::News::kNotMine:
        break;
    }
  }
  if (from < PeerId::kFirstAccepted) {
    std::visit([&](auto& message) { FromChief(from, message); }, received.message);
  } else {
    std::visit([&](auto& message) { FromWorker(from, message); }, received.message);
  }
}

void PsRole::Impl::On(StorageDone& done) {
  if (shard_) writer_.Done(done, *out_);
}

void PsRole::Impl::OnJoined() {
  shard_.reset();
  knows_data_ = false;
  snapshots_ = SnapshotQueue(record_part_bytes_);
  writer_.Abandon();
  const bool of_another_folder = run_ != 0 && run_ != session_.run();
  run_ = session_.run();
  if (!AdoptJob()) return;
  if (of_another_folder && job_.checkpoint.via == CheckpointVia::kShared) {
    session_.End(kExitFailed,
                 "the chief is of another run, and the job says checkpoint.via: shared: start this server again, with "
                 "--job_dir=DIR, that chief's job folder",
                 *out_);
    return;
  }
  plane_.emplace(job_.training, window_, &session_, &quarantine_, &applying_);
}

// A later chief of the same run. What is held goes on, unless the job now means other slices, states or batches by it.
void PsRole::Impl::OnRejoined() {
  const JobSpec before = job_;
  knows_data_ = false;
  if (session_.job_changed() && !AdoptJob()) return;
  if (!PlanDifferences(job_, before).empty()) return OnJoined();
  if (!shard_) return;
  shard_->Extend(Plan(job_, shard_->plan().train_examples()));
  plane_->Configure(job_, *grid_, shard_->plan());
}

// One job has one plan, but a later chief may find further data behind those that it was begun with. What is held is of
// epochs that keep theirs. Else it is of data that were given up since, and is dropped.
void PsRole::Impl::UseData(uint64_t train_examples) {
  if (shard_ && !GrowsTo(job_, shard_->plan().train_examples(), train_examples)) OnJoined();
  if (session_.ended()) return;
  const Plan plan(job_, train_examples);
  if (shard_) {
    shard_->Extend(plan);
  } else {
    shard_.emplace(job_, *grid_, plan, MixAll(nonce_, ToNumber(session_.incarnation())));
  }
  plane_->Configure(job_, *grid_, plan);
  knows_data_ = true;
}

// False: the process ends.
bool PsRole::Impl::AdoptJob() {
  std::optional<MemberSession::Job> job = session_.ReadJob(*out_);
  if (!job) return false;
  if (job->spec.checkpoint.via == CheckpointVia::kShared && !has_job_dir_) {
    session_.End(kExitFailed,
                 "the job says checkpoint.via: shared, but this server was started without a folder to write to;"
                 " give it --job_dir=DIR, the chief's job folder as it is reached from this host",
                 *out_);
    return false;
  }
  job_ = std::move(job->spec);
  grid_ = std::move(job->grid);
  return true;
}

std::string PsRole::Impl::WaitingFor() const {
  if (!session_.member()) return "";
  if (session_.leaving()) return "a checkpoint of what it holds, to leave";
  if (!shard_) return "slices to be assigned";
  const size_t records = shard_->AwaitingRecords();
  return records == 0 ? "" : "the checkpoint's records of " + Counted(records, "slice");
}

// ---- The chief ------------------------------------------------------------------------------------------------------

void PsRole::Impl::FromChief(PeerId, Assign& assign) {
  if (assign.to != session_.incarnation() || !session_.member()) return Reject();
  if (!knows_data_) UseData(assign.train_examples);
  if (session_.ended()) return;
  if (assign.train_examples != shard_->plan().train_examples()) return Reject();
  plane_->ServeAs(session_.incarnation());
  std::vector<SliceId> settled;
  for (const Assign::Item& item : assign.slices) {
    if (!grid_->Contains(item.slice)) {
      Reject();
      continue;
    }
    const ServedSlice* held = shard_->Find(item.slice);
    const SliceEpoch before = held == nullptr ? SliceEpoch() : held->epoch;
    if (!shard_->Assign(item) || !shard_->HasReport(item.slice)) continue;
    settled.push_back(item.slice);
    const ServedSlice* served = shard_->Find(item.slice);
    if (served != nullptr && served->epoch != before)
      TraceBegin({.kind = TraceRecord::Kind::kKept, .slice = item.slice, .before = before});
  }
  Report(settled);
}

void PsRole::Impl::FromChief(PeerId, RestoreSlice& restore) {
  if (!ForMe(restore.to) || !grid_->Contains(restore.slice)) return Reject();
  if (!shard_->Restore(restore)) return;
  if (shard_->Find(restore.slice) != nullptr) {
    TraceBegin({.kind = TraceRecord::Kind::kInstalled, .slice = restore.slice, .round = restore.round});
  }
  Report({restore.slice});
}

void PsRole::Impl::FromChief(PeerId, SnapshotRequest& request) {
  if (!ForMe(request.to)) return Reject();
  snapshots_.Add(request, *shard_);
}

void PsRole::Impl::FromChief(PeerId from, WriteShard& request) {
  if (!ForMe(request.to)) return Reject();
  writer_.Begin(request, from, *shard_, *out_);
}

void PsRole::Impl::Install() {
  const std::vector<SliceId> installed = shard_->InstallNext(kInstallBytes);
  for (const SliceId slice : installed) TraceBegin({.kind = TraceRecord::Kind::kInstalled, .slice = slice});
  Report(installed);
}

void PsRole::Impl::Report(const std::vector<SliceId>& slices) {
  if (slices.empty()) return;
  SliceReport report{.from = session_.incarnation(), .slices = {}};
  for (const SliceId slice : slices) {
    report.slices.push_back(shard_->Report(slice));
    const std::string& error = report.slices.back().error;
    if (!error.empty()) session_.Say(Severity::kError, absl::StrCat("cannot install: ", error), *out_);
  }
  SendInParts(std::move(report), report_part_bytes_, MemberSession::kChief, *out_);
}

// Of a slice that begins to serve: `begins` says which, and with what.
void PsRole::Impl::TraceBegin(TraceRecord begins) {
  const ServedSlice& served = *shard_->Find(begins.slice);
  begins.actor = session_.incarnation();
  begins.epoch = served.epoch;
  begins.count = served.version;
  out_->Add(std::move(begins));
}

// ---- The role -------------------------------------------------------------------------------------------------------

PsRole::PsRole(PsOptions options) : impl_(std::make_unique<Impl>(std::move(options))) {}
PsRole::~PsRole() = default;

void PsRole::Step(Time now, Input input, Effects& effects) {
  impl_->Step(now, std::move(input), effects);
  effects.SayIn(run());
}

Incarnation PsRole::incarnation() const { return impl_->session().incarnation(); }
const TaskStats& PsRole::stats() const { return impl_->session().stats(); }
uint64_t PsRole::run() const { return impl_->session().run(); }
const Applying& PsRole::applying() const { return impl_->applying(); }

const ServedSlice* PsRole::Find(SliceId slice) const {
  const Shard* shard = impl_->shard();
  return shard == nullptr || !shard->grid().Contains(slice) ? nullptr : shard->Find(slice);
}

}  // namespace downpour
