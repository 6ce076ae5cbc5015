// A worker whose device invents its gradients: downpour-worker but for that. What a job ends with can then be told
// exactly from the names of its batches alone, which tools/dev/oracle_check.py does.
//
// Shapes: of each bias, which begins with zeros, element i of slice s in (lease, step) gets the integer
//   Mix((MixAll(seed, lease, step, s) + i) mod kPeriod) mod 7 - 3. Kernels, which begin with fractions, get none.
//   Of each bucket (number b, slice s) a step has up to kKeysOfStep keys of each table: those at the places
//   MixAll(seed, lease, step, s, table, i) mod (how many there are) of the keys below kKeys that fall into it. Element
//   j of a key's row gets Mix((MixAll(seed, lease, step, s, table, key) + j) mod kPeriod) mod 7 - 3.
//   With ORACLE_POISON="LEASE STEP" in the environment that one brings 3e38 to the last slice: finite, but with a
//   learning rate of 2 the update overflows.
// Units: with SGD and a learning rate of 1 values are sums of these, exact in any order while they are below 2^24.
#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <memory>
#include <set>
#include <sstream>
#include <utility>
#include <variant>
#include <vector>

#include "data/idx.h"
#include "job/slice_grid.h"
#include "runtime/plan.h"
#include "runtime/prng.h"
#include "runtime/process/compute_thread.h"
#include "runtime/row_frames.h"
#include "runtime/zmq/member_main.h"
#include "runtime/zmq/role_main.h"
#include "worker/worker_role.h"

namespace downpour {
namespace {

constexpr uint64_t kPeriod = 1021;
constexpr uint64_t kKeys = 4000;  // of each table
constexpr uint64_t kKeysOfStep = 4;

// Of a file with a record in each line.
absl::StatusOr<uint64_t> CountLines(const std::string& path) {
  std::ifstream file(path);
  if (!file) return absl::NotFoundError(path + " cannot be read");
  return static_cast<uint64_t>(std::count(std::istreambuf_iterator<char>(file), {}, '\n'));
}

class OracleDevice final : public Computer {
 public:
  OracleDevice() {
    for (uint64_t i = 0; i < kPeriod; ++i) sequence_.push_back(static_cast<float>(Mix(i) % 7) - 3);
    if (const char* poison = std::getenv("ORACLE_POISON"); poison != nullptr) {
      std::istringstream(poison) >> poison_lease_ >> poison_step_;
    }
  }

  void Run(const ComputeRequest& request, const Done& done) override {
    std::visit([&](const auto& r) { Carry(r, done); }, request);
  }

 private:
  void Carry(const Prepare& request, const Done& done) {
    job_ = request.job;
    if (job_.training.wire != WireFormat::kFp32) {
      return done(absl::InvalidArgumentError("exact gradients travel as fp32"), std::monostate());
    }
    grid_ = GridOf(job_.model).value();
    const absl::StatusOr<uint64_t> train = CountExamples(job_.data.train), eval = CountExamples(job_.data.eval);
    if (!train.ok() || !eval.ok()) return done(train.ok() ? eval.status() : train.status(), std::monostate());
    eval_examples_ = *eval;
    plan_ = Plan(job_, *train);
    ListKeys();
    done(absl::OkStatus(), Prepared{.train_examples = *train,
                                    .eval_examples = eval_examples_,
                                    .fingerprint = MixAll(*train, eval_examples_),
                                    .arithmetic = "nothing: its gradients follow from their names"});
  }

  void Carry(const TrainStep& request, const Done& done) {
    Gradients gradients{.slices = {}, .last = true, .examples = plan_.ExamplesOf(request.lease, request.step)};
    for (const Slice& slice : grid_.slices) {
      if (grid_.IsBucket(slice.id)) {
        const auto bucket = static_cast<uint32_t>(slice.offset);
        gradients.slices.emplace_back(slice.id, GradientOfRows(request.lease, request.step, bucket));
        continue;
      }
      if (grid_.variables[slice.variable].initializer != Initializer::kZeros) continue;
      gradients.slices.emplace_back(slice.id, GradientOf(request.lease, request.step, slice));
    }
    done(absl::OkStatus(), std::move(gradients));
  }

  void Carry(const EvalStep& request, const Done& done) {
    const auto batch = static_cast<uint64_t>(job_.training.batch_size);
    const uint64_t first = std::min(request.first_batch * batch, eval_examples_);
    done(absl::OkStatus(), Evaluated{.examples = std::min(request.batches * batch, eval_examples_ - first)});
  }

