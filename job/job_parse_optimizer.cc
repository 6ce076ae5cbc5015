#include <algorithm>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "job/job_parse.h"
#include "job/nearest_name.h"
#include "job/variables.h"
#include "schema/text.h"

namespace downpour {
namespace {

constexpr int64_t kMostSteps = int64_t{1} << 40;
constexpr size_t kMostOverrides = 1000;
constexpr size_t kMostNamed = 8;  // variables, in an error

// Kernels compute with 32-bit floats. Within these bounds none of them is 0 or infinite unless it may be, nor is what
// Adam makes of them (AdamUpdate): its step is at most 2^25 times the rate, its epsilon at least 2^-13 times the one
// given. A divisor is so large that a gradient whose square is taken for 0 (tensor/flush_subnormals.h) makes a small
// step.
bool IsIn(NumberRange range, double v) {
  switch (range) {
    case NumberRange::kAmount:
      if (v == 0) return true;
      [[fallthrough]];
    case NumberRange::kRate:
      return v >= 1e-37 && v <= 1e30;
    case NumberRange::kDivisor:
      return v >= 1e-16 && v <= 1e30;
    case NumberRange::kDecay:
      return v >= 0 && static_cast<float>(v) < 1;
  }
  return false;
}

const char* TextOf(NumberRange range) {
  switch (range) {
    case NumberRange::kAmount:
      return "0, or between 1e-37 and 1e30, since it is computed with as a 32-bit float";
    case NumberRange::kRate:
      return "between 1e-37 and 1e30, since it is computed with as a 32-bit float";
    case NumberRange::kDivisor:
      return "between 1e-16 and 1e30, since squares of gradients below 1e-19 count as 0 beside it";
    case NumberRange::kDecay:
      return "at least 0 and below 1, as a 32-bit float too: at most 0.99999997";
  }
  return "";
}

bool ReadNumber(MapReader& reader, const std::string& key, NumberRange range, double* out) {
  return reader.Number(
      key, [range](double v) { return IsIn(range, v); }, TextOf(range), out);
}

const OptimizerNumber* FindNumber(const std::vector<OptimizerNumber>& numbers, const std::string& key) {
  const auto found = std::find_if(numbers.begin(), numbers.end(), [&](const auto& n) { return n.key == key; });
  return found == numbers.end() ? nullptr : &*found;
}

// Reads this kind's numbers, and refuses those that only others of `kinds` have.
void ReadNumbers(MapReader& reader, absl::Span<const Named<OptimizerKind>> kinds, bool kind_is_known,
                 OptimizerSpec* optimizer) {
  const std::vector<OptimizerNumber> own = NumbersOf(optimizer->kind);
  std::vector<std::string> seen;
  for (const auto& of : kinds) {
    for (const OptimizerNumber& number : NumbersOf(of.value)) {
      if (std::find(seen.begin(), seen.end(), number.key) != seen.end()) continue;
      seen.push_back(number.key);
      double ignored = 0;
      const bool is_own = FindNumber(own, number.key) != nullptr;
      const bool is_read = ReadNumber(reader, number.key, number.range, is_own ? &(optimizer->*number.at) : &ignored);
      if (is_own || !is_read || !kind_is_known) continue;
      std::vector<std::string> with_it;
      for (const auto& kind : kinds) {
        if (FindNumber(NumbersOf(kind.value), number.key) != nullptr) with_it.push_back(kind.name);
      }
      reader.FailOnlyWith(number.key, absl::StrCat("name: ", absl::StrJoin(with_it, " or ")),
                          absl::StrCat("name is ", NameIn(kOptimizers, optimizer->kind)));
    }
  }
}

void ReadSchedule(const YamlNode& node, const std::string& path, JobErrors& errors, ScheduleSpec* schedule) {
  MapReader reader(node, path, errors);
  const bool kind_is_known = reader.Choice("name", kSchedules, &schedule->kind) || node.Find("name") == nullptr;
  reader.Integer("warmupSteps", 0, kMostSteps, &schedule->warmup_steps);
  reader.Integer("stepEvery", 1, kMostSteps, &schedule->step_every);
  reader.Number(
      "decay", [](double v) { return v >= 1e-37 && v <= 1; }, "between 1e-37 and 1", &schedule->decay);
  reader.Number(
      "finalShare", [](double v) { return v >= 0 && v <= 1; }, "between 0 and 1", &schedule->final_share);
  reader.Integer("totalSteps", 0, kMostSteps, &schedule->total_steps);
  reader.Finish();
  if (!kind_is_known) return;

  const auto only_with = [&](ScheduleKind kind, const std::string& key) {
    if (schedule->kind == kind) return;
    reader.FailOnlyWith(key, absl::StrCat("name: ", NameIn(kSchedules, kind)),
                        absl::StrCat("name is ", NameIn(kSchedules, schedule->kind)));
  };
  for (const char* key : {"stepEvery", "decay"}) only_with(ScheduleKind::kStep, key);
  for (const char* key : {"finalShare", "totalSteps"}) only_with(ScheduleKind::kCosine, key);
  if (schedule->kind == ScheduleKind::kStep) reader.Require("stepEvery");
  if (schedule->total_steps > 0 && schedule->total_steps <= schedule->warmup_steps) {
    reader.Fail(*node.Find("totalSteps"), "totalSteps",
                absl::StrCat("counts the warm-up too, which has ", schedule->warmup_steps, " steps"),
                "take more, or 0 for all steps of the job");
  }
}

// With both a step takes all of a value away and more, so that it changes its sign each time.
void CheckShrinking(MapReader& reader, const OptimizerSpec& spec) {
  if (spec.learning_rate * spec.weight_decay < 1) return;
  const YamlNode* at = reader.node().Find("weightDecay");
  reader.Fail(at == nullptr ? reader.node() : *at, "weightDecay",
              absl::StrCat("is ", spec.weight_decay, ", and times the learning rate of ", spec.learning_rate,
                           " 1 or more: each step would take more than all of a value away"),
              "take a smaller one");
}

std::vector<std::string> VariableNames(const ModelSpec& model) {
  std::vector<std::string> names;
  const absl::StatusOr<std::vector<VariableSpec>> variables = InferVariables(model);
  if (!variables.ok()) return names;  // reported already
  for (const VariableSpec& variable : *variables) names.push_back(variable.name);
  return names;
}

std::string KnownVariables(const std::string& pattern, std::vector<std::string> names) {
  const std::string meant = WhatWasMeant(pattern, names);
  if (!meant.empty()) return meant;
  const char* more = names.size() > kMostNamed ? ", ..." : "";
  names.resize(std::min(names.size(), kMostNamed));
  return absl::StrCat("the variables are ", absl::StrJoin(names, ", "), more);
}

void ReadOverride(const YamlNode& node, const std::string& path, const std::vector<std::string>& variables,
                  JobErrors& errors, OptimizerSpec* optimizer) {
  MapReader reader(node, path, errors);
  OptimizerOverride own;
  double number = 0;
  if (reader.Require("variables") != nullptr) reader.Text("variables", &own.variables);
  if (ReadNumber(reader, "learningRate", NumberRange::kRate, &number)) own.learning_rate = number;
  if (ReadNumber(reader, "weightDecay", NumberRange::kAmount, &number)) own.weight_decay = number;
  reader.Finish();
  if (node.entries.size() == 1 && node.Find("variables") != nullptr) {
    reader.Fail(node, "", "changes nothing", "give it a learningRate or a weightDecay, or leave it out");
  }
  const auto matches = [&](const std::string& name) { return Matches(own.variables, name); };
  if (!own.variables.empty() && !variables.empty() && std::none_of(variables.begin(), variables.end(), matches)) {
    reader.Fail(*node.Find("variables"), "variables",
                absl::StrCat("'", CleanText(own.variables, 64), "' matches no variable of the model"),
                KnownVariables(own.variables, variables));
  }
  OptimizerSpec with_it = *optimizer;
  with_it.learning_rate = own.learning_rate.value_or(with_it.learning_rate);
  with_it.weight_decay = own.weight_decay.value_or(with_it.weight_decay);
  if (own.learning_rate || own.weight_decay) CheckShrinking(reader, with_it);
  optimizer->overrides.push_back(std::move(own));
}

// One of `kinds`, the numbers that all have, its own, and its schedule. False: which kind is not known.
template <size_t N>
bool ReadRule(MapReader& reader, const Named<OptimizerKind> (&kinds)[N], const std::vector<OptimizerNumber>& common,
              JobErrors& errors, OptimizerSpec* optimizer) {
  const bool kind_is_known = reader.Choice("name", kinds, &optimizer->kind) || reader.node().Find("name") == nullptr;
  *optimizer = DefaultsOf(optimizer->kind);
  for (const OptimizerNumber& number : common) {
    ReadNumber(reader, number.key, number.range, &(optimizer->*number.at));
  }
  ReadNumbers(reader, kinds, kind_is_known, optimizer);
  CheckShrinking(reader, *optimizer);
  if (const YamlNode* schedule = reader.Find("schedule")) {
    ReadSchedule(*schedule, reader.PathOf("schedule"), errors, &optimizer->schedule);
  }
  return kind_is_known;
}

}  // namespace

void ReadOptimizer(const YamlNode& node, const ModelSpec& model, JobErrors& errors, OptimizerSpec* optimizer) {
  MapReader reader(node, "training.optimizer", errors);
  ReadRule(reader, kOptimizers, CommonNumbers(), errors, optimizer);
  const YamlNode* overrides = reader.Find("overrides");
  const std::string path = reader.PathOf("overrides");
  const std::vector<std::string> variables = overrides == nullptr ? std::vector<std::string>() : VariableNames(model);
  for (const YamlNode& item : ItemsOf(overrides, path, kMostOverrides, errors)) {
    ReadOverride(item, absl::StrCat(path, ".", optimizer->overrides.size()), variables, errors, optimizer);
  }
  reader.Finish();
}

void ReadTableOptimizer(const YamlNode& node, const std::string& path, JobErrors& errors, ModelTable* table) {
  MapReader reader(node, path, errors);
  const bool kind_is_known = ReadRule(reader, kTableOptimizers, RowNumbers(), errors, &table->optimizer);
  reader.Flag("rowWise", &table->row_wise);
  if (kind_is_known && table->optimizer.kind != OptimizerKind::kAdagrad) {
    reader.FailOnlyWith("rowWise", "name: adagrad",
                        absl::StrCat("name is ", NameIn(kTableOptimizers, table->optimizer.kind)));
  }
  for (const char* key : {"clipValue", "clipNorm"}) {
    reader.FailElsewhere(key, "gradients of rows are not clipped", "leave it out, or take a lower learningRate");
  }
  reader.FailElsewhere("overrides", "are of variables, and a table has one rule for all its rows",
                       "make two tables, if some columns need other numbers");
  reader.Finish();
}

void ReadOuter(const YamlNode& node, JobErrors& errors, OptimizerSpec* outer) {
  MapReader reader(node, "training.outer", errors);
  const bool kind_is_known = reader.Choice("name", kOuterOptimizers, &outer->kind) || node.Find("name") == nullptr;
  *outer = OuterDefaultsOf(outer->kind);
  ReadNumber(reader, "learningRate", NumberRange::kRate, &outer->learning_rate);
  const bool has_momentum = outer->kind != OptimizerKind::kSgd;
  double ignored = 0;
  ReadNumber(reader, "momentum", NumberRange::kDecay, has_momentum ? &outer->momentum : &ignored);
  if (kind_is_known && !has_momentum) reader.FailOnlyWith("momentum", "name: momentum or nesterov", "name is sgd");
  reader.Finish();
}

}  // namespace downpour
