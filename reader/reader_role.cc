#include "reader/reader_role.h"

#include <algorithm>
#include <variant>

#include "absl/strings/str_cat.h"
#include "job/job_file.h"
#include "job/plan_check.h"
#include "runtime/exit_code.h"
#include "schema/codec.h"

namespace downpour {
namespace {

constexpr PeerId kFirstPs{uint64_t{1} << 20};  // connections to chiefs have the numbers below
// Rows that somebody waits for do not wait longer for a round of all slices, which some ps may not answer.
constexpr Duration kRowsWait = 100ms;

}  // namespace

ReaderRole::ReaderRole(ReaderOptions options) : options_(std::move(options)) {}

void ReaderRole::Step(Time now, Input input, Effects& effects) {
  now_ = now;
  out_ = &effects;
  if (std::exchange(has_moved_, false)) {
    effects.Add(HangUp{chief_});
    chief_ = PeerId{++next_peer_};
    effects.Add(Dial{chief_, options_.chief, PeerRole::kChief});
    Ask();
  }
  std::visit([this](auto& in) { On(in); }, input);
  if (pull_ && end_.ok()) {
    EndRoundIfComplete();
    BeginWhatIsDue();
    Flush();
  }
  effects.SayIn(run_);
}

void ReaderRole::Locate(std::string endpoint, std::string secret) {
  secret_refused_ = false;
  has_moved_ = true;
  options_.chief = std::move(endpoint);
  options_.secret = std::move(secret);
}

// ---- The chief ------------------------------------------------------------------------------------------------------

void ReaderRole::On(Started&) {
  chief_heard_ = now_;
  out_->Add(Dial{chief_, options_.chief, PeerRole::kChief});
  Ask();
}

void ReaderRole::On(Tick&) {
  if (now_ >= ask_at_) Ask();
  if (!pull_) return;
  for (const auto& link : map_->links()) {
    PullRound::Again again =
        pull_->AskAgain(now_, options_.timing.data_retry, Incarnation::kNone, *link, *map_, parameters_.versions);
    if (again.unanswered) link->BackOff();
    for (Pull& pull : again.pulls) out_->SendTo(link->peer, std::move(pull));
  }
}

void ReaderRole::On(Reconnected& link) {
  if (link.peer == chief_) return Ask();
  PsLink* const ps = map_ ? map_->Find(link.peer) : nullptr;
  if (ps == nullptr) return;
  pull_->SendAgain(*ps, now_);
  Tick tick;
  On(tick);
  ps->backoff = 1;
}

void ReaderRole::On(StopRequested&) { out_->Add(Exit{kExitDone, "nobody reads here any more", /*as_told=*/true}); }

void ReaderRole::On(Received& received) {
  if (received.from == chief_) return FromChief(received.run, received.message);
  const auto* reply = std::get_if<PullReply>(&received.message);
  if (reply == nullptr || received.run != run_ || !map_) return void(++rejected_);
  FromPs(received.from, *reply);
}

void ReaderRole::Ask() {
  ask_at_ = now_ + options_.timing.control_retry;
  PlacementRequest request{.term = 0, .number = 0, .secret = options_.secret};
  if (map_) request.term = map_->term(), request.number = map_->number();
  out_->SendTo(chief_, std::move(request));
}

void ReaderRole::FromChief(uint64_t run, const Message& message) {
  if (const auto* refused = std::get_if<Refused>(&message)) {
    secret_refused_ |= refused->code == RefusalCode::kSecretWanted;
    return;
  }
  chief_heard_ = now_;
  const bool is_foreign = run_ != 0 && run != run_;
  if (is_foreign) {
    // Its values are another training's, whatever its job is.
    end_ = absl::NotFoundError("the chief leads another run of the job now");
  } else if (const auto* over = std::get_if<JobEnd>(&message)) {
    end_ = absl::NotFoundError(absl::StrCat("the job is over: ", over->succeeded ? "it has succeeded" : over->why));
  } else if (const auto* placement = std::get_if<Placement>(&message)) {
    Adopt(run, *placement);
  } else {
    ++rejected_;
  }
}

void ReaderRole::Adopt(uint64_t run, const Placement& placement) {
  if (placement.slices.empty() || (map_ && !map_->Newer(placement))) return;  // nothing new
  if (absl::Status status = AdoptJob(placement.job); !status.ok()) {
    end_ = std::move(status);
    return;
  }
  run_ = run;
  const absl::StatusOr<std::vector<SliceId>> moved = map_->Changes(placement);
  if (!moved.ok()) return void(++rejected_);
  if (map_->number() != 0) {
    // B6: what a slice sent in its old epoch is not used. A round under way asks it again.
    for (const SliceId slice : *moved) pull_->Forget(map_->link_of(slice), slice);
  }
  for (const PeerId peer : map_->Adopt(placement, *out_)) pull_->SendAgain(*map_->Find(peer), now_);
}

absl::Status ReaderRole::AdoptJob(const std::string& text) {
  if (text == job_text_) return absl::OkStatus();
  absl::StatusOr<JobSpec> job = ParseCanonicalJob(text);
  absl::StatusOr<SliceGrid> grid = job.ok() ? GridOf(job->model, job->training.wire) : job.status();
  if (!grid.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat("the chief's job is not understood here: ", std::string(grid.status().message())));
  }
  if (job_ && !PlanDifferences(*job, *job_).empty()) {
    return absl::NotFoundError("the chief leads a job of another plan now");
  }
  const bool is_first = job_ == nullptr;
  job_text_ = text;
  job_ = std::make_shared<const JobSpec>(*std::move(job));
  if (!is_first) return absl::OkStatus();
  grid_ = std::make_shared<const SliceGrid>(*std::move(grid));
  map_.emplace(grid_->size(), kFirstPs);
  pull_.emplace(grid_.get());
  parameters_ = ParameterSet(grid_->dense(), grid_->buckets);
  return absl::OkStatus();
}

