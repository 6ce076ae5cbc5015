#include "runtime/plan.h"

#include <glog/logging.h>

#include <algorithm>
#include <bit>
#include <iterator>

#include "runtime/prng.h"

namespace downpour {
namespace {

constexpr uint64_t kShuffleStream = 1;
constexpr uint64_t kDrawStream = 2;
constexpr uint64_t kBlockStream = 3;
constexpr uint64_t kWithinLeaseStream = 4;

// One seeded bijection on [0, n): a four-round Feistel network over the next even number of bits, walked until it lands
// inside the domain (at most four times as large, so under four steps on average).
class Permutation {
 public:
  Permutation(uint64_t key, uint64_t n) : key_(key), n_(n) {
    half_bits_ = std::max(1, (static_cast<int>(std::bit_width(n - 1)) + 1) / 2);
    half_mask_ = (uint64_t{1} << half_bits_) - 1;
  }

  uint64_t operator()(uint64_t x) const {
    do {
      uint64_t left = x >> half_bits_;
      uint64_t right = x & half_mask_;
      for (uint64_t round = 0; round < 4; ++round) {
        const uint64_t next = left ^ (MixAll(key_, round, right) & half_mask_);
        left = right;
        right = next;
      }
      x = (left << half_bits_) | right;
    } while (x >= n_);
    return x;
  }

