#include "tools/cli/data_job.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "job/nearest_name.h"
#include "schema/text.h"

namespace downpour {
namespace {

constexpr size_t kMostWords = 100;       // of a vocabulary; more are hashed
constexpr size_t kMostClasses = 1000;    // more are numbers
constexpr double kLargestScaled = 1e30;  // as a job takes means; 1 by it is the least deviation
constexpr uint64_t kHashOfMany = 1024;   // categories, where nobody counted the words

std::string Quoted(const std::string& text) { return nlohmann::json(text).dump(); }  // JSON is YAML

std::string List(const std::vector<std::string>& words) {
  const auto quote = [](std::string* out, const std::string& word) { out->append(Quoted(word)); };
  return absl::StrCat("[", absl::StrJoin(words, ", ", quote), "]");
}

// A name as columns have it, unlike all others.
std::string ColumnName(const std::string& field, std::set<std::string>* taken) {
  std::string name = field.substr(0, 60);
  for (char& c : name) {
    if (!IsPlainName(std::string("x") + c)) c = '_';
  }
  if (!IsPlainName(name)) name = "x" + name;
  const std::string first = name;
  for (int i = 2; !taken->insert(name).second; ++i) name = absl::StrCat(first, "_", i);
  return name;
}

// By number where all are numbers, else by text.
std::vector<std::string> SortedWords(const ColumnStats& column) {
  std::vector<std::string> words;
  for (const auto& [word, count] : column.distinct()) words.push_back(word);
  if (column.has_numbers()) {
    std::stable_sort(words.begin(), words.end(), [decimal = column.decimal()](const auto& a, const auto& b) {
      return NumberIn(a, decimal) < NumberIn(b, decimal);
    });
  }
  return words;
}

bool IsAllText(const std::vector<std::string>& words) {
  return std::all_of(words.begin(), words.end(), [](const std::string& word) { return IsText(word); });
}

// Empty: all its numbers are nearly one.
std::string ScaleOf(const ColumnStats& column) {
  if (column.deviation() < 1 / kLargestScaled) return "";
  // The mean with all its digits: beside a small deviation those behind the sixth count.
  return absl::StrFormat(", scale: {mean: %.17g, deviation: %.6g}", column.mean(), column.deviation());
}

// What follows the name; empty: nothing can be learned from the column.
std::string SettingsOf(const ColumnStats& column) {
  if (column.type().empty()) return "";  // a vocabulary without words is an error
  if (column.has_numbers()) {
    const bool is_large = std::max(std::abs(column.least()), std::abs(column.most())) > kLargestScaled;
    if (column.deviation() < 1 / kLargestScaled) return "";
    const std::string fill = column.missing() == 0 ? ""
                             : is_large            ? ", default: 0"
                                                   : absl::StrFormat(", default: %.6g", column.mean());
    if (is_large) return fill + ", log: true";
    return fill + ScaleOf(column);
  }
  const std::vector<std::string> words = SortedWords(column);
  if (words.size() < 2 && column.missing() == 0 && !column.has_more()) return "";
  if (column.has_more()) return absl::StrCat(", hash: ", kHashOfMany);
  if (words.size() > kMostWords || !IsAllText(words)) return absl::StrCat(", hash: ", std::bit_ceil(words.size()));
  return absl::StrCat(", vocabulary: ", List(words));
}

struct Target {
  std::string label;  // as the job file has it
  size_t outputs = 1;
  bool is_number = false;
  uint64_t unlabelled = 0;  // records without a label, of which nothing is learned
};

std::string SkipOf(const BadRecords& bad, uint64_t unlabelled) {
  if (bad.count + unlabelled == 0) return "";
  const std::string first = bad.count == 0 ? "" : absl::StrCat(", the first at ", Quoted(CleanText(bad.first, 200)));
  return absl::StrCat("  skip: ", bad.count + unlabelled, "  # ", bad.count, " that cannot be read", first, "; ",
                      unlabelled, " without a label\n");
}

absl::StatusOr<Target> TargetOf(const std::string& name, const ColumnStats& column) {
  const std::vector<std::string> words = SortedWords(column);
  const bool is_class = !column.has_more() && words.size() <= kMostClasses && column.type() != std::string("float");
  if (!is_class) {
    if (column.has_numbers()) {
      const std::string scale = ScaleOf(column);
      if (scale.empty()) return absl::InvalidArgumentError(name + " is the same in all records; choose another label");
      return Target{.label = absl::StrCat("{column: ", Quoted(name), scale, "}"), .is_number = true};
    }
    return absl::InvalidArgumentError(
        absl::StrCat(name, " has more than ", kMostClasses, " different words, which are no classes; choose another"));
  }
  if (words.size() < 2 || !IsAllText(words)) {
    return absl::InvalidArgumentError(absl::StrCat(
        name, words.size() < 2 ? " is the same in all records" : " is no UTF-8", "; choose another label"));
  }
  bool counts_from_zero = true;
  for (size_t i = 0; i < words.size(); ++i) counts_from_zero &= words[i] == std::to_string(i);
  if (counts_from_zero) return Target{.label = Quoted(name), .outputs = words.size()};
  return Target{.label = absl::StrCat("{column: ", Quoted(name), ", classes: ", List(words), "}"),
                .outputs = words.size()};
}

std::string DataOf(const TableStats& stats, const CsvDialect& dialect, const JobChoices& choices,
                   const Target& target) {
  const auto whole = [](const std::string& path) {
    return Quoted(std::filesystem::absolute(path).lexically_normal().string());
  };
  return absl::StrCat("data:\n  format: csv\n  train: ", whole(choices.train), "\n",
                      choices.eval.empty() ? "  # eval: FILE, by which the training is judged\n"
                                           : absl::StrCat("  eval: ", whole(choices.eval), "\n"),
                      "  separator: ", Quoted(std::string(1, dialect.separator)),
                      stats.decimal == '.' ? "" : "\n  decimal: \",\"",
                      "\n  header: ", dialect.has_header ? "true" : "false", "\n  label: ", target.label, "\n",
                      SkipOf(stats.bad, target.unlabelled));
}

std::string ModelOf(const Target& target) {
  const bool is_binary = !target.is_number && target.outputs == 2;
  return absl::StrCat("model:\n  inputs: [{name: record, columns: all}]\n  layers:\n",
                      "    - dense: {units: 64, activation: relu}\n    - dense: {units: 32, activation: relu}\n",
                      "    - dense: {units: ", target.outputs, "}\n",
                      target.is_number ? "  loss: meanSquaredError\n" : "",
                      "training:\n  epochs: 5\n  optimizer: {name: adagrad, learningRate: 0.05}\n",
                      is_binary          ? "  metrics: [auc]\n"
                      : target.is_number ? "  metrics: [rmse]\n"
                                         : "");
}

}  // namespace

absl::StatusOr<std::string> JobOn(const TableStats& stats, const CsvDialect& dialect, const JobChoices& choices) {
  const auto label = std::find(stats.names.begin(), stats.names.end(), choices.label);
  if (label == stats.names.end()) {
    const std::string meant = WhatWasMeant(choices.label, stats.names);
    return absl::InvalidArgumentError(
        absl::StrCat(choices.train, " has no column ", choices.label, "; ",
                     meant.empty() ? "it has " + absl::StrJoin(stats.names, ", ") : meant));
  }
  const size_t own = static_cast<size_t>(label - stats.names.begin());
  absl::StatusOr<Target> target = TargetOf(*label, stats.columns[own]);
  if (!target.ok()) return target.status();
  target->unlabelled = stats.columns[own].missing();

  std::set<std::string> taken = {"label"};
  std::string columns;
  for (size_t i = 0; i < stats.names.size(); ++i) {
    if (i == own) continue;
    const std::string& field = stats.names[i];
    const std::string settings = IsText(field) ? SettingsOf(stats.columns[i]) : "";
    if (settings.empty()) {
      absl::StrAppend(&columns, "    # without ", Quoted(CleanText(field, 60)), ": the same in all records\n");
      continue;
    }
    const std::string name = ColumnName(field, &taken);
    absl::StrAppend(&columns, "    - {name: ", Quoted(name), name == field ? "" : ", from: " + Quoted(field), settings,
                    "}\n");
  }
  if (taken.size() == 1) return absl::InvalidArgumentError(choices.train + " has nothing to learn from");
  std::set<std::string> none;
  const std::string stem = std::filesystem::path(choices.train).stem().string();
  return absl::StrCat("# Begun by `downpour data job` from ", stats.rows,
                      " records; docs/DATA.md has what can stand here.\n", "name: ", Quoted(ColumnName(stem, &none)),
                      "\ncluster: {workerCount: 2, parameterServerCount: 1}\n",
                      DataOf(stats, dialect, choices, *target), "  columns:\n", columns, ModelOf(*target));
}

}  // namespace downpour
