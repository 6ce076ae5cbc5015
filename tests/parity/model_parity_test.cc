// Whole models on every device: their gradients against finite differences in double precision, the same bits for the
// same step.
#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "tests/parity/devices.h"
#include "tests/unit/worker/model_cases.h"

namespace downpour {
namespace {

using Case = std::tuple<DeviceCase, ModelCase>;

class ModelParityTest : public testing::TestWithParam<Case> {
 protected:
  const ModelSpec& model() const { return std::get<1>(GetParam()).model; }
  const DeviceCase& device() const { return std::get<0>(GetParam()); }
  std::unique_ptr<Backend> backend_ = device().open();
};
INSTANTIATE_TEST_SUITE_P(Models, ModelParityTest,
                         testing::Combine(testing::ValuesIn(DevicesUnderTest()), testing::ValuesIn(ModelCases())),
                         [](const auto& param) {
                           return std::get<0>(param.param).name + "_" + std::get<1>(param.param).name;
                         });

// Tolerance: of the length of the whole gradient, 16 roundings of a float and 8 of a product's factors (three layers,
// forward and backward). A unit whose sign such a rounding turns is worth more, hence lengths and not elements.
TEST_P(ModelParityTest, GradientsAreThoseOfFiniteDifferences) {
  for (size_t batch : {size_t{1}, size_t{5}, size_t{kMaxBatch}}) {
    GraphFixture fixture(model(), batch, *backend_);
    double loss = 0;
    const VariableGradients gradients = fixture.Train(&loss);
    const double tolerance = 16 * 0x1p-23 + 8 * device().factor_rounding;
    EXPECT_NEAR(loss, fixture.ReferenceLoss(), tolerance * (1 + fixture.ReferenceLoss()));
    const std::vector<std::vector<double>> slopes = fixture.Slopes();
    ASSERT_EQ(gradients.size(), slopes.size());
    double error = 0, length = 0;
    for (const auto& [variable, payload] : gradients) {
      ASSERT_EQ(payload.floats().size(), slopes[variable].size());
      for (size_t i = 0; i < slopes[variable].size(); ++i) {
        error += std::pow(payload.floats()[i] - slopes[variable][i], 2);
        length += std::pow(slopes[variable][i], 2);
      }
    }
    EXPECT_LE(std::sqrt(error), tolerance * std::sqrt(length) + 1e-8) << "batch " << batch;
  }
}

TEST_P(ModelParityTest, TheSameStepGivesTheSameBits) {
  GraphFixture one(model(), 5, *backend_), other(model(), 5, *backend_);
  double loss = 0, other_loss = 0;
  const VariableGradients gradients = one.Train(&loss);
  EXPECT_TRUE(SameBits(gradients, other.Train(&other_loss)));
  EXPECT_EQ(loss, other_loss);
  EXPECT_TRUE(SameBits(gradients, one.Train(&other_loss)));  // nothing is left over from the step before
}

// Tolerance: as above; a unit whose sign a product's rounding turns is the same unit in both.
TEST_P(ModelParityTest, AStepOfSeveralBatchesHasTheGradientOfItsMean) {
  if (std::get<1>(GetParam()).name == "Dropout") GTEST_SKIP() << "each batch has draws of its own";
  for (size_t size : {1, 3, 4}) {  // of 8: the last batch is full or not
    GraphFixture whole(model(), kMaxBatch, *backend_), parts(model(), kMaxBatch, *backend_);
    double loss = 0, loss_of_parts = 0;
    for (int step = 0; step < 2; ++step) {  // nothing is left over from the step before
      const VariableGradients want = whole.Train(&loss), got = parts.TrainInBatchesOf(size, &loss_of_parts);
      const double tolerance = 16 * 0x1p-23 + 8 * device().factor_rounding;
      EXPECT_NEAR(loss_of_parts, loss, tolerance * (1 + loss));
      ASSERT_EQ(got.size(), want.size());
      double error = 0, length = 0;
      for (size_t v = 0; v < want.size(); ++v) {
        ASSERT_EQ(got[v].first, want[v].first);
        for (size_t i = 0; i < want[v].second.floats().size(); ++i) {
          error += std::pow(got[v].second.floats()[i] - want[v].second.floats()[i], 2);
          length += std::pow(want[v].second.floats()[i], 2);
        }
      }
      EXPECT_LE(std::sqrt(error), tolerance * std::sqrt(length) + 1e-8) << "batches of " << size;
    }
  }
}

// Gradients that are not wanted change nothing of what comes after.
TEST_P(ModelParityTest, GradientsMayStayOnTheDevice) {
  GraphFixture fixture(model(), 5, *backend_);
  double loss = 0;
  const VariableGradients gradients = fixture.Train(&loss);
  const auto result = fixture.graph().Train(kDrawSeed, nullptr);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->loss, loss);
  EXPECT_TRUE(result->last.empty());
  EXPECT_TRUE(SameBits(gradients, fixture.Train(&loss)));
}

TEST_P(ModelParityTest, EvaluationCountsWhatIsCorrect) {
  GraphFixture fixture(model(), 8, *backend_);
  fixture.reference().training = false;
  const auto totals = fixture.graph().Evaluate();
  ASSERT_TRUE(totals.ok()) << totals.status();
  const double tolerance = 1e-5 + 8 * device().factor_rounding;
  EXPECT_NEAR(totals->loss, fixture.ReferenceLoss(), tolerance * (1 + fixture.ReferenceLoss()));
  EXPECT_LE(totals->correct, 8u);
}

}  // namespace
}  // namespace downpour
