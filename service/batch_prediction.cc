#include "service/batch_prediction.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "cluster/job_folder.h"
#include "predict/open_predictor.h"
#include "predict/predict_json.h"
#include "runtime/posix/whole_file.h"

namespace downpour {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr JsonLimits kLineLimits = {.most_bytes = size_t{4} << 20, .most_levels = 16};
constexpr auto kTellEvery = std::chrono::seconds(1);
constexpr auto kAskAgainAfter = std::chrono::milliseconds(100);

// The files that are written, and how far they are.
class Answers {
 public:
  // `patience`: how long one row waits for a predictor that is being started again, as after a row that ended it.
  Answers(const BatchPlan& plan, std::chrono::milliseconds patience) : plan_(plan), patience_(patience) {
    std::error_code ignored;
    for (const std::string& path : plan.inputs) all_bytes_ += std::max<uintmax_t>(1, fs::file_size(path, ignored));
  }

  absl::Status Answer(const Predictor& predictor) {
    std::error_code error;
    fs::create_directories(plan_.output, error);
    const std::string errors = plan_.output + "/prediction.errors_stats-00000-of-00001";
    errors_.open(errors + ".part", std::ios::trunc);
    for (size_t i = 0; i < plan_.inputs.size(); ++i) {
      const std::string place =
          absl::StrFormat("%s/prediction.results-%05d-of-%05d", plan_.output, i, plan_.inputs.size());
      if (const absl::Status status = AnswerFile(predictor, plan_.inputs[i], place); !status.ok()) return status;
    }
    Tell();
    return Finish(&errors_, errors);
  }

 private:
  absl::Status AnswerFile(const Predictor& predictor, const std::string& input, const std::string& output) {
    std::ifstream lines(input, std::ios::binary);
    if (!lines) return absl::UnavailableError(absl::StrCat("cannot read ", input));
    std::ofstream results(output + ".part", std::ios::trunc);
    uint64_t number = 0;
    for (std::string line; std::getline(lines, line);) {
      ++number;
      bytes_ += line.size() + 1;
      if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
      const absl::StatusOr<std::string> row = AnswerLine(predictor, line);
      if (absl::IsUnavailable(row.status())) {
        return absl::UnavailableError(absl::StrCat(input, ":", number, ": ", std::string(row.status().message()),
                                                   "; this and all rows behind it have no answer"));
      }
      if (row.ok()) {
        results << *row << "\n";
        ++progress_.predictions;
      } else {
        errors_ << json{{"file", fs::path(input).filename().string()},
                        {"line", number},
                        {"error", std::string(row.status().message())}}
                       .dump(-1, ' ', false, json::error_handler_t::replace)
                << "\n";
        ++progress_.errors;
      }
      if (std::chrono::steady_clock::now() - told_ >= kTellEvery) Tell();
    }
    if (lines.bad()) return absl::UnavailableError(absl::StrCat("cannot read ", input));
    return Finish(&results, output);
  }

  // Of UNAVAILABLE the row is not to blame.
  absl::StatusOr<std::string> AnswerLine(const Predictor& predictor, const std::string& line) {
    const auto until = std::chrono::steady_clock::now() + patience_;
    for (;;) {
      absl::StatusOr<std::string> row = PredictJsonLine(predictor, line, kLineLimits);
      const auto now = std::chrono::steady_clock::now();
      if (!absl::IsUnavailable(row.status()) || now >= until) return row;
      if (now - told_ >= kTellEvery) Tell();
      std::this_thread::sleep_for(kAskAgainAfter);
    }
  }

  static absl::Status Finish(std::ofstream* file, const std::string& path) {
    file->close();
    std::error_code error;
    if (file->good()) fs::rename(path + ".part", path, error);
    if (file->good() && !error) return absl::OkStatus();
    return absl::UnavailableError(absl::StrCat("cannot write ", path));
  }

  // Where the disk refuses, the page shows less.
  void Tell() {
    told_ = std::chrono::steady_clock::now();
    const json text = {
        {"done", static_cast<double>(bytes_) / static_cast<double>(std::max<uintmax_t>(bytes_, all_bytes_))},
        {"predictions", progress_.predictions},
        {"errors", progress_.errors}};
    if (!plan_.progress.empty()) (void)WriteWhole(plan_.progress, text.dump(), 0644, WhereThere::kReplace);
  }

  const BatchPlan& plan_;
  const std::chrono::milliseconds patience_;
  uintmax_t all_bytes_ = 0, bytes_ = 0;
  BatchProgress progress_;
  std::ofstream errors_;
  std::chrono::steady_clock::time_point told_{};
};

}  // namespace

BatchInput BatchInputOf(const Job& job) {
  return ReadBatchInput(json::parse(job.training_input).value("predictionInput", json::object()))
      .value_or(BatchInput());
}

absl::Status WritePlan(const BatchPlan& plan, const std::string& path) {
  const json text = {{"model", plan.model},   {"checkpoint", plan.checkpoint}, {"inputs", plan.inputs},
                     {"output", plan.output}, {"progress", plan.progress},     {"python", plan.python}};
  return WriteWhole(path, text.dump(-1, ' ', false, json::error_handler_t::replace), 0644, WhereThere::kReplace);
}

absl::StatusOr<BatchPlan> ReadPlan(const std::string& path) {
  const absl::StatusOr<std::string> text = ReadTextFile(path);
  if (!text.ok()) return text.status();
  const absl::StatusOr<json> plan = ParseJson(*text);
  if (!plan.ok()) return plan.status();
  try {
    return BatchPlan{.model = plan->at("model"),
                     .checkpoint = plan->at("checkpoint"),
                     .inputs = plan->at("inputs").get<std::vector<std::string>>(),
                     .output = plan->at("output"),
                     .progress = plan->at("progress"),
                     .python = plan->value("python", "")};
  } catch (const json::exception& error) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": ", error.what()));
  }
}

absl::Status AnswerFiles(const BatchPlan& plan) {
  PredictorOptions options{.checkpoint = plan.checkpoint};
  if (!plan.python.empty()) options.python.interpreter = plan.python;
  const auto predictor = OpenPredictor(plan.model, options);
  if (!predictor.ok()) return predictor.status();
  // Code that cannot start is no fault of the rows.
  if (absl::Status warm = WarmUp(**predictor); !warm.ok()) return warm;
  return Answers(plan, options.python.start).Answer(**predictor);
}

std::string BatchProgressPath(const std::string& job_dir) { return job_dir + "/service/prediction.json"; }

BatchProgress ProgressOfBatch(const std::string& job_dir) {
  const json told =
      json::parse(ReadTextFile(BatchProgressPath(job_dir)).value_or(""), nullptr, /*allow_exceptions=*/false);
  if (!told.is_object()) return {};
  const auto count = [&](const char* key) {
    const json value = told.value(key, json());
    return value.is_number_unsigned() ? value.get<uint64_t>() : 0;
  };
  const json done = told.value("done", json());
  return {.done = done.is_number() ? std::clamp(done.get<double>(), 0.0, 1.0) : 0,
          .predictions = count("predictions"),
          .errors = count("errors")};
}

json BatchOutputOf(const Job& job, const std::string& job_dir) {
  const BatchProgress progress = ProgressOfBatch(job_dir);
  return {{"outputPath", BatchInputOf(job).output},  // 64-bit numbers are text in ml v1
          {"predictionCount", absl::StrCat(progress.predictions)},
          {"errorCount", absl::StrCat(progress.errors)}};
}

}  // namespace downpour
