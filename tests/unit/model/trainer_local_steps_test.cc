#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "tensor/apply_kernels.h"
#include "tests/parity/deferred_backend.h"
#include "tests/unit/model/trainer_fixture.h"

namespace downpour {
namespace {

// Of the same batches, with the plain rule between them. An evaluation behind them is of what was pulled.
TEST_F(TrainerTest, LocalStepsAreStepsOnWhatTheOneBeforeLeft) {
  constexpr float kRate = 0.125f;
  JobSpec plain = job_, local = job_;
  for (JobSpec* job : {&plain, &local}) {
    std::erase_if(job->model.layers, [](const LayerSpec& layer) { return layer.name == "drop"; });
    job->model.layers.back().from = {"hidden"};
  }
  local.training.local_steps = 3;
  local.training.optimizer = {.kind = OptimizerKind::kSgd, .learning_rate = kRate};
  for (const bool deferred : {false, true}) {
    Trainer alone(deferred ? std::make_unique<DeferredBackend>() : MakeHostBackend({}));
    ASSERT_TRUE(Run(alone, Prepare{local}).status.ok());
    ASSERT_TRUE(Run(Prepare{plain}).status.ok());
    const double loss_before = std::get<Evaluated>(Run(EvalStep{0, 4, AllSlices(3)}).last).loss_sum;
    for (const SliceValues& updates : {AllSlices(3), SliceValues()}) {  // pulled again, unchanged
      const Answer taken = Run(alone, TrainStep{LeaseId{1}, 1, updates});
      ASSERT_TRUE(taken.status.ok()) << taken.status;
      ASSERT_EQ(taken.gradients.size(), 1u);
      EXPECT_EQ(taken.gradients[0].examples, 24u);
      SliceValues values = AllSlices(3);
      double loss_sum = 0;
      for (Step step = 1; step <= 3; ++step) {
        const Answer answer = Run(TrainStep{LeaseId{1}, step, values});
        loss_sum += answer.gradients.back().loss_sum;
        for (const auto& [id, gradient] : BySlice(answer)) {
          Payload& value = values[ToNumber(id)].second;
          Payload next = Payload::Allocate(value.size());
          for (size_t i = 0; i < value.floats().size(); ++i) {
            next.mutable_floats()[i] = value.floats()[i] - kRate * gradient.floats()[i];
          }
          value = next;
        }
      }
      EXPECT_NEAR(taken.gradients[0].loss_sum, loss_sum, 1e-4);
      const SliceValues pulled = AllSlices(3);
      for (const auto& [id, difference] : BySlice(taken)) {
        for (size_t i = 0; i < difference.floats().size(); ++i) {
          const float end = pulled[ToNumber(id)].second.floats()[i] - difference.floats()[i];
          ASSERT_NEAR(end, values[ToNumber(id)].second.floats()[i], 1e-5);
        }
      }
      EXPECT_NEAR(std::get<Evaluated>(Run(alone, EvalStep{0, 4, {}}).last).loss_sum, loss_before, 1e-4);
    }
  }
}

TEST_F(TrainerTest, GradientsOfLocalStepsAreClippedOnceEach) {
  JobSpec job = job_;
  job.training.local_steps = 3;
  job.training.optimizer = {.kind = OptimizerKind::kSgd, .learning_rate = 1, .clip_value = 1e-3};
  ASSERT_TRUE(Run(Prepare{job}).status.ok());
  float most = 0;
  for (const auto& [id, difference] : BySlice(Run(TrainStep{LeaseId{1}, 1, AllSlices(3)}))) {
    most = std::max(most, LargestMagnitude(difference.floats()));
  }
  EXPECT_GT(most, 1.5e-3f);
  EXPECT_LT(most, 3.1e-3f);
}

}  // namespace
}  // namespace downpour
