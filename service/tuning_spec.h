// TuningSpec: what a tuning job searches, as trainingInput.hyperparameters says it, and the values of its n-th trial.
//
//   absl::StatusOr<TuningSpec> spec = ReadTuningSpec(input["hyperparameters"]);
//   std::vector<double> units = RandomUnits(*spec, Seed("wd1"), 3);    // or GridUnits(*spec, 3)
//   std::map<std::string, std::string> values = ValuesAt(*spec, units);   // {"learning-rate": "0.01"}
//
// Shapes: a trial is a point of the unit cube, one number in [0, 1] for each parameter. A parameter's type and scale
//   map that to a value. Trials are counted from 1.
// Errors: INVALID_ARGUMENT with the field and what is allowed.
// Source: the Google Cloud SDK's ml_v1_messages.py (GoogleCloudMlV1__HyperparameterSpec).
// Tests: tests/unit/service/tuning_spec_test.cc.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace downpour {

inline constexpr int kMostTrials = 1000;

enum class ParameterType { kInteger, kDouble, kCategorical, kDiscrete };
enum class ParameterScale { kLinear, kLog, kReverseLog };
enum class SearchMethod { kBayesian, kGrid, kRandom };

struct TunedParameter {
  std::string name;
  ParameterType type = ParameterType::kDouble;
  ParameterScale scale = ParameterScale::kLinear;
  double least = 0, most = 0;                // of kInteger and kDouble
  std::vector<std::string> categories = {};  // of kCategorical
  std::vector<double> numbers = {};          // of kDiscrete, rising
  // How many values it has; 0: kDouble, which has any number.
  int64_t Count() const;
};

struct TuningSpec {
  bool maximize = true;
  std::string metric = {};  // accuracy, loss, or the name of one of the job's metrics
  SearchMethod method = SearchMethod::kBayesian;
  int most_trials = 1, most_parallel = 1;
  int most_failed = 0;  // 0: kMostFailedAtFirst, while none succeeded
  bool stops_early = false;
  std::vector<TunedParameter> parameters = {};
  // Of the grid: at most most_trials, and fewer where there are fewer points.
  int TrialCount() const;
};

absl::StatusOr<TuningSpec> ReadTuningSpec(const nlohmann::json& hyperparameters);

uint64_t Seed(const std::string& job);
std::vector<double> RandomUnits(const TuningSpec& spec, uint64_t seed, int trial);
// The last parameter changes first.
std::vector<double> GridUnits(const TuningSpec& spec, int trial);

std::map<std::string, std::string> ValuesAt(const TuningSpec& spec, const std::vector<double>& units);

}  // namespace downpour
