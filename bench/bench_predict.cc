// How many rows a second a trained model answers, against the bare forward pass of the same minute.
//
//   bench_predict [--runs N] [--seconds S] [--rows N]
//
// The model is the sample job's: 784 numbers, layers of 256, 128 and 10. One thread, by the time that it had the CPU:
//   forward    the graph alone, on inputs that lie there
//   predict    Predictor::Predict of a batch of floats: checked, scaled, computed, as probabilities and classes
//   JSON       PredictJson of a body with these rows as lists of whole numbers
// each in batches of 1 and 64. Then lookups of a model with a table of --rows rows of 16 numbers and 26 keys an example
// (DLRM), in batches of 100. Each is measured in turn within a run, so that ratios are of the same minute.
#include <glog/logging.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <ctime>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "bench/bench_series.h"
#include "job/job_file.h"
#include "predict/job_predictor.h"
#include "predict/predict_json.h"
#include "ps/table/bucket_rows.h"
#include "runtime/prng.h"
#include "tensor/host_backend.h"

namespace downpour {
namespace {

constexpr size_t kWidth = 784;
constexpr int kKeys = 26;
constexpr size_t kTableBatch = 100;

double ThreadSeconds() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

JobSpec Parsed(const std::string& text) {
  const JobFileResult job = ParseJob(text, "bench");
  for (const JobError& error : job.errors) LOG(FATAL) << ToString(error);
  return job.job;
}

JobSpec SampleJob() {
  return Parsed(
      "name: mnist\nmodel: {inputs: [{name: image, shape: [28, 28, 1]}], layers: [{dense: {units: 256, activation: "
      "relu}}, {dense: {units: 128, activation: relu}}, {dense: {units: 10}}]}\ndata: {train: {images: a, labels: "
      "b}}\n");
}

JobSpec TableJob() {
  std::string columns, names;
  for (int i = 0; i < kKeys; ++i) {
    absl::StrAppend(&columns, i == 0 ? "" : ", ", "{name: k", i, ", key: integer}");
    absl::StrAppend(&names, i == 0 ? "" : ", ", "k", i);
  }
  return Parsed(absl::StrCat(
      "name: dlrm\nmodel: {tables: [{name: t, width: 16}], layers: [{name: e, embedding: {table: t, columns: [", names,
      "]}}, {dot: {}}, {dense: {units: 64, activation: relu}}, {dense: {units: 2}}]}\ndata: {format: jsonl, train: a, "
      "label: y, columns: [",
      columns, "]}\n"));
}

std::unique_ptr<JobPredictor> Made(const JobSpec& job) {
  auto predictor = JobPredictor::Create(job, "bench", 65536);
  CHECK(predictor.ok()) << predictor.status();
  Prng prng(1);
  const auto variables = InferVariables(job.model);
  for (size_t variable = 0; variable < variables->size(); ++variable) {
    std::vector<float> values(static_cast<size_t>((*variables)[variable].elements()));
    for (float& value : values) value = static_cast<float>(prng.Uniform() - 0.5) / 10;
    CHECK((*predictor)->SetParameters(variable, 0, values).ok());
  }
  return *std::move(predictor);
}

// Rows a second, of calls that have `rows` each.
double RateOf(size_t rows, double seconds, const std::function<void()>& call) {
  call();
  double begun = ThreadSeconds(), now = begun;
  size_t calls = 0;
  for (; now - begun < seconds; now = ThreadSeconds()) {
    for (int i = 0; i < 10; ++i) call();
    calls += 10;
  }
  return static_cast<double>(calls * rows) / (now - begun);
}

class Rows {
 public:
  explicit Rows(size_t rows) : numbers_(rows * kWidth) {
    Prng prng(2);
    for (float& number : numbers_) number = static_cast<float>(prng.Below(5) == 0 ? prng.Below(256) : 0);
    json_ = "{\"instances\":[";
    for (size_t row = 0; row < rows; ++row) {
      for (size_t i = 0; i < kWidth; ++i) {
        absl::StrAppend(&json_, i == 0 ? (row == 0 ? "[" : ",[") : ",", static_cast<int>(numbers_[row * kWidth + i]));
      }
      json_ += "]";
    }
    json_ += "]}";
  }
  absl::Span<const float> numbers() const { return numbers_; }
  const std::string& json() const { return json_; }

