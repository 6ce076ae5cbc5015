#include "service/tuning_spec.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "runtime/prng.h"
#include "schema/text.h"

namespace downpour {
namespace {

using nlohmann::json;

constexpr const char* kSection = "trainingInput.hyperparameters";
constexpr size_t kMostParameters = 64, kMostValues = 1000, kMostTextBytes = 256;
constexpr double kMostWhole = 9007199254740992.0;  // 2^53: beyond it a double skips whole numbers

absl::Status Wrong(const std::string& key, const std::string& what) {
  return absl::InvalidArgumentError(absl::StrCat(key, " ", what));
}

absl::Status UnknownKey(const json& object, const std::string& section, const std::set<std::string>& known) {
  for (const auto& [key, value] : object.items()) {
    if (known.contains(key)) continue;
    return Wrong(absl::StrCat(section, ".", OneLine(key, 100)),
                 absl::StrCat("is not understood: there are ", absl::StrJoin(known, ", ")));
  }
  return absl::OkStatus();
}

// One of `names`, by its place; the first where the key is missing.
absl::StatusOr<size_t> Choice(const json& object, const std::string& section, const char* key,
                              const std::vector<std::string>& names) {
  if (!object.contains(key)) return 0;
  const json& said = object[key];
  const auto found = std::find(names.begin(), names.end(), said.is_string() ? said.get<std::string>() : "");
  if (found != names.end()) return static_cast<size_t>(found - names.begin());
  return Wrong(absl::StrCat(section, ".", key), absl::StrCat("must be one of ", absl::StrJoin(names, ", ")));
}

absl::Status ReadCount(const json& object, const char* key, int least, int* count) {
  if (!object.contains(key)) return absl::OkStatus();
  const json& said = object[key];
  if (said.is_number_integer() && said >= least && said <= kMostTrials) {
    *count = said.get<int>();
    return absl::OkStatus();
  }
  return Wrong(absl::StrCat(kSection, ".", key),
               absl::StrCat("must be a whole number from ", least, " to ", kMostTrials));
}

bool IsNumber(const json& object, const char* key) {
  return object.contains(key) && object[key].is_number() && std::isfinite(object[key].get<double>());
}

absl::Status ReadRange(const json& said, const std::string& section, TunedParameter* parameter) {
  if (!IsNumber(said, "minValue") || !IsNumber(said, "maxValue")) return Wrong(section, "needs minValue and maxValue");
  parameter->least = said["minValue"];
  parameter->most = said["maxValue"];
  if (parameter->least > parameter->most) return Wrong(section, "has a minValue above its maxValue");
  if (parameter->type == ParameterType::kInteger) {
    for (const double value : {parameter->least, parameter->most}) {
      if (value != std::floor(value) || std::abs(value) > kMostWhole) {
        return Wrong(section, "is an INTEGER: its minValue and maxValue must be whole numbers of at most 2^53");
      }
    }
  }
  const absl::StatusOr<size_t> scale =
      Choice(said, section, "scaleType", {"NONE", "UNIT_LINEAR_SCALE", "UNIT_LOG_SCALE", "UNIT_REVERSE_LOG_SCALE"});
  if (!scale.ok()) return scale.status();
  if (*scale >= 2) parameter->scale = *scale == 2 ? ParameterScale::kLog : ParameterScale::kReverseLog;
  if (*scale >= 2 && parameter->least <= 0) return Wrong(section, "needs a minValue above 0 for its scaleType");
  return absl::OkStatus();
}

absl::Status ReadValues(const json& said, const std::string& section, TunedParameter* parameter) {
  const bool is_category = parameter->type == ParameterType::kCategorical;
  const char* key = is_category ? "categoricalValues" : "discreteValues";
  const absl::Status wrong = Wrong(
      absl::StrCat(section, ".", key),
      absl::StrCat("must be a list of 1 to ", kMostValues, is_category ? " different texts" : " different numbers"));
  if (!said.contains(key) || !said[key].is_array() || said[key].empty() || said[key].size() > kMostValues) return wrong;
  std::set<json> different;
  for (const json& value : said[key]) {
    if (!different.insert(value).second) return wrong;
    if (is_category) {
      if (!value.is_string()) return wrong;
      const std::string& text = value.get_ref<const std::string&>();
      if (text.size() > kMostTextBytes || text != OneLine(text, kMostTextBytes)) return wrong;
      parameter->categories.push_back(text);
    } else {
      if (!value.is_number() || !std::isfinite(value.get<double>())) return wrong;
      parameter->numbers.push_back(value);
    }
  }
  std::sort(parameter->numbers.begin(), parameter->numbers.end());
  return absl::OkStatus();
}

// What becomes part of a command line: --NAME=VALUE, or --set NAME=VALUE.
bool IsParameterName(const std::string& name) {
  return !name.empty() && name.size() <= kMostTextBytes && name[0] != '-' &&
         std::all_of(name.begin(), name.end(),
                     [](unsigned char c) { return std::isalnum(c) || c == '_' || c == '-' || c == '.'; });
}

absl::StatusOr<TunedParameter> ReadParameter(const json& said, const std::string& section) {
  if (!said.is_object()) return Wrong(section, "must be an object");
  const absl::Status known =
      UnknownKey(said, section,
                 {"parameterName", "type", "minValue", "maxValue", "categoricalValues", "discreteValues", "scaleType"});
  if (!known.ok()) return known;
  TunedParameter parameter;
  if (said.contains("parameterName") && said["parameterName"].is_string()) parameter.name = said["parameterName"];
  if (!IsParameterName(parameter.name)) {
    return Wrong(section + ".parameterName", "must be letters, digits, '_', '-' and '.', and not begin with '-'");
  }
  const absl::StatusOr<size_t> type =
      Choice(said, section, "type", {"PARAMETER_TYPE_UNSPECIFIED", "INTEGER", "DOUBLE", "CATEGORICAL", "DISCRETE"});
  if (!type.ok()) return type.status();
  if (*type == 0) return Wrong(section + ".type", "must be one of INTEGER, DOUBLE, CATEGORICAL, DISCRETE");
  parameter.type = static_cast<ParameterType>(*type - 1);
  const bool has_range = parameter.type == ParameterType::kInteger || parameter.type == ParameterType::kDouble;
  const absl::Status read = has_range ? ReadRange(said, section, &parameter) : ReadValues(said, section, &parameter);
  if (!read.ok()) return read;
  return parameter;
}

// How many points of a DOUBLE the grid has, so that it has at most most_trials.
int64_t PointsOfDouble(const TuningSpec& spec) {
  double others = 1;
  int doubles = 0;
  for (const TunedParameter& parameter : spec.parameters) {
    others *= static_cast<double>(std::max<int64_t>(1, parameter.Count()));
    doubles += parameter.Count() == 0 ? 1 : 0;
  }
  if (doubles == 0) return 1;
  const double root = std::pow(spec.most_trials / others, 1.0 / doubles);
  return std::max<int64_t>(1, static_cast<int64_t>(root + 1e-9));
}

double OnScale(const TunedParameter& parameter, double unit) {
  const double least = parameter.least, most = parameter.most;
  switch (parameter.scale) {
    case ParameterScale::kLinear:
      return std::lerp(least, most, unit);
    case ParameterScale::kLog:
      return std::clamp(least * std::pow(most / least, unit), least, most);
    case ParameterScale::kReverseLog:
      return std::clamp(least + most - least * std::pow(most / least, 1 - unit), least, most);
  }
  return least;
}

std::string ValueAt(const TunedParameter& parameter, double unit) {
  unit = std::clamp(unit, 0.0, 1.0);
  const auto place = [unit](size_t count) {
    return std::min(count - 1, static_cast<size_t>(unit * static_cast<double>(count)));
  };
  switch (parameter.type) {
    case ParameterType::kCategorical:
      return parameter.categories[place(parameter.categories.size())];
    case ParameterType::kDiscrete: {
      const double value = parameter.numbers[place(parameter.numbers.size())];
      // 64 and not 64.0: a program that wants a whole number takes nothing else.
      const bool is_whole = value == std::floor(value) && std::abs(value) < kMostWhole;
      return is_whole ? absl::StrCat(static_cast<int64_t>(value)) : json(value).dump();
    }
    case ParameterType::kInteger: {
      // Each whole number has a stretch of its own, those at the ends too.
      const double count = static_cast<double>(parameter.Count());
      const double value = parameter.scale == ParameterScale::kLinear ? parameter.least + std::floor(unit * count)
                                                                      : std::round(OnScale(parameter, unit));
      return absl::StrCat(static_cast<int64_t>(std::min(value, parameter.most)));
    }
    case ParameterType::kDouble:
      return json(OnScale(parameter, unit)).dump();
  }
  return "";
}

// Of an INTEGER on a logarithmic scale: where `ValueAt` gives the index-th value.
double UnitOfInteger(const TunedParameter& parameter, int64_t index) {
  const double value = parameter.least + static_cast<double>(index);
  const double log_of_all = std::log(parameter.most / parameter.least);
  if (log_of_all == 0) return 0;
  if (parameter.scale == ParameterScale::kLog) return std::log(value / parameter.least) / log_of_all;
  return 1 - std::log((parameter.least + parameter.most - value) / parameter.least) / log_of_all;
}

}  // namespace

int64_t TunedParameter::Count() const {
  switch (type) {
    case ParameterType::kInteger:
      return static_cast<int64_t>(most - least) + 1;
    case ParameterType::kCategorical:
      return static_cast<int64_t>(categories.size());
    case ParameterType::kDiscrete:
      return static_cast<int64_t>(numbers.size());
    case ParameterType::kDouble:
      return 0;
  }
  return 0;
}

int TuningSpec::TrialCount() const {
  if (method != SearchMethod::kGrid) return most_trials;
  double points = 1;
  for (const TunedParameter& parameter : parameters) {
    points *= static_cast<double>(parameter.Count() == 0 ? PointsOfDouble(*this) : parameter.Count());
  }
  return static_cast<int>(std::min<double>(points, most_trials));
}

absl::StatusOr<TuningSpec> ReadTuningSpec(const json& said) {
  if (!said.is_object()) return Wrong(kSection, "must be an object");
  if (said.contains("resumePreviousJobId") && said["resumePreviousJobId"] != "") {
    return Wrong(absl::StrCat(kSection, ".resumePreviousJobId"), "is not offered: each tuning job begins again");
  }
  const absl::Status known =
      UnknownKey(said, kSection,
                 {"algorithm", "enableTrialEarlyStopping", "goal", "hyperparameterMetricTag", "maxFailedTrials",
                  "maxParallelTrials", "maxTrials", "params", "resumePreviousJobId"});
  if (!known.ok()) return known;
  TuningSpec spec;
  const absl::StatusOr<size_t> goal = Choice(said, kSection, "goal", {"GOAL_TYPE_UNSPECIFIED", "MAXIMIZE", "MINIMIZE"});
  if (!goal.ok()) return goal.status();
  spec.maximize = *goal != 2;
  const absl::StatusOr<size_t> method =
      Choice(said, kSection, "algorithm", {"ALGORITHM_UNSPECIFIED", "GRID_SEARCH", "RANDOM_SEARCH"});
  if (!method.ok()) return method.status();
  spec.method = static_cast<SearchMethod>(*method);
  for (const auto& [key, least, count] :
       {std::tuple{"maxTrials", 1, &spec.most_trials}, std::tuple{"maxParallelTrials", 1, &spec.most_parallel},
        std::tuple{"maxFailedTrials", 0, &spec.most_failed}}) {
    if (const absl::Status status = ReadCount(said, key, least, count); !status.ok()) return status;
  }
  if (said.contains("enableTrialEarlyStopping")) {
    if (!said["enableTrialEarlyStopping"].is_boolean()) {
      return Wrong(absl::StrCat(kSection, ".enableTrialEarlyStopping"), "must be true or false");
    }
    spec.stops_early = said["enableTrialEarlyStopping"];
  }
  spec.metric = spec.maximize ? "accuracy" : "loss";
  if (said.contains("hyperparameterMetricTag")) {
    const json& tag = said["hyperparameterMetricTag"];
    if (!tag.is_string() || tag.get_ref<const std::string&>().size() > kMostTextBytes) {
      return Wrong(absl::StrCat(kSection, ".hyperparameterMetricTag"), "must be the name of a metric");
    }
    if (tag != "") spec.metric = tag;
  }
  const json params = said.value("params", json::array());
  if (!params.is_array() || params.empty() || params.size() > kMostParameters) {
    return Wrong(absl::StrCat(kSection, ".params"), absl::StrCat("must be a list of 1 to ", kMostParameters));
  }
  std::set<std::string> names;
  for (size_t i = 0; i < params.size(); ++i) {
    const std::string section = absl::StrCat(kSection, ".params[", i, "]");
    absl::StatusOr<TunedParameter> parameter = ReadParameter(params[i], section);
    if (!parameter.ok()) return parameter.status();
    if (!names.insert(parameter->name).second) return Wrong(section + ".parameterName", "is there twice");
    spec.parameters.push_back(*std::move(parameter));
  }
  return spec;
}

uint64_t Seed(const std::string& job) {
  uint64_t seed = 0;
  for (const unsigned char c : job) seed = MixAll(seed, uint64_t{c});
  return seed;
}

std::vector<double> RandomUnits(const TuningSpec& spec, uint64_t seed, int trial) {
  std::vector<double> units;
  for (size_t i = 0; i < spec.parameters.size(); ++i) {
    const uint64_t drawn = MixAll(seed, static_cast<uint64_t>(trial), static_cast<uint64_t>(i));
    units.push_back(static_cast<double>(drawn >> 11) * 0x1p-53);
  }
  return units;
}

std::vector<double> GridUnits(const TuningSpec& spec, int trial) {
  std::vector<double> units(spec.parameters.size());
  int64_t rest = trial - 1;
  for (size_t i = units.size(); i-- > 0;) {
    const TunedParameter& parameter = spec.parameters[i];
    const int64_t points = parameter.Count() == 0 ? PointsOfDouble(spec) : parameter.Count();
    const int64_t at = rest % points;
    rest /= points;
    if (parameter.Count() == 0) {
      units[i] = points == 1 ? 0.5 : static_cast<double>(at) / static_cast<double>(points - 1);
    } else if (parameter.scale == ParameterScale::kLinear) {
      units[i] = (static_cast<double>(at) + 0.5) / static_cast<double>(points);
    } else {
      units[i] = UnitOfInteger(parameter, at);
    }
  }
  return units;
}

std::map<std::string, std::string> ValuesAt(const TuningSpec& spec, const std::vector<double>& units) {
  std::map<std::string, std::string> values;
  for (size_t i = 0; i < spec.parameters.size(); ++i) {
    values[spec.parameters[i].name] = ValueAt(spec.parameters[i], i < units.size() ? units[i] : 0);
  }
  return values;
}

}  // namespace downpour
