// Parameters that are staged as they arrive, before the step that they are for.
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "tensor/apply_kernels.h"
#include "tests/parity/deferred_backend.h"
#include "tests/unit/model/trainer_fixture.h"

namespace downpour {
namespace {

// Lets a test in where copies have begun and are not done, and may fail at what comes up next.
class OpenBackend final : public DeferredBackend {
 public:
  absl::Status BeginUpload(const void* host, size_t bytes, void* to) override {
    ++begun;
    absl::Status status = DeferredBackend::BeginUpload(host, bytes, to);
    if (meanwhile) meanwhile();
    return status;
  }
  absl::Status Upload(const void* host, size_t bytes, void* to) override {
    if (fails && begun > 0) return absl::UnavailableError("the link is down");
    return DeferredBackend::Upload(host, bytes, to);
  }

  int begun = 0;
  bool fails = false;
  std::function<void()> meanwhile;
};

class TrainerParametersTest : public TrainerTest {
 protected:
  void SetUp() override { ASSERT_TRUE(Run(device_, Prepare{job_}).status.ok()); }

  static void ExpectSame(const Answer& got, const Answer& want) {
    ASSERT_TRUE(got.status.ok()) << got.status;
    EXPECT_EQ(got.gradients.back().loss_sum, want.gradients.back().loss_sum);
    std::map<SliceId, Payload> slices = BySlice(got);
    for (const auto& [id, values] : BySlice(want)) {
      EXPECT_EQ(slices[id].as<uint16_t>(), values.as<uint16_t>()) << ToNumber(id);
    }
  }
  // As a trainer computes it that knows of no hints.
  Answer Plain(const SliceValues& updates) {
    Trainer plain(std::make_unique<DeferredBackend>());
    EXPECT_TRUE(Run(plain, Prepare{job_}).status.ok());
    return Run(plain, TrainStep{LeaseId{0}, 1, updates});
  }
  Answer Train(const SliceValues& updates) {
    backend_->begun = 0;
    return Run(device_, TrainStep{LeaseId{0}, 1, updates});
  }
  // Whatever frames are free are written to, those of every slice twice.
  void Disturb() {
    for (uint64_t seed : {71, 72}) device_.PrefetchParameters(AllSlices(seed));
  }

  const int all_ = static_cast<int>(grid_.size());
  OpenBackend* const backend_ = new OpenBackend;
  Trainer device_{std::unique_ptr<Backend>(backend_)};
};

SliceValues OnWire(const SliceGrid& grid, SliceValues values) {
  if (grid.wire == WireFormat::kFp32) return values;
  for (auto& [id, floats] : values) {
    Payload rounded = Payload::Allocate(grid.WireBytes(id));
    RoundToBf16(floats.floats(), rounded.mutable_as<Bf16>().data());
    floats = std::move(rounded);
  }
  return values;
}

// None of the slices, some of them, some too late, and all.
TEST_F(TrainerParametersTest, HintsChangeNoBit) {
  for (const WireFormat wire : {WireFormat::kFp32, WireFormat::kBf16}) {
    for (const ProductPrecision precision : {ProductPrecision::kFp32, ProductPrecision::kBf16}) {
      for (const bool on_host : {false, true}) {
        JobSpec job = job_;
        job.training.wire = wire;
        job.training.precision = precision;
        const SliceGrid grid = GridOf(job.model, wire).value();
        const auto backend = [&]() -> std::unique_ptr<Backend> {
          if (on_host) return MakeHostBackend({});
          return std::make_unique<DeferredBackend>();
        };
        Trainer hinted(backend()), plain(backend());
        ASSERT_TRUE(Run(hinted, Prepare{job}).status.ok());
        ASSERT_TRUE(Run(plain, Prepare{job}).status.ok());
        for (Step step = 1; step <= 8; ++step) {
          const SliceValues updates = OnWire(grid, AllSlices(step));
          SliceValues ahead;
          for (size_t i = 0; i < updates.size(); ++i) {
            if (step % 4 == 0 || i % 4 < step % 4 - 1) ahead.push_back(updates[i]);
          }
          hinted.PrefetchParameters(ahead);
          const TrainStep request{LeaseId{0}, 1 + step % 3, updates};
          ExpectSame(Run(hinted, request), Run(plain, request));
          hinted.PrefetchParameters(updates);
          const Answer got = Run(hinted, EvalStep{0, 4, updates}), want = Run(plain, EvalStep{0, 4, updates});
          EXPECT_EQ(std::get<Evaluated>(got.last).loss_sum, std::get<Evaluated>(want.last).loss_sum);
        }
      }
    }
  }
}

TEST_F(TrainerParametersTest, AStepTakesWhatWasStagedForIt) {
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    const SliceValues updates = AllSlices(seed);
    device_.PrefetchParameters(updates);
    ExpectSame(Train(updates), Plain(updates));
    EXPECT_EQ(backend_->begun, all_);
    ASSERT_TRUE(Run(device_, EvalStep{0, 1, {}}).status.ok());
  }
}

TEST_F(TrainerParametersTest, NothingIsWrittenToAFrameThatIsBeingCopied) {
  backend_->meanwhile = [this] {
    if (backend_->begun == all_) Disturb();
  };
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    const SliceValues updates = AllSlices(seed);
    device_.PrefetchParameters(updates);
    ExpectSame(Train(updates), Plain(updates));
    EXPECT_EQ(backend_->begun, all_);
  }
}

