#include "tests/sim/join_rules.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "chief/known/membership.h"

namespace downpour {

bool JoinRules::IsMember(const Process& chief, Incarnation one) {
  return IsThere(chief, TaskRole::kPs, one) || IsThere(chief, TaskRole::kWorker, one);
}

void JoinRules::Before(const Process& process, const Input& input) {
  restarted_ = PeerId::kNone;
  if (process.chief == nullptr) return;
  if (life_ != process.life) {
    joins_.clear();
    holders_.clear();
    nonces_.clear();
    gone_.clear();
    const FaultPlan& plan = world_->plan();
    const bool may_forget = plan.damage || plan.lose || plan.rot || plan.faults.put_back > Duration::zero();
    if (may_forget) fingerprint_.reset();  // what tells of the data may be gone
    const bool has_grown = world_->has_grown();
    if (std::exchange(knows_growth_, has_grown) != has_grown) fingerprint_.reset();
  }
  life_ = process.life;
  if (const auto* received = std::get_if<Received>(&input)) OnReceived(process, *received);
}

void JoinRules::OnReceived(const Process& chief, const Received& received) {
  if (const auto* report = std::get_if<DataReport>(&received.message); report != nullptr && report->error.empty()) {
    fingerprints_[report->from] = report->fingerprint;
  }
  if (const auto* leave = std::get_if<Leave>(&received.message); leave != nullptr && IsMember(chief, leave->from)) {
    for (const auto& [name, join] : holders_) {
      if (join.nonce == nonces_[leave->from]) gone_[name] = join.nonce;
    }
  }
  const auto* join = std::get_if<Join>(&received.message);
  if (join == nullptr) return;
  joins_[received.from] = *join;
  if (chief.chief->term() == 0 || chief.chief->state() > JobState::kRunning || join->index < 0) return;
  if (join->role == TaskRole::kWorker && join->index >= chief.chief->worker_count()) return;  // there is none of it
  const auto holder = holders_.find(absl::StrCat(NameOf(join->role), "-", join->index));
  const bool again = holder != holders_.end() && !join->launcher.empty() && holder->second.nonce != join->nonce &&
                     holder->second.launcher == join->launcher && join->attempt > holder->second.attempt;
  const bool is_other = std::ranges::none_of(nonces_, [join](const auto& one) { return one.second == join->nonce; });
  if (again && is_other) restarted_ = received.from;
}

void JoinRules::Welcomes(const Process& chief, PeerId to, const Welcome& welcome) {
  if (to == restarted_) restarted_ = PeerId::kNone;
  const Join& join = joins_[to];
  const bool said_goodbye = std::ranges::any_of(gone_, [&join](const auto& one) { return one.second == join.nonce; });
  if (said_goodbye) Add(chief, absl::StrCat("takes ", welcome.name, " in after its goodbye"));
  gone_.erase(welcome.name);
  holders_[welcome.name] = join;
  nonces_[welcome.you] = join.nonce;
}

void JoinRules::OnEffect(const Process& process, const Effect& effect) {
  const auto* send = std::get_if<Send>(&effect);
  if (process.chief == nullptr || send == nullptr) return;
  if (const auto* welcome = std::get_if<Welcome>(&send->message)) Welcomes(process, send->to, *welcome);
  const auto* placement = std::get_if<Placement>(&send->message);
  const bool is_reader = placement != nullptr && placement->to == Incarnation::kNone;  // whom it gives no work
  if (placement == nullptr || is_reader || !fingerprints_.contains(placement->to)) return;
  const uint64_t fingerprint = fingerprints_[placement->to];
  // A job that had no checkpoint yet may begin again, in another run, with whoever is there first.
  if (std::exchange(run_, RunOf(process)) != RunOf(process)) fingerprint_.reset();
  if (fingerprint_.value_or(fingerprint) != fingerprint) Add(process, "gives work to workers of different data");
  fingerprint_ = fingerprint;
}

void JoinRules::After(const Process& process) {
  if (process.chief == nullptr || !process.alive || restarted_ == PeerId::kNone) return;
  if (process.chief->state() > JobState::kRunning) return;
  Add(process, absl::StrCat("keeps ", NameOf(joins_[restarted_].role), "-", joins_[restarted_].index,
                            " waiting, which its launcher has started again"));
}

}  // namespace downpour
