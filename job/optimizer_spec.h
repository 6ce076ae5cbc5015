// The optimizer of a job: its kind, its numbers, the schedule of its rate, and what some variables have of their own.
//
//   for (const OptimizerNumber& number : NumbersOf(spec.kind)) spec.*number.at;   // parsed and written by one table
//   const OptimizerSpec own = OfVariable(spec, "dense_1/bias");
//
// docs/OPTIMIZERS.md has each kind's formula and paper, and tensor/apply_kernels.h the arithmetic.
// Tests: tests/unit/job/optimizer_spec_test.cc.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace downpour {

enum class OptimizerKind { kSgd, kMomentum, kNesterov, kAdagrad, kRmsProp, kAdam, kAdamW, kFtrl };
enum class ScheduleKind { kConstant, kStep, kCosine, kInverseSquareRoot };

// What share of the learning rate is used, by the steps done (runtime/learning_rate.h).
struct ScheduleSpec {
  ScheduleKind kind = ScheduleKind::kConstant;
  int64_t warmup_steps = 0;
  int64_t step_every = 0;  // step only, as is the next
  double decay = 0.1;
  double final_share = 0;   // cosine only, as is the next
  int64_t total_steps = 0;  // 0: those of the job
  bool operator==(const ScheduleSpec&) const = default;
};

struct OptimizerOverride {
  std::string variables;  // a glob pattern of their names
  std::optional<double> learning_rate = {};
  std::optional<double> weight_decay = {};
  bool operator==(const OptimizerOverride&) const = default;
};

struct OptimizerSpec {
  OptimizerKind kind = OptimizerKind::kSgd;
  double learning_rate = 0.01;
  double weight_decay = 0;  // L2, added to the gradient; of adamw decoupled from it
  double clip_value = 0;    // of a gradient, before it leaves its worker, as is the next; 0: not clipped
  double clip_norm = 0;
  double momentum = 0.9;  // which kinds have the following says NumbersOf
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double alpha = 0.99;
  double initial_accumulator = 0;
  double beta = 1;
  double l1 = 0;
  double l2 = 0;
  ScheduleSpec schedule = {};
  std::vector<OptimizerOverride> overrides = {};  // of several that match the last one counts, number by number
  bool operator==(const OptimizerSpec&) const = default;
};

// What a number may be, as the 32-bit float that kernels compute with.
enum class NumberRange {
  kRate,     // above 0
  kDivisor,  // above 0 by far: a root of squares that are taken for 0 is added to it
  kAmount,   // 0 or more
  kDecay,    // 0 or more, below 1
};
struct OptimizerNumber {
  const char* key;
  double OptimizerSpec::*at;
  NumberRange range;
};

// Those that every kind has, those of them that rows of tables have too, and those of this kind.
std::vector<OptimizerNumber> CommonNumbers();
std::vector<OptimizerNumber> RowNumbers();
std::vector<OptimizerNumber> NumbersOf(OptimizerKind kind);

// With the defaults of its kind.
OptimizerSpec DefaultsOf(OptimizerKind kind);
// The same of one that is applied to differences of parameters (training.outer). Without momentum the differences count
// in full, as in federated averaging. With momentum 0.7 and 0.9 are those of DiLoCo (Douillard et al. 2023).
OptimizerSpec OuterDefaultsOf(OptimizerKind kind);

// The value-shaped float arrays that the optimizer keeps beside the values, in their order; null behind the last one.
inline constexpr size_t kMostSlots = 2;
using SlotWords = std::array<const char*, kMostSlots>;

// Nothing for a number that is no kind. By this switch the compiler knows all kinds, so that the tables of job_names.h
// and optimizer/update_rule.cc are held against it.
constexpr std::optional<SlotWords> SlotsOf(OptimizerKind kind) {
  switch (kind) {
    case OptimizerKind::kSgd:
      return SlotWords{};
    case OptimizerKind::kMomentum:
    case OptimizerKind::kNesterov:
      return SlotWords{"velocity"};
    case OptimizerKind::kAdagrad:
      return SlotWords{"sum of squares"};
    case OptimizerKind::kRmsProp:
      return SlotWords{"mean of squares"};
    case OptimizerKind::kAdam:
    case OptimizerKind::kAdamW:
      return SlotWords{"m", "v"};
    case OptimizerKind::kFtrl:
      return SlotWords{"z", "n"};
  }
  return std::nullopt;
}

constexpr int SlotCount(OptimizerKind kind) {
  int count = 0;
  for (const char* name : SlotsOf(kind).value_or(SlotWords{})) count += name != nullptr;
  return count;
}
std::vector<std::string> SlotNames(OptimizerKind kind);

// Whether a slot is a running sum or mean of the gradients themselves: a momentum. A switch, as SlotsOf is one.
constexpr bool RemembersGradients(OptimizerKind kind) {
  switch (kind) {
    case OptimizerKind::kMomentum:
    case OptimizerKind::kNesterov:
    case OptimizerKind::kAdam:
    case OptimizerKind::kAdamW:
      return true;
    case OptimizerKind::kSgd:
    case OptimizerKind::kAdagrad:
    case OptimizerKind::kRmsProp:
    case OptimizerKind::kFtrl:
      break;
  }
  return false;
}

// Whether its rates fall with each gradient that it has seen, whoever brought it.
constexpr bool RatesFall(OptimizerKind kind) { return kind == OptimizerKind::kAdagrad || kind == OptimizerKind::kFtrl; }

// `pattern` has * for any characters, / too, ? for one and [abc] for one of these (POSIX fnmatch).
bool Matches(const std::string& pattern, const std::string& variable);
// The numbers of that variable; without overrides.
OptimizerSpec OfVariable(const OptimizerSpec& spec, const std::string& variable);

}  // namespace downpour
