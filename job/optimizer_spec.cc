#include "job/optimizer_spec.h"

#include <fnmatch.h>

namespace downpour {

std::vector<OptimizerNumber> RowNumbers() {
  return {{"learningRate", &OptimizerSpec::learning_rate, NumberRange::kRate},
          {"weightDecay", &OptimizerSpec::weight_decay, NumberRange::kAmount}};
}

std::vector<OptimizerNumber> CommonNumbers() {
  std::vector<OptimizerNumber> numbers = RowNumbers();
  numbers.push_back({"clipValue", &OptimizerSpec::clip_value, NumberRange::kAmount});
  numbers.push_back({"clipNorm", &OptimizerSpec::clip_norm, NumberRange::kAmount});
  return numbers;
}

std::vector<OptimizerNumber> NumbersOf(OptimizerKind kind) {
  const OptimizerNumber epsilon = {"epsilon", &OptimizerSpec::epsilon, NumberRange::kDivisor};
  switch (kind) {
    case OptimizerKind::kSgd:
      return {};
    case OptimizerKind::kMomentum:
    case OptimizerKind::kNesterov:
      return {{"momentum", &OptimizerSpec::momentum, NumberRange::kDecay}};
    case OptimizerKind::kAdagrad:
      return {{"initialAccumulator", &OptimizerSpec::initial_accumulator, NumberRange::kAmount}, epsilon};
    case OptimizerKind::kRmsProp:
      return {{"alpha", &OptimizerSpec::alpha, NumberRange::kDecay}, epsilon};
    case OptimizerKind::kAdam:
    case OptimizerKind::kAdamW:
      return {{"beta1", &OptimizerSpec::beta1, NumberRange::kDecay},
              {"beta2", &OptimizerSpec::beta2, NumberRange::kDecay},
              epsilon};
    case OptimizerKind::kFtrl:
      return {{"beta", &OptimizerSpec::beta, NumberRange::kDivisor},
              {"l1", &OptimizerSpec::l1, NumberRange::kAmount},
              {"l2", &OptimizerSpec::l2, NumberRange::kAmount}};
  }
  return {};
}

OptimizerSpec DefaultsOf(OptimizerKind kind) {
  OptimizerSpec spec;
  spec.kind = kind;
  if (kind == OptimizerKind::kAdagrad) spec.epsilon = 1e-10;
  if (kind == OptimizerKind::kAdamW) spec.weight_decay = 0.01;
  return spec;
}

OptimizerSpec OuterDefaultsOf(OptimizerKind kind) {
  OptimizerSpec spec = DefaultsOf(kind);
  spec.learning_rate = kind == OptimizerKind::kSgd ? 1 : 0.7;
  return spec;
}

std::vector<std::string> SlotNames(OptimizerKind kind) {
  const SlotWords words = SlotsOf(kind).value_or(SlotWords{});
  return {words.begin(), words.begin() + SlotCount(kind)};
}

bool Matches(const std::string& pattern, const std::string& variable) {
  return fnmatch(pattern.c_str(), variable.c_str(), 0) == 0;
}

OptimizerSpec OfVariable(const OptimizerSpec& spec, const std::string& variable) {
  OptimizerSpec own = spec;
  own.overrides.clear();
  for (const OptimizerOverride& its : spec.overrides) {
    if (!Matches(its.variables, variable)) continue;
    own.learning_rate = its.learning_rate.value_or(own.learning_rate);
    own.weight_decay = its.weight_decay.value_or(own.weight_decay);
  }
  return own;
}

}  // namespace downpour
