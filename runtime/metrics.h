// Metrics of an evaluation as sums that can be merged: workers add up their examples, the chief adds the workers' sums,
// and what comes out does not depend on who computed which part.
//
//   std::vector<double> sums(CountMetricSums(job.training.metrics));
//   AddMetricSums(job.training.metrics, job.model.loss, outputs, labels, weights, absl::MakeSpan(sums));
//   for (const auto& [name, value] : MetricValues(job.training.metrics, sums, weight)) ...
//
// What each one is, over the evaluation's examples:
//   topK              share whose label is among the K largest outputs; of equal ones the first counts as larger
//   logLoss           mean of -log p(label)
//   rmse              square root of the mean of (output - label)^2
//   auc               chance that an example of class 1 has a larger output than one of class 0 (Hanley, McNeil,
//                     Radiology 1982), by a histogram of log-odds: 1,024 bins from -16 to 16. Pairs in one bin count
//                     half
//   calibration       sum of p(class 1) over the number of examples of class 1: 1 is right, 2 predicts twice too many
//   calibrationError  mean distance of the largest p from the share that is right, in 15 bins of the largest p (Guo et
//                     al., ICML 2017)
// p is the softmax of the outputs. Of a single output p(class 1) is the output itself, held within 1e-7 of 0 and 1, and
// a label of 1 or more is class 1.
//
// Each example counts as often as its weight says, which may be any number from 0 on. `weight` is that of all.
//
// Shapes: outputs are [labels.size(), width] row by row. A label is the number of a class, or what a single output
//   is to be; of sets of classes each output comes as one of a single output. `weights` are as many as labels, or none:
//   then each is 1. Sums are in the order of the metrics.
// Units: counts are whole numbers, exact up to 2^53, where all weights are 1.
// Errors: none. An output that is no number makes the metrics that read it no number; so is one that is not defined,
//   such as the AUC of one class.
// Cost: O(outputs). 2,048 sums for auc, 45 for calibrationError, 1 or 2 for the others.
// Tests: tests/unit/runtime/metrics_test.cc.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "job/job.h"

namespace downpour {

size_t CountMetricSums(const std::vector<MetricSpec>& metrics);

// The metrics fit the model, as the job file's parser holds them against it.
void AddMetricSums(const std::vector<MetricSpec>& metrics, Loss loss, absl::Span<const float> outputs,
                   absl::Span<const float> labels, absl::Span<const double> weights, absl::Span<double> sums);

// The weight of the examples whose largest output (the first of equals) is that of their label; of a single output:
// that lies within a half of the label. A NaN is not right.
double WeightOfRight(absl::Span<const float> outputs, absl::Span<const float> labels, absl::Span<const double> weights);

// Of an evaluation's loss or accuracy; where all of its examples have no weight, 0.
inline double MeanOver(double weight, double sum) { return weight > 0 ? sum / weight : 0; }

// By name, in the order of the metrics. Any sums give some value, or none: they may come from a hostile peer.
std::vector<std::pair<std::string, double>> MetricValues(const std::vector<MetricSpec>& metrics,
                                                         absl::Span<const double> sums, double weight);

// How far a value is from the best that there is, for comparing: lower is better. `name` is loss, accuracy or that of
// one of `metrics`.
double Shortfall(const std::vector<MetricSpec>& metrics, const std::string& name, double value);

}  // namespace downpour
