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
constexpr int kQuestionBits = 32;              // the requests of one question have the numbers behind its own

}  // namespace

ReaderRole::ReaderRole(ReaderOptions options) : options_(std::move(options)), run_(options_.run) {}

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
    BeginRoundIfDue();
    AskQuestions();
    EndQuestions();
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
  ForEachPull([this](PullRound& pull, PlacementMap& map) {
    for (const auto& link : map.links()) {
      PullRound::Again again =
          pull.AskAgain(now_, options_.timing.data_retry, Incarnation::kNone, *link, map, parameters_.versions);
      if (again.unanswered) link->BackOff();
      for (Pull& one : again.pulls) out_->SendTo(link->peer, std::move(one));
    }
  });
}

void ReaderRole::On(Reconnected& reconnected) {
  if (reconnected.peer == chief_) return Ask();
  ForEachPull([&](PullRound& pull, PlacementMap& map) {
    if (const PsLink* const link = map.Find(reconnected.peer)) pull.SendAgain(*link, now_);
  });
  Tick tick;
  On(tick);
  ForEachPull([&](PullRound&, PlacementMap& map) {
    if (PsLink* const link = map.Find(reconnected.peer)) link->backoff = 1;
  });
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
  if (!moved->empty()) timed_from_ = now_;
  if (map_->number() != 0) {
    // B6: what a slice sent in its old epoch is not used. A round under way asks it again.
    ForEachPull([&](PullRound& pull, PlacementMap& map) {
      for (const SliceId slice : *moved) pull.Forget(map.link_of(slice), slice);
    });
  }
  const std::vector<PeerId> redialled = map_->Adopt(placement, *out_);
  Effects done;  // by map_
  rows_map_->Adopt(placement, done);
  ForEachPull([&](PullRound& pull, PlacementMap& map) {
    for (const PeerId peer : redialled) pull.SendAgain(*map.Find(peer), now_);
  });
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
  rows_map_.emplace(grid_->size(), kFirstPs);
  pull_.emplace(grid_.get());
  parameters_ = ParameterSet(grid_->dense(), grid_->buckets);
  return absl::OkStatus();
}

// ---- Values and rows ------------------------------------------------------------------------------------------------

template <typename Visit>
void ReaderRole::ForEachPull(const Visit& visit) {
  if (!pull_) return;
  visit(*pull_, *map_);
  for (Question& one : questions_) {
    if (one.pull) visit(*one.pull, *rows_map_);
  }
}

void ReaderRole::BeginRoundIfDue() {
  if (in_round_ || map_->number() == 0 || now_ < next_round_) return;
  pull_->Begin(PullRound::Of::kAll);
  in_round_ = true;
  round_begun_ = timed_from_ = now_;
  EndRoundIfComplete();  // where nothing has to be asked
}

void ReaderRole::EndRoundIfComplete() {
  if (!in_round_ || pull_->under_way()) return;
  in_round_ = false;
  pull_->TakePulled();  // a slice that moves from now on is asked in the next round
  const auto dense = static_cast<std::ptrdiff_t>(grid_->dense());
  complete_ = ValueSet{.job = job_,
                       .grid = grid_,
                       .versions = {parameters_.versions.begin(), parameters_.versions.begin() + dense},
                       .values = {parameters_.values.begin(), parameters_.values.begin() + dense},
                       .as_of = round_begun_};
  // By the shortest of some: one that was long may have waited for a processor, and a pause for that helps nobody.
  lasted_[rounds_++ % lasted_.size()] = now_ - timed_from_;
  const Duration usual = *std::min_element(lasted_.begin(), lasted_.begin() + std::min(rounds_, lasted_.size()));
  next_round_ = std::max(round_begun_ + options_.refresh, now_ + (kShare - 1) * usual);
  out_->Add(Wake{next_round_ - now_});
}

void ReaderRole::WantRows(uint64_t number, SliceValues keys) {
  questions_.push_back({.number = number, .keys = std::move(keys), .rows = {}, .pull = {}});
}

