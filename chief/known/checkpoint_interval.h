// CheckpointInterval: when the next checkpoint round begins.
//
//   interval.Begin(now, since_last, journal.checkpoint_history());
//   interval.Observe({...});                         // after each input while the job runs
//   if (interval.IsDue(now)) interval.RoundBegins(now, urgent);
//   interval.RoundEnds(now, End::kDurable);
//
// With `checkpoint.every: auto` the time from the beginning of one round to that of the next is the longest of
//   - kLeast;
//   - 100 times what a round costs: rounds take 1 % of the throughput at most (kMostShare). Once a ps was lost,
//     half of the mean time between losses is enough, as long as rounds take 10 % at most (kMostShareOfLosers): a job
//     whose ps die sooner than it checkpoints would hardly get on;
//   - Daly's optimum for that cost and that mean time: below it, rounds cost more than they save.
// It is kMost at most. Before a round was measured it is kLeast: the first one tells what they cost.
//
// Units: what a round costs is the time that workers lose by it. For D seconds of a round records are collected, while
//   n leases are committed; before and after that the chief alone waits for its disk. At the rate outside, n - sqrt(n)
//   leases take less time; the rest of D is the cost. The root is the deviation of such a count: what commits do not
//   show counts as lost, and of a short round that is all. The cost is never less than kLeastCost of D, since rates
//   vary by themselves.
// Order: rounds and the time between them are remembered for some kRemembered rounds, losses for some kMemory.
// Source: J. W. Young, "A first order approximation to the optimum checkpoint interval", CACM 17(9), 1974; J. T. Daly,
//   "A higher order estimate of the optimum checkpoint interval for restart dumps", FGCS 22(3), 2006.
// Tests: tests/unit/chief/checkpoint_interval_test.cc.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "job/job.h"
#include "runtime/world_time.h"

namespace downpour {

// What the interval follows from; it outlives the chief in the journal.
struct CheckpointHistory {
  uint64_t servers_lost = 0;  // of the job, as far as counted here
  double lived = 0;           // seconds that the job ran; at most kMemory
  double losses = 0;          // of ps in them; older ones count less
  double rounds = 0;          // measured; this and the sums below count the last ones most
  double inside = 0;          // seconds in which their records were collected
  double inside_commits = 0;  // leases
  double outside = 0;         // seconds between those
  double outside_commits = 0;
  bool operator==(const CheckpointHistory&) const = default;
};

// The optimum interval for a checkpoint that costs `cost` seconds where failures are `mtbf` seconds apart.
double DalyInterval(double cost, double mtbf);

class CheckpointInterval {
 public:
  static constexpr Duration kLeast = 1s;
  static constexpr Duration kMost = std::chrono::minutes(10);
  static constexpr double kMostShare = 0.01;
  static constexpr double kMostShareOfLosers = 0.1;
  static constexpr double kLeastCost = 1.0 / 16;  // of the time of collecting
  static constexpr double kRemembered = 32;       // rounds
  static constexpr Duration kMemory = std::chrono::hours(1);
  // One loss is assumed in this time before the job began: the first real one shall not be dear.
  static constexpr Duration kLossBefore = std::chrono::minutes(1);
  // A disk that failed a round is left alone for so long.
  static constexpr Duration kAfterDiskFailed = 10s;
  // One that was abandoned otherwise may be so again: the first pause after it is kLeast, each further one twice as
  // long, and at most this.
  static constexpr Duration kMostAfterAbandoned = std::chrono::minutes(1);

  explicit CheckpointInterval(const CheckpointSpec& spec) : every_(spec.every) {}

  // The job runs, under this chief. `since_last`: how long ago the last checkpoint was written, or the job began, if
  // chiefs before this one led it since: else one that dies sooner than the interval would never begin a round.
  void Begin(Time now, Duration since_last, const CheckpointHistory& before);

  struct View {
    Time now{};
    uint64_t commits = 0;       // leases, by this chief
    uint64_t servers_lost = 0;  // of the job
    bool steady = false;        // every slice is served
    bool collecting = false;    // a round's records
  };
  void Observe(const View& view);

  // An urgent round is not measured: workers have nothing to do meanwhile, or are about to leave.
  void RoundBegins(Time now, bool urgent);
  bool in_round() const { return in_round_; }
  // Stopped: it made room for another, or a ps of it is gone. That says nothing of the next one, which begins when it
  // is due and every slice is served.
  enum class End { kDurable, kStopped, kAbandoned, kDiskFailed };
  void RoundEnds(Time now, End end);

  // Somebody wants a round now, whatever the interval is: of all that is committed by now, so one under way is followed
  // by another. Wanted until one that began after this is durable.
  void WantRound() { wanted_ = true; }
  bool IsDue(Time now) const;
  // Between the beginnings of rounds; nothing: only the job's end begins one.
  std::optional<Duration> Interval() const;
  std::string Why() const;                     // the interval is what it is, for people
  std::optional<double> RoundSeconds() const;  // of collecting
  std::optional<double> CostSeconds() const;

  const CheckpointHistory& history() const { return history_; }

 private:
  struct Span {
    Time from{};
    uint64_t commits = 0;  // when it began
  };
  struct Sum {
    double seconds = 0;
    double commits = 0;
  };
  static Sum Close(std::optional<Span>& span, const View& view);
  void Count(const View& view);
  void Measure(const View& view);
  double MeanTimeBetweenLosses() const;
  double Unbounded() const;  // seconds, before kLeast and kMost

  const std::optional<Duration> every_;
  CheckpointHistory history_;
  Time observed_{};
  Time began_{};             // the last round, or the job
  Time not_before_{};        // after a round that failed
  Duration pause_ = kLeast;  // after the next one that is abandoned

  bool wanted_ = false;
  bool in_round_ = false;
  bool answers_ = false;              // that round, to WantRound
  bool measured_ = false;             // that round
  std::optional<Span> between_;       // collecting and collecting, while all is steady
  std::optional<uint64_t> settling_;  // commits when it became steady: the next one begins that span
  std::optional<Span> collecting_;
  Sum before_;     // the span between that ended when collecting began
  Sum collected_;  // all of it, once it is done
};

}  // namespace downpour
