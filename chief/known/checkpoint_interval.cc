#include "chief/known/checkpoint_interval.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_format.h"

namespace downpour {
namespace {

Duration OfSeconds(double seconds) {
  return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(seconds));
}

// Another release may have written it: sums that cannot be are no measurement.
bool IsSound(const CheckpointHistory& history) {
  constexpr double kMostSum = 1e9;
  const double sums[] = {history.lived,          history.losses,  history.rounds,         history.inside,
                         history.inside_commits, history.outside, history.outside_commits};
  return std::all_of(std::begin(sums), std::end(sums), [](double sum) { return sum >= 0 && sum <= kMostSum; }) &&
         (history.rounds == 0 || history.rounds >= 0.5);
}

}  // namespace

double DalyInterval(double cost, double mtbf) {
  if (cost >= 2 * mtbf) return mtbf;
  const double part = cost / (2 * mtbf);
  return std::sqrt(2 * cost * mtbf) * (1 + std::sqrt(part) / 3 + part / 9) - cost;
}

void CheckpointInterval::Begin(Time now, Duration since_last, const CheckpointHistory& before) {
  history_ = IsSound(before) ? before : CheckpointHistory{.servers_lost = before.servers_lost};
  observed_ = now;
  began_ = now - since_last;
}

void CheckpointInterval::Observe(const View& view) {
  Count(view);
  Measure(view);
}

void CheckpointInterval::Count(const View& view) {
  history_.lived += Seconds(view.now - std::exchange(observed_, view.now));
  // In the long run each loss fades as exp(-age / kMemory).
  if (const double memory = Seconds(kMemory); history_.lived > memory) {
    history_.losses *= memory / history_.lived;
    history_.lived = memory;
  }
  if (view.servers_lost > history_.servers_lost) {
    history_.losses += static_cast<double>(view.servers_lost - history_.servers_lost);
    history_.servers_lost = view.servers_lost;
  }
}

void CheckpointInterval::Measure(const View& view) {
  if (!view.steady) {
    between_.reset();
    settling_.reset();
  } else if (collecting_ && !view.collecting) {
    collected_ = Close(collecting_, view);
    between_ = {view.now, view.commits};
  } else if (measured_ && view.collecting && !collecting_) {
    before_ = Close(between_, view);
    collecting_ = {view.now, view.commits};
  } else if (!between_ && !in_round_) {
    // Workers that begin, or begin again, have nothing to commit yet: that is no rate.
    if (!settling_) settling_ = view.commits;
    if (view.commits > *settling_) between_ = {view.now, view.commits};
  }
}

CheckpointInterval::Sum CheckpointInterval::Close(std::optional<Span>& span, const View& view) {
  if (!span) return {};
  const Span closed = *std::exchange(span, std::nullopt);
  return {Seconds(view.now - closed.from), static_cast<double>(view.commits - closed.commits)};
}

void CheckpointInterval::RoundBegins(Time now, bool urgent) {
  began_ = now;
  answers_ = std::exchange(wanted_, false) || (in_round_ && answers_);  // of one too whose place it takes
  in_round_ = true;
  measured_ = !urgent;
  if (urgent) between_.reset();
  collecting_.reset();
  before_ = collected_ = {};
}

void CheckpointInterval::RoundEnds(Time now, End end) {
  in_round_ = false;
  wanted_ = wanted_ || (answers_ && end != End::kDurable);
  settling_.reset();
  if (end == End::kDurable) pause_ = kLeast;
  if (end == End::kDiskFailed) not_before_ = now + kAfterDiskFailed;
  if (end == End::kAbandoned) {
    not_before_ = now + pause_;
    pause_ = std::min(2 * pause_, kMostAfterAbandoned);
  }
  if (std::exchange(measured_, false) && end == End::kDurable) {
    constexpr double kFade = 1 - 1 / kRemembered;
    const auto add = [](double& sum, double more) { sum = sum * kFade + more; };
    add(history_.rounds, 1);
    add(history_.inside, collected_.seconds);
    add(history_.inside_commits, collected_.commits);
    add(history_.outside, before_.seconds);
    add(history_.outside_commits, before_.commits);
  } else {
    between_.reset();
    collecting_.reset();
  }
}

std::optional<double> CheckpointInterval::RoundSeconds() const {
  if (history_.rounds == 0) return std::nullopt;
  return history_.inside / history_.rounds;
}

std::optional<double> CheckpointInterval::CostSeconds() const {
  if (history_.rounds == 0) return std::nullopt;
  const double surely = history_.inside_commits - std::sqrt(history_.inside_commits);
  const double gone_on =  // seconds' worth of work
      surely > 0 && history_.outside_commits > 0 ? surely * history_.outside / history_.outside_commits : 0;
  return std::max(history_.inside - gone_on, kLeastCost * history_.inside) / history_.rounds;
}

double CheckpointInterval::MeanTimeBetweenLosses() const {
  return (history_.lived + Seconds(kLossBefore)) / (history_.losses + 1);
}

double CheckpointInterval::Unbounded() const {
  const std::optional<double> cost = CostSeconds();
  if (!cost) return 0;
  const double mtbf = MeanTimeBetweenLosses();
  const double one_percent = *cost / kMostShare;
  const double share_bound =
      history_.losses >= 1 ? std::clamp(mtbf / 2, *cost / kMostShareOfLosers, one_percent) : one_percent;
  return std::max(share_bound, DalyInterval(*cost, mtbf));
}

std::optional<Duration> CheckpointInterval::Interval() const {
  if (!every_) return OfSeconds(std::clamp(Unbounded(), Seconds(kLeast), Seconds(kMost)));
  return *every_ > Duration::zero() ? every_ : std::nullopt;
}

bool CheckpointInterval::IsDue(Time now) const {
  if (wanted_ && now >= not_before_) return true;
  if (!every_ && (now < began_ + kLeast || now < not_before_)) return false;  // as most often, without reckoning
  const std::optional<Duration> interval = Interval();
  return interval && now >= began_ + *interval;
}

std::string CheckpointInterval::Why() const {
  if (every_) return "as checkpoint.every says";
  const std::optional<double> cost = CostSeconds();
  if (!cost) return "auto: no round was measured yet";
  const double unbounded = Unbounded();
  const char* bound = unbounded < Seconds(kLeast)  ? "; 1 s at least"
                      : unbounded > Seconds(kMost) ? "; 10 min at most"
                                                   : "";
  const double mtbf = MeanTimeBetweenLosses();
  const std::string losses = absl::StrFormat("the loss of a ps is expected every %.*f s", mtbf < 10 ? 1 : 0, mtbf);
  std::string why = losses;
  if (unbounded == *cost / kMostShare) {
    why = absl::StrFormat("at most %.0f %% goes into them", 100 * kMostShare);
  } else if (unbounded == *cost / kMostShareOfLosers) {
    why = absl::StrFormat("%s, and at most %.0f %% goes into them", losses, 100 * kMostShareOfLosers);
  }
  return absl::StrFormat("auto: a round costs %.2g s of work; %s%s", *cost, why, bound);
}

}  // namespace downpour
