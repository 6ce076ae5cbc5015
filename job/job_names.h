// The words of job files for the enums of job.h, read and written by the same tables.
//
// Tests: tests/unit/job/job_canonical_test.cc: what is written is read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "job/job.h"

namespace downpour {

template <typename T>
struct Named {
  T value;
  const char* name;
};

// The key of each kind of layer. One without a key does not compile where jobs are read and written.
constexpr const char* KeyOf(const DenseSpec&) { return "dense"; }
constexpr const char* KeyOf(const ActivationSpec&) { return "activation"; }
constexpr const char* KeyOf(const DropoutSpec&) { return "dropout"; }
constexpr const char* KeyOf(const AddSpec&) { return "add"; }
constexpr const char* KeyOf(const MultiplySpec&) { return "multiply"; }
constexpr const char* KeyOf(const DotSpec&) { return "dot"; }
constexpr const char* KeyOf(const ConcatSpec&) { return "concat"; }
constexpr const char* KeyOf(const EmbeddingSpec&) { return "embedding"; }

inline constexpr Named<Pooling> kPoolings[] = {
    {Pooling::kSum, "sum"}, {Pooling::kMean, "mean"}, {Pooling::kSqrtN, "sqrtN"}};
inline constexpr Named<bool> kEmbeddingJoins[] = {{false, "concat"}, {true, "sum"}};  // EmbeddingSpec::adds
inline constexpr Named<bool> kTablePrecisions[] = {{false, "fp32"}, {true, "bf16"}};  // ModelTable::halves
inline constexpr Named<bool> kKeyTypes[] = {{false, "integer"}, {true, "text"}};      // ColumnSpec::key_is_text
inline constexpr const char* kZeros = "zeros";                                        // ModelTable::initial is 0

inline constexpr Named<Activation> kActivationFunctions[] = {
    {Activation::kRelu, "relu"}, {Activation::kSigmoid, "sigmoid"}, {Activation::kTanh, "tanh"}};
inline constexpr Named<Activation> kActivations[] = {{Activation::kNone, "none"},
                                                     {Activation::kRelu, "relu"},
                                                     {Activation::kSigmoid, "sigmoid"},
                                                     {Activation::kTanh, "tanh"}};
inline constexpr Named<Loss> kLosses[] = {{Loss::kSoftmaxCrossEntropy, "softmaxCrossEntropy"},
                                          {Loss::kMeanSquaredError, "meanSquaredError"},
                                          {Loss::kSigmoidCrossEntropy, "sigmoidCrossEntropy"}};
inline constexpr const char* kAuto = "auto";
inline constexpr Named<StalenessMethod> kStalenessMethods[] = {{StalenessMethod::kAuto, kAuto},
                                                               {StalenessMethod::kNone, "none"},
                                                               {StalenessMethod::kRate, "rate"},
                                                               {StalenessMethod::kSteepRate, "steepRate"},
                                                               {StalenessMethod::kSlowMomentum, "slowMomentum"}};
inline constexpr Named<OptimizerKind> kOptimizers[] = {
    {OptimizerKind::kSgd, "sgd"},           {OptimizerKind::kMomentum, "momentum"},
    {OptimizerKind::kNesterov, "nesterov"}, {OptimizerKind::kAdagrad, "adagrad"},
    {OptimizerKind::kRmsProp, "rmsprop"},   {OptimizerKind::kAdam, "adam"},
    {OptimizerKind::kAdamW, "adamw"},       {OptimizerKind::kFtrl, "ftrl"}};
// A kind of optimizer without a word could be neither read nor written.
template <size_t N>
constexpr bool NamesEveryKind(const Named<OptimizerKind> (&names)[N]) {
  for (int number = 0; number < 256; ++number) {
    const auto kind = static_cast<OptimizerKind>(number);
    bool is_named = false;
    for (const Named<OptimizerKind>& named : names) is_named = is_named || named.value == kind;
    if (SlotsOf(kind).has_value() && !is_named) return false;
  }
  return true;
}
static_assert(NamesEveryKind(kOptimizers), "a kind of optimizer has no word in kOptimizers");
inline constexpr Named<OptimizerKind> kOuterOptimizers[] = {
    {OptimizerKind::kSgd, "sgd"}, {OptimizerKind::kMomentum, "momentum"}, {OptimizerKind::kNesterov, "nesterov"}};
inline constexpr Named<OptimizerKind> kTableOptimizers[] = {{OptimizerKind::kSgd, "sgd"},
                                                            {OptimizerKind::kAdagrad, "adagrad"},
                                                            {OptimizerKind::kAdam, "adam"},
                                                            {OptimizerKind::kFtrl, "ftrl"}};
inline constexpr Named<ScheduleKind> kSchedules[] = {{ScheduleKind::kConstant, "constant"},
                                                     {ScheduleKind::kStep, "step"},
                                                     {ScheduleKind::kCosine, "cosine"},
                                                     {ScheduleKind::kInverseSquareRoot, "inverseSquareRoot"}};
inline constexpr Named<Consistency> kConsistencies[] = {
    {Consistency::kAsync, "async"}, {Consistency::kSsp, "ssp"}, {Consistency::kSync, "sync"}};
inline constexpr Named<ProductPrecision> kPrecisions[] = {
    {ProductPrecision::kFp32, "fp32"}, {ProductPrecision::kTf32, "tf32"}, {ProductPrecision::kBf16, "bf16"}};
inline constexpr const char* kTop = "top";  // and a number: topK
inline constexpr Named<MetricKind> kMetrics[] = {{MetricKind::kLogLoss, "logLoss"},
                                                 {MetricKind::kRmse, "rmse"},
                                                 {MetricKind::kAuc, "auc"},
                                                 {MetricKind::kCalibration, "calibration"},
                                                 {MetricKind::kCalibrationError, "calibrationError"}};
inline constexpr Named<MetricKind> kOwnMetrics[] = {{MetricKind::kMean, "mean"},  // PythonSpec::metrics
                                                    {MetricKind::kRatio, "ratio"},
                                                    {MetricKind::kRmse, "rmse"},
                                                    {MetricKind::kAuc, "auc"},
                                                    {MetricKind::kCalibrationError, "calibrationError"}};
inline constexpr Named<Better> kBetter[] = {{Better::kMore, "more"}, {Better::kLess, "less"}};
inline constexpr Named<WireFormat> kWireFormats[] = {{WireFormat::kFp32, "fp32"}, {WireFormat::kBf16, "bf16"}};
inline constexpr Named<DataOrder> kDataOrders[] = {{DataOrder::kExamples, "examples"}, {DataOrder::kBlocks, "blocks"}};
inline constexpr const char* kAllColumns = "all";
inline constexpr Named<CheckpointVia> kCheckpointVias[] = {{CheckpointVia::kChief, "chief"},
                                                           {CheckpointVia::kShared, "shared"}};

// AI Platform's tiers. Its master trains too, so the master counts as a worker beside our chief.
struct ScaleTier {
  const char* name;
  int64_t workers;
  int64_t parameter_servers;
};
inline constexpr const char* kCustomTier = "CUSTOM";
inline constexpr ScaleTier kScaleTiers[] = {{"BASIC", 1, 1}, {"STANDARD_1", 5, 3}, {"PREMIUM_1", 20, 11}};

template <typename T, size_t N>
const char* NameIn(const Named<T> (&names)[N], T value) {
  for (const Named<T>& named : names) {
    if (named.value == value) return named.name;
  }
  return "";
}

std::string NameOf(const MetricSpec& metric);  // as job files, status and summary have it: top5, auc

}  // namespace downpour