TEST_F(TrainerParametersTest, NorAfterAStepThatFailed) {
  const SliceValues updates = AllSlices(1);
  device_.PrefetchParameters(updates);
  backend_->fails = true;
  EXPECT_EQ(Train(updates).status.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(backend_->begun, all_);
  backend_->fails = false;
  Disturb();
  ExpectSame(Train({}), Plain(updates));
}

TEST_F(TrainerParametersTest, NorBehindAnEvaluationOfNothing) {
  const SliceValues updates = AllSlices(1);
  device_.PrefetchParameters(updates);
  ASSERT_TRUE(Run(device_, EvalStep{0, 0, updates}).status.ok());
  EXPECT_EQ(backend_->begun, all_);
  Disturb();
  ExpectSame(Train({}), Plain(updates));
}

TEST_F(TrainerParametersTest, OfAStepOfSeveralBatchesTheFirstLoadsThem) {
  JobSpec job = job_;
  job.training.push_every = 2;
  Trainer plain(std::make_unique<DeferredBackend>());
  ASSERT_TRUE(Run(device_, Prepare{job}).status.ok());
  ASSERT_TRUE(Run(plain, Prepare{job}).status.ok());
  const SliceValues updates = AllSlices(1);
  device_.PrefetchParameters(updates);
  backend_->meanwhile = [this] {
    if (backend_->begun == all_) Disturb();
  };
  ExpectSame(Train(updates), Run(plain, TrainStep{LeaseId{0}, 1, updates}));
  EXPECT_EQ(backend_->begun, all_);
}

TEST_F(TrainerParametersTest, OnlyADeviceGainsByHints) {
  EXPECT_TRUE(device_.loads_ahead());
  EXPECT_FALSE(trainer_.loads_ahead());
}

TEST_F(TrainerParametersTest, AHintWithoutAPlaceIsPassedOver) {
  Trainer trainer(std::make_unique<DeferredBackend>());
  const SliceValues updates = AllSlices(1);
  trainer.PrefetchParameters(updates);
  JobSpec wrong = job_;
  wrong.data.eval.images = "nowhere";
  EXPECT_FALSE(Run(trainer, Prepare{wrong}).status.ok());
  trainer.PrefetchParameters(updates);
  ASSERT_TRUE(Run(trainer, Prepare{job_}).status.ok());
  trainer.PrefetchParameters({{SliceId{99}, updates[0].second}, {SliceId{0}, Payload::Zeros(4)}});
  ExpectSame(Run(trainer, TrainStep{LeaseId{0}, 1, updates}), Plain(updates));
}

TEST_F(TrainerParametersTest, NothingIsKeptOfAJobWhenTheNextIsToBePrepared) {
  const SliceValues updates = AllSlices(1);
  device_.PrefetchParameters(updates);
  EXPECT_FALSE(updates[0].second.unique());
  JobSpec wrong = job_;
  wrong.data.eval.images = "nowhere";
  EXPECT_FALSE(Run(device_, Prepare{wrong}).status.ok());
  EXPECT_TRUE(updates[0].second.unique());
}

TEST_F(TrainerParametersTest, AJobMayBePreparedWhileParametersOfTheOneBeforeStillArrive) {
  const std::vector<SliceValues> rounds = {AllSlices(1), AllSlices(2), AllSlices(3)};
  const Answer want = Plain(rounds[1]);
  std::atomic<bool> over = false;
  std::thread arrives([&] {
    for (size_t i = 0; !over; ++i) device_.PrefetchParameters(rounds[i % rounds.size()]);
  });
  for (int job = 0; job < 20; ++job) {
    EXPECT_TRUE(Run(device_, Prepare{job_}).status.ok());
    for (const SliceValues& updates : rounds) EXPECT_TRUE(Train(updates).status.ok());
    ExpectSame(Train(rounds[1]), want);
  }
  over = true;
  arrives.join();
}

}  // namespace
}  // namespace downpour
