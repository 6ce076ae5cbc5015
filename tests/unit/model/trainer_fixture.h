// A small job on drawn images, and a trainer that is asked for its steps.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "data/idx.h"
#include "job/slice_grid.h"
#include "model/trainer.h"
#include "runtime/plan.h"
#include "runtime/prng.h"
#include "tensor/host_backend.h"
#include "tests/unit/scratch_folder.h"

namespace downpour {

inline constexpr int32_t kClasses = 3;
inline constexpr uint32_t kSide = 4;
inline constexpr size_t kPixels = kSide * kSide;

// Noisy images of three classes, each with its own bright row.
inline SetFiles WriteImages(const std::string& base, uint32_t count, uint64_t seed) {
  Prng random(seed);
  std::vector<uint8_t> pixels, labels;
  for (uint32_t i = 0; i < count; ++i) {
    labels.push_back(static_cast<uint8_t>(i < kClasses ? i : random.Below(kClasses)));
    for (uint32_t p = 0; p < kPixels; ++p) {
      pixels.push_back(static_cast<uint8_t>((p / kSide == labels.back() ? 120 : 0) + random.Below(136)));
    }
  }
  const SetFiles files{base + ".images", base + ".labels"};
  EXPECT_TRUE(WriteIdx(files.images, {count, kSide, kSide}, pixels).ok());
  EXPECT_TRUE(WriteIdx(files.labels, {count}, labels).ok());
  return files;
}

inline JobSpec MakeJob(const ScratchFolder& folder) {
  JobSpec job;
  job.seed = 5;
  job.model.inputs = {{"image", {kSide, kSide, 1}}};
  job.model.layers = {{"hidden", {"image"}, DenseSpec{40, Activation::kRelu, true}},
                      {"drop", {"hidden"}, DropoutSpec{0.2}},
                      {"out", {"drop"}, DenseSpec{kClasses, Activation::kNone, true}}};
  job.training.batch_size = 8;
  job.training.epochs = 4;
  job.training.lease_batches = 3;
  job.data.train = WriteImages(folder.path() + "/train", 117, 1);  // the last batch has 5 examples
  job.data.eval = WriteImages(folder.path() + "/eval", 30, 2);
  return job;
}

struct Answer {
  absl::Status status;
  std::vector<Gradients> gradients;
  ComputeResult last;
};

class TrainerTest : public testing::Test {
 protected:
  Answer Run(const ComputeRequest& request) { return Run(trainer_, request); }
  static Answer Run(Trainer& trainer, const ComputeRequest& request) {
    Answer answer;
    bool ended = false;
    trainer.Run(request, [&](absl::Status status, ComputeResult result) {
      EXPECT_FALSE(ended) << "more after the end";
      if (auto* gradients = std::get_if<Gradients>(&result)) {
        ended = gradients->last;
        answer.gradients.push_back(*gradients);
      } else {
        ended = true;
      }
      answer.status = status;
      answer.last = std::move(result);
    });
    EXPECT_TRUE(ended);
    return answer;
  }

  // Values for every slice, drawn from `seed`.
  SliceValues AllSlices(uint64_t seed) {
    Prng random(seed);
    SliceValues all;
    for (const Slice& slice : grid_.slices) {
      Payload values = Payload::Allocate(static_cast<size_t>(slice.bytes()));
      for (float& v : values.mutable_floats()) v = static_cast<float>(random.Uniform() - 0.5);
      all.emplace_back(slice.id, std::move(values));
    }
    return all;
  }

  // Everything that came, by slice; each slice once.
  static std::map<SliceId, Payload> BySlice(const Answer& answer) {
    std::map<SliceId, Payload> slices;
    for (const Gradients& part : answer.gradients) {
      for (const auto& [id, values] : part.slices) EXPECT_TRUE(slices.emplace(id, values).second);
    }
    return slices;
  }

  const ScratchFolder folder_;
  const JobSpec job_ = MakeJob(folder_);
  const Plan plan_{job_, 117};
  const SliceGrid grid_ = GridOf(job_.model).value();
  Trainer trainer_{MakeHostBackend({})};
};

}  // namespace downpour
