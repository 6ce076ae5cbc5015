// GradientClip: keeps the gradient of a step small, before any part of it is pushed.
//
//   clip.Apply(&gradients);   // of all variables where needs_all(), else of those that are ready
//
// Order: first each element to at most clipValue, as torch.nn.utils.clip_grad_value_. Then, if the Euclidean norm of
//   all variables together is above clipNorm, all are scaled to it, as torch.nn.utils.clip_grad_norm_.
// Tables: rows are not clipped, nor are they part of the norm. Their optimizers have no clipping, and a step has the
//   gradients of few of them.
// Cost: one pass for the values, and up to two for the norm. With a norm nothing leaves before all is computed.
// Errors: none. Where the norm is not finite every number becomes NaN, so that no slice applies the step.
// Source: Pascanu et al., "On the difficulty of training recurrent neural networks", ICML 2013, Algorithm 1.
// Tests: tests/unit/model/gradient_clip_test.cc.
#pragma once

#include "job/optimizer_spec.h"
#include "model/graph.h"

namespace downpour {

class GradientClip {
 public:
  GradientClip() = default;
  explicit GradientClip(const OptimizerSpec& spec) : value_(spec.clip_value), norm_(spec.clip_norm) {}

  bool needs_all() const { return norm_ > 0; }
  void Apply(VariableGradients* gradients) const;

 private:
  double value_ = 0;  // 0: not clipped, as is the next
  double norm_ = 0;
};

}  // namespace downpour
