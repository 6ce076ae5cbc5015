#include "tools/cli/ledger.h"

#include <algorithm>
#include <iterator>
#include <vector>

#include "absl/strings/str_cat.h"
#include "cluster/human_units.h"
#include "runtime/plan.h"

namespace downpour {
namespace {

std::string CountText(uint64_t n) { return HumanCount(static_cast<double>(n)); }

IntervalSet FinishedEverywhere(const LoadedCheckpoint& checkpoint) {
  IntervalSet finished = checkpoint.slices.front().finished;
  for (const SliceState& slice : checkpoint.slices) finished = finished.Intersect(slice.finished);
  return finished;
}

// How many steps of a lease a slice has counted.
Step Held(const SliceState& slice, LeaseId lease, const Plan& plan) {
  if (slice.finished.Contains(ToNumber(lease))) return plan.StepsOf(lease);
  for (const LeaseCounter& counter : slice.counters) {
    if (counter.lease == lease) return std::min(counter.consumed, plan.StepsOf(lease));
  }
  return 0;
}

// Leases that some slice has counted in part, or some slices only.
std::vector<LeaseId> Begun(const LoadedCheckpoint& checkpoint, const IntervalSet& finished, const Plan& plan) {
  IntervalSet all = finished;
  for (const SliceState& slice : checkpoint.slices) {
    for (const auto& interval : slice.finished.Intervals()) all.InsertRange(interval.begin, interval.end);
    for (const LeaseCounter& counter : slice.counters) all.Insert(ToNumber(counter.lease));
  }
  std::vector<LeaseId> begun;
  const std::vector<IntervalSet::Interval> skipped = finished.Intervals();
  auto next = skipped.begin();  // each lies within one of all's
  for (const auto& interval : all.Intervals()) {
    for (uint64_t lease = interval.begin; lease < interval.end;) {
      if (next != skipped.end() && lease == next->begin) {
        lease = (next++)->end;
      } else if (const LeaseId open{lease++}; plan.Contains(open)) {
        begun.push_back(open);
      }
    }
  }
  return begun;
}

void CountFinished(const IntervalSet& finished, const Plan& plan, Ledger* ledger) {
  for (const auto& interval : finished.Intervals()) {
    const uint64_t end = std::min(interval.end, plan.total_leases());
    for (uint64_t lease = interval.begin; lease < end;) {
      const uint64_t epoch = plan.EpochOf(LeaseId{lease});
      const uint64_t next_epoch = plan.EpochBegin(epoch + 1);
      if (lease == plan.EpochBegin(epoch) && end >= next_epoch) {
        ledger->everywhere[epoch] = plan.ExamplesOfEpoch(epoch);
        lease = next_epoch;
      } else {
        ledger->everywhere[epoch] += plan.ExamplesOf(LeaseId{lease++});
      }
    }
  }
}

// How many updates what a slice has counted makes: one for each step, or with sync for each group that is complete.
uint64_t UpdatesOf(const SliceState& slice, const Plan& plan, Consistency consistency) {
  if (consistency == Consistency::kSync) return plan.GroupOf(LeaseId{slice.finished.FirstMissing(0)});
  uint64_t steps = 0;
  for (const auto& interval : slice.finished.Intervals()) {
    steps += plan.StepsBefore(std::min(interval.end, plan.total_leases())) -
             plan.StepsBefore(std::min(interval.begin, plan.total_leases()));
  }
  for (const LeaseCounter& counter : slice.counters) steps += counter.consumed;
  return steps;
}

// The version against the updates: equal, but for pushes without effect.
void CompareVersion(const SliceState& slice, uint64_t updates, Ledger* ledger) {
  if (slice.version > updates) {
    ledger->doubled[ToNumber(slice.slice)] = slice.version - updates;
  } else {
    ledger->without_effect += updates - slice.version;
  }
}

// Epochs of one number of samples.
std::string EpochLine(uint64_t first, uint64_t last, uint64_t samples, const Ledger& ledger) {
  const uint64_t all = ledger.SamplesOf(first);
  const std::string epochs = first == last ? absl::StrCat("epoch ", CountText(first + 1))
                                           : absl::StrCat("epochs ", CountText(first + 1), " to ", CountText(last + 1));
  if (samples == 0) return epochs + ": open\n";
  return absl::StrCat(epochs, ": ", CountText(samples), " of ", CountText(all),
                      " samples took effect, each exactly once on every slice",
                      samples == all ? "" : "; the others are open", "\n");
}

}  // namespace

bool Ledger::complete() const {
  return everywhere.size() == epochs && std::all_of(everywhere.begin(), everywhere.end(), [this](const auto& epoch) {
           return epoch.second == SamplesOf(epoch.first);
         });
}

uint64_t Ledger::SamplesOf(uint64_t epoch) const { return std::prev(samples.upper_bound(epoch))->second; }

Ledger MakeLedger(const LoadedCheckpoint& checkpoint) {
  const Plan plan(checkpoint.job, checkpoint.manifest.train_examples);
  Ledger ledger;
  ledger.epochs = static_cast<uint64_t>(checkpoint.job.training.epochs);
  uint64_t begin = 0;
  for (const EarlierEpochs& earlier : checkpoint.job.training.earlier) {
    ledger.samples[begin] = earlier.examples;
    begin = static_cast<uint64_t>(earlier.epochs);
  }
  ledger.samples[begin] = plan.train_examples();
  const IntervalSet finished = FinishedEverywhere(checkpoint);
  CountFinished(finished, plan, &ledger);
  for (const LeaseId lease : Begun(checkpoint, finished, plan)) {
    Step everywhere = plan.StepsOf(lease);
    for (const SliceState& slice : checkpoint.slices) everywhere = std::min(everywhere, Held(slice, lease, plan));
    for (Step step = 1; step <= everywhere; ++step) {
      ledger.everywhere[plan.EpochOf(lease)] += plan.ExamplesOf(lease, step);
    }
  }
  for (const SliceState& slice : checkpoint.slices) {
    CompareVersion(slice, UpdatesOf(slice, plan, checkpoint.job.training.consistency), &ledger);
  }
  return ledger;
}

std::string LedgerLines(const Ledger& ledger) {
  std::string lines;
  uint64_t next = 0;
  for (auto epoch = ledger.everywhere.begin(); epoch != ledger.everywhere.end();) {
    if (epoch->first > next) absl::StrAppend(&lines, EpochLine(next, epoch->first - 1, 0, ledger));
    const auto [first, samples] = *epoch;
    next = first;
    const auto is_alike = [&] {
      return epoch->first == next && epoch->second == samples && ledger.SamplesOf(next) == ledger.SamplesOf(first);
    };
    for (; epoch != ledger.everywhere.end() && is_alike(); ++epoch) ++next;
    absl::StrAppend(&lines, EpochLine(first, next - 1, samples, ledger));
  }
  if (next < ledger.epochs) absl::StrAppend(&lines, EpochLine(next, ledger.epochs - 1, 0, ledger));
  for (const auto& [slice, pushes] : ledger.doubled) {
    absl::StrAppend(&lines, "slice ", slice, ": DOUBLED, ", CountText(pushes),
                    " more pushes changed it than it has counted steps\n");
  }
  return lines;
}

}  // namespace downpour
