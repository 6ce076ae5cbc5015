// What a stale push is worth: how an update changes with the staleness of its gradient.
//
//   const StalenessRule rule(training, workers);
//   const uint64_t usual = rule.UsualAfter({slice.version, slice.usual_staleness}, staleness);
//   const Damping damping = rule.Of(staleness, usual, traits);  // Damping() where nothing is stale
//
// A gradient that was computed s - 1 updates ago pulls the values back to where they were. Where s workers push at
// once, each of s such gradients corrects the same error: together they overshoot, and the more momentum there is, the
// sooner that grows without bound. So a push counts less the staler it is; and since the momentum's memory then spans
// the same number of each worker's own pushes, it filters what the delay makes swing. What swings first is where the
// loss is steepest, and how steep it is there no staleness tells. But it shows in the step: what overshoots outweighs
// all else. So of each step, the part along the direction in which it is largest counts the less the more it outweighs
// the rest.
//
// With s = 1 + max(staleness, usual staleness), rate r and momentum m:
//
//   rate:          r is divided by s
//   slowMomentum:  v = (1 - f) * v + b/s * f / (1 - m) * g, where f = min(1 - m, 1 / min(s, 10)) / s
//                  d = v + b/s * (1 - 1/s) * sqrt(b)/10 / (1 - m) * g, where b is the smaller of s and 10
//                  w -= r * (d - (1 - k) * p), where p is d's part along its largest direction, and k is the square of
//                  |d - p| / |p|, but 1/s^2 at least and 1 at most. Of what has too few rows or columns for a p, d is
//                  divided by sqrt(s) instead
//   steepRate:     w -= r * b/s * (d - (1 - k) * p), where d is the plain step, and p, k and b as above; with few rows
//                  or columns likewise. With adagrad and ftrl k is 1/s^2, and what has few rows or columns takes the
//                  plain step: their rates fall by themselves, and each step that is too long counts against all later
//                  ones. Of ftrl d is the gradient
//   auto:          slowMomentum for sgd, momentum, nesterov, adam and adamw; steepRate for adagrad, rmsprop and ftrl;
//                  none with sync
//
// Of sgd, slowMomentum makes a momentum of 0 (TrainingSpec::servers_optimizer). So f forgets no faster than a momentum
// of 0.9 does from s = 10 on: a memory of s updates is as long as the delay, and is no damper of what swings with it.
//
// Adam's m is a momentum, into which gradients go times what it forgets, as in the plain rule, so that nothing is
// divided by 1 - m. Its d is divided by the root of v, and p is the largest part of that quotient. v stays as it is: it
// says how large gradients are, whoever brings them. So m must not outlive v: it forgets (1 - b1) / s with each update,
// but 2 (1 - sqrt(b2)) at least, or 1 - b1 where that is less. Its bias correction stays that of b1. What counts at
// once is no mean, and has none.
//
// With local steps, auto is rate. A difference of parameters is no slope: damped or not, it is as long a way as its
// worker went. Where the loss is steep each worker goes all of the way, and so the mean of s differences is the way.
// Where it is flat each goes as far as its own batches tell, and so the way is nearer to their sum. So without momentum
// only the part along the eight directions in which a difference is largest counts 1/s. What is beside them counts b/s
// * b^(-1/4), with b the smaller of s and 16. Of what is no matrix all counts 1/s. A momentum is shortened instead, to
// max(0, 1 - (1 - m) * s) of the one before. So it spans as many pushes as without staleness, of which stale ones are a
// kind of momentum themselves.
//
// Nesterov's looks ahead: in d, (1 - f) * v + b/s * f / (1 - m) * g stands for v. Of variables which are not trained
// what comes is the change itself, and counts 1/s.
// At s = 1 each is the plain optimizer, bit for bit. The factors were tried up to s = 32. From s = 10 on the same
// happens in slower time: in s updates matrices move as far as in 10 at s = 10. A loop with a delay is stable only
// while gain times delay is small, and so b / s keeps that product from growing.
//
// The numbers stand in optimizer/staleness_constants.h, each with the command that chose it.
//
// Source: rate is of Zhang et al., "Staleness-Aware Async-SGD", IJCAI 2016. slowMomentum was found by trials
//   (docs/research/staleness.md), and steepRate likewise. Mitliagkas et al., "Asynchrony begets Momentum", 2016, say
//   why memory must change. LeCun et al., "Efficient BackProp", 1998, section 4.3, say why inputs with a mean make the
//   loss steep.
//   That momentum hurts where what local steps bring is stale: Liu et al., "Asynchronous Local-SGD Training for
//   Language Modeling", 2024. That rates which fall with every gradient, those of other workers too, go well with
//   stale ones: Dean et al., "Large Scale Distributed Deep Networks", NIPS 2012, of Adagrad.
// Cost: a few roots for each push; tensor/deflation.h says what p costs. Order: the same bits on every CPU, since only
//   IEEE operations are used.
// Tests: tests/unit/ps/staleness_rule_test.cc.
#pragma once

#include <cstdint>
#include <optional>

#include "job/job.h"
#include "optimizer/update_rule.h"

namespace downpour {

// Of a slice, before the push at hand.
struct Pushes {
  uint64_t version = 0;  // those that changed it
  uint64_t usual = 0;    // their usual staleness
};

// What the rule must know of a slice.
struct SliceTraits {
  bool is_trained = true;
  bool has_directions = true;  // HasDirections
  bool rates_fall = false;     // with each gradient that it has seen, whoever brought it, which is so with Adagrad
};

class StalenessRule {
 public:
  // `workers`: of the whole job.
  StalenessRule(const TrainingSpec& training, int64_t workers);

  // Of a slice that no push has changed yet the usual staleness is what so many workers will make it. Else the first
  // pushes would count as if each worker were alone, when gradients are at their largest. It is a guess, and weighs as
  // much as the pushes that it expects: else it would rule a job of few pushes to its end.
  uint64_t UsualAfter(const Pushes& before, std::optional<uint64_t> staleness) const;

  // `staleness` in updates; `usual` as UsualStaleness keeps it.
  Damping Of(uint64_t staleness, uint64_t usual, const SliceTraits& slice) const;

 private:
  StalenessMethod method_;  // never kAuto
  bool has_local_steps_;
  uint64_t expected_;  // staleness of the first pushes
};

// How stale the pushes of a slice usually are, in units of 1/kStalenessOne: a mean over `pushes` of them (at least 1),
// and over about 64 where there were more. One push that happens to be fresh is no reason to let it count more than its
// neighbours do. Nor is one that was computed long ago, by a worker that stood still, a reason to let the momentum
// remember many times longer: what single batches put into it would then be applied over and over. So a push counts as
// at most twice the mean plus 4 updates.
uint64_t UsualStaleness(uint64_t usual, uint64_t staleness, uint64_t pushes);

}  // namespace downpour
