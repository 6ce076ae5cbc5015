// What a stale push is worth: how an update changes with the staleness of its gradient.
//
//   const Damping damping = StalenessRule(training).Of(staleness, usual);   // Damping() where nothing is stale
//
// A gradient that was computed s - 1 updates ago pulls the values back to where they were. Where s workers push at
// once, each of s such gradients corrects the same error: together they overshoot, and the more momentum there is, the
// sooner that grows without bound. So a push counts less the staler it is; and since the momentum's memory then spans
// the same number of each worker's own pushes, it filters what the delay makes swing.
//
// With s = 1 + max(staleness, usual staleness), rate r and momentum m:
//
//   rate:          r is divided by s
//   slowMomentum:  v = (1 - (1 - m) / s^(5/4)) * v + s^(-5/4 - 5/8) * g
//                  w -= r * (v + (1 - 1/s) * s^(-3/8) * g)
//   auto:          slowMomentum for momentum and nesterov, none for adagrad and ftrl, else rate
//
// Nesterov's looks ahead: in the last line, (1 - (1 - m) / s^(5/4)) * v + s^(-5/4 - 5/8) * g stands for v.
// At s = 1 each is the plain optimizer, bit for bit.
//
// Source: rate is of Zhang et al., "Staleness-Aware Async-SGD", IJCAI 2016. The exponents of slowMomentum were found by
//   trials (docs/LEARNING.md). Mitliagkas et al., "Asynchrony begets Momentum", 2016, say why memory must change. none
//   for Adagrad and FTRL: Dean et al., "Large Scale Distributed Deep Networks", NIPS 2012; their rates fall with every
//   gradient, those of other workers too.
// Cost: a few roots for each push. Order: the same bits on every CPU, since only IEEE operations are used.
// Tests: tests/unit/ps/staleness_rule_test.cc.
#pragma once

#include <cstdint>

#include "schema/job.h"

namespace downpour {

// Factors of one update; as they stand here, of the plain optimizer.
struct Damping {
  double share = 1;   // of the learning rate
  double memory = 1;  // the momentum's, in multiples of what the job says
  double fresh = 0;   // of this gradient, applied at once beside the momentum
  bool operator==(const Damping&) const = default;
};

class StalenessRule {
 public:
  explicit StalenessRule(const TrainingSpec& training);

  // `staleness` in updates; `usual` as UsualStaleness keeps it.
  Damping Of(uint64_t staleness, uint64_t usual) const;

 private:
  StalenessMethod method_;  // never kAuto
};

// How stale the pushes of a slice usually are, in units of 1/kStalenessOne: a mean over about 64 of them. One push that
// happens to be fresh is no reason to let it count more than its neighbours do.
uint64_t UsualStaleness(uint64_t usual, uint64_t staleness);

}  // namespace downpour
