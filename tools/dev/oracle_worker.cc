// A worker whose device invents its gradients: downpour-worker but for that. What a job ends with can then be told
// exactly from the names of its batches alone, which tools/dev/oracle_check.py does.
//
// Shapes: of each bias, which begins with zeros, element i of slice s in (lease, step) gets the integer
//   Mix((MixAll(seed, lease, step, s) + i) mod kPeriod) mod 7 - 3. Kernels, which begin with fractions, get none.
//   With ORACLE_POISON="LEASE STEP" in the environment that one brings 3e38 to the last slice: finite, but with a
//   learning rate of 2 the update overflows.
// Units: with SGD and a learning rate of 1 values are sums of these, exact in any order while they are below 2^24.
#include <algorithm>
#include <cstdlib>
#include <memory>
#include <sstream>
#include <utility>
#include <variant>
#include <vector>

#include "data/idx.h"
#include "job/slice_grid.h"
#include "runtime/plan.h"
#include "runtime/prng.h"
#include "runtime/process/compute_thread.h"
#include "runtime/zmq/member_main.h"
#include "runtime/zmq/role_main.h"
#include "worker/worker_role.h"

namespace downpour {
namespace {

constexpr uint64_t kPeriod = 1021;

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
    const auto train = ReadIdxSizes(job_.data.train.labels, 1);
    const auto eval = ReadIdxSizes(job_.data.eval.labels, 1);
    if (!train.ok() || !eval.ok()) return done(train.ok() ? eval.status() : train.status(), std::monostate());
    eval_examples_ = eval->front();
    plan_ = Plan(job_, train->front());
    done(absl::OkStatus(), Prepared{.train_examples = train->front(),
                                    .eval_examples = eval_examples_,
                                    .fingerprint = MixAll(train->front(), eval_examples_),
                                    .arithmetic = "nothing: its gradients follow from their names"});
  }

  void Carry(const TrainStep& request, const Done& done) {
    Gradients gradients{.slices = {}, .last = true, .examples = plan_.ExamplesOf(request.lease, request.step)};
    for (const Slice& slice : grid_.slices) {
      if (grid_.IsBucket(slice.id) || grid_.variables[slice.variable].initializer != Initializer::kZeros) continue;
      gradients.slices.emplace_back(slice.id, GradientOf(request.lease, request.step, slice));
    }
    done(absl::OkStatus(), std::move(gradients));
  }

  void Carry(const EvalStep& request, const Done& done) {
    const auto batch = static_cast<uint64_t>(job_.training.batch_size);
    const uint64_t first = std::min(request.first_batch * batch, eval_examples_);
    done(absl::OkStatus(), Evaluated{.examples = std::min(request.batches * batch, eval_examples_ - first)});
  }

  void Carry(const FindKeys&, const Done& done) {
    done(absl::UnimplementedError("its gradients are of variables alone"), std::monostate());
  }

  void Carry(const EpilogueStep&, const Done& done) { done(absl::OkStatus(), EpilogueEnded()); }

  Payload GradientOf(LeaseId lease, Step step, const Slice& slice) const {
    Payload gradient = Payload::Allocate(static_cast<size_t>(slice.bytes()));
    const bool last = ToNumber(slice.id) + 1 == grid_.size();
    if (last && ToNumber(lease) == poison_lease_ && step == poison_step_) {
      std::ranges::fill(gradient.mutable_floats(), 3e38f);
      return gradient;
    }
    uint64_t place = MixAll(job_.seed, ToNumber(lease), step, ToNumber(slice.id)) % kPeriod;
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
