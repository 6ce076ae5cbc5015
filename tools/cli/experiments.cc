#include "tools/cli/experiments.h"

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <system_error>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "checkpoint/checkpoint_reader.h"
#include "cluster/human_units.h"
#include "cluster/job_folder.h"
#include "job/job_file.h"
#include "job/variables.h"
#include "schema/text.h"
#include "service/job_history.h"

namespace downpour {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

struct FoundJob {
  Experiment experiment;
  std::map<std::string, ExperimentValue> settings;  // by dotted key
  std::vector<std::string> metrics;
};

class Search {
 public:
  explicit Search(std::string root) : root_(std::move(root)) {}

  void Look(const fs::path& folder, int depth) {
    if (IsJob(folder)) return Add(folder);
    if (depth == kDeepest) return;
    std::error_code error;
    std::vector<fs::path> inside;
    for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
      std::error_code ignored;
      if (at->is_directory(ignored) && !at->is_symlink(ignored)) inside.push_back(at->path());
    }
    if (error) troubles_.push_back(absl::StrCat(Printable(folder.string()), ": ", error.message()));
    std::sort(inside.begin(), inside.end());
    for (const fs::path& next : inside) Look(next, depth + 1);
  }

  Experiments Take() {
    Experiments all{.columns = {"folder", "job", "state"},
                    .settings = DifferingSettings(),
                    .experiments = {},
                    .troubles = std::move(troubles_)};
    const std::vector<std::string>& differing = all.settings;
    all.columns.insert(all.columns.end(), differing.begin(), differing.end());
    all.columns.insert(all.columns.end(), {"accuracy", "loss"});
    for (const FoundJob& job : jobs_) {
      for (const std::string& metric : job.metrics) {
        if (std::find(all.columns.begin(), all.columns.end(), metric) == all.columns.end()) {
          all.columns.push_back(metric);
        }
      }
    }
    all.columns.insert(all.columns.end(), {"best", "epochs", "examplesPerSecond", "seconds", "began"});
    for (FoundJob& job : jobs_) {
      for (const std::string& key : differing) {
        if (const auto set = job.settings.find(key); set != job.settings.end()) {
          job.experiment.values[key] = set->second;
        }
      }
      all.experiments.push_back(std::move(job.experiment));
    }
    return all;
  }

 private:
  static constexpr const char* kRead[] = {"journal.a", "journal.b", "summary.json"};

  static bool IsJob(const fs::path& folder) {
    std::error_code ignored;
    return std::any_of(std::begin(kRead), std::end(kRead),
                       [&](const char* name) { return fs::exists(folder / name, ignored); });
  }

  void Add(const fs::path& folder) {
    for (const char* name : kRead) {
      std::error_code ignored;
      const fs::file_status found = fs::status(folder / name, ignored);
      if (!fs::exists(found) || fs::is_regular_file(found)) continue;
      // Whoever opens a pipe waits for its other end.
      troubles_.push_back(absl::StrCat(Printable(folder.string()), ": ", name, " is no plain file"));
      return;
    }
    FoundJob job;
    auto& values = job.experiment.values;
    const std::string name = folder.lexically_relative(root_).string();
    values["folder"] = Printable(name);
    const JobRecord record = NewestJournalEntry(folder.string()).record;
    if (record.run != 0) TakeRecord(folder, record, &job);
    const absl::StatusOr<std::string> text = ReadTextFile((folder / "summary.json").string());
    absl::StatusOr<SummaryReport> summary = text.ok() ? ParseSummary(*text) : text.status();
    const bool is_its_own = record.run == 0 || !record.ended.empty();  // else of an end that was resumed from
    if (!is_its_own) TakeHistory(folder, record, &job);
    if (summary.ok() && is_its_own) {
      TakeSummary(*summary, &job);
    } else if (record.run == 0 || (text.ok() && !summary.ok())) {
      troubles_.push_back(absl::StrCat(Printable(folder.string()), ": ", summary.status().message()));
    }
    jobs_.push_back(std::move(job));
  }

  void TakeRecord(const fs::path& folder, const JobRecord& record, FoundJob* job) {
    auto& values = job->experiment.values;
    values["began"] =
        absl::FormatTime("%Y-%m-%d %H:%M:%S", absl::FromUnixMillis(record.began_unix_ms), absl::UTCTimeZone());
    const bool goes_on = record.ended.empty();
    values["state"] = !goes_on ? Printable(record.ended) : IsAtWork(folder.string()) ? "RUNNING" : "UNFINISHED";
    Json settings = Json::parse(record.job, nullptr, /*allow_exceptions=*/false);
    if (!settings.is_object()) {
      troubles_.push_back(absl::StrCat(Printable(folder.string()), ": its journal holds no job"));
      return;
    }
    const Json name = settings.value("name", Json());
    values["job"] = name.is_string() ? Printable(name.get<std::string>()) : "";
    settings.erase("name");
    if (settings.contains("training") && settings["training"].is_object()) settings["training"].erase("earlier");
    const absl::StatusOr<JobSpec> spec = ParseCanonicalJob(record.job);
    if (spec.ok() && spec->model.is_own()) SayItAsUsersDo(*spec, &settings);
    TakeSettings(settings, "", job);
    if (record.workers != 0) job->settings["cluster.workerCount"] = static_cast<double>(record.workers);
  }

