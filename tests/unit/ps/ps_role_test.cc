#include "ps/ps_role.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <variant>

#include "schema/codec.h"
#include "schema/job_file.h"
#include "schema/slice_grid.h"
#include "tests/scenario/tiny_job.h"

namespace downpour {
namespace {

constexpr PeerId kChief{1};
constexpr Incarnation kMe{10};

// What a ps does when it is welcomed to that job.
std::vector<Effect> WelcomeTo(const JobSpec& job, PsRole& role) {
  Effects effects;
  role.Step(Time(), Started{0, "ps-0"}, effects);
  effects.Take();
  role.Step(Time(), Received{kChief, Welcome{kMe, 1, "ps-0", CanonicalJob(job)}}, effects);
  return effects.Take();
}

std::optional<Exit> ExitOf(const std::vector<Effect>& effects) {
  for (const Effect& effect : effects) {
    if (const auto* exit = std::get_if<Exit>(&effect)) return *exit;
  }
  return std::nullopt;
}

std::optional<Exit> ExitWhenWelcome(CheckpointVia via, bool has_job_dir) {
  JobSpec job = TinyJob();
  job.checkpoint.via = via;
  PsOptions options;
  options.has_job_dir = has_job_dir;
  PsRole role(options);
  return ExitOf(WelcomeTo(job, role));
}

TEST(PsRoleTest, WithoutTheFolderThatItIsToWriteToItEndsAtOnce) {
  const std::optional<Exit> exit = ExitWhenWelcome(CheckpointVia::kShared, false);
  ASSERT_TRUE(exit.has_value());
  EXPECT_EQ(exit->code, 1);
  EXPECT_NE(exit->why.find("give it --job_dir=DIR"), std::string::npos) << exit->why;
  EXPECT_FALSE(ExitWhenWelcome(CheckpointVia::kShared, true).has_value());
  EXPECT_FALSE(ExitWhenWelcome(CheckpointVia::kChief, false).has_value());
}

// Slices that are reported as installed in one step.
size_t Installed(PsRole& role, Input input) {
  Effects effects;
  role.Step(Time(), std::move(input), effects);
  size_t slices = 0;
  for (const Effect& effect : effects.Take()) {
    const auto* send = std::get_if<Send>(&effect);
    const auto* report = send == nullptr ? nullptr : std::get_if<SliceReport>(&send->message);
    if (report != nullptr) slices += report->slices.size();
  }
  return slices;
}

TEST(PsRoleTest, MakesManyInitialValuesInAStepButNotAllOfALargeModel) {
  JobSpec job = TinyJob();
  job.model.inputs = {{"x", {4096}}};
  job.model.layers = {{"y", {"x"}, DenseSpec{.units = 24 * 64, .bias = false}}};  // 24 MiB
  const SliceGrid grid = *GridOf(job.model);
  ASSERT_EQ(grid.size(), 24u);
  PsRole role{PsOptions()};
  WelcomeTo(job, role);
  Assign assign{.to = kMe, .train_examples = kTinyExamples, .slices = {}};
  for (const Slice& slice : grid.slices) assign.slices.push_back({slice.id, {1, 1}, SliceSource::kInitialValues});
  EXPECT_EQ(Installed(role, Received{kChief, assign}), 16u);
  EXPECT_EQ(Installed(role, Tick{}), 8u);
}

}  // namespace
}  // namespace downpour