// ---- Rounds ---------------------------------------------------------------------------------------------------------

void ReaderRole::WantRows(uint64_t number, SliceValues keys) { wanted_.push_back({number, std::move(keys)}); }

void ReaderRole::ForgetRows(uint64_t number) {
  const bool is_under_way = in_round_ && round_of_ == PullRound::Of::kRows && wanted_.front().number == number;
  if (is_under_way) Abandon();
  std::erase_if(wanted_, [number](const Wanted& one) { return one.number == number; });
}

void ReaderRole::Abandon() {
  pull_->Abandon(*map_);
  in_round_ = false;
}

void ReaderRole::BeginWhatIsDue() {
  if (map_->number() == 0) return;
  if (in_round_ && round_of_ == PullRound::Of::kAll && !wanted_.empty() && now_ - round_begun_ >= kRowsWait) Abandon();
  if (in_round_) return;
  if (wanted_.empty() && now_ < next_round_) return;
  round_of_ = wanted_.empty() ? PullRound::Of::kAll : PullRound::Of::kRows;
  for (size_t i = grid_->dense(); i < parameters_.values.size(); ++i) parameters_.values[i] = Payload();  // RowsOf
  pull_->Want(wanted_.empty() ? SliceValues() : wanted_.front().keys);
  pull_->Begin(round_of_);
  in_round_ = true;
  if (round_of_ == PullRound::Of::kAll) round_begun_ = now_;
  Flush();
  EndRoundIfComplete();  // where nothing had to be asked
}

void ReaderRole::EndRoundIfComplete() {
  if (!in_round_ || pull_->under_way()) return;
  in_round_ = false;
  pull_->TakePulled();  // a slice that moves from now on is asked in the next round
  if (round_of_ == PullRound::Of::kRows) {
    found_rows_.push_back({wanted_.front().number, RowsOf(parameters_)});
    wanted_.pop_front();
    return;
  }
  const auto dense = static_cast<std::ptrdiff_t>(grid_->dense());
  complete_ = ValueSet{.job = job_,
                       .grid = grid_,
                       .versions = {parameters_.versions.begin(), parameters_.versions.begin() + dense},
                       .values = {parameters_.values.begin(), parameters_.values.begin() + dense},
                       .as_of = round_begun_};
  // By the shortest of some: one that was long may have waited for a processor, and a pause for that helps nobody.
  lasted_[rounds_++ % lasted_.size()] = now_ - round_begun_;
  const Duration usual = *std::min_element(lasted_.begin(), lasted_.begin() + std::min(rounds_, lasted_.size()));
  next_round_ = std::max(round_begun_ + options_.refresh, now_ + (kShare - 1) * usual);
  out_->Add(Wake{next_round_ - now_});
}

void ReaderRole::Flush() {
  for (const auto& link : map_->links()) {
    while (auto pull = pull_->Next(now_, Incarnation::kNone, *link, *map_, parameters_.versions)) {
      out_->SendTo(link->peer, *std::move(pull));
    }
  }
}

void ReaderRole::FromPs(PeerId from, const PullReply& reply) {
  PsLink* const link = map_->Find(from);
  if (link == nullptr || link->incarnation != reply.from) return;  // A9
  // Its window is for workers, who push too.
  link->OnReply(std::min<uint64_t>(reply.window, kMaxMessagePayload), now_);
  bool has_moved = false;
  pull_->Receive(reply, *link, now_ + options_.timing.control_retry, [&](const PullReply::Item& item) {
    has_moved |= item.refusal != SliceRefusal::kNone;
    return Store(item);
  });
  if (has_moved) Ask();
}

// Only for what was asked for, so the slice is one of the grid.
bool ReaderRole::Store(const PullReply::Item& item) {
  // B6: values of another epoch are of another history, whatever their number.
  if (item.refusal != SliceRefusal::kNone || item.version.epoch != map_->epoch(item.slice)) return false;
  const size_t slice = ToNumber(item.slice);
  if (!grid_->IsBucket(item.slice) && item.version == parameters_.versions[slice]) return true;
  if (item.values.size() != pull_->AnswerBytesOf(item.slice)) {
    ++rejected_;
    return false;
  }
  parameters_.versions[slice] = item.version;
  parameters_.values[slice] = item.values;
  return true;
}

}  // namespace downpour
