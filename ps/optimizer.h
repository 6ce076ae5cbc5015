// The optimizer of the job's servers, applied to one slice: training.optimizer, or training.outer with local steps.
//
// Shapes: the gradient has as many elements as the slice, of either kind; the slice has SlotCount() slots.
// Order: copy on write. Values and slots that nobody else holds are updated in place; what a pull on its way or a
//   snapshot still holds is left as it is, and the update goes into a fresh payload.
// Cost: one pass over memory (tensor/apply_kernels.h). A stale push costs also what its rule asks of the step
//   (tensor/deflation.h), and as much memory as the largest slice has.
// Tests: tests/unit/ps/optimizer_test.cc.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "job/job.h"
#include "job/slice_grid.h"
#include "optimizer/update_rule.h"
#include "ps/guarded_state.h"
#include "ps/staleness_rule.h"
#include "ps/table/bucket_rows.h"
#include "runtime/row_frames.h"
#include "tensor/apply_kernels.h"
#include "tensor/deflation.h"

namespace downpour {

// How a slice lies in the matrix that its variable is. What is not trained is none, but numbers side by side.
MatrixRun RunOf(const VariableSpec& variable, const Slice& slice);

// Whether a slice of so many elements has some rows and columns: of few of them the part along one direction is most of
// a step.
bool HasDirections(const MatrixRun& run, size_t elements);

// Memory for the steps of one push after the other.
struct StepBuffers {
  std::vector<float> step;
  Deflation deflation;
};

// Gives a stale update the step that its damping asks for, which `buffers` then hold: less along one direction by the
// correction in `update`, more beside several by the gradient that is returned. `arrays` as ApplyUpdate takes them.
// Leaves alone what has no directions.
[[nodiscard]] GradientSpan ShapeStep(const Damping& damping, const MatrixRun& run, GradientSpan gradient,
                                     absl::Span<const UpdatedArray> arrays, Update* update, StepBuffers* buffers);

// What an update changes of a variable's slice.
struct DenseValues {
  Payload values;
  std::vector<Payload> slots = {};         // as long as the values, each
  Magnitudes bounds = kUnknownMagnitudes;  // of values and slots
};

class Optimizer {
 public:
  Optimizer(const JobSpec& job, const SliceGrid& grid, const Plan& plan);

  // `staleness`: how many updates the gradient lacks; nothing where that is unknown, which counts as the usual one.
  // Raises the slice's version. False, and nothing has changed, for a gradient that is not finite or that would make
  // some number of the slice so.
  [[nodiscard]] bool Apply(SliceId id, GradientSpan gradient, std::optional<uint64_t> staleness, SliceEnvelope& slice,
                           DenseValues& dense) const;

  // The same for a bucket. Rows take steps that are not damped: two workers seldom push one row at the same time.
  [[nodiscard]] bool ApplyRows(const RowGradients& gradients, SliceEnvelope& slice, BucketRows& rows) const;

  // The same in two steps, for slices whose last slot sums up a group's gradients. Gather adds `share` of one to the
  // sum and changes no values. ApplyGathered applies the sum as a gradient that is not stale, and begins the next one.
  [[nodiscard]] bool Gather(GradientSpan gradient, double share, DenseValues& dense) const;
  [[nodiscard]] bool ApplyGathered(SliceId id, SliceEnvelope& slice, DenseValues& dense) const;

 private:
  const OptimizerSpec& SpecOf(SliceId id) const { return specs_[variable_of_[ToNumber(id)]]; }
  bool Step(SliceId id, GradientSpan gradient, const Damping& damping, SliceEnvelope& slice, DenseValues& dense) const;

  std::vector<OptimizerSpec> specs_;  // by variable
  std::vector<OptimizerSpec> of_tables_;
  mutable std::vector<Update> updates_;  // likewise: of the push at hand
  std::vector<uint32_t> variable_of_;    // by slice of a variable
  std::vector<MatrixRun> run_of_;        // likewise
  std::vector<SliceTraits> traits_;      // likewise
  uint64_t job_steps_;
  StalenessRule staleness_rule_;
  mutable StepBuffers buffers_;  // so that memory is not taken for each push
};

}  // namespace downpour