 private:
  std::vector<float> numbers_;
  std::string json_;
};

void Print(const std::string& name, const Series& rate, const Series& ratio) {
  std::printf("%-22s %9.0f rows/s [%.0f, %.0f], %7.2f us a row; of the bare forward pass %.2f [%.2f, %.2f]\n",
              name.c_str(), rate.Median(), rate.Smallest(), rate.Largest(), 1e6 / rate.Median(), ratio.Median(),
              ratio.Smallest(), ratio.Largest());
}

void MeasureSample(int runs, double seconds) {
  const JobSpec job = SampleJob();
  const std::unique_ptr<JobPredictor> predictor = Made(job);
  const std::unique_ptr<Backend> backend = MakeHostBackend({});
  for (const size_t rows : {size_t{1}, size_t{64}}) {
    const Rows batch(rows);
    auto graph = Graph::CreateForward(job.model, static_cast<int64_t>(rows), *backend);
    CHECK(graph.ok()) << graph.status();
    std::copy(batch.numbers().begin(), batch.numbers().end(), (*graph)->inputs().data);
    const InputBatch typed{rows, {{"image", kWidth, batch.numbers()}}};
    std::map<std::string, Series> rates, ratios;
    for (int run = 0; run < runs; ++run) {
      const double bare =
          RateOf(rows, seconds, [&] { CHECK((*graph)->ComputeForward(static_cast<int64_t>(rows)).ok()); });
      const auto add = [&](const std::string& name, double rate) {
        rates[name].values.push_back(rate);
        ratios[name].values.push_back(rate / bare);
      };
      add("forward", bare);
      add("predict", RateOf(rows, seconds, [&] { CHECK(predictor->Predict(typed).ok()); }));
      add("JSON", RateOf(rows, seconds, [&] { CHECK(PredictJson(*predictor, batch.json()).ok()); }));
    }
    for (const char* name : {"forward", "predict", "JSON"}) {
      Print(absl::StrCat(name, ", batches of ", rows), rates[name], ratios[name]);
    }
  }
}

void MeasureTable(int runs, double seconds, uint64_t rows) {
  const JobSpec job = TableJob();
  const std::unique_ptr<JobPredictor> predictor = Made(job);
  std::vector<TableRows> tables;
  const TableSpec spec = TablesOf(job)[0];
  TableRows& table = tables.emplace_back(spec);
  std::vector<float> values(spec.width);
  std::vector<std::byte> content(ShapeOf(spec).bytes());
  for (uint64_t i = 0; i < rows; ++i) table.Count(Mix(i));
  CHECK(table.Allocate().ok());
  for (uint64_t i = 0; i < rows; ++i) {
    InitialRow(spec, i, values.data());
    BeginRow(ShapeOf(spec), values.data(), content.data());
    CHECK(table.Add(Mix(i), content.data()).ok());
  }
  CHECK(table.Finish().ok());
  const double of_values = static_cast<double>(table.bytes()) / static_cast<double>(rows * spec.width * sizeof(float));
  predictor->SetTables(std::move(tables));

  Series rate, longest;
  Prng prng(3);
  std::vector<std::vector<int64_t>> keys(kKeys, std::vector<int64_t>(kTableBatch));
  InputBatch batch{kTableBatch, {}};
  for (int i = 0; i < kKeys; ++i) {
    batch.columns.push_back({predictor->signature().inputs[static_cast<size_t>(i)].name, 1,
                             absl::MakeConstSpan(keys[static_cast<size_t>(i)])});
  }
  for (int run = 0; run < runs; ++run) {
    std::vector<double> times;
    for (double spent = 0; spent < seconds;) {
      for (std::vector<int64_t>& column : keys) {
        for (int64_t& key : column) key = static_cast<int64_t>(Mix(prng.Below(rows)));
      }
      const double begun = ThreadSeconds();
      CHECK(predictor->Predict(batch).ok());
      times.push_back(ThreadSeconds() - begun);
      spent += times.back();
    }
    std::sort(times.begin(), times.end());
    double all = 0;
    for (const double time : times) all += time;
    rate.values.push_back(static_cast<double>(times.size() * kTableBatch) / all);
    longest.values.push_back(times[times.size() * 99 / 100] * 1e3);
  }
  std::printf(
      "%llu rows of %u numbers: %.3f times their values; %d keys a row, batches of %zu: %.0f rows/s [%.0f, %.0f], "
      "99th percentile %.2f ms a batch\n",
      static_cast<unsigned long long>(rows), spec.width, of_values, kKeys, kTableBatch, rate.Median(), rate.Smallest(),
      rate.Largest(), longest.Median());
}

}  // namespace
}  // namespace downpour

int main(int argc, char** argv) {
  CLI::App app("How many rows a second a trained model answers");
  int runs = 7;
  double seconds = 0.3;
  uint64_t rows = 10'000'000;
  app.add_option("--runs", runs, "Measurements of each")->capture_default_str()->check(CLI::PositiveNumber);
  app.add_option("--seconds", seconds, "Of each measurement")->capture_default_str()->check(CLI::PositiveNumber);
  app.add_option("--rows", rows, "Rows of the table")->capture_default_str()->check(CLI::PositiveNumber);
  CLI11_PARSE(app, argc, argv);
  downpour::MeasureSample(runs, seconds);
  downpour::MeasureTable(runs, seconds, rows);
}
