#include "service/job_history.h"

#include <algorithm>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "schema/bounded_json.h"

namespace downpour {
namespace {

using nlohmann::json;

constexpr size_t kMostColumns = 100, kMostKeyBytes = 100;
constexpr int kMostHistoryLevels = 4;

// Some lines of many, evenly spread, and the last. A line weighs as much as it has points.
class ThinnedLines {
 public:
  explicit ThinnedLines(size_t most) : most_(most) {}

  void Add(json line, size_t weight = 1) {
    if (last_) Keep(*std::exchange(last_, std::nullopt));
    last_ = {std::move(line), weight};
  }
  std::vector<json> Take() {
    std::vector<json> lines;
    for (Weighed& line : kept_) lines.push_back(std::move(line.first));
    if (last_) lines.push_back(std::move(last_->first));
    return lines;
  }

 private:
  using Weighed = std::pair<json, size_t>;

  void Keep(Weighed line) {
    if (seen_++ % step_ != 0) return;
    weight_ += line.second;
    kept_.push_back(std::move(line));
    while (weight_ > most_ && kept_.size() > 1) {
      std::vector<Weighed> half;
      for (size_t i = 0; i < kept_.size(); i += 2) half.push_back(std::move(kept_[i]));
      kept_ = std::move(half);
      step_ *= 2;
      weight_ = 0;
      for (const Weighed& kept : kept_) weight_ += kept.second;
    }
  }

  const size_t most_;
  size_t step_ = 1, seen_ = 0, weight_ = 0;
  std::vector<Weighed> kept_;
  std::optional<Weighed> last_;
};

// The numbers of the lines, as lists that are as long as there are lines.
json ColumnsOf(const std::vector<json>& lines) {
  std::set<std::string> names;
  for (const json& line : lines) {
    for (const auto& [name, value] : line.items()) {
      const bool is_numeric = value.is_number() || value.is_null();
      if (is_numeric && name.size() <= kMostKeyBytes && names.size() < kMostColumns) names.insert(name);
    }
  }
  json columns = json::object();
  for (const std::string& name : names) {
    json& column = columns[name] = json::array();
    for (const json& line : lines) {
      const auto found = line.find(name);
      column.push_back(found != line.end() && found->is_number() ? *found : json());
    }
  }
  return columns;
}

// Of each task the lines in which it stands. So one that came late has a short list.
json TaskColumns(const std::vector<json>& lines) {
  std::map<std::string, std::vector<json>> by_task;
  for (const json& line : lines) {
    for (const auto& [name, numbers] : line["tasks"].items()) {
      if (!numbers.is_object() || name.size() > kMostKeyBytes) continue;
      by_task[name].push_back(numbers);
      by_task[name].back()["elapsed"] = line.value("elapsed", json());
    }
  }
  json tasks = json::object();
  for (const auto& [name, points] : by_task) tasks[name] = ColumnsOf(points);
  return tasks;
}

json ParseLine(const std::string& line) {
  absl::StatusOr<json> parsed = ParseBoundedJson(line, kMostHistoryLevels);
  return parsed.ok() && parsed->is_object() ? *std::move(parsed) : json();
}

// The lines of one run, by their kind.
class Lines {
 public:
  Lines() { Clear(); }

  void Add(json line) {
    const auto kind = line.find("kind");
    if (kind == line.end() || !kind->is_string()) return;
    if (*kind == "job") return Begin(line);
    if (*kind == "eval" && line["metrics"].is_object()) line.update(json(line["metrics"]));
    if (*kind == "tasks") {
      if (const size_t weight = line["tasks"].size(); line["tasks"].is_object()) tasks_->Add(std::move(line), weight);
    } else if (const auto found = kinds_.find(kind->get<std::string>()); found != kinds_.end()) {
      found->second.Add(std::move(line));
    }
  }
  void TakeInto(json* history) {
    for (auto& [kind, lines] : kinds_) (*history)[kind] = ColumnsOf(lines.Take());
    (*history)["tasks"] = TaskColumns(tasks_->Take());
    if (!run_.empty()) (*history)["run"] = run_;
  }

 private:
  // A job that began again in its folder: what was before is of another run.
  void Begin(const json& line) {
    const auto run = line.find("run");
    if (run == line.end() || !run->is_string() || run_ == *run) return;
    if (!std::exchange(run_, run->get<std::string>()).empty()) Clear();
  }
  void Clear() {
    kinds_.clear();
    for (const char* kind : {"train", "epoch", "eval"}) kinds_.emplace(kind, ThinnedLines(kMostHistoryPoints));
    tasks_.emplace(kMostTaskPoints);
  }

  std::string run_;
  std::map<std::string, ThinnedLines> kinds_;
  std::optional<ThinnedLines> tasks_;
};

}  // namespace

json ReadHistory(const std::string& path, int64_t after) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  const int64_t size = file ? static_cast<int64_t>(file.tellg()) : 0;
  const bool restarted = after < 0 || after > size;
  int64_t mark = restarted ? 0 : after;
  mark = std::max(mark, size - kMostHistoryBytes);
  file.seekg(mark);
  Lines lines;
  for (std::string text; std::getline(file, text) && !file.eof();) {
    mark += static_cast<int64_t>(text.size()) + 1;
    if (json line = ParseLine(text); line.is_object()) lines.Add(std::move(line));
  }
  json history = {{"mark", mark}, {"restarted", restarted}};
  lines.TakeInto(&history);
  return history;
}

}  // namespace downpour