  void Carry(const FindKeys& request, const Done& done) {
    KeysFound found;
    for (uint32_t bucket = 0; request.step && bucket < grid_.buckets; ++bucket) {
      const RowKeys rows = KeysOf(request.step->first, request.step->second, bucket);
      if (!rows.keys.empty()) found.keys.emplace_back(grid_.BucketAt(bucket), PackKeys(rows));
    }
    done(absl::OkStatus(), std::move(found));
  }

  absl::StatusOr<uint64_t> CountExamples(const SetFiles& files) const {
    if (files.empty()) return 0;
    if (job_.data.has_records()) return CountLines(files.files[0]);
    const auto sizes = ReadIdxSizes(files.labels, 1);
    return sizes.ok() ? absl::StatusOr<uint64_t>(sizes->front()) : sizes.status();
  }

  void ListKeys() {
    keys_.assign(grid_.row_widths.size(), std::vector<std::vector<uint64_t>>(grid_.buckets));
    for (uint64_t table = 0; table < keys_.size(); ++table) {
      for (uint64_t key = 0; key < kKeys; ++key) keys_[table][BucketOf(table, key, grid_.buckets)].push_back(key);
    }
  }

  RowKeys KeysOf(LeaseId lease, Step step, uint32_t bucket) const {
    RowKeys rows;
    for (uint64_t table = 0; table < keys_.size(); ++table) {
      const std::vector<uint64_t>& all = keys_[table][bucket];
      std::set<uint64_t> some;
      for (uint64_t i = 0; i < kKeysOfStep && !all.empty(); ++i) {
        some.insert(
            all[MixAll(job_.seed, ToNumber(lease), step, ToNumber(grid_.BucketAt(bucket)), table, i) % all.size()]);
      }
      rows.counts.push_back(static_cast<uint32_t>(some.size()));
      rows.keys.insert(rows.keys.end(), some.begin(), some.end());
    }
    return rows;
  }

  uint64_t NameOf(LeaseId lease, Step step, SliceId slice) const {
    return MixAll(job_.seed, ToNumber(lease), step, ToNumber(slice));
  }

  Payload GradientOfRows(LeaseId lease, Step step, uint32_t bucket) const {
    const RowKeys rows = KeysOf(lease, step, bucket);
    std::vector<float> numbers;
    size_t next = 0;
    for (uint64_t table = 0; table < rows.counts.size(); ++table) {
      for (uint32_t i = 0; i < rows.counts[table]; ++i, ++next) {
        const uint64_t place =
            MixAll(job_.seed, ToNumber(lease), step, ToNumber(grid_.BucketAt(bucket)), table, rows.keys[next]);
        for (uint64_t j = 0; j < grid_.row_widths[table]; ++j) numbers.push_back(sequence_[(place + j) % kPeriod]);
      }
    }
    return PackGradients(rows, numbers);
  }

  void Carry(const MoreRows&, const Done& done) {
    done(absl::FailedPreconditionError("all keys are known ahead"), std::monostate());
  }

  void Carry(const EpilogueStep&, const Done& done) { done(absl::OkStatus(), EpilogueEnded()); }

  Payload GradientOf(LeaseId lease, Step step, const Slice& slice) const {
    Payload gradient = Payload::Allocate(static_cast<size_t>(slice.bytes()));
    const bool last = ToNumber(slice.id) + 1 == grid_.dense();
    if (last && ToNumber(lease) == poison_lease_ && step == poison_step_) {
      std::ranges::fill(gradient.mutable_floats(), 3e38f);
      return gradient;
    }
    uint64_t place = NameOf(lease, step, slice.id) % kPeriod;
    for (float& element : gradient.mutable_floats()) {
      element = sequence_[place];
      place = place + 1 == kPeriod ? 0 : place + 1;
    }
    return gradient;
  }

  std::vector<float> sequence_;
  uint64_t poison_lease_ = 0;
  Step poison_step_ = 0;  // none
  JobSpec job_;
  SliceGrid grid_;
  std::vector<std::vector<std::vector<uint64_t>>> keys_;  // by table, then by bucket
  Plan plan_;
  uint64_t eval_examples_ = 0;
};

}  // namespace
}  // namespace downpour

int main(int argc, char** argv) {
  using namespace downpour;
  const Usage usage = {"oracle_worker", "pushes integers that follow from the names of a job's batches.",
                       "  tools/dev/chaos BUILD --oracle\n"};
  if (auto exit_code = BeginMember(argc, argv, usage, "worker")) return *exit_code;
  Mailbox mailbox;
  ComputeThread computer(std::make_unique<OracleDevice>(), &mailbox);
  WorkerRole role({.member = MemberOptionsFromFlags()});
  return RunRole(role, PeerRole::kWorker, /*listen=*/"", {.mailbox = &mailbox, .computer = &computer});
}
