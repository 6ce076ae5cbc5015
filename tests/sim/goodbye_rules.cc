#include "tests/sim/goodbye_rules.h"

#include <algorithm>
#include <chrono>
#include <variant>

#include "absl/strings/match.h"
#include "chief/known/spares.h"
#include "chief/known/watchers.h"
#include "chief/shutdown.h"
#include "chief/status.h"

namespace downpour {

void GoodbyeRules::Before(const Process& process, const Input& input) {
  joins_from_ = PeerId::kNone;
  if (process.chief == nullptr) return;
  if (life_ != process.life) *this = GoodbyeRules(world_);
  life_ = process.life;
  if (const auto* received = std::get_if<Received>(&input)) OnReceived(process, *received);
}

void GoodbyeRules::OnReceived(const Process& chief, const Received& received) {
  if (const auto* join = std::get_if<Join>(&received.message)) {
    nonces_[received.from] = join->nonce;
    if (received.run != 0 && received.run != RunOf(chief)) joins_from_ = received.from;
  }
  const auto* question = std::get_if<StatusRequest>(&received.message);
  if (question == nullptr || question->secret != kSecret) return;
  told_secret_.insert(received.from);
  watching_.erase(received.from);
  if (question->again_in_ms == 0 || question->knows_end) return;
  constexpr uint64_t kLongest = Watchers::kLongestPause / 1ms;
  const auto pause = std::chrono::milliseconds(std::min(question->again_in_ms, kLongest));
  watching_[received.from] = world_->now() + pause + Watchers::kOverdueAfter;
}

void GoodbyeRules::OnEffect(const Process& process, const Effect& effect) {
  if (process.chief == nullptr) return;
  if (const auto* send = std::get_if<Send>(&effect)) Says(process, *send);
  const auto* op = std::get_if<StorageOp>(&effect);
  if (op != nullptr && op->kind == StorageOp::Kind::kWrite && absl::StartsWith(op->path, kSummaryFile)) {
    summed_up_ = world_->now();
  }
  if (std::holds_alternative<Exit>(effect)) CheckExit(process);
}

void GoodbyeRules::Says(const Process& chief, const Send& send) {
  if (const auto* welcome = std::get_if<Welcome>(&send.message)) waiting_.erase(welcome->nonce);
  const auto* refused = std::get_if<Refused>(&send.message);
  if (refused != nullptr && refused->code == RefusalCode::kNameTaken) {
    waiting_[nonces_[send.to]] = {send.to, world_->now()};
  }
  if (std::holds_alternative<StatusReply>(send.message) && !told_secret_.contains(send.to)) {
    Add(chief, "tells its status to one that does not know its secret");
  }
  const auto* end = std::get_if<JobEnd>(&send.message);
  if (end == nullptr) return;
  told_.insert(send.to);
  if (send.to == joins_from_) Add(chief, "tells a process of another run that its job is over");
  CheckWords(chief, *end);
}

// A chief without a term leads nothing: it found an end, and whoever resumes a job needs its tasks.
void GoodbyeRules::CheckWords(const Process& chief, const JobEnd& end) {
  if (chief.chief->term() == 0) {
    if (!end.succeeded) Add(chief, "tells of the end of a job that may be led further");
    return;
  }
  const JobState state = chief.chief->state();
  const bool is_so =
      end.succeeded == (state == JobState::kSucceeded) && end.cancelled == (state == JobState::kCancelled);
  if (!is_so) Add(chief, "tells of another end than its job's");
}

void GoodbyeRules::CheckExit(const Process& chief) {
  if (!ended_ || chief.chief->term() == 0) return;
  for (const auto& [nonce, one] : waiting_) {
    const bool waited = one.asked > summed_up_ - Spares::kGoneAfter && one.asked <= summed_up_;
    if (waited && !told_.contains(one.peer)) Add(chief, "ends without a word to one that waits for a place");
  }
  const auto watches = [this](const auto& watcher) { return watcher.second > world_->now(); };
  if (world_->now() < *ended_ + Shutdown::kWatchersHear && std::ranges::any_of(watching_, watches)) {
    Add(chief, "ends before its watchers know");
  }
}

void GoodbyeRules::After(const Process& process) {
  if (process.chief == nullptr || ended_) return;
  const JobState state = process.chief->state();
  const bool ended = state == JobState::kSucceeded || state == JobState::kFailed || state == JobState::kCancelled;
  if (ended) ended_ = world_->now();
}

}  // namespace downpour
