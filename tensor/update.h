// Update: which rule one optimizer step follows, with its numbers. tensor/apply_kernels.h carries it out.
//
//   Update update = SgdUpdate{.learning_rate = 0.1f};
#pragma once

#include <array>
#include <cstddef>
#include <limits>
#include <type_traits>
#include <variant>

#include "tensor/rank_one.h"

namespace downpour {

// In each rule g is the gradient, with its L2 penalty: g += decay * w comes before what is written beside the rule.
// What stands in brackets is the step, to which a correction may be added (tensor/deflation.h).

// w -= learning_rate * (g)
struct SgdUpdate {
  static constexpr size_t kSlots = 0;
  float learning_rate = 0;
  float decay = 0;
  RankOne correction = {};
};

// v = momentum * v + gain * g;  w -= learning_rate * (carry * v + fresh * g)
// Source: Sutskever et al., ICML 2013, in the form that keeps the rate out of v (as PyTorch has it). With gain 1 it has
// carry 1 and fresh 0 for the classical rule, and carry momentum and fresh 1 for Nesterov's.
struct MomentumUpdate {
  static constexpr size_t kSlots = 1;
  float learning_rate = 0;
  float momentum = 0;
  float gain = 1;
  float fresh = 0;
  float carry = 1;
  float decay = 0;
  RankOne correction = {};
};

// s = keep * s + (gain * g) * g;  w -= ((learning_rate * g) / (sqrt(s + start) + epsilon))
// Source: keep 1, gain 1: Adagrad, Duchi et al., JMLR 2011, where s begins with `start`. Gain 1 - keep, start 0:
// RMSProp, Tieleman and Hinton, Coursera lecture 6.5, 2012.
struct SquaresUpdate {
  static constexpr size_t kSlots = 1;
  float learning_rate = 0;
  float keep = 1;
  float gain = 1;
  float start = 0;
  float epsilon = 0;
  float decay = 0;
  RankOne correction = {};
};

// m = beta1 * m + gain * g;  v = beta2 * v + ((1 - beta2) * g) * g;
// w -= ((step_size * (m + fresh * g)) / (sqrt(v) + epsilon)) + shrink * w
// Source: Kingma and Ba, ICLR 2015, Algorithm 1 in the order of its section 2: the bias corrections lie in step_size
// and epsilon, gain is 1 - beta1, and fresh is 0. `shrink` is the decoupled weight decay of Loshchilov and Hutter, ICLR
// 2019, Algorithm 2.
struct AdamUpdate {
  static constexpr size_t kSlots = 2;
  float step_size = 0;
  float beta1 = 0;
  float gain = 0;
  float fresh = 0;
  float beta2 = 0;
  float one_minus_beta2 = 0;
  float epsilon = 0;
  float shrink = 0;
  float decay = 0;
  RankOne correction = {};
};

// r = sqrt(n + g * g);  z += learning_rate * g - (r - sqrt(n)) * w;  n += g * g;
// w = 0 where |z| <= l1, else (sign(z) * l1 - z) / ((beta + r) + l2). A correction goes into g, before all else.
// Source: McMahan et al., KDD 2013, Algorithm 1. Its z, l1 and l2 are multiplied by the rate here: a rate that changes
// then scales the gradients to come, and not the values that there are.
struct FtrlUpdate {
  static constexpr size_t kSlots = 2;
  float learning_rate = 0;
  float beta = 1;
  float l1 = 0;
  float l2 = 0;
  float decay = 0;
  RankOne correction = {};
};

using Update = std::variant<SgdUpdate, MomentumUpdate, SquaresUpdate, AdamUpdate, FtrlUpdate>;

inline size_t SlotsOf(const Update& update) {
  return std::visit([](const auto& rule) { return std::decay_t<decltype(rule)>::kSlots; }, update);
}

inline constexpr size_t kMostArrays = 3;  // the values and two slots

// Upper bounds of the magnitudes in each of the arrays; infinity where none is known.
using Magnitudes = std::array<double, kMostArrays>;
inline constexpr Magnitudes kUnknownMagnitudes = {std::numeric_limits<double>::infinity(),
                                                  std::numeric_limits<double>::infinity(),
                                                  std::numeric_limits<double>::infinity()};

}  // namespace downpour
