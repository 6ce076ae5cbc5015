#include "runtime/plan.h"

#include <glog/logging.h>

#include <algorithm>
#include <bit>

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
      groups_ahead_(GroupsAhead(job.training)),
      batches_(CeilDiv(train_examples, job.training.batch_size)),
      leases_(std::max<uint64_t>(1, CeilDiv(batches_, job.training.lease_batches))),
      epochs_(train_examples == 0 ? 0 : job.training.epochs) {}

uint64_t Plan::FirstBatch(LeaseId lease) const { return ToNumber(lease) % leases_ * lease_batches_; }

uint64_t Plan::FirstExample(LeaseId lease, Step step) const { return (FirstBatch(lease) + Passed(step)) * batch_size_; }

uint64_t Plan::BatchesOf(LeaseId lease) const {
  CHECK(Contains(lease)) << ToNumber(lease);
  return std::min(lease_batches_, batches_ - FirstBatch(lease));
}

Step Plan::StepsOf(LeaseId lease) const { return static_cast<Step>(CeilDiv(BatchesOf(lease), step_batches_)); }

// Only an epoch's last lease may be short.
uint64_t Plan::StepsBefore(uint64_t lease) const {
  const uint64_t of_lease = CeilDiv(lease_batches_, step_batches_);
  const uint64_t of_last = CeilDiv(batches_ - (leases_ - 1) * lease_batches_, step_batches_);
  return lease / leases_ * ((leases_ - 1) * of_lease + of_last) + lease % leases_ * of_lease;
}

uint64_t Plan::BatchesBefore(uint64_t lease) const {
  return lease / leases_ * batches_ + lease % leases_ * lease_batches_;
}

uint64_t Plan::ExamplesOf(LeaseId lease) const {
  CHECK(Contains(lease)) << ToNumber(lease);
  const uint64_t first = FirstBatch(lease) * batch_size_;
  return std::min(lease_batches_ * batch_size_, examples_ - first);
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
  const uint64_t of_lease = lease_batches_ * batch_size_;
  return Sum(leases, [&](uint64_t lease) { return lease / leases_ * examples_ + lease % leases_ * of_lease; });
}

uint64_t Plan::GroupOf(LeaseId lease) const {
  return EpochOf(lease) * CeilDiv(leases_, group_size_) + ToNumber(lease) % leases_ / group_size_;
}

uint64_t Plan::GroupBegin(uint64_t group) const {
  const uint64_t of_epoch = CeilDiv(leases_, group_size_);
  return group / of_epoch * leases_ + group % of_epoch * group_size_;
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
  const Permutation permutation(MixAll(seed_, kShuffleStream, EpochOf(lease)), examples_);
  for (uint64_t i = 0; i < count; ++i) (*ids)[i] = permutation(first + i);
}

void Plan::ExamplesOfBlocks(LeaseId lease, Step step, std::vector<uint64_t>* ids) const {
  const uint64_t full_blocks = examples_ / *block_examples_;
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
