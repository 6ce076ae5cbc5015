// The schedule of a learning rate: what share of it is used, by how much of the job is done.
//
//   const double share = RateShare(optimizer.schedule, slice.consumed, plan.total_steps());
//
// Units: steps, as the slice has consumed them. A job has total_steps() of them for each slice, however many workers
//   push them, and each counts once. So the share follows the job, and a restored slice goes on where its record is.
//
// With step k, counted from 0, and a warm-up of W steps, the share is (k + 1) / W for k < W. Then, with n = k - W:
//
//   constant:           1
//   step:               decay^floor(n / stepEvery)
//   cosine:             f + (1 - f) (1 + cos(pi n / (T - W))) / 2, with f = finalShare and T = totalSteps; f from T on
//   inverseSquareRoot:  sqrt(W / (k + 1)), where W is at least 1
//
// Source: warm-up: Goyal et al., "Accurate, Large Minibatch SGD", 2017. cosine: Loshchilov and Hutter, "SGDR", ICLR
//   2017. inverseSquareRoot: Vaswani et al., "Attention Is All You Need", 2017, with its peak at the learning rate.
// Order: the same bits on every CPU, since only IEEE operations are used.
// Cost: some 20 operations for each push.
// Tests: tests/unit/runtime/learning_rate_test.cc.
#pragma once

#include <cstdint>

#include "job/optimizer_spec.h"

namespace downpour {

double RateShare(const ScheduleSpec& schedule, uint64_t step, uint64_t job_steps);

}  // namespace downpour