 private:
  uint64_t key_;
  uint64_t n_;
  int half_bits_;
  uint64_t half_mask_;
};

uint64_t CeilDiv(uint64_t a, uint64_t b) { return a / b + (a % b != 0); }

// `before` says how many there are of all leases with lower numbers.
template <typename Before>
uint64_t Sum(const IntervalSet& leases, const Before& before) {
  uint64_t sum = 0;
  for (const auto& [begin, end] : leases.Intervals()) sum += before(end) - before(begin);
  return sum;
}

std::optional<uint64_t> GroupsAhead(const TrainingSpec& training) {
  switch (training.consistency) {
    case Consistency::kAsync:
      return std::nullopt;
    case Consistency::kSsp:
      return training.ssp_bound;
    case Consistency::kSync:
      return 0;
  }
  return std::nullopt;
}

}  // namespace

Plan::Plan(const JobSpec& job, uint64_t train_examples)
    : seed_(job.seed),
      block_examples_(job.data.order == DataOrder::kBlocks
                          ? std::optional(static_cast<uint64_t>(std::max<int64_t>(1, job.data.block_examples)))
                          : std::nullopt),
      examples_(train_examples),
      batch_size_(job.training.batch_size),
      lease_batches_(job.training.lease_batches),
      step_batches_(job.training.step_batches()),
      group_size_(job.training.group_size),
      groups_ahead_(GroupsAhead(job.training)) {
  const auto epochs = static_cast<uint64_t>(train_examples == 0 ? 0 : job.training.epochs);
  stretches_.clear();
  for (const EarlierEpochs& earlier : job.training.earlier) {
    const uint64_t end = std::min(epochs, static_cast<uint64_t>(earlier.epochs));
    if (end > epochs_) Add(end - epochs_, earlier.examples);
  }
  if (epochs > epochs_ || stretches_.empty()) Add(epochs - epochs_, train_examples);
}

void Plan::Add(uint64_t epochs, uint64_t examples) {
  Stretch next;
  if (!stretches_.empty()) {
    const Stretch& last = stretches_.back();
    const uint64_t passed = epochs_ - last.epoch;
    next.epoch = epochs_;
    next.lease = last.lease + passed * last.leases;
    next.group = last.group + passed * GroupsOf(last);
    next.step = last.step + passed * StepsBefore(last, last.leases);
    next.batch = last.batch + passed * last.batches;
    next.example = last.example + passed * last.examples;
  }
  next.examples = examples;
  next.batches = CeilDiv(examples, batch_size_);
  next.leases = std::max<uint64_t>(1, CeilDiv(next.batches, lease_batches_));
  stretches_.push_back(next);
  epochs_ += epochs;
}

const Plan::Stretch& Plan::StretchOf(uint64_t number, uint64_t Stretch::*first) const {
  const auto above = std::upper_bound(stretches_.begin(), stretches_.end(), number,
                                      [&](uint64_t wanted, const Stretch& one) { return wanted < one.*first; });
  return *std::prev(above);
}

uint64_t Plan::GroupsOf(const Stretch& stretch) const { return CeilDiv(stretch.leases, group_size_); }

uint64_t Plan::EpochOf(LeaseId lease) const {
  const Stretch& stretch = Of(lease);
  return stretch.epoch + (ToNumber(lease) - stretch.lease) / stretch.leases;
}

uint64_t Plan::EpochBegin(uint64_t epoch) const {
  const Stretch& stretch = StretchOf(epoch, &Stretch::epoch);
  return stretch.lease + (epoch - stretch.epoch) * stretch.leases;
}

uint64_t Plan::ExamplesOfEpoch(uint64_t epoch) const { return StretchOf(epoch, &Stretch::epoch).examples; }

double Plan::EpochsOf(uint64_t examples) const {
  const Stretch& stretch = StretchOf(examples, &Stretch::example);
  const uint64_t of_epoch = std::max<uint64_t>(1, stretch.examples);
  return static_cast<double>(stretch.epoch) +
         static_cast<double>(examples - stretch.example) / static_cast<double>(of_epoch);
}

uint64_t Plan::FirstBatch(LeaseId lease) const {
  const Stretch& stretch = Of(lease);
  return (ToNumber(lease) - stretch.lease) % stretch.leases * lease_batches_;
}

uint64_t Plan::FirstExample(LeaseId lease, Step step) const { return (FirstBatch(lease) + Passed(step)) * batch_size_; }

uint64_t Plan::BatchesOf(LeaseId lease) const {
  CHECK(Contains(lease)) << ToNumber(lease);
  return std::min(lease_batches_, Of(lease).batches - FirstBatch(lease));
}

Step Plan::StepsOf(LeaseId lease) const { return static_cast<Step>(CeilDiv(BatchesOf(lease), step_batches_)); }

// Only an epoch's last lease may be short.
uint64_t Plan::StepsBefore(const Stretch& stretch, uint64_t leases) const {
  const uint64_t of_lease = CeilDiv(lease_batches_, step_batches_);
  const uint64_t of_last = CeilDiv(stretch.batches - (stretch.leases - 1) * lease_batches_, step_batches_);
  return leases / stretch.leases * ((stretch.leases - 1) * of_lease + of_last) + leases % stretch.leases * of_lease;
}

uint64_t Plan::StepsBefore(uint64_t lease) const {
  const Stretch& stretch = Of(LeaseId{lease});
  return stretch.step + StepsBefore(stretch, lease - stretch.lease);
}

uint64_t Plan::BatchesBefore(uint64_t lease) const {
  const Stretch& stretch = Of(LeaseId{lease});
  const uint64_t within = lease - stretch.lease;
  return stretch.batch + within / stretch.leases * stretch.batches + within % stretch.leases * lease_batches_;
}

uint64_t Plan::ExamplesBefore(uint64_t lease) const {
  const Stretch& stretch = Of(LeaseId{lease});
  const uint64_t within = lease - stretch.lease, of_lease = lease_batches_ * batch_size_;
  return stretch.example + within / stretch.leases * stretch.examples + within % stretch.leases * of_lease;
}

uint64_t Plan::ExamplesOf(LeaseId lease) const {
  CHECK(Contains(lease)) << ToNumber(lease);
  const uint64_t first = FirstBatch(lease) * batch_size_;
  return std::min(lease_batches_ * batch_size_, Of(lease).examples - first);
}

uint64_t Plan::ExamplesOf(LeaseId lease, Step step) const {
  CHECK(step >= 1 && step <= StepsOf(lease)) << step;
  const uint64_t in_step = step_batches_ * batch_size_;
  return std::min(in_step, ExamplesOf(lease) - (step - 1) * in_step);
}

uint64_t Plan::BatchesIn(const IntervalSet& leases) const {
  return Sum(leases, [this](uint64_t lease) { return BatchesBefore(lease); });
}

uint64_t Plan::StepsIn(const IntervalSet& leases) const {
  return Sum(leases, [this](uint64_t lease) { return StepsBefore(lease); });
}

uint64_t Plan::ExamplesIn(const IntervalSet& leases) const {
  return Sum(leases, [this](uint64_t lease) { return ExamplesBefore(lease); });
}

uint64_t Plan::GroupOf(LeaseId lease) const {
  const Stretch& stretch = Of(lease);
  const uint64_t within = ToNumber(lease) - stretch.lease;
  return stretch.group + within / stretch.leases * GroupsOf(stretch) + within % stretch.leases / group_size_;
}

uint64_t Plan::GroupBegin(uint64_t group) const {
  const Stretch& stretch = StretchOf(group, &Stretch::group);
  const uint64_t within = group - stretch.group, of_epoch = GroupsOf(stretch);
  return stretch.lease + within / of_epoch * stretch.leases + within % of_epoch * group_size_;
}

uint64_t Plan::ReachFrom(uint64_t first_unfinished) const {
  if (!groups_ahead_) return total_leases();
  return std::min(total_leases(), GroupBegin(GroupOf(LeaseId{first_unfinished}) + *groups_ahead_ + 1));
}

void Plan::Examples(LeaseId lease, Step step, std::vector<uint64_t>* ids) const {
  const uint64_t count = ExamplesOf(lease, step);
  ids->resize(count);
  if (block_examples_) return ExamplesOfBlocks(lease, step, ids);
  const uint64_t first = FirstExample(lease, step);
  const Permutation permutation(MixAll(seed_, kShuffleStream, EpochOf(lease)), Of(lease).examples);
  for (uint64_t i = 0; i < count; ++i) (*ids)[i] = permutation(first + i);
}

void Plan::ExamplesOfBlocks(LeaseId lease, Step step, std::vector<uint64_t>* ids) const {
  const uint64_t full_blocks = Of(lease).examples / *block_examples_;
  const Permutation blocks(MixAll(seed_, kBlockStream, EpochOf(lease)), std::max<uint64_t>(1, full_blocks));
  const Permutation within(MixAll(seed_, kWithinLeaseStream, ToNumber(lease)), ExamplesOf(lease));
  const uint64_t first = FirstExample(lease, 1), passed = Passed(step) * batch_size_;
  for (uint64_t i = 0; i < ids->size(); ++i) {
    const uint64_t place = first + within(passed + i), block = place / *block_examples_;
    (*ids)[i] = block < full_blocks ? blocks(block) * *block_examples_ + place % *block_examples_ : place;
  }
}

uint64_t Plan::DrawSeed(LeaseId lease, Step step, uint64_t batch) const {
  return MixAll(seed_, kDrawStream, ToNumber(lease), step, batch);
}

}  // namespace downpour