  // Of Python code: without what follows from the code by itself, or lies in the job's own folder. Of the code there is
  // its checksum's beginning, of its model how many parameters it has.
  static void SayItAsUsersDo(const JobSpec& job, Json* settings) {
    constexpr size_t kEnough = 12;
    std::vector<std::string> args = job.python.args;
    const auto job_dir = std::find(args.begin(), args.end(), "--job-dir");  // which its start or its service added
    if (job_dir != args.end()) args.erase(job_dir, job_dir + std::min<std::ptrdiff_t>(2, args.end() - job_dir));
    (*settings)["python"] = {
        {"module", job.python.module}, {"args", ShellCommand(args)}, {"code", job.python.sha256.substr(0, kEnough)}};
    Json& model = (*settings)["model"];
    model["parameters"] = CountElements(job.model.variables);
    for (const char* of_code : {"variables", "classes"}) model.erase(of_code);
    const bool is_own = job.model.initialize_from.ends_with(OwnValuesPath(""));
    if (is_own) model.erase("initializeFrom");
  }

  // By dotted keys. A list of words or numbers is one setting.
  static void TakeSettings(const Json& node, const std::string& key, FoundJob* job) {
    const bool has_parts = std::any_of(node.begin(), node.end(), [](const Json& part) { return part.is_structured(); });
    if (node.is_object() || (node.is_array() && has_parts)) {
      for (const auto& [name, part] : node.items()) {
        TakeSettings(part, key.empty() ? name : absl::StrCat(key, ".", name), job);
      }
    } else if (node.is_array()) {
      std::vector<std::string> words;
      for (const Json& part : node) words.push_back(part.is_string() ? part.get<std::string>() : part.dump());
      job->settings[key] = Printable(absl::StrJoin(words, " "));
    } else if (node.is_number()) {
      job->settings[key] = node.get<double>();
    } else if (!node.is_null()) {
      job->settings[key] = Printable(node.is_string() ? node.get<std::string>() : node.dump());
    }
  }

  // Of a job that goes on: what its chief has noted by now.
  static void TakeHistory(const fs::path& folder, const JobRecord& record, FoundJob* job) {
    const fs::path path = folder / "metrics.jsonl";
    std::error_code ignored;
    if (!fs::is_regular_file(path, ignored)) return;
    const Json history = ReadHistory(path.string(), /*after=*/0);
    uint64_t run = 0;
    if (!absl::SimpleHexAtoi(history.value("run", ""), &run) || run != record.run) return;  // of one before
    auto& values = job->experiment.values;
    const auto take = [&](const char* kind, const char* key, const char* column) {
      if (const MaybeNumber number = LastOf(history[kind], key)) values[column] = *number;
    };
    take("train", "examplesPerSecond", "examplesPerSecond");
    take("train", "elapsed", "seconds");
    take("train", "epoch", "epochs");
    take("eval", "accuracy", "accuracy");
    take("eval", "loss", "loss");
    static const std::set<std::string> kOfEachLine = {"time", "elapsed", "step", "epoch", "loss", "accuracy"};
    for (const auto& [name, column] : history["eval"].items()) {
      const MaybeNumber number = LastOf(history["eval"], name);
      if (kOfEachLine.contains(name) || !number) continue;
      job->metrics.push_back(Printable(name));
      values.emplace(job->metrics.back(), *number);
    }
  }

  static MaybeNumber LastOf(const Json& columns, const std::string& key) {
    const auto column = columns.find(key);
    if (column == columns.end() || column->empty() || !column->back().is_number()) return std::nullopt;
    return column->back().get<double>();
  }

  static void TakeSummary(const SummaryReport& summary, FoundJob* job) {
    auto& values = job->experiment.values;
    values["job"] = summary.job;
    values["state"] = absl::StrCat(summary.state, summary.diverging.empty() ? "" : " DIVERGING",
                                   summary.stopped_early.empty() ? "" : " stopped early");
    const auto take = [&values](const char* column, const MaybeNumber& number) {
      if (number) values[column] = *number;
    };
    take("accuracy", summary.eval_accuracy);
    take("loss", summary.eval_loss);
    take("best", summary.best.value);
    take("epochs", summary.epochs);
    take("examplesPerSecond", summary.examples_per_second);
    take("seconds", summary.elapsed);
    for (const auto& [name, value] : summary.eval_metrics) {
      job->metrics.push_back(name);
      values.emplace(name, value);
    }
  }

  std::vector<std::string> DifferingSettings() const {
    std::set<std::string> keys;
    const FoundJob* first = nullptr;
    for (const FoundJob& job : jobs_) {
      if (job.settings.empty()) continue;
      if (first == nullptr) first = &job;
      for (const auto* one : {&job, first}) {
        const auto& other = one == first ? job : *first;
        for (const auto& [key, value] : one->settings) {
          const auto found = other.settings.find(key);
          if (found == other.settings.end() || found->second != value) keys.insert(key);
        }
      }
    }
    return {keys.begin(), keys.end()};
  }

  const std::string root_;
  std::vector<FoundJob> jobs_;
  std::vector<std::string> troubles_;
};

}  // namespace

Experiments FindExperiments(const std::string& folder) {
  Search search(folder);
  search.Look(folder, 0);
  return search.Take();
}

void SortExperiments(const std::string& column, bool reverse, std::vector<Experiment>* experiments) {
  std::stable_sort(experiments->begin(), experiments->end(), [&](const Experiment& a, const Experiment& b) {
    const auto left = a.values.find(column), right = b.values.find(column);
    if (left == a.values.end() || right == b.values.end()) return right == b.values.end() && left != a.values.end();
    if (left->second.index() != right->second.index()) return left->second.index() > right->second.index();
    return reverse ? right->second < left->second : left->second < right->second;
  });
}

}  // namespace downpour
