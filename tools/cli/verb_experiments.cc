#include <CLI/CLI.hpp>
#include <algorithm>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "cluster/text_table.h"
#include "job/nearest_name.h"
#include "schema/text.h"
#include "tools/cli/experiments.h"
#include "tools/cli/verbs.h"

namespace downpour {
namespace {

constexpr size_t kWidestTable = 200;  // characters

struct ExperimentsOptions {
  std::string folder;
  std::string sort;
  bool reverse = false;
  std::string format = "table";
};

std::string CellOf(const Experiment& experiment, const std::string& column) {
  const auto found = experiment.values.find(column);
  if (found == experiment.values.end()) return "";
  const double* number = std::get_if<double>(&found->second);
  return number == nullptr ? std::get<std::string>(found->second) : absl::StrFormat("%.6g", *number);
}

// RFC 4180.
std::string CsvCell(const std::string& cell) {
  if (cell.find_first_of(",\"\r\n") == std::string::npos) return cell;
  return absl::StrCat("\"", absl::StrReplaceAll(cell, {{"\"", "\"\""}}), "\"");
}

std::vector<std::vector<std::string>> RowsOf(const Experiments& found) {
  std::vector<std::vector<std::string>> rows = {found.columns};
  for (const Experiment& experiment : found.experiments) {
    std::vector<std::string>& row = rows.emplace_back();
    for (const std::string& column : found.columns) row.push_back(CellOf(experiment, column));
  }
  return rows;
}

std::string Csv(const Experiments& found) {
  std::string text;
  for (std::vector<std::string>& row : RowsOf(found)) {
    for (std::string& cell : row) cell = CsvCell(cell);
    absl::StrAppend(&text, absl::StrJoin(row, ","), "\r\n");
  }
  return text;
}

// A setting's last word, with the one before it where the last one tells nothing.
std::string ShortOf(const std::string& key) {
  const size_t last = key.rfind('.');
  if (last == std::string::npos || last == 0) return key;
  const std::string word = key.substr(last + 1);
  const bool tells = word != "name" && word.find_first_not_of("0123456789") != std::string::npos;
  return tells ? word : key.substr(key.rfind('.', last - 1) + 1);
}

// How many places of a column are known, and how wide it is.
struct ColumnSize {
  size_t column = 0;
  size_t known = 0;
  size_t width = 0;
};
std::vector<ColumnSize> SizesOf(const std::vector<std::vector<std::string>>& rows) {
  std::vector<ColumnSize> sizes;
  for (size_t column = 0; column < rows[0].size(); ++column) {
    ColumnSize& size = sizes.emplace_back(ColumnSize{column, 0, rows[0][column].size() + 2});
    for (size_t row = 1; row < rows.size(); ++row) {
      size.known += !rows[row][column].empty();
      size.width = std::max(size.width, rows[row][column].size() + 2);
    }
  }
  return sizes;
}

// The columns that a table has. Those in which nothing is known would only take room. Of a table that would be too wide
// settings are left out, those of the fewest jobs first. The one that the rows are sorted by stays.
std::set<size_t> ColumnsShown(const Experiments& found, const std::vector<std::vector<std::string>>& rows,
                              const std::string& sorted_by) {
  std::set<size_t> shown;
  std::vector<ColumnSize> settings;
  size_t width = 0;
  for (const ColumnSize& size : SizesOf(rows)) {
    const std::string& name = found.columns[size.column];
    const bool may_go = name != sorted_by && std::ranges::find(found.settings, name) != found.settings.end();
    if (size.known == 0) continue;
    if (may_go) {
      settings.push_back(size);
    } else {
      shown.insert(size.column);
      width += size.width;
    }
  }
  std::ranges::stable_sort(settings, std::greater<>(), &ColumnSize::known);
  for (const ColumnSize& size : settings) {
    if (width + size.width > kWidestTable) break;
    shown.insert(size.column);
    width += size.width;
  }
  return shown;
}

// Of a setting its short name is shown where that is enough.
std::string Table(const Experiments& found, const std::string& sorted_by, Streams streams) {
  std::vector<std::vector<std::string>> rows = RowsOf(found);
  for (std::string& head : rows[0]) {
    const auto same = [&](const std::string& column) { return ShortOf(column) == ShortOf(head); };
    if (std::count_if(found.columns.begin(), found.columns.end(), same) == 1) head = ShortOf(head);
  }
  std::vector<std::vector<std::string>> shown(rows.size());
  const std::set<size_t> columns = ColumnsShown(found, rows, sorted_by);
  for (const size_t column : columns) {
    for (size_t row = 0; row < rows.size(); ++row) {
      shown[row].push_back(rows[row][column].empty() ? "-" : rows[row][column]);
    }
  }
  size_t left_out = 0;
  for (const ColumnSize& size : SizesOf(rows)) left_out += size.known > 0 && !columns.contains(size.column);
  if (left_out > 0) {
    streams.err << "downpour experiments: the table leaves out " << Counted(left_out, "setting")
                << ": -o csv or json has all, and --sort SETTING shows that one\n";
  }
  return TextTable(shown, shown[0].size(), shown[0].size());
}

std::string Document(const Experiments& found) {
  nlohmann::json list = nlohmann::json::array();
  for (const Experiment& experiment : found.experiments) {
    nlohmann::json& json = list.emplace_back(nlohmann::json::object());
    for (const auto& [column, value] : experiment.values) {
      std::visit([&json, &name = column](const auto& its) { json[name] = its; }, value);
    }
  }
  return list.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

int RunExperiments(const ExperimentsOptions& options, Streams streams) {
  Experiments found = FindExperiments(options.folder);
  for (const std::string& trouble : found.troubles) Complain(streams, "experiments", trouble, kExitFailed);
  if (found.experiments.empty()) {
    return Complain(streams, "experiments", absl::StrCat("no job has its folder under ", options.folder), kExitFailed);
  }
  std::string sorted_by;
  if (!options.sort.empty()) {
    const auto ends_so = [&](const std::string& column) { return column.ends_with("." + options.sort); };
    auto column = std::ranges::find(found.columns, options.sort);  // first: model.loss is not the loss
    if (column == found.columns.end()) column = std::ranges::find_if(found.columns, ends_so);
    if (column == found.columns.end()) {
      return Complain(streams, "experiments",
                      absl::StrCat("no column is named ", options.sort, ", only ", absl::StrJoin(found.columns, ", "),
                                   DidYouMean(options.sort, found.columns)),
                      kExitBadCommandLine);
    }
    sorted_by = *column;
    SortExperiments(sorted_by, options.reverse, &found.experiments);
  }
  streams.out << (options.format == "json"  ? Document(found)
                  : options.format == "csv" ? Csv(found)
                                            : Table(found, sorted_by, streams));
  return found.troubles.empty() ? kExitDone : kExitFailed;
}

std::function<int()> SetUpExperiments(CLI::App& app, Streams streams) {
  auto options = std::make_shared<ExperimentsOptions>();
  app.add_option("DIR", options->folder, "Folder under which the jobs have theirs")
      ->required()
      ->check(CLI::ExistingDirectory);
  app.add_option("--sort", options->sort, "Column to sort by: accuracy, learningRate, began")->type_name("COLUMN");
  app.add_flag("--reverse", options->reverse, "Largest first");
  app.add_option("-o,--output", options->format, "table, json or csv")
      ->check(CLI::IsMember({"table", "json", "csv"}))
      ->default_str("table");
  return [options, streams] { return RunExperiments(*options, streams); };
}

}  // namespace

const Verb kExperimentsVerb = {"experiments", "Compare the jobs under a folder: settings, results, times",
                               "  downpour experiments runs --sort accuracy --reverse\n"
                               "  downpour experiments runs -o csv > runs.csv\n",
                               "0 done, 1 there is no job, or one that cannot be read", SetUpExperiments};

}  // namespace downpour