void ReaderRole::ForgetRows(uint64_t number) {
  std::erase_if(questions_, [&](Question& one) {
    if (one.number != number) return false;
    if (one.pull) one.pull->Abandon(*rows_map_);  // its room at the ps is free
    return true;
  });
}

void ReaderRole::AskQuestions() {
  if (map_->number() == 0) return;
  for (Question& one : questions_) {
    if (one.pull) continue;
    for (const auto& [bucket, keys] : one.keys) one.rows.emplace_back(bucket, Payload());
    one.pull.emplace(grid_.get(), ++questions_asked_ << kQuestionBits);
    one.pull->Want(std::move(one.keys));
    one.pull->Begin(PullRound::Of::kRows);
  }
}

void ReaderRole::EndQuestions() {
  std::erase_if(questions_, [this](Question& one) {
    if (!one.pull || one.pull->under_way()) return false;
    found_rows_.push_back({one.number, std::move(one.rows)});
    return true;
  });
}

void ReaderRole::Send(PullRound& pull, const PlacementMap& map, PsLink& link) {
  while (auto next = pull.Next(now_, Incarnation::kNone, link, map, parameters_.versions)) {
    out_->SendTo(link.peer, *std::move(next));
  }
}

void ReaderRole::Flush() {
  for (const auto& link : map_->links()) Send(*pull_, *map_, *link);
  for (const auto& link : rows_map_->links()) {
    for (Question& one : questions_) {
      Send(*one.pull, *rows_map_, *link);
      if (one.pull->WaitsForRoom(*link)) break;  // a large one would wait for ever if small ones passed it
    }
  }
}

void ReaderRole::FromPs(PeerId from, const PullReply& reply) {
  PsLink* const link = map_->Find(from);
  if (link == nullptr || link->incarnation != reply.from) return;  // A9: another process is there
  PsLink& rows_link = *rows_map_->Find(from);
  // Its window is for workers, who push too.
  for (PsLink* one : {link, &rows_link}) one->OnReply(std::min<uint64_t>(reply.window, kMaxMessagePayload), now_);
  const Time retry = now_ + options_.timing.control_retry;
  bool has_moved = false;
  pull_->Receive(reply, *link, retry, [&](const PullReply::Item& item) {
    has_moved |= item.refusal != SliceRefusal::kNone;
    return StoreValues(item);
  });
  for (Question& one : questions_) {
    if (!one.pull) continue;
    one.pull->Receive(reply, rows_link, retry, [&](const PullReply::Item& item) {
      has_moved |= item.refusal != SliceRefusal::kNone;
      return StoreRows(item, &one);
    });
  }
  if (has_moved) Ask();
}

// B6: values of another epoch are of another history, whatever their number.
bool ReaderRole::IsOfThisEpoch(const PullReply::Item& item) const {
  return item.refusal == SliceRefusal::kNone && item.version.epoch == map_->epoch(item.slice);
}

// This and the next one: only for what was asked for, so the slice is one of the grid.
bool ReaderRole::StoreValues(const PullReply::Item& item) {
  if (!IsOfThisEpoch(item)) return false;
  const size_t slice = ToNumber(item.slice);
  if (item.version == parameters_.versions[slice]) return true;
  if (item.values.size() != pull_->AnswerBytesOf(item.slice)) {
    ++rejected_;
    return false;
  }
  parameters_.versions[slice] = item.version;
  parameters_.values[slice] = item.values;
  return true;
}

bool ReaderRole::StoreRows(const PullReply::Item& item, Question* question) {
  if (!IsOfThisEpoch(item)) return false;
  if (item.values.size() != question->pull->AnswerBytesOf(item.slice)) {
    ++rejected_;
    return false;
  }
  const auto rows = std::ranges::lower_bound(question->rows, item.slice, {}, &SliceValues::value_type::first);
  rows->second = item.values;
  return true;
}

}  // namespace downpour
